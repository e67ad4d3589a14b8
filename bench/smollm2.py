#!/usr/bin/env python3
"""Times GRPO steps of SmolLM2 by grpo and by PyTorch programs, in turn, and prints the ratio of medians.

  python3 bench/smollm2.py --model SmolLM2.gguf --folder SmolLM2/ --theirs grpo_torch.py --precision bf16

Both train on 8 problems x 8 completions of at most 32 tokens. A program of --theirs is run in its own
folder with SMOLLM2=--folder (the same model as a Hugging Face folder) and PROBLEMS=--problems (the
files of `grpo data generate`). Two are known: grpo_torch.py, which writes log.jsonl with roll_s and
upd_s, and trl_step.py, TRL's GRPOTrainer, which prints when each step ends. The first step of a run
is a warm-up and does not count. Only the standard library is needed here.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--grpo", default="./grpo", help="the program")
p.add_argument("--model", required=True, help="what grpo reads")
p.add_argument("--folder", required=True, help="what PyTorch reads")
p.add_argument("--problems", default="problems")
p.add_argument("--theirs", required=True, help="grpo_torch.py or trl_step.py")
p.add_argument("--python", default=sys.executable, help="a Python with torch, transformers (and trl)")
p.add_argument("--precision", choices=["float32", "bf16"], default="float32")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--steps", type=int, default=8, help="of a run")
p.add_argument("--rounds", type=int, default=3, help="runs of each program, in turn")
a = p.parse_args()


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def ours(out):
    run([a.grpo, "train", "-c", "smollm2", "--model", a.model, "--out", out, "--quiet", "--threads", str(a.threads),
         "--set", f"precision={a.precision}", "--set", f"n_grpo_steps={a.steps}", "--set", "warmup_steps=1",
         "--set", f"every_n_steps={a.steps}", "--set", "val_size=4", "--set", "test_size=1", "--set", "unseen_size=1"])
    steps = [m["time"] for m in lines(out / "metrics.jsonl")]
    return [(t["rollout_s"], t["reward_s"] + t["update_s"]) for t in steps[1:]]


def theirs(out):
    script = pathlib.Path(a.theirs).resolve()
    env = {**os.environ, "SMOLLM2": str(pathlib.Path(a.folder).resolve()),
           "PROBLEMS": str(pathlib.Path(a.problems).resolve())}
    bf16 = a.precision == "bf16"
    if script.name == "trl_step.py":
        text = run([a.python, script, str(a.threads), str(a.steps), *["bf16"] * bf16], cwd=out, env=env)
        ends = [float(x) for x in re.findall(r"since the first step began ([\d.]+)", text)]
        return [(None, late - early) for early, late in zip(ends, ends[1:])]
    env["PYTHONPATH"] = str(script.parent)
    run([a.python, script, "--steps", str(a.steps), "--threads", str(a.threads), "--bf16", str(int(bf16)),
         "--decay", "1", "--lr", "2e-5", "--n_val", "4", "--eval_every", "1000", "--out", out / "run"], cwd=out, env=env)
    steps = [m for m in lines(out / "run" / "log.jsonl") if "roll_s" in m]
    return [(m["roll_s"] + m["ref_s"], m["upd_s"]) for m in steps[1:]]


def report(name, steps):
    parts = [[s[i] for s in steps if s[i] is not None] for i in (0, 1)]
    total = statistics.median(sum(x for x in s if x is not None) for s in steps)
    each = " + ".join(f"{statistics.median(x):.2f}" for x in parts if x)
    print(f"{name:12} {total:6.2f} s a step, median of {len(steps)} (rollout + update: {each})")
    return total


found = {"grpo": [], "PyTorch": []}
for i in range(a.rounds):
    for name, measure in (("grpo", ours), ("PyTorch", theirs)):
        with tempfile.TemporaryDirectory() as folder:
            found[name] += measure(pathlib.Path(folder))
        report(f"{name} ({i + 1})", found[name])
print(f"{report('PyTorch', found['PyTorch']) / report('grpo', found['grpo']):.2f} times as fast")
