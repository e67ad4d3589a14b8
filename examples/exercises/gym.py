"""Problems of Reasoning Gym and their scores, for reasoning_gym.yaml.

gym.py make NAME [CONFIG]   writes gym/train.jsonl and gym/val.jsonl with problems of a data set
gym.py score                a reward function
"""
import functools
import json
import os
import re
import sys

import reasoning_gym


@functools.lru_cache(maxsize=None)
def dataset(spec):
    """The data set that a text in JSON describes."""
    spec = json.loads(spec)
    return reasoning_gym.create_dataset(spec["name"], **spec["config"])


def make(name, config="{}"):
    os.makedirs("gym", exist_ok=True)
    seen = set()
    # Problem i of a data set has the seed of the data set plus i, so the seeds of the splits are far apart.
    for split, seed, size in ("train", 0, 200), ("val", 1_000_000, 64):
        spec = json.dumps({"name": name, "config": {**json.loads(config), "seed": seed, "size": size}})
        with open(f"gym/{split}.jsonl", "w", encoding="utf-8") as f:
            for i in range(size):
                question = dataset(spec)[i]["question"]
                if question not in seen:
                    print(json.dumps({"question": question, "spec": spec, "index": i}), file=f)
                seen.add(question)


@functools.lru_cache(maxsize=None)
def problem(spec, index):
    return dataset(spec)[index]


def score(completion):
    fields = completion["problem"]["fields"]
    found = re.findall(r"<answer>(.*?)</answer>", completion["completion"], re.DOTALL)
    answer = found[-1].strip() if found else None
    return float(dataset(fields["spec"]).score_answer(answer, problem(fields["spec"], fields["index"])))


if sys.argv[1] == "make":
    make(*sys.argv[2:])
else:
    for line in sys.stdin:
        batch = json.loads(line)
        rewards = [score(c) for c in batch["completions"]]
        print(json.dumps({"id": batch["id"], "rewards": rewards}), flush=True)
