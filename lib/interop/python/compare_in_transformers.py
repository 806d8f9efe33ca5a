"""Loads the model of this folder in transformers and compares its log-probabilities with the manifest's."""
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
folder = folder if folder.is_dir() else folder.parent
manifest = json.loads((folder / "pe_pipeline_manifest.json").read_text())
# The dtype is not given to from_pretrained, whose name for it changed in version 4.56.
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=manifest["needs_code"]).float().eval()
worst = 0.0
for run in manifest["golden"]:
    ids = torch.tensor([run["ids"]])
    with torch.no_grad():
        logs = torch.log_softmax(model(ids).logits[0].double(), -1)
    found = logs[:-1].gather(1, ids[0, 1:, None])[:, 0]
    worst = max(worst, (found - torch.tensor(run["log_probabilities"], dtype=torch.float64)).abs().max().item())
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=manifest["needs_code"])
ids = tokenizer(manifest["text"])["input_ids"]
longest = max(manifest["golden"], key=lambda run: len(run["ids"]))["ids"]
same = ids[:len(longest)] == longest
print(f"largest difference {worst:.2e} nats, tolerance {manifest['tolerance']:.0e}; ids {'agree' if same else 'differ'}")
sys.exit(0 if worst <= manifest["tolerance"] and same else 1)
