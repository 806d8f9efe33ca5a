"""Models by the transformers package. `compare FOLDER…` computes what the manifest of each exported folder holds;
`make KIND FOLDER` writes a random model with a tokenizer; `against MODEL MANIFEST` computes the texts of a manifest with
another model. Answers are JSON."""
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast


def load(folder, code=False):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=code).eval()


def differences(model, manifest):
    worst, greedy, lengths = 0.0, True, []
    for run in manifest["golden"]:
        ids = torch.tensor([run["ids"]])
        with torch.no_grad():
            logs = torch.log_softmax(model(ids).logits[0].double(), -1)
        found = logs[:-1].gather(1, ids[0, 1:, None])[:, 0]
        worst = max(worst, (found - torch.tensor(run["log_probabilities"], dtype=torch.float64)).abs().max().item())
        top = logs[-1][torch.tensor(run["top_ids"])]
        worst = max(worst, (top - torch.tensor(run["top_log_probabilities"], dtype=torch.float64)).abs().max().item())
        greedy = greedy and int(logs[-1].argmax()) == run["top_ids"][0]
        lengths.append(len(run["ids"]))
    return {"class": type(model).__name__, "worst": worst, "greedy": greedy, "lengths": lengths}


def compare(folder):
    manifest = json.loads((folder / "pe_pipeline_manifest.json").read_text())
    answer = differences(load(folder, manifest["needs_code"]), manifest)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=manifest["needs_code"])
    ids, longest = tokenizer(manifest["text"])["input_ids"], manifest["golden"][-1]["ids"]
    answer["ids"] = ids[:len(longest)] == longest
    return answer


def tokenizer_of(eos="<|endoftext|>"):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(["the harbour lies open to the north. the wind came from the south, and the boat came in."] * 4,
                             trainers.BpeTrainer(vocab_size=300, special_tokens=[eos], show_progress=False,
                                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=eos, eos_token=eos)


def make(kind, folder):
    import transformers as t
    torch.manual_seed(sum(map(ord, kind)))
    tokenizer = tokenizer_of()
    shared = dict(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, bos_token_id=0, eos_token_id=0,
                  pad_token_id=None)
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 64}
    divisors = [0.5, 1.5, 1.25, 4.0]  # they fall, and one is below 1; float32 has the first angle exactly
    longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": divisors, "long_factor": divisors,
                "original_max_position_embeddings": 256}
    gpt2 = dict(vocab_size=len(tokenizer), n_embd=32, n_layer=3, n_head=4, n_positions=256, initializer_range=0.3, bos_token_id=0,
                eos_token_id=0)
    configs = {
        "llama": lambda: t.LlamaConfig(**shared, tie_word_embeddings=True),
        "llama_untied": lambda: t.LlamaConfig(**shared, tie_word_embeddings=False, attention_bias=True, mlp_bias=True, head_dim=12),
        "llama3": lambda: t.LlamaConfig(**shared, tie_word_embeddings=True, rope_parameters=llama3),
        "longrope": lambda: t.LlamaConfig(**shared, tie_word_embeddings=True, rope_parameters=longrope),
        "mistral": lambda: t.MistralConfig(**shared, tie_word_embeddings=False, sliding_window=None),
        "qwen2": lambda: t.Qwen2Config(**shared, tie_word_embeddings=True, rope_parameters=yarn),
        "qwen3": lambda: t.Qwen3Config(**shared, tie_word_embeddings=False, head_dim=16),
        "smollm3": lambda: t.SmolLM3Config(**shared, tie_word_embeddings=True),
        "smollm3_window": lambda: t.SmolLM3Config(**shared, no_rope_layers=[1, 0, 1, 0], use_sliding_window=True, sliding_window=24,
                                                  layer_types=["sliding_attention", "full_attention"] * 2),
        "smollm3_list": lambda: t.SmolLM3Config(**shared, no_rope_layers=[1, 0, 1, 0], use_sliding_window=False, sliding_window=24,
                                                layer_types=["sliding_attention", "full_attention"] * 2),
        "smollm3_nope": lambda: t.SmolLM3Config(**shared, no_rope_layers=[0] * 4),
        "gpt2": lambda: t.GPT2Config(**gpt2, activation_function="gelu"),
        "gpt2_new": lambda: t.GPT2Config(**gpt2),
    }
    config = configs[kind]()
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.2)
    model.save_pretrained(folder, max_shard_size="60KB" if kind in ("llama", "qwen3") else "5GB")
    tokenizer.save_pretrained(folder)


mode, *rest = sys.argv[1:]
if mode == "compare":
    print(json.dumps({name: compare(Path(name)) for name in rest}))
elif mode == "make":
    for kind, folder in zip(rest[::2], rest[1::2]):
        make(kind, folder)
else:
    answers = {}
    for folder, file in zip(rest[::2], rest[1::2]):
        manifest = json.loads(Path(file).read_text())
        answers[folder] = differences(load(folder), manifest)
        ids, longest = AutoTokenizer.from_pretrained(folder)(manifest["text"])["input_ids"], manifest["golden"][-1]["ids"]
        answers[folder]["ids"] = longest in (ids[:len(longest)], [0] + ids[:len(longest) - 1])
    print(json.dumps(answers))
