"""Loads a folder with transformers and prints what it makes of some strings and a chat."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, given = sys.argv[1], json.load(open(sys.argv[2]))
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
prompt = tokenizer(given["strings"][0], return_tensors="pt").input_ids
with torch.no_grad():
    out = model.generate(prompt, max_new_tokens=given["tokens"], do_sample=False)[0]
    logits = model(out[None]).logits[0]
start = prompt.shape[1]
logps = torch.log_softmax(logits[start - 1:-1], -1).gather(1, out[start:, None])[:, 0]
print(json.dumps({
    "ids": [tokenizer(s).input_ids for s in given["strings"]],
    "chat": tokenizer.apply_chat_template(given["chat"], tokenize=False, add_generation_prompt=True),
    "tokens": out[start:].tolist(),
    "logps": logps.tolist(),
}))
