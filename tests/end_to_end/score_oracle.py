"""pe-score against numpy: h5py writes the inputs and reads the answers, the formulas are written again here.

usage: score_oracle.py PE_SCORE FOLDER
"""
import subprocess
import sys

import h5py
import numpy as np

program, folder = sys.argv[1:]
B, H, G, T, D, M = 2, 4, 2, 12, 8, 32
rng = np.random.default_rng(5)
q, k, v = rng.normal(size=(B, H, T, D)), rng.normal(size=(B, G, T, D)), rng.normal(size=(B, G, T, D))
x, grad = rng.normal(size=(B, T, M)), rng.normal(size=(B, H, T, D))
kk, vv = np.repeat(k, H // G, axis=1), np.repeat(v, H // G, axis=1)
i, j = np.arange(T)[:, None], np.arange(T)[None, :]
seen = j <= i


def score(name, *sets, parameters=None, flags=()):
    with h5py.File(f"{folder}/in.h5", "w") as file:
        for key, value in dict(q=q, k=k, v=v, x=x, grad_output=grad).items():
            file[key] = value
        for key, value in (parameters or {}).items():
            file[f"parameters/{key}"] = value
    command = [program, "--encoding", name, "--in", f"{folder}/in.h5", "--out", f"{folder}/out.h5", *flags]
    for text in sets:
        command += ["--set", text]
    subprocess.run(command, check=True)
    out = {}
    with h5py.File(f"{folder}/out.h5") as file:
        file.visititems(lambda name, item: out.__setitem__(name, item[()]) if hasattr(item, "shape") else None)
        out["attributes"] = dict(file.attrs)
    return out


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def check(name, found, logits):
    logits = np.where(seen, logits, -np.inf)
    assert found["logits"].dtype == np.float64, found["logits"].dtype
    assert np.array_equal(np.isinf(found["logits"]), np.broadcast_to(~seen, found["logits"].shape)), name
    np.testing.assert_allclose(found["logits"][..., seen], logits[..., seen], rtol=0, atol=1e-12, err_msg=name)
    weights = softmax(logits)
    np.testing.assert_allclose(found["weights"], weights, rtol=0, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(found["output"], weights @ vv, rtol=0, atol=1e-12, err_msg=name)


def product(a, b):
    return a @ b.swapaxes(-1, -2) / np.sqrt(D)


def rotated(t, base=10000.0, stretch=1.0):
    angle = np.arange(T)[:, None] * base ** (-2 * np.arange(D // 2) / D) / stretch
    a, b = t[..., : D // 2], t[..., D // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


check("none", score("none"), product(q, kk))
check("rope", score("rope"), product(rotated(q), rotated(kk)))
check("rope, base 500", score("rope", "base=500"), product(rotated(q, 500.0), rotated(kk, 500.0)))
slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
check("alibi", score("alibi"), product(q, kk) - slopes[:, None, None] * (i - j))
check("alibi, slopes", score("alibi", "slopes=1,0.5,0.25,0"),
      product(q, kk) - np.array([1, 0.5, 0.25, 0])[:, None, None] * (i - j))
s = np.array([0.5, 1.0, 1.5, 2.0])
check("ssmax", score("ssmax", parameters={"s": s}), product(q, kk) * s[:, None, None] * np.log(i + 1))
table = rng.normal(size=(8, H))


def bucket(d):  # 4 of one distance each, then logarithmic up to 16
    return d if d < 4 else min(7, 4 + int(np.floor(np.log(d / 4) / np.log(16 / 4) * 4)))


bias = np.array([[table[bucket(max(a - b, 0))] for b in range(T)] for a in range(T)]).transpose(2, 0, 1)
check("t5", score("t5", "buckets=8", "max_distance=16", parameters={"table": table}), product(q, kk) + bias)

# rope+alibi, as a stack.
check("rope+alibi", score("{stack: [rope, alibi]}"), product(rotated(q), rotated(kk)) - slopes[:, None, None] * (i - j))

# An absolute encoding.
pe = score("sinusoidal")["embedding"]
angle = np.arange(T)[:, None] * 10000.0 ** (-2 * np.arange(M // 2) / M)
np.testing.assert_allclose(pe[:, 0::2], np.sin(angle), atol=1e-12)
np.testing.assert_allclose(pe[:, 1::2], np.cos(angle), atol=1e-12)

# Gradients of sum(output * grad_output), by central differences.
found = score("t5", "buckets=8", "max_distance=16", parameters={"table": table}, flags=["--gradients"])


def value(q_, table_):
    bias_ = np.array([[table_[bucket(max(a - b, 0))] for b in range(T)] for a in range(T)]).transpose(2, 0, 1)
    return (softmax(np.where(seen, product(q_, kk) + bias_, -np.inf)) @ vv * grad).sum()


for at in [(0, 1, 5, 2), (1, 3, 11, 7)]:
    up, down = q.copy(), q.copy()
    up[at] += 1e-6
    down[at] -= 1e-6
    assert abs((value(up, table) - value(down, table)) / 2e-6 - found["gradients/q"][at]) < 1e-6, at
for at in [(0, 0), (2, 3), (6, 1)]:
    up, down = table.copy(), table.copy()
    up[at] += 1e-6
    down[at] -= 1e-6
    assert abs((value(q, up) - value(q, down)) / 2e-6 - found["gradients/parameters/table"][at]) < 1e-6, at

# Lower precision: float32 near, bfloat16 nearer than its eight bits would suggest for a whole logit.
exact = score("rope")["output"]
single = score("rope", flags=["--dtype", "float32", "--route", "fused"])
assert single["output"].dtype == np.float32 and str(single["attributes"]["route"]).find("fused") >= 0
assert np.abs(single["output"] - exact).max() < 1e-5
assert np.abs(score("rope", flags=["--dtype", "bfloat16", "--route", "fused"])["output"] - exact).max() < 0.1
print("all agree")
