"""Loads a reward model with transformers and prints the rewards of sequences of token ids."""
import json
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder, rows = sys.argv[1], json.load(open(sys.argv[2]))
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
assert model.config.num_labels == 1, model.config.num_labels
assert tokenizer.pad_token_id == model.config.pad_token_id, (tokenizer.pad_token_id, model.config.pad_token_id)
batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt")  # on the right, as a batch of several lengths
with torch.no_grad():
    rewards = model(**batch).logits[:, 0]
print(json.dumps({"rewards": rewards.tolist(), "class": type(model).__name__}))
