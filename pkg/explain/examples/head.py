# Runs your functions of CS336 assignment 5 (EDITION) and prints arguments and results, which `grpo explain loss`
# compares with its own. In the assignment's folder, where tests/adapters.py is:
#
#   grpo explain loss --example=torch --edition EDITION > check.py
#   python check.py > batch.json; grpo explain loss --batch batch.json
#
# Functions that you have not written yet are left out. Put your own tensors in place of the ones below, or keep a
# call of your training loop by keep(), as at the end of check().
import json
import math
import os
import sys
import traceback

out, sys.stdout = sys.stdout, sys.stderr  # the file gets nothing that your modules and functions print

import torch

sys.path.insert(0, os.getcwd())
from tests import adapters  # or your module, if its functions are named run_...

calls, failed = [], []


def keep(function, arguments, **results):
    """Adds a call to the file: the assignment's name of the function, its arguments and its results."""
    calls.append({"function": function, **arguments, **results})


def call(function, **arguments):
    """Calls adapters.run_FUNCTION, and backward on the sum of a loss per token; keeps arguments and results."""
    given = dict(arguments)
    logp = given.get("policy_log_probs")
    if logp is not None:
        logp = given["policy_log_probs"] = logp.detach().clone().requires_grad_()
    if "reward_fn" in given:  # it gives the raw rewards, and the file has them in place of it
        del given["raw_rewards"]
        for name in ("reward_fn", "rollout_responses", "repeated_ground_truths"):
            del arguments[name]
    step = function.endswith("_step")  # it calls backward itself
    try:
        result = getattr(adapters, "run_" + function)(**given)
        result = result[0] if isinstance(result, tuple) else result
        if logp is not None and not step and result.requires_grad:
            (result * arguments.get("response_mask", torch.tensor(1))).sum().backward()
    except Exception as error:
        return leave_out(function, error)
    name = "advantages" if "rewards" in function else "loss" if step else "result"
    results = {name: result}
    if logp is not None:  # no gradient is one of 0
        results["policy_log_probs_grad"] = torch.zeros_like(logp) if logp.grad is None else logp.grad
    keep(function, arguments, **results)


def leave_out(function, error):
    print(f"{function} is left out: {error!r}", file=sys.stderr)
    if not isinstance(error, NotImplementedError):
        traceback.print_exception(error)
        failed.append(function)


def numbers(x):
    """Tensors as lists, and None for NaN and infinity, which JSON does not have."""
    if torch.is_tensor(x):
        x = x.detach().cpu()
        x = (x if x.dtype == torch.bool else x.double()).tolist()
    if isinstance(x, dict):
        return {name: numbers(value) for name, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [numbers(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


torch.manual_seed(0)
policy_log_probs = -2 * torch.rand(4, 6)  # four responses, of at most six tokens with the end of their prompts
old_log_probs = policy_log_probs + 0.8 * torch.rand(4, 6) - 0.4
response_mask = torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 0, 0]]).bool()
rewards = torch.tensor([1.0, 0.0, 0.5, 0.0, 1.0, 1.0, 1.0, 1.0])  # two groups, the second without a signal
raw_rewards = rewards[:4].unsqueeze(1)
advantages = torch.tensor([[1.2], [-0.8], [0.3], [-0.7]])


