"""A checker for sorting.yaml: 1 for the sorted numbers, and up to 0.5 by the share of numbers in their place."""
import json
import re
import sys


def score(text, items):
    given, want = [int(n) for n in re.findall(r"\d{1,9}", text)], sorted(items)
    if given == want:
        return 1.0
    right = sum(a == b for a, b in zip(given, want))
    return 0.5 * right / max(len(given), len(want))


for line in sys.stdin:
    batch = json.loads(line)
    rewards = [score(c["completion"], c["problem"]["fields"]["items"]) for c in batch["completions"]]
    print(json.dumps({"id": batch["id"], "rewards": rewards}), flush=True)
