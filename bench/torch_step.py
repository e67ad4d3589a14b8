"""One training step of TinyLM in PyTorch on the CPU, as fast as PyTorch does it.

The step is that of `grpo bench step`: a rollout of prompts x group completions
of fixed lengths, then one update by reinforce_with_baseline with masked_mean,
entropy on the side, clipping and AdamW. What the Go program leaves out is left
out here too: a prompt is run once for its group, in the rollout and in the
update, and the recurrent state is carried from token to token.

Each phase is written in several ways; the fastest of each is reported:
  rollout  gru      torch.nn.GRU, a token at a time
           cell     the cell by hand, with the input products looked up in a table
           compiled the same through torch.compile (where torch has it)
  update   gru      torch.nn.GRU and autograd
           bptt     the backward pass by hand: gates in one expression, and each
                    weight's gradient as one product over all steps
           compiled the same, with the gates through torch.compile

    python3 bench/torch_step.py --hidden 64 --threads 1 --steps 20 --json
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

VOCAB = 100


class TinyLM(torch.nn.Module):
    def __init__(self, hidden, layers, vocab):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, hidden)
        self.gru = torch.nn.GRU(hidden, hidden, layers, batch_first=False)
        self.head = torch.nn.Linear(hidden, vocab)

    def layer(self, i):
        g = self.gru
        return [getattr(g, f"{n}_l{i}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def draw(logits):
    """Tokens by the inverse of the cumulative distribution, and their log-probabilities."""
    logp = torch.log_softmax(logits, -1)
    cum = torch.cumsum(logp.exp(), -1)
    u = torch.rand(logits.shape[0], 1) * cum[:, -1:]
    token = torch.searchsorted(cum, u).clamp_(max=logits.shape[1] - 1)
    return token, logp.gather(1, token)


def rollout_gru(m, prompts, group, steps):
    _, h = m.gru(m.embed(prompts))
    h = h.repeat_interleave(group, 1).contiguous()
    tokens, logps = [], []
    for t in range(steps):
        token, logp = draw(m.head(h[-1]))
        tokens.append(token)
        logps.append(logp)
        if t + 1 < steps:
            _, h = m.gru(m.embed(token.T), h)
    return torch.cat(tokens, 1), torch.cat(logps, 1)


def gates(gi, gh, h):
    ir, iz, n = gi.chunk(3, 1)
    hr, hz, hn = gh.chunk(3, 1)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    n = torch.tanh(n + r * hn)
    return n + z * (h - n), r, z, n


def gates_back(d, r, z, n, hn, h):
    dn = d * (1 - z) * (1 - n * n)
    dz = d * (h - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    return torch.cat((dr, dz, dn), 1), torch.cat((dr, dz, dn * r), 1), d * z


def advance(m, w, table, token, h, cell):
    gi = table[token]
    out = []
    for i, (wih, whh, bih, bhh) in enumerate(w):
        if i > 0:
            gi = torch.addmm(bih, out[-1], wih.T)
        out.append(cell(gi, torch.addmm(bhh, h[i], whh.T), h[i])[0])
    return out


def rollout_cell(m, prompts, group, steps, cell=gates):
    w = [m.layer(i) for i in range(m.gru.num_layers)]
    table = torch.addmm(w[0][2], m.embed.weight, w[0][0].T)
    h = [torch.zeros(prompts.shape[1], m.gru.hidden_size) for _ in w]
    for t in range(prompts.shape[0]):
        h = advance(m, w, table, prompts[t], h, cell)
    h = [x.repeat_interleave(group, 0) for x in h]
    tokens, logps = [], []
    for t in range(steps):
        token, logp = draw(m.head(h[-1]))
        tokens.append(token)
        logps.append(logp)
        if t + 1 < steps:
            h = advance(m, w, table, token[:, 0], h, cell)
    return torch.cat(tokens, 1), torch.cat(logps, 1)


def make_layer(cell, back):
    class Layer(torch.autograd.Function):
        """A GRU layer over a sequence: gi (T,B,3H) holds the input products."""

        @staticmethod
        def forward(ctx, gi, h0, whh, bhh):
            steps, rows = gi.shape[:2]
            hs = torch.empty(steps + 1, rows, whh.shape[1])
            ghs = torch.empty(steps, rows, whh.shape[0])
            kept = []
            hs[0] = h0
            wt = whh.T
            for t in range(steps):
                torch.addmm(bhh, hs[t], wt, out=ghs[t])
                h, r, z, n = cell(gi[t], ghs[t], hs[t])
                hs[t + 1] = h
                kept.append((r, z, n))
            ctx.kept = kept
            ctx.save_for_backward(hs, ghs, whh)
            return hs[1:]

        @staticmethod
        def backward(ctx, dout):
            hs, ghs, whh = ctx.saved_tensors
            hidden = whh.shape[1]
            dgi, dgh = torch.empty_like(ghs), torch.empty_like(ghs)
            d = torch.zeros_like(hs[0])
            for t in range(ghs.shape[0] - 1, -1, -1):
                r, z, n = ctx.kept[t]
                a, b, direct = back(dout[t] + d, r, z, n, ghs[t][:, 2 * hidden:], hs[t])
                dgi[t], dgh[t] = a, b
                d = torch.addmm(direct, b, whh)
            flat = dgh.flatten(0, 1)
            return dgi, d, flat.T @ hs[:-1].flatten(0, 1), flat.sum(0)

    return Layer.apply


def states_gru(m, prompts, inputs, group):
    _, h = m.gru(m.embed(prompts))
    h = h.repeat_interleave(group, 1).contiguous()
    out, _ = m.gru(m.embed(inputs), h)
    return torch.cat((h[-1:], out), 0)


def states_bptt(layer):
    def states(m, prompts, inputs, group):
        x = y = None
        for i in range(m.gru.num_layers):
            wih, whh, bih, bhh = m.layer(i)
            if i == 0:
                table = torch.addmm(bih, m.embed.weight, wih.T)
                gx, gy = F.embedding(prompts, table), F.embedding(inputs, table)
            else:
                gx, gy = F.linear(x, wih, bih), F.linear(y, wih, bih)
            x = layer(gx, torch.zeros(prompts.shape[1], whh.shape[1]), whh, bhh)
            first = x[-1].repeat_interleave(group, 0)
            y = layer(gy, first, whh, bhh)
        return torch.cat((first[None], y), 0)

    return states


def update(m, opt, prompts, tokens, advantages, group, states):
    h = states(m, prompts, tokens[:, :-1].T, group)  # (T, B, H)
    logits = m.head(h)
    logp = torch.log_softmax(logits, -1)
    chosen = logp.gather(2, tokens.T[..., None])[..., 0]
    with torch.no_grad():
        entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(advantages[None] * chosen).mean(0).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    return float(loss.detach()), float(norm), float(entropy)


def optimizer(m):
    for extra in ({"fused": True}, {"foreach": True}, {}):
        try:
            opt = torch.optim.AdamW(m.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, **extra)
            for p in m.parameters():
                p.grad = torch.zeros_like(p)
            opt.step()
            return opt
        except (TypeError, RuntimeError):
            continue
    raise SystemExit("no AdamW works here")


def check(m, prompts, tokens, advantages, group, ways):
    """All ways of writing the update give the same gradient."""
    want = None
    for name, states in ways.items():
        m.zero_grad()
        h = states(m, prompts, tokens[:, :-1].T, group)
        chosen = torch.log_softmax(m.head(h), -1).gather(2, tokens.T[..., None])[..., 0]
        (-(advantages[None] * chosen).mean()).backward()
        got = torch.cat([p.grad.flatten() for p in m.parameters()])
        if want is None:
            want = got
        elif not torch.allclose(want, got, rtol=1e-3, atol=1e-6):
            raise SystemExit(f"{name}: another gradient, off by {float((want - got).abs().max())}")


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(prompts=32, group=8, prompt_len=64, response_len=24, hidden=64, layers=2, steps=20, threads=1).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    p.add_argument("--json", action="store_true")
    p.add_argument("--compile", action="store_true", help="try torch.compile too (needs a C++ compiler; slow to start)")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    m = TinyLM(a.hidden, a.layers, VOCAB)
    opt = optimizer(m)
    prompts = torch.randint(VOCAB, (a.prompt_len, a.prompts))
    advantages = torch.randn(a.prompts * a.group)

    rollouts = {"gru": rollout_gru, "cell": rollout_cell}
    updates = {"gru": states_gru, "bptt": states_bptt(make_layer(gates, gates_back))}
    if a.compile:
        cell, back = torch.compile(gates, dynamic=True), torch.compile(gates_back, dynamic=True)
        rollouts["compiled"] = lambda *x: rollout_cell(*x, cell=cell)
        updates["compiled"] = states_bptt(make_layer(cell, back))

    with torch.inference_mode():
        tokens, _ = rollout_gru(m, prompts, a.group, a.response_len)
    tokens = tokens.clone()
    check(m, prompts, tokens, advantages, a.group, updates)

    times = {("rollout", k): [] for k in rollouts} | {("update", k): [] for k in updates}
    for step in range(a.steps + 1):
        for name, f in rollouts.items():
            begin = time.perf_counter()
            with torch.inference_mode():
                f(m, prompts, a.group, a.response_len)
            times["rollout", name].append(time.perf_counter() - begin)
        for name, f in updates.items():
            begin = time.perf_counter()
            update(m, opt, prompts, tokens, advantages, a.group, f)
            times["update", name].append(time.perf_counter() - begin)
    median = {k: statistics.median(v[1:]) for k, v in times.items()}  # the first warms up

    def best(phase):
        return min((v, k[1]) for k, v in median.items() if k[0] == phase)

    (r, how_r), (u, how_u) = best("rollout"), best("update")
    out = {
        "torch": torch.__version__, "threads": a.threads, "hidden": a.hidden, "params": sum(p.numel() for p in m.parameters()),
        "rollout_s": r, "rollout": how_r, "update_s": u, "update": how_u, "step_s": r + u,
        "all": {f"{k[0]} {k[1]}": v for k, v in median.items()},
    }
    if a.json:
        print(json.dumps(out))
        return
    print(f"torch {out['torch']}, {a.threads} threads, {out['params']} parameters, medians of {a.steps}")
    for k, v in out["all"].items():
        print(f"  {k:18s} {1000 * v:8.2f} ms")
    print(f"  best step          {1000 * (r + u):8.2f} ms")


if __name__ == "__main__":
    main()
