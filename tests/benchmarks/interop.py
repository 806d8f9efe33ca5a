"""Costs of importing and exporting models: pe-import and pe-export compared with transformers' own reading and writing,
and with the gguf package's writer. Random models of 135M and 164M parameters; losses are compared.

    python interop.py STAGES-FOLDER [--small] [--turns N] [--folder FOLDER]

It needs the packages torch, transformers, tokenizers and gguf."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import gguf
    import torch
    import transformers as t
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError as missing:
    print(f"skipped: this Python has no {missing.name}")
    sys.exit(77)


def tokenizer():
    """Bytes and an end."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({piece: i for i, piece in enumerate(["<|end|>", *letters])}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return t.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|end|>", eos_token="<|end|>")


def make(folder, config):
    torch.manual_seed(1)
    model = t.AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return model


def fastest(action):
    """Seconds and CPU seconds of the fastest turn, and its result. Other programs are not in the CPU seconds."""
    turns = []
    for _ in range(CHOSEN.turns):
        start, cpu = time.monotonic(), time.process_time()
        result = action()
        turns.append((time.monotonic() - start, time.process_time() - cpu, result))
    return min(turns, key=lambda turn: turn[0])


def program(words, *made):
    """Runs it without the results of the turn before. @return its CPU seconds and peak memory in bytes"""
    for path in made:
        shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{words[0]} failed with status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def loss_difference(model, manifest):
    worst = 0.0
    for run in json.loads(Path(manifest).read_text())["golden"]:
        ids = torch.tensor([run["ids"]])
        with torch.no_grad():
            theirs = model(ids, labels=ids).loss.item()
        worst = max(worst, abs(theirs + sum(run["log_probabilities"]) / len(run["log_probabilities"])))
    return worst


def write_gguf(model, path):
    writer = gguf.GGUFWriter(path, "qwen3")
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(name, tensor.numpy())
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()


def row(what, ours, goal, peer, theirs, more=""):
    """`ours` and `theirs`: seconds and CPU seconds"""
    print(f"{what:<21} {ours[0]:6.2f} s (goal {goal}), CPU {ours[1]:.2f} s   "
          f"{peer} {theirs[0]:.2f} s, CPU {theirs[1]:.2f} s, "
          f"ratio {ours[0] / theirs[0]:.1f}, of CPU {ours[1] / theirs[1]:.1f}{more}", flush=True)


SHARED = dict(bos_token_id=0, eos_token_id=0, tie_word_embeddings=True, max_position_embeddings=1024)


def llama(vocabulary, width, inner, layers, heads, groups):
    return t.LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=groups, rms_norm_eps=1e-5, **SHARED)


def qwen3(vocabulary, width, inner, layers, heads):
    return t.Qwen3Config(vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=heads, head_dim=width // heads, **SHARED)


class Programs:
    def __init__(self, stages):
        self.stages = stages.resolve()

    def bring_in(self, name):
        return program([self.stages / "pe-import", "--set", f"import.model={name}", "--set", "import.unused_rows=true",
                        "--progress", "none", "--output", f"model={name}.h5", "--output", f"tokenizer={name}.t.h5"],
                       f"{name}.h5", f"{name}.t.h5")

    def bring_out(self, name, out):
        return program([self.stages / "pe-export", "--model", f"{name}.h5", "--tokenizer", f"{name}.t.h5",
                        "--out", out], out)


def measure(ours, small):
    make("tiny", llama(257, 64, 96, 2, 2, 1))
    smaller = make("smaller", llama(257, 64, 96, 2, 2, 1) if small else llama(49152, 576, 1536, 30, 9, 3))
    larger = make("larger", qwen3(257, 64, 96, 2, 2) if small else qwen3(53760, 768, 3072, 13, 12))
    count = sum(p.numel() for p in larger.parameters())
    print(f"torch {torch.__version__}, transformers {t.__version__}, "
          f"{smaller.num_parameters():,} and {count:,} parameters, best of {CHOSEN.turns}")
    ours.bring_in("tiny")
    _, memory_of_tiny = ours.bring_out("tiny", "out_tiny")

    seconds, _, (cpu, _) = fastest(lambda: ours.bring_in("smaller"))
    *theirs, model = fastest(lambda: t.AutoModelForCausalLM.from_pretrained("smaller", dtype=torch.float32).eval())
    ours.bring_out("smaller", "out_smaller")
    row("import of the smaller", (seconds, cpu), "3", "from_pretrained", theirs,
        f"; loss differs by {loss_difference(model, 'out_smaller/pe_pipeline_manifest.json'):.1e}")
    ours.bring_in("larger")
    for what, out, goal, peer, write in (
            ("export of the larger", "out", "3", "save_pretrained", lambda: larger.save_pretrained("theirs")),
            ("GGUF of the larger", "out.gguf", "the peer's", "gguf package",
             lambda: write_gguf(larger, "theirs.gguf"))):
        seconds, _, (cpu, memory) = fastest(lambda: ours.bring_out("larger", out))
        row(what, (seconds, cpu), goal, peer, fastest(write)[:2],
            f"; {(memory - memory_of_tiny) / (4 * count):.2f} times the model in memory above a tiny one's (goal 1.3)")


flags = argparse.ArgumentParser()
flags.add_argument("stages", type=Path)
flags.add_argument("--small", action="store_true", help="models of some thousand parameters")
flags.add_argument("--turns", type=int, default=3)
flags.add_argument("--folder", help="for models; without it the system's own for temporary files")
CHOSEN = flags.parse_args()
programs = Programs(CHOSEN.stages)
with tempfile.TemporaryDirectory(dir=CHOSEN.folder) as work:
    os.chdir(work)
    measure(programs, CHOSEN.small)
