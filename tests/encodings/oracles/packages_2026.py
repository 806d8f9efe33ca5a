"""Prints results of other packages for attention: a JSON list of cases, each with the package and its version, our config, the
inputs and the outputs. Packages that are not installed are left out. Exit 77: none is installed.

usage: packages_2026.py [PACKAGE...]
"""
import json
import math
import sys
from importlib.metadata import PackageNotFoundError, version

try:
    import torch
except ImportError as error:
    print(f"torch is needed: {error}", file=sys.stderr)
    sys.exit(77)

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def waves(sizes, step, phase=0.0):
    count = math.prod(sizes)
    return torch.sin(step * torch.arange(1, count + 1) + phase).view(sizes)


def causal(length, window=0):
    rows = torch.arange(length)
    distance = rows[:, None] - rows[None, :]
    return (distance >= 0) & ((distance < window) if window else True)


def listed(value):
    return value.detach().tolist() if torch.is_tensor(value) else value


def add(package, encoding, shape, q, k, v, output, parameters=None, x=None, gradient=None, within=1e-10):
    """shape: our Shape, and the layer; tensors without a batch, [heads, tokens, channels]."""
    case = {"package": package, "version": version(package), "encoding": encoding, "shape": shape, "q": listed(q), "k": listed(k),
            "v": listed(v), "output": listed(output), "within": within,
            "parameters": {name: listed(value) for name, value in (parameters or {}).items()}}
    if x is not None:
        case["x"] = listed(x)
    if gradient is not None:
        case["gradient"] = {name: listed(value) for name, value in gradient.items()}
    cases.append(case)


def of_entmax():
    import entmax
    heads, length, width = 2, 9, 4
    shape = {"layers": 1, "layer": 0, "heads": heads, "head_width": width, "width": heads * width, "train_length": 16}
    direction = waves((heads, length, width), 0.5)
    normalisers = {1.5: entmax.entmax15, 2.0: entmax.sparsemax,
                   1.25: lambda z, dim: entmax.entmax_bisect(z, alpha=1.25, dim=dim, n_iter=120),
                   1.75: lambda z, dim: entmax.entmax_bisect(z, alpha=1.75, dim=dim, n_iter=120)}
    for alpha, normaliser in normalisers.items():
        q, k, v = (waves((heads, length, width), step, 0.3).requires_grad_() for step in (0.7, 0.9, 1.1))
        logits = q @ k.transpose(-1, -2) * 2.5 / math.sqrt(width)   # far enough apart that weights are zero
        rows = []
        for i in range(length):
            weights = normaliser(logits[:, i, : i + 1], dim=-1)
            rows.append((weights[..., None] * v[:, : i + 1]).sum(1))
        output = torch.stack(rows, 1)
        gradient = torch.autograd.grad((output * direction).sum(), (q, k, v))
        add("entmax", {"kind": "entmax", "alpha": alpha}, shape | {"scale": 2.5 / math.sqrt(width)}, q, k, v, output,
            gradient=dict(zip(("direction", "q", "k", "v"), (direction, *gradient))), within=1e-8)


def of_deepseek():
    """Rotation of values: queries, keys that are the values too, and the output rotated back."""
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import apply_rotary_pos_emb
    heads, length, width = 3, 11, 8
    q, kv = waves((1, heads, length, width), 0.3), waves((1, 1, length, width), 0.2, 1.5)
    angle = torch.arange(length)[:, None] * 10000.0 ** (-2 * torch.arange(width // 2) / width)
    cos, sin = angle.cos()[None], angle.sin()[None]
    turned_q, turned = apply_rotary_pos_emb(q, cos, sin), apply_rotary_pos_emb(kv, cos, sin)
    logits = turned_q @ turned.transpose(-1, -2) / math.sqrt(width)
    weights = logits.masked_fill(~causal(length), -math.inf).softmax(-1)
    output = apply_rotary_pos_emb((weights @ turned).transpose(1, 2), cos, -sin, unsqueeze_dim=2).transpose(1, 2)
    shape = {"layers": 1, "layer": 0, "heads": heads, "groups": 1, "head_width": width, "width": heads * width, "train_length": 16}
    # It rotates in float32.
    add("transformers", {"kind": "rove", "layout": "interleaved"}, shape, q[0], kv[0], kv[0], output[0], within=3e-6)


def attention_of(module, heads, width, length, mask, **inputs):
    """A module's queries, keys, values and mixed values of waves, its output projection left out."""
    hidden = heads * width
    with torch.no_grad():
        module.o_proj.weight.copy_(torch.eye(hidden))
        for n, projection in enumerate((module.q_proj, module.k_proj, module.v_proj)):
            projection.weight.copy_(waves(projection.weight.shape, 0.11 * (n + 1), n) * 0.4)
    x = waves((1, length, hidden), 0.17)
    additive = torch.zeros(length, length).masked_fill(~mask, -math.inf)[None, None]
    output, _ = module(hidden_states=x, attention_mask=additive, **inputs)
    split = lambda t: t.view(length, -1, width).transpose(0, 1)
    return split(module.q_proj(x)[0]), split(module.k_proj(x)[0]), split(module.v_proj(x)[0]), split(output[0])


def of_smollm3():
    """Every fourth layer without positions."""
    from transformers import SmolLM3Config
    from transformers.models.smollm3.modeling_smollm3 import SmolLM3Attention, SmolLM3RotaryEmbedding
    heads, length, width, layers = 2, 7, 8, 4
    config = SmolLM3Config(hidden_size=heads * width, num_attention_heads=heads, num_key_value_heads=heads, num_hidden_layers=layers,
                           no_rope_layer_interval=4, attn_implementation="eager", use_sliding_window=False)
    config._attn_implementation = "eager"
    base = config.rope_parameters["rope_theta"]
    angle = torch.cat([torch.arange(length)[:, None] * base ** (-2 * torch.arange(width // 2) / width)] * 2, -1)
    for layer in (0, layers - 1):
        module = SmolLM3Attention(config, layer).double()
        q, k, v, output = attention_of(module, heads, width, length, causal(length),
                                       position_embeddings=(angle.cos()[None], angle.sin()[None]))
        shape = {"layers": layers, "layer": layer, "heads": heads, "head_width": width, "width": heads * width, "train_length": 16}
        add("transformers", {"kind": "inope", "interval": 4, "base": base}, shape, q, k, v, output, within=1e-6)


def of_cohere2():
    """Rope within a window, and layers between that have neither."""
    from transformers import Cohere2Config
    from transformers.masking_utils import sliding_window_causal_mask_function
    from transformers.models.cohere2.modeling_cohere2 import Cohere2Attention
    heads, length, width, layers, window = 2, 9, 8, 4, 4
    config = Cohere2Config(hidden_size=heads * width, num_attention_heads=heads, num_key_value_heads=heads, num_hidden_layers=layers,
                           sliding_window=window, sliding_window_pattern=4)
    config._attn_implementation = "eager"
    angle = (torch.arange(length)[:, None] * 10000.0 ** (-2 * torch.arange(width // 2) / width)).repeat_interleave(2, -1)
    seen = sliding_window_causal_mask_function(window)
    rows = torch.arange(length)
    local = torch.tensor([[bool(seen(0, 0, i, j)) for j in rows] for i in rows])
    halves = list(range(0, width, 2)) + list(range(1, width, 2))   # their pairs are neighbours, ours half a head apart
    for layer in (0, layers - 1):
        module = Cohere2Attention(config, layer).double()
        mask = local if config.layer_types[layer] == "sliding_attention" else causal(length)
        q, k, v, output = attention_of(module, heads, width, length, mask, position_embeddings=(angle.cos()[None], angle.sin()[None]))
        shape = {"layers": layers, "layer": layer, "heads": heads, "head_width": width, "width": heads * width, "train_length": 16}
        add("transformers", {"kind": "local_global", "interval": 4, "size": window}, shape, q[..., halves], k[..., halves], v, output,
            within=1e-6)


def of_wav2vec2_bert():
    """Vectors of distances on the keys (Shaw et al.), and Transformer-XL's product of positions."""
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as theirs
    heads, length, width, reach = 2, 9, 4, 3
    hidden = heads * width
    shape = {"layers": 1, "layer": 0, "heads": heads, "head_width": width, "width": hidden, "train_length": 16}
    x = waves((1, length, hidden), 0.17)
    mask = torch.zeros(length, length).masked_fill(~causal(length), -math.inf)[None, None]
    split = lambda t: t.view(length, heads, width).transpose(0, 1)
    for kind in ("relative_key", "relative"):
        config = Wav2Vec2BertConfig(hidden_size=hidden, num_attention_heads=heads, position_embeddings_type=kind, attention_dropout=0.0,
                                    left_max_position_embeddings=reach, right_max_position_embeddings=2)
        config._attn_implementation = "eager"
        module = theirs.Wav2Vec2BertSelfAttention(config).double().eval()
        with torch.no_grad():
            for n, parameter in enumerate(module.parameters()):
                parameter.copy_(waves(parameter.shape, 0.13 * (n + 1), n) * 0.5)
            module.linear_out.weight.copy_(torch.eye(hidden))
            module.linear_out.bias.zero_()
        positions = None
        if kind == "relative":
            positions = theirs.Wav2Vec2BertRelPositionalEmbedding(config)(x).double()
        output, _ = module(x, attention_mask=mask, relative_position_embeddings=positions)
        q, k, v = (split(projection(x)[0]) for projection in (module.linear_q, module.linear_k, module.linear_v))
        if kind == "relative_key":
            table = module.distance_embedding.weight[: reach + 1].flip(0)   # theirs begins with the farthest
            add("transformers", {"kind": "shaw", "max_distance": reach, "values": False}, shape, q, k, v, split(output[0]),
                {"key_table": table})
        else:
            relative = torch.cat([module.linear_pos.weight[:, 0::2], module.linear_pos.weight[:, 1::2]], -1)   # sines, then cosines
            add("transformers", {"kind": "transformer_xl"}, shape, q, k, v, split(output[0]),
                {"u": module.pos_bias_u, "v": module.pos_bias_v, "relative": relative}, x=x[0], within=1e-6)


def of_x_transformers():
    from x_transformers.attend import selective_attn
    from x_transformers.x_transformers import AlibiPositionalBias, PolarEmbedding, apply_polar_pos_emb
    heads, length, width = 6, 7, 8
    q, k, v = (waves((heads, length, width), step, 0.4) for step in (0.3, 0.5, 0.7))
    shape = {"layers": 1, "layer": 0, "heads": heads, "head_width": width, "width": heads * width, "train_length": 16}
    mask = ~causal(length)
    scale = 1 / math.sqrt(width)

    def output_of(logits):
        return logits.masked_fill(mask, -math.inf).softmax(-1) @ v

    product = q @ k.transpose(-1, -2) * scale
    add("x-transformers", {"kind": "alibi"}, shape, q, k, v, output_of(product + AlibiPositionalBias(heads)(length, length)), within=1e-6)
    add("x-transformers", {"kind": "selective"}, shape, q, k, v, output_of(selective_attn(product[None].masked_fill(mask, 0.0))[0]))
    polar = PolarEmbedding(width, heads).double()
    with torch.no_grad():
        polar.learned_bias.copy_(-1 - waves((heads, 1, width), 0.9).abs())
    freqs, bias = polar(torch.arange(length))
    turned_q, turned_k = apply_polar_pos_emb(q, freqs), apply_polar_pos_emb(k, freqs + bias)
    add("x-transformers", {"kind": "pope"}, shape, q, k, v, output_of(turned_q @ turned_k.transpose(-1, -2) * scale),
        {"delta": polar.learned_bias[:, 0]}, within=1e-5)   # it turns in float32


MAKERS = {"entmax": [of_entmax], "transformers": [of_deepseek, of_smollm3, of_cohere2, of_wav2vec2_bert],
          "x-transformers": [of_x_transformers]}

for package, makers in MAKERS.items():
    if sys.argv[1:] and package not in sys.argv[1:]:
        continue
    try:
        version(package)
    except PackageNotFoundError:
        print(f"{package} is not installed", file=sys.stderr)
        continue
    for make in makers:
        try:
            make()
        except ImportError as error:   # an older version, without that model
            print(f"{package} {version(package)}: {error}", file=sys.stderr)
if not cases:
    sys.exit(77)
json.dump(cases, sys.stdout, separators=(",", ":"))
