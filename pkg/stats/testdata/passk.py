"""Writes passk.json: pass@k and maj@k of small cases by enumeration of all subsets of k completions.

python3 passk.py > passk.json
"""
import collections
import itertools
import json
import random

draw = random.Random(38)
cases = []
while len(cases) < 200:
    n = draw.randint(1, 10)
    k = draw.randint(1, n)
    answers = [draw.choice(["right", "a", "b", "c", None]) for _ in range(n)]
    subsets = list(itertools.combinations(answers, k))
    majority = 0.0
    for s in subsets:
        votes = collections.Counter(a for a in s if a is not None)
        if votes:
            winners = [a for a, v in votes.items() if v == max(votes.values())]
            majority += ("right" in winners) / len(winners)
    votes = collections.Counter(a for a in answers if a is not None)
    cases.append({
        "n": n, "k": k,
        "votes": [votes[a] for a in ("right", "a", "b", "c")],
        "pass": sum("right" in s for s in subsets) / len(subsets),
        "majority": majority / len(subsets),
    })
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
