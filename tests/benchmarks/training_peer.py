"""The model of tests/benchmarks/training.cpp in PyTorch: how fast a step is, eager and compiled, on the CPU or a GPU.

usage: training_peer.py THREADS SECONDS [fp32|bf16 [SIZE|all [MODE...]]] [--device cuda]; prints a JSON line for each size and
mode. Exit code 77 without torch, or without the GPU that was asked for. Modes: eager, compiled, max-autotune; on a GPU also
flex-alibi and flex-t5, compiled, with that bias by FlexAttention in place of the rotation.

Written as one would write it: fused projections, scaled_dot_product_attention, fused AdamW, clipping, no logging; bf16 is
autocast over fp32 weights.
"""
import argparse
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

SIZES = {  # as in training.cpp
    "1.3M": dict(width=128, layers=4, heads=4, vocabulary=2048, batch=16, length=128),
    "7.3M": dict(width=256, layers=6, heads=8, vocabulary=4096, batch=8, length=256),
    "42M": dict(width=512, layers=6, heads=8, vocabulary=32768, batch=4, length=512),
}


GPU_SIZES = {
    "small": dict(width=768, layers=12, heads=12, vocabulary=65536, batch=32, length=1024),
    "tiny": dict(width=512, layers=6, heads=8, vocabulary=65536, batch=64, length=1024),
    "medium": dict(width=1024, layers=24, heads=16, vocabulary=65536, batch=16, length=1024),
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

    def forward(self, x, cos, sin, biased):
        b, t, d = x.shape
        q, k, v = self.packed(self.attention_norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.query_norm(q), self.key_norm(k)
        if biased is None:
            mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        else:
            mixed = biased(q.to(v.dtype), k.to(v.dtype), v)
        x = x + self.output(mixed.transpose(1, 2).reshape(b, t, d))
        gate, up = self.gate_up(self.feed_forward_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


SMALL_BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_M1": 32, "BLOCK_N1": 32, "BLOCK_M2": 32, "BLOCK_N2": 32}


class FlexBias(nn.Module):
    """Causal attention with a bias by distance: alibi's slopes, or t5's trained table of 32 buckets. The table's gradient needs more
    shared memory than a multiprocessor has with the blocks that FlexAttention chooses by itself."""
    def __init__(self, kind, heads, length, device):
        super().__init__()
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        self.flex, self.kind = flex_attention, kind
        self.causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device=device)
        self.register_buffer("slopes", 2.0 ** (-8.0 * (torch.arange(heads) + 1) / heads))
        distance = torch.arange(length)
        far = 16 + (torch.log(distance.clamp_min(1) / 16) / torch.log(torch.tensor(128 / 16)) * 16).long()
        self.register_buffer("bucket", torch.where(distance < 16, distance, far.clamp(16, 31)))
        self.table = nn.Parameter(torch.zeros(heads, 32)) if kind == "t5" else None

    def forward(self, q, k, v):
        if self.kind == "alibi":
            slopes = self.slopes
            return self.flex(q, k, v, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j), block_mask=self.causal)
        table, bucket = self.table, self.bucket
        return self.flex(q, k, v, score_mod=lambda s, b, h, i, j: s + table[h, bucket[(i - j).clamp(min=0)]], block_mask=self.causal,
                         kernel_options=SMALL_BLOCKS)


class Decoder(nn.Module):
    def __init__(self, width, layers, heads, vocabulary, batch, length, bias=None, device="cpu"):
        super().__init__()
        self.biased = FlexBias(bias, heads, length, device) if bias else None
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
            x = block(x, self.cos[:ids.shape[1]], self.sin[:ids.shape[1]], self.biased)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def measure(size, mode, dtype, seconds, device):
    torch.manual_seed(1)
    model = Decoder(**size, bias=mode.removeprefix("flex-") if mode.startswith("flex-") else None, device=device).to(device)
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
    before = None
    begin = time.perf_counter()
    step = 0
    while step < 8 or time.perf_counter() - begin < seconds:
        ids = torch.randint(size["vocabulary"], (size["batch"], size["length"] + 1), device=device)
        start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if before is not None:   # one step late, as ours: the device does not wait for the host
            before.item()
        before = loss.detach()
        if step >= 3:   # compiling, first allocations
            times.append(time.perf_counter() - start)
        else:
            begin = time.perf_counter()
        step += 1
    return count, size["batch"] * size["length"] / statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("threads", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("dtype", nargs="?", default="fp32")
    parser.add_argument("only", nargs="?", default="all")
    parser.add_argument("modes", nargs="*")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("PyTorch finds no GPU", file=sys.stderr)
        sys.exit(77)
    torch.set_num_threads(options.threads)
    modes = ["eager", "compiled", "flex-alibi", "flex-t5", "max-autotune"] if on_gpu else ["eager", "compiled", "max-autotune"]
    for mode in options.modes or modes:
        for name, size in (GPU_SIZES if on_gpu else SIZES).items():
            if options.only not in ("all", name):
                continue
            try:
                torch._dynamo.reset()
                if on_gpu:
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
                count, speed = measure(size, mode, options.dtype, options.seconds, options.device)
                found = {"size": name, "mode": mode, "parameters": count, "tokens_per_second": speed, "torch": torch.__version__}
                if on_gpu:
                    found["peak_memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
                print(json.dumps(found), flush=True)
            except Exception as error:  # torch.compile without a compiler
                print(json.dumps({"size": name, "mode": mode, "problem": (str(error) or repr(error)).splitlines()[0]}), flush=True)


if __name__ == "__main__":
    main()
