"""Prints inkling by its definition: a JSON list of cases as in packages_2026.py, computed number by number in
double precision. It needs Python alone.
"""
import json
import math
import sys


def waves(sizes, step, phase=0.0, at=0):
    """Nested lists of sin(step·n + phase), n = 1, 2, … over all elements."""
    if len(sizes) == 1:
        return [math.sin(step * (at + n + 1) + phase) for n in range(sizes[0])]
    below = math.prod(sizes[1:])
    return [waves(sizes[1:], step, phase, at + n * below) for n in range(sizes[0])]


def attention(q, k, v, x, mix, bank, divisor, window=0, floor_scale=0, alpha=0.0):
    """q [heads, tokens, channels], k and v [groups, tokens, channels], x [tokens, width], mix [heads · profiles, width], bank
    [profiles, extent]."""
    profiles, extent, shared = len(bank), len(bank[0]), len(q) // len(k)
    output = []
    for h, queries in enumerate(q):
        keys, values = k[h // shared], v[h // shared]
        output.append([])
        for i, query in enumerate(queries):
            r = [sum(w * token for w, token in zip(mix[h * profiles + p], x[i])) for p in range(profiles)]
            tau = 1 + alpha * math.log(max(1.0, (i + 1) / floor_scale)) if floor_scale else 1.0
            seen = range(max(0, i + 1 - window) if window else 0, i + 1)
            logits = []
            for j in seen:
                product = sum(a * b for a, b in zip(query, keys[j])) / divisor
                bias = sum(r[p] * bank[p][i - j] for p in range(profiles)) if i - j < extent else 0.0
                logits.append(tau * (product + bias))
            largest = max(logits)
            weights = [math.exp(logit - largest) for logit in logits]
            total = sum(weights)
            output[-1].append([sum(w / total * values[j][c] for w, j in zip(weights, seen)) for c in range(len(query))])
    return output


def case(encoding, heads, groups, profiles, extent, layer=0, scale=1.0, **told):
    """`scale` is the factor of q·k/√d_h from a uniform_scale next to inkling."""
    length, head_width, width = 7, 3, 5
    q = waves((heads, length, head_width), 0.7, 0.3)
    k, v = waves((groups, length, head_width), 0.9, 0.1), waves((groups, length, head_width), 1.1, 0.5)
    x, mix, bank = waves((length, width), 0.37), waves((heads * profiles, width), 1.3, 0.2), waves((profiles, extent), 0.61, 0.4)
    return {"package": "definition", "version": sys.argv[0].rsplit("/", 1)[-1], "encoding": encoding,
            "shape": {"layers": 2, "layer": layer, "heads": heads, "groups": groups, "head_width": head_width, "width": width,
                      "train_length": 16},
            "q": q, "k": k, "v": v, "x": x, "parameters": {"mix": mix, "bank": bank}, "within": 1e-12,
            "output": attention(q, k, v, x, mix, bank, math.sqrt(head_width) / scale, **told)}


scaled = {"kind": "inkling", "profiles": 3, "extent": 4, "floor_scale": 2, "alpha": 0.5}
# As in the model: q·k over the head width, a window in the first layer, and growth with the logarithm in the other.
model = {"stack": [scaled, {"kind": "window", "size": 3, "interval": 2}, {"kind": "uniform_scale", "scale": 1 / math.sqrt(3)}]}
json.dump([
    case("inkling", 2, 2, 16, 4),   # the extent is a quarter of the training length
    case({"kind": "inkling", "profiles": 2, "extent": 3}, 2, 2, 2, 3),
    case({"kind": "inkling", "profiles": 2, "extent": 9}, 4, 2, 2, 9),
    case(scaled, 2, 1, 3, 4, floor_scale=2, alpha=0.5),
    case(model, 2, 2, 3, 4, layer=0, scale=1 / math.sqrt(3), window=3),
    case(model, 2, 2, 3, 4, layer=1, scale=1 / math.sqrt(3), floor_scale=2, alpha=0.5),
], sys.stdout)
print()
