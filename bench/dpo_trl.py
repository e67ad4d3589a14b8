#!/usr/bin/env python3
"""Times steps of TRL's DPOTrainer on a pairs file, to compare with `grpo bench step`:

  grpo export MODEL.gguf --out folder
  grpo data pairs -c smollm2 --model MODEL.gguf --n 16 --pairs best_worst --set reward.functions=random --out pairs.jsonl
  python3 bench/dpo_trl.py folder pairs.jsonl 8 2
  grpo bench step --algorithm dpo --group 2 --prompts 8 --model MODEL.gguf --threads 2

The arguments are a Hugging Face folder, the file, the pairs of a step and the threads. float32, and a
reference model that is run in each step. Needs torch, transformers, datasets and trl.
"""
import json
import sys
import tempfile
import time

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer

folder, pairs, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
rows = [json.loads(line) for line in open(pairs)]
data = Dataset.from_list([{k: r[k] for k in ("prompt", "chosen", "rejected")} for r in (rows * n)[: 4 * n]])
policy, reference = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for _ in range(2))


class Clock(TrainerCallback):
    def on_step_begin(self, *args, **kwargs):
        self.start = time.process_time(), time.monotonic()

    def on_step_end(self, *args, **kwargs):
        cpu, wall = (now - then for now, then in zip((time.process_time(), time.monotonic()), self.start))
        print(f"step: {wall:.2f} s, {cpu:.2f} CPU seconds", flush=True)


with tempfile.TemporaryDirectory() as out:
    config = DPOConfig(output_dir=out, per_device_train_batch_size=n, max_steps=3, learning_rate=0.0, report_to=[],
                       use_cpu=True, max_length=None, gradient_checkpointing=False, bf16=False, save_strategy="no",
                       logging_strategy="no", dataloader_pin_memory=False)
    DPOTrainer(model=policy, ref_model=reference, args=config, train_dataset=data, callbacks=[Clock()],
               processing_class=AutoTokenizer.from_pretrained(folder)).train()
