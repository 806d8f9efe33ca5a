"""GGUF files by other programs. `compare FILE…` reads each with the gguf package, computes its model in numpy by the
formulas of llama.cpp, and cuts its text into tokens by llama.cpp's rules. Answers are JSON."""
import heapq
import json
import sys

import gguf
import numpy as np
import regex

WORDS = {"gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
         "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+"}


class File:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.values = {name: field.contents() for name, field in self.reader.fields.items()}
        self.tensors = {}
        for t in self.reader.tensors:
            data = t.data
            if t.tensor_type == gguf.GGMLQuantizationType.BF16:
                data = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            self.tensors[t.name] = data.astype(np.float64).reshape(t.shape[::-1])
        self.arch = self.values["general.architecture"]

    def of_model(self, name, fallback=None):
        return self.values.get(f"{self.arch}.{name}", fallback)


def angles(file, count):
    """Cosines and sines as ggml's rope_yarn computes them."""
    width = file.of_model("rope.dimension_count")
    base, kind = file.of_model("rope.freq_base", 10000.0), file.of_model("rope.scaling.type", "linear")
    factor = file.of_model("rope.scaling.factor", 1.0) if kind != "none" else 1.0
    pair = np.arange(width // 2)
    plain = base ** (-2.0 * pair / width) / file.tensors.get("rope_freqs.weight", np.ones(width // 2))
    theta, size = plain / factor, file.of_model("rope.scaling.attn_factor", 1.0)
    if kind == "yarn":
        context = file.of_model("rope.scaling.original_context_length", file.of_model("context_length"))
        at = [width * np.log(context / (turns * 2 * np.pi)) / (2 * np.log(base)) for turns in (32.0, 1.0)]
        low, high = max(0, np.floor(at[0])), min(width - 1, np.ceil(at[1]))
        kept = 1 - np.clip((pair - low) / max(0.001, high - low), 0, 1)
        theta = theta * (1 - kept) + plain * kept
        size *= 1 + 0.1 * np.log(factor)
    turned = np.outer(np.arange(count), theta)
    return np.cos(turned) * size, np.sin(turned) * size


def rotate(x, cosines, sines, neighbours):
    """x [positions, heads, width]"""
    c, s = cosines[:, None], sines[:, None]
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    out = np.empty_like(x)
    if neighbours:
        out[..., 0::2], out[..., 1::2] = a * c - b * s, a * s + b * c
    else:
        out[..., :half], out[..., half:] = a * c - b * s, a * s + b * c
    return out


def logits(file, ids):
    t, eps = file.tensors, file.of_model("attention.layer_norm_rms_epsilon")
    heads, groups, width = (file.of_model("attention." + n) for n in ("head_count", "head_count_kv", "key_length"))

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * t[name + ".weight"]

    def linear(x, name):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0.0)

    x, n = t["token_embd.weight"][ids], len(ids)
    turns = angles(file, n)
    for layer in range(file.of_model("block_count")):
        at = f"blk.{layer}."
        h = norm(x, at + "attn_norm")
        q, k, v = (linear(h, at + "attn_" + part).reshape(n, -1, width) for part in "qkv")
        if file.arch == "qwen3":
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        q, k = (rotate(part, *turns, file.arch == "llama") for part in (q, k))
        k, v = (np.repeat(part, heads // groups, axis=1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width)
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1), at + "attn_output")
        h = norm(x, at + "ffn_norm")
        gate = linear(h, at + "ffn_gate")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, at + "ffn_up"), at + "ffn_down")
    return norm(x, "output_norm") @ t.get("output.weight", t["token_embd.weight"]).T


def differences(all_logits, run):
    logs = all_logits - all_logits.max(-1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
    found = logs[np.arange(len(run["ids"]) - 1), run["ids"][1:]]
    worst = max(np.abs(found - run["log_probabilities"]).max(),
                np.abs(logs[-1][run["top_ids"]] - run["top_log_probabilities"]).max())
    return float(worst), int(logs[-1].argmax()) == run["top_ids"][0]


def by_scores(text, tokens, scores, bytes_of):
    """llama.cpp's SPM: the neighbours with the best score are joined, the leftmost first."""
    ids = {token: i for i, token in enumerate(tokens)}
    parts, after = list(text), list(range(1, len(text) + 1))
    before, queue = list(range(-1, len(text) - 1)), []

    def offer(left):
        right = after[left] if left >= 0 else len(parts)
        joined = parts[left] + parts[right] if left >= 0 and right < len(parts) else None
        if joined in ids:
            heapq.heappush(queue, (-scores[ids[joined]], left, right, joined))

    for i in range(len(parts) - 1):
        offer(i)
    while queue:
        _, left, right, joined = heapq.heappop(queue)
        if not parts[left] or not parts[right] or parts[left] + parts[right] != joined:
            continue
        parts[left], parts[right], after[left] = joined, "", after[right]
        if after[left] < len(parts):
            before[after[left]] = left
        offer(before[left])
        offer(left)
    made = []
    for part in filter(None, parts):
        made += [ids[part]] if part in ids else [bytes_of[b] for b in part.encode()]
    return made


def by_merges(words, tokens, merges):
    ids, ranks = {token: i for i, token in enumerate(tokens)}, {tuple(m.split(" ")): i for i, m in enumerate(merges)}
    made, letters = [], bytes_to_letters()
    for word in words:
        parts = [letters[b] for b in word.encode()]
        while len(parts) > 1:
            rank, at = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(ranks):
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        made += [ids[part] for part in parts]
    return made


def bytes_to_letters():
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tokenize(file, text):
    v = {name[15:]: value for name, value in file.values.items() if name.startswith("tokenizer.ggml.")}
    ids = [v["bos_token_id"]] if v["add_bos_token"] else []
    if v["model"] == "llama":
        typed = enumerate(zip(v["tokens"], v["token_type"]))
        bytes_of = {int(token[3:5], 16): i for i, (token, kind) in typed if kind == 6}
        prefix = " " if v["add_space_prefix"] else ""
        return ids + by_scores((prefix + text).replace(" ", "\u2581"), v["tokens"], v["scores"], bytes_of)
    pieces = [text]
    if v["pre"] == "smollm":
        pieces = regex.findall(r"\p{N}|[^\p{N}]+", text)
    pattern = regex.compile(WORDS["gpt-2" if v["pre"] == "smollm" else v["pre"]])
    return ids + by_merges([word for piece in pieces for word in pattern.findall(piece)], v["tokens"], v["merges"])


def compare(path):
    file = File(path)
    manifest = json.loads(file.values["pe_pipeline.manifest"])
    found = [differences(logits(file, run["ids"]), run) for run in manifest["golden"]]
    longest = manifest["golden"][-1]["ids"]
    return {"arch": file.arch, "worst": max(f[0] for f in found), "greedy": all(f[1] for f in found),
            "lengths": len(found), "divisors": "rope_freqs.weight" in file.tensors,
            "scaling": file.of_model("rope.scaling.type"), "tensors": len(file.tensors),
            "file_type": file.values["general.file_type"], "vocabulary": len(file.values["tokenizer.ggml.tokens"]),
            "ids": tokenize(file, manifest["text"])[:len(longest)] == longest}


json.dump({path: compare(path) for path in sys.argv[2:]}, sys.stdout)
