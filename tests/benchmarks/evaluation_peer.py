"""Perplexity against length as one would write it in PyTorch: the model of training_peer.py, and a loop over lengths.

usage: evaluation_peer.py THREADS DOCUMENTS LENGTH...; prints one JSON line. Exit code 77 without torch.

Every document is as long as the longest length; each length is a pass of its own, two documents of the longest at a time.
"""
import json
import math
import sys
import time

from training_peer import Decoder, torch

SIZE = dict(width=128, layers=4, heads=4, vocabulary=2048)
BATCH_TOKENS = 8192


def perplexity(model, documents, length):
    total, count = 0.0, 0
    rows = max(1, BATCH_TOKENS // length)
    for batch in documents.split(rows):
        ids = batch[:, :length]
        total += model(ids[:, :-1], ids[:, 1:]).item() * ids[:, 1:].numel()
        count += ids[:, 1:].numel()
    return math.exp(total / count)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    lengths = [int(length) for length in sys.argv[3:]]
    documents = torch.randint(SIZE["vocabulary"], (int(sys.argv[2]), max(lengths)))
    with torch.inference_mode():
        model = Decoder(**SIZE, batch=1, length=max(lengths))
        perplexity(model, documents[:2], max(lengths))   # first allocations
        start = time.perf_counter()
        perplexity(model, documents, max(lengths))
        forward = time.perf_counter() - start
        start = time.perf_counter()
        for length in lengths:
            perplexity(model, documents, length)
        loop = time.perf_counter() - start
    print(json.dumps({"forward_seconds": forward, "loop_seconds": loop, "torch": torch.__version__}))


main()
