"""Computes reference_cases.json: advantages, losses with their gradients,
aggregations and KL estimators, straight from the formulas, in float64.

It is slow and shares no code with the Go package. Gradients come from PyTorch's
autograd, so no derivative is written by hand.

    python3 pkg/rl/testdata/reference.py > pkg/rl/testdata/reference_cases.json
"""

import json
import sys

import torch

torch.set_default_dtype(torch.float64)


# Advantages: three groups of four completions; the second has equal rewards.

REWARDS = [[1, 0, 0.5, 0], [1, 1, 1, 1], [0.25, 0.125, 2, 1]]
LENGTHS = [[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]]
GREEDY = [0.5, 1, 0]
EPS = 1e-4


def baseline(name, r):
    n = r.shape[1]
    lengths = torch.tensor(LENGTHS, dtype=r.dtype)
    return {
        "none": lambda: torch.zeros_like(r),
        "group_mean": lambda: r.mean(1, keepdim=True),
        "leave_one_out": lambda: (r.sum(1, keepdim=True) - r) / (n - 1),
        "batch_mean": lambda: r.mean(),
        "length_weighted": lambda: (lengths * r).sum(1, keepdim=True) / lengths.sum(1, keepdim=True),
        "greedy": lambda: torch.tensor(GREEDY)[:, None],
    }[name]()


def advantages(base, normalizer):
    r = torch.tensor(REWARDS)
    a = r - baseline(base, r)
    return {
        "none": lambda: a,
        "group_std": lambda: a / (r.std(1, keepdim=True) + EPS),
        "batch_std": lambda: a / (r.std() + EPS),
        "group_mean": lambda: a / (r.mean(1, keepdim=True) + EPS),
        "whiten": lambda: (a - a.mean()) / (a.std() + EPS),
        "gpg": lambda: a * r.numel() / (r != 0).sum(),
    }[normalizer]()


ADVANTAGES = [
    ("none", "none"), ("group_mean", "none"), ("group_mean", "group_std"), ("group_mean", "batch_std"),
    ("batch_mean", "batch_std"), ("group_mean", "group_mean"), ("group_mean", "gpg"), ("leave_one_out", "none"),
    ("leave_one_out", "whiten"), ("length_weighted", "none"), ("greedy", "none"),
]

# Losses: five sequences (rows) of up to four tokens, the fourth without any. The
# ratios lie on both sides of every bound, for both signs of the advantage.

LENGTH = [4, 2, 3, 0, 1]
LOG_PROBS = [[-0.5, -1.2, -0.3, -2.0], [-0.9, -0.1, 0, 0], [-1.5, -0.7, -3.0, 0], [0, 0, 0, 0], [-0.4, 0, 0, 0]]
LOG_RATIO = [[0.5, -0.6, 0.05, 0.9], [1.8, -0.4, 0, 0], [-0.35, 0.3, -0.02, 0], [0, 0, 0, 0], [0.1, 0, 0, 0]]
REF_LOG_PROBS = [[-0.8, -0.6, -0.3, -2.5], [-1.1, -0.7, 0, 0], [-1.0, -0.9, -2.0, 0], [0, 0, 0, 0], [-0.2, 0, 0, 0]]
ENTROPIES = [[0.9, 1.4, 0.2, 1.1], [0.6, 0.8, 0, 0], [1.3, 0.5, 1.7, 0], [0, 0, 0, 0], [0.3, 0, 0, 0]]
ADVANTAGE = [1.5, -0.8, -1.1, 2, 0.6]

MASK = torch.arange(4)[None, :] < torch.tensor(LENGTH)[:, None]


def aggregate(name, x, z):
    """The weighted sum of x, 0 outside the mask, over the tokens of the batch."""
    n = MASK.sum(1)
    sums = (x * MASK).sum(1)
    means = sums / n.clamp(min=1)
    sequences, nonempty = len(n), (n > 0).sum()
    return {
        "masked_mean": lambda: means.sum() / sequences,
        "masked_normalize": lambda: (sums / z).sum() / sequences,
        "constant": lambda: sums.sum() / z,
        "token-mean": lambda: sums.sum() / n.sum(),
        "token-sum": lambda: sums.sum(),
        "seq-mean-token-sum": lambda: sums.sum() / nonempty,
        "seq-mean-token-mean": lambda: means.sum() / nonempty,
        "seq-mean-token-sum-norm": lambda: sums.sum() / nonempty / z,
    }[name]()


def kl(name, logp, ref):
    d = logp - ref
    k2 = d * d / 2
    k3 = torch.exp(-d) + d - 1
    return {
        "k1": lambda: d,
        "k2": lambda: k2,
        "k3": lambda: k3,
        "abs": lambda: d.abs(),
        "low_var_kl": lambda: torch.clamp(torch.exp(-d.clamp(-20, 20)) + d.clamp(-20, 20) - 1, -10, 10),
        "k1+": lambda: d.detach() + k2 - k2.detach(),
        "k3+": lambda: k3.detach() + k2 - k2.detach(),
    }[name]()


def token_losses(c, logp, old, adv):
    lr = logp - old
    n = MASK.sum(1, keepdim=True).clamp(min=1)
    own = torch.exp(lr)
    level = c.get("level", "token")
    if level == "sequence":
        lr = ((lr * MASK).sum(1, keepdim=True) / n).expand_as(lr)
    elif level == "sequence_sum":
        lr = (lr * MASK).sum(1, keepdim=True).expand_as(lr)
    r = torch.exp(lr)
    low, high = c.get("epsilon", 0), c.get("epsilon_high", c.get("epsilon", 0))
    positive = adv > 0

    def clip():
        free = r.clamp(max=c["delta"]) if "delta" in c else r
        loss = -torch.minimum(free * adv, r.clamp(1 - low, 1 + high) * adv)
        if "dual_clip" in c:
            loss = torch.where(positive, loss, torch.minimum(loss, -c["dual_clip"] * adv))
        return loss

    def sapo():
        tau = torch.where(positive, c.get("sapo_temperature_pos", 1.0), c.get("sapo_temperature_neg", 1.05))
        return -4 / tau * torch.sigmoid(tau * (r - 1)) * adv

    def vespo():
        w = (torch.log(own).clamp(-20, 20) * MASK).sum(1, keepdim=True)
        k, lam = torch.where(positive, 2.0, 3.0), torch.where(positive, 3.0, 2.0)
        return -(torch.exp(w) ** k * torch.exp(lam * (1 - torch.exp(w)))).detach() * adv * logp

    def geo_mean():
        clipped = torch.where(positive, lr.clamp(max=high), lr.clamp(min=-low))
        return -torch.exp((clipped * MASK).sum(1, keepdim=True) / n) * adv

    return r, {
        "no_baseline": lambda: -adv * logp,
        "reinforce_with_baseline": lambda: -adv * logp,
        "grpo_no_clip": lambda: -r * adv,
        "grpo_clip": clip,
        "cispo": lambda: -r.clamp(max=high).detach() * adv * logp,
        "cispo_band": lambda: -r.clamp(1 - low, 1 + high).detach() * adv * logp,
        "sapo": sapo,
        "vespo": vespo,
        "geo_mean": geo_mean,
    }[c["loss"]]()


def loss(c):
    logp = torch.tensor(LOG_PROBS, requires_grad=True)
    old = torch.tensor(LOG_PROBS) - torch.tensor(LOG_RATIO)
    entropies = torch.tensor(ENTROPIES)
    adv = torch.tensor(ADVANTAGE)[:, None].expand_as(logp)
    r, tokens = token_losses(c, logp, old, adv)
    if "off_policy_mask_threshold" in c:
        away = ((old - logp) * MASK).sum(1, keepdim=True) / MASK.sum(1, keepdim=True).clamp(min=1)
        tokens = tokens * ~((adv < 0) & (away > c["off_policy_mask_threshold"]))
    if "beta" in c:
        term = kl(c["kl"], logp, torch.tensor(REF_LOG_PROBS))
        tokens = tokens + c["beta"] * (term * r if c.get("bias_correction") else term)
    total = aggregate(c["aggregation"], tokens, c.get("z", 0))
    total = total - c.get("entropy_coef", 0) * (entropies * MASK).sum() / MASK.sum()
    total.backward()
    return total.item(), logp.grad[MASK]


MEAN = {"aggregation": "masked_mean"}
CLIP = {"loss": "grpo_clip", "epsilon": 0.2}
LOSSES = [
    {"loss": "no_baseline"} | MEAN,
    {"loss": "reinforce_with_baseline", "aggregation": "token-mean"},
    {"loss": "grpo_no_clip"} | MEAN,
    CLIP | MEAN,
    CLIP | {"epsilon_high": 0.28, "aggregation": "token-mean"},
    CLIP | MEAN | {"delta": 1.5, "epsilon_high": 3},
    CLIP | MEAN | {"dual_clip": 3},
    CLIP | {"level": "sequence", "aggregation": "seq-mean-token-mean"},
    CLIP | {"level": "sequence_sum", "aggregation": "masked_normalize", "z": 4},
    {"loss": "cispo", "epsilon_high": 1.5, "aggregation": "token-mean"},
    {"loss": "cispo_band", "epsilon": 0.2, "epsilon_high": 0.3, "aggregation": "token-mean"},
    {"loss": "sapo"} | MEAN,
    {"loss": "vespo", "aggregation": "token-mean"},
    {"loss": "geo_mean", "epsilon": 0.2, "epsilon_high": 0.3} | MEAN,
    CLIP | MEAN | {"beta": 0.1, "kl": "k3"},
    CLIP | MEAN | {"beta": 0.1, "kl": "k3", "bias_correction": True},
    CLIP | MEAN | {"entropy_coef": 0.01},
    CLIP | MEAN | {"off_policy_mask_threshold": 0.02},
]

# KL estimators at differences of log-probabilities, logp - ref.

DIFFERENCES = [-25, -2.3, -0.3, 0, 0.2, 1.7, 14]


def estimate(name):
    d = torch.tensor([float(x) for x in DIFFERENCES], requires_grad=True)
    value = kl(name, d, torch.zeros(len(DIFFERENCES)))
    value.sum().backward()
    return value.detach(), d.grad


def weights(name, z):
    x = torch.tensor(LOG_PROBS, requires_grad=True)
    value = aggregate(name, x, z)
    value.backward()
    return value.item(), x.grad[MASK]


def digits(x):
    """Numbers with 12 significant digits, in lists of any depth; rounding errors become 0."""
    if isinstance(x, torch.Tensor):
        x = x.tolist()
    if isinstance(x, list):
        return [digits(v) for v in x]
    return float(f"{x:.12g}") if abs(x) > 1e-14 else 0


def lines(name, rows):
    return f' "{name}": [\n' + ",\n".join("  " + json.dumps(r) for r in rows) + "\n ]"


def main():
    inputs = {
        "rewards": REWARDS, "lengths": LENGTHS, "greedy": GREEDY, "eps": EPS, "mask": MASK.tolist(), "log_probs": LOG_PROBS,
        "old_log_probs": digits(torch.tensor(LOG_PROBS) - torch.tensor(LOG_RATIO)), "ref_log_probs": REF_LOG_PROBS,
        "entropies": ENTROPIES, "advantages": ADVANTAGE, "differences": DIFFERENCES, "z": 7,
    }
    parts = [' "inputs": {\n' + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in inputs.items()) + "\n }"]
    parts.append(lines("advantages", [
        {"baseline": b, "normalizer": n, "advantages": digits(advantages(b, n).flatten())} for b, n in ADVANTAGES]))
    parts.append(lines("losses", [c | {"value": digits(v), "grad": digits(g)} for c in LOSSES for v, g in [loss(c)]]))
    parts.append(lines("aggregations", [
        {"aggregation": a, "value": digits(v), "weights": digits(w)}
        for a in ["masked_mean", "masked_normalize", "constant", "token-mean", "token-sum",
                  "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
        for v, w in [weights(a, inputs["z"])]]))
    parts.append(lines("kl_estimators", [
        {"kl": e, "value": digits(v), "grad": digits(g)}
        for e in ["k1", "k2", "k3", "abs", "low_var_kl", "k1+", "k3+"] for v, g in [estimate(e)]]))
    sys.stdout.write("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
