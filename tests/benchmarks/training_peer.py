"""The model of tests/benchmarks/training.cpp in PyTorch: how fast a step is, eager and compiled, on the CPU.

usage: training_peer.py THREADS SECONDS [fp32|bf16 [SIZE|all [MODE...]]]; prints a JSON line for each size and mode. Exit code
77 without torch. Modes: eager, compiled, max-autotune.

Written as one would write it: fused projections, scaled_dot_product_attention, fused AdamW, clipping, no logging; bf16 is
autocast over fp32 weights.
"""
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except (ImportError, OSError) as error:
    print(error, file=sys.stderr)
    sys.exit(77)

SIZES = {
    "1.3M": dict(width=128, layers=4, heads=4, vocabulary=2048, batch=16, length=128),
    "7.3M": dict(width=256, layers=6, heads=8, vocabulary=4096, batch=8, length=256),
    "42M": dict(width=512, layers=6, heads=8, vocabulary=32768, batch=4, length=512),
}


def rotate(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        head = width // heads
        self.attention_norm, self.feed_forward_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query_norm, self.key_norm = nn.RMSNorm(head), nn.RMSNorm(head)
        self.packed = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 8 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q, k, v = self.packed(self.attention_norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(self.query_norm(q), cos, sin), rotate(self.key_norm(k), cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(b, t, d))
        gate, up = self.gate_up(self.feed_forward_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, width, layers, heads, vocabulary, batch, length):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos[:ids.shape[1]], self.sin[:ids.shape[1]])
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def measure(size, mode, dtype, seconds):
    torch.manual_seed(1)
    model = Decoder(**size)
    count = sum(p.numel() for p in model.parameters())
    decay = [p for n, p in model.named_parameters() if p.dim() == 2 and "embedding" not in n]
    rest = [p for n, p in model.named_parameters() if p.dim() != 2 or "embedding" in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95), fused=True)
    if mode == "eager":
        run = model
    else:
        run = torch.compile(model, mode="max-autotune" if mode == "max-autotune" else None)
    times = []
    begin = time.perf_counter()
    step = 0
    while step < 8 or time.perf_counter() - begin < seconds:
        ids = torch.randint(size["vocabulary"], (size["batch"], size["length"] + 1))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step >= 3:   # compiling, first allocations
            times.append(time.perf_counter() - start)
        else:
            begin = time.perf_counter()
        step += 1
    return count, size["batch"] * size["length"] / statistics.median(times)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    dtype, only = (sys.argv[3:5] + ["fp32", "all"][len(sys.argv[3:5]):])
    for mode in sys.argv[5:] or ["eager", "compiled", "max-autotune"]:
        for name, size in SIZES.items():
            if only not in ("all", name):
                continue
            try:
                torch._dynamo.reset()
                count, speed = measure(size, mode, dtype, float(sys.argv[2]))
                print(json.dumps({"size": name, "mode": mode, "parameters": count, "tokens_per_second": speed,
                                  "torch": torch.__version__}), flush=True)
            except Exception as error:  # torch.compile without a compiler
                print(json.dumps({"size": name, "mode": mode, "problem": str(error).splitlines()[0]}), flush=True)


if __name__ == "__main__":
    main()
