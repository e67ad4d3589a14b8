"""A reward for short right answers: 1 for an empty one, 0 at the limit, null for wrong ones."""
import json
import sys

for line in sys.stdin:
    batch = json.loads(line)
    if batch["version"] != 1:
        sys.exit(f"protocol version {batch['version']} is not known")
    rewards, words = [], []
    for c in batch["completions"]:
        words.append(len(c["completion"].split()))
        if c["right"]:
            rewards.append(1 - len(c["tokens"]) / batch["max_tokens"])
        else:
            rewards.append(None)
    answer = {"id": batch["id"], "rewards": rewards, "columns": {"words": words}}
    print(json.dumps(answer), flush=True)
