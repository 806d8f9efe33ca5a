"""Prints values of transformers for rotary configs: reads a JSON list of {rope_type, base, width, train_length, length,
...parameters} on standard input, writes a list of {inverse_frequencies, attention_factor}. Exit 77: not installed."""
import json
import sys

try:
    import torch
    import transformers
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
except ImportError as error:
    print(f"transformers and torch are needed: {error}", file=sys.stderr)
    sys.exit(77)

results = []
for case in json.load(sys.stdin):
    case = dict(case)
    base, width = case.pop("base"), case.pop("width")
    train_length, length = case.pop("train_length"), case.pop("length")
    rope_type = case.pop("rope_type")
    reach = int(train_length * case.get("factor", 1))
    parameters = {"rope_type": rope_type, "type": rope_type, "rope_theta": float(base), **case}
    if rope_type not in ("linear", "dynamic"):
        parameters["original_max_position_embeddings"] = train_length
    config = transformers.LlamaConfig(hidden_size=width, num_attention_heads=1, num_key_value_heads=1, head_dim=width,
                                      max_position_embeddings=train_length if rope_type == "dynamic" else reach)
    if int(transformers.__version__.split(".")[0]) >= 5:
        config.rope_parameters = parameters
    else:
        config.rope_theta, config.rope_scaling = float(base), parameters
    if rope_type in ("longrope", "yarn", "llama3"):
        config.original_max_position_embeddings = train_length
    frequencies, factor = ROPE_INIT_FUNCTIONS[rope_type](config, device="cpu", seq_len=length)
    results.append({"inverse_frequencies": frequencies.double().tolist(), "attention_factor": float(factor)})
json.dump({"version": transformers.__version__, "results": results}, sys.stdout)
