"""Peers of tests/benchmarks/data.cpp: the packages sentencepiece and tokenizers, on one thread.

usage: data_peer.py sentencepiece TEXTS.jsonl MODEL | tokenizers TEXTS.jsonl VOCAB MERGES | train TEXTS.jsonl | train-program TEXTS.jsonl

Prints a JSON line: peer with its version, rate by CPU time, unit, and the SHA-256 over all ids as 32-bit little-endian.
Exit code 77 without the package.
"""
import array
import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def fastest(body):
    """CPU seconds of the fastest of three calls, and its result."""
    best, result = None, None
    for _ in range(3):
        start = time.process_time()
        result = body()
        seconds = time.process_time() - start
        best = seconds if best is None else min(best, seconds)
    return best, result


def say(peer, rate, unit, ids=""):
    print(json.dumps({"peer": peer, "rate": rate, "unit": unit, "ids": ids}))


def digest(lists):
    sha = hashlib.sha256()
    for ids in lists:
        sha.update(array.array("i", ids).tobytes())
    return sha.hexdigest()


def train_by_program(texts):
    """spm_train, where the system has it, which takes one line per text."""
    program = shutil.which("spm_train")
    if program is None:
        sys.exit("no spm_train")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.txt")
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(text + "\n" for text in texts)
        subprocess.run(
            [program, f"--input={path}", f"--model_prefix={folder}/model", "--model_type=bpe", "--vocab_size=32000",
             "--character_coverage=0.9999", "--byte_fallback=true", "--normalization_rule_name=identity",
             "--remove_extra_whitespaces=false", "--split_digits=true", "--allow_whitespace_only_pieces=true",
             "--user_defined_symbols=\n",
             "--max_sentence_length=1073741824", "--num_threads=1", "--minloglevel=2"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"spm_train {version[-1] if version else ''}", used.ru_utime + used.ru_stime, "s")


def main():
    what, path, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    if what == "tokenizers":
        import tokenizers
        from tokenizers import ByteLevelBPETokenizer
        model = ByteLevelBPETokenizer(rest[0], rest[1])
        seconds, found = fastest(lambda: [e.ids for e in model._tokenizer.encode_batch_fast(texts)])
        say(f"tokenizers {tokenizers.__version__}", megabytes / seconds, "MB/s", digest(found))
        return
    if what == "train-program":
        train_by_program(texts)
        return
    import sentencepiece
    name = f"sentencepiece {sentencepiece.__version__}"
    if what == "sentencepiece":
        model = sentencepiece.SentencePieceProcessor(model_file=rest[0])
        seconds, found = fastest(lambda: [model.encode(text) for text in texts])
        say(f"{name}, package", megabytes / seconds, "MB/s", digest(found))
        return
    model = io.BytesIO()
    start = time.process_time()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="bpe", vocab_size=32000, character_coverage=0.9999, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        user_defined_symbols=["\n"], max_sentence_length=1 << 30, num_threads=1, minloglevel=2)
    say(f"{name}, package", time.process_time() - start, "s")


if __name__ == "__main__":
    try:
        main()
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
