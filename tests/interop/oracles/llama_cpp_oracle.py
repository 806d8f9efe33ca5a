"""GGUF files by llama.cpp itself, as the cyllama package has it. `compare FILE…` computes the texts of each file's
manifest and cuts its text into tokens; `ids FILE` reads texts (JSON, standard input) and cuts them. Answers are JSON."""
import json
import sys

import numpy as np
from cyllama.llama import llama_cpp

F32, NEVER = 0, 0  # a type of cached keys and values; of flash attention


class Model(llama_cpp.LlamaModel):
    @property
    def n_vocab(self):  # LlamaContext.get_logits_ith asks for it
        return self.get_vocab().n_vocab


def load(path):
    options = llama_cpp.LlamaModelParams()
    options.n_gpu_layers = 0
    return Model(path, options)


def logits(model, ids):
    options = llama_cpp.LlamaContextParams()
    options.n_ctx = options.n_batch = options.n_ubatch = 256
    options.n_threads = options.n_threads_batch = 1
    options.type_k, options.type_v, options.flash_attn_type = F32, F32, NEVER
    context = llama_cpp.LlamaContext(model, options)
    batch = llama_cpp.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
    for position, token in enumerate(ids):
        batch.add(token, position, [0], True)
    context.decode(batch)
    return np.array([context.get_logits_ith(i) for i in range(len(ids))], np.float64)


def compare(path):
    model = load(path)
    manifest = json.loads(model.meta_val_str("pe_pipeline.manifest"))
    worst, greedy = 0.0, True
    for run in manifest["golden"]:
        logs = logits(model, run["ids"])
        logs -= logs.max(-1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
        found = logs[np.arange(len(run["ids"]) - 1), run["ids"][1:]]
        worst = max(worst, np.abs(found - run["log_probabilities"]).max(),
                    np.abs(logs[-1][run["top_ids"]] - run["top_log_probabilities"]).max())
        greedy = greedy and int(logs[-1].argmax()) == run["top_ids"][0]
    longest = manifest["golden"][-1]["ids"]
    ids = model.get_vocab().tokenize(manifest["text"], True, False)
    return {"worst": float(worst), "greedy": greedy, "ids": ids[:len(longest)] == longest,
            "lengths": len(manifest["golden"])}


def main(mode, *files):
    llama_cpp.disable_logging()
    if mode == "compare":
        return {"version": f"{llama_cpp.ggml_version()}, {llama_cpp.ggml_commit()}",
                **{path: compare(path) for path in files}}
    model = load(files[0])  # its vocabulary does not outlive it
    vocabulary, texts = model.get_vocab(), json.load(sys.stdin)
    return {"ids": [vocabulary.tokenize(text, False, False) for text in texts]}


print(json.dumps(main(*sys.argv[1:])))
