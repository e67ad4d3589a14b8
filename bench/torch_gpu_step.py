"""One training step of TinyLM in PyTorch on a GPU, as fast as PyTorch does it.

The step is that of `grpo bench step --device cuda`: a rollout of prompts x group
completions of fixed lengths, then one update by reinforce_with_baseline with
masked_mean, entropy on the side, clipping and AdamW. A prompt is run once for
its group, in the rollout and in the update, and the recurrent state is carried
from token to token, as the Go program does. What the Go program also does on the
host in its step (decoding and grading the texts, metrics) is left out here.

Each phase is written in several ways; the fastest of each is reported:
  rollout  gru        torch.nn.GRU (cuDNN), a token at a time
           cell       the cell by hand, input products looked up in a table
           graph      all tokens of "cell" as one CUDA graph
           compiled   all tokens of "cell", each through torch.compile, as one CUDA graph
  update   gru        torch.nn.GRU (cuDNN) and autograd, fused AdamW
           graph      the same, forward, backward and AdamW, as one CUDA graph
           compiled   the same with head and loss through torch.compile, as one CUDA graph

A way that fails on a version of PyTorch is left out, and named under "left_out".

    python3 bench/torch_gpu_step.py --hidden 64 --prompts 512 --json
"""

import argparse
import json
import statistics
import sys
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
        return [getattr(self.gru, f"{n}_l{i}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def draw(logits):
    """Tokens by the inverse of the cumulative distribution, and their log-probabilities."""
    logp = torch.log_softmax(logits, -1)
    cum = torch.cumsum(logp.exp(), -1)
    u = torch.rand(logits.shape[0], 1, device=logits.device) * cum[:, -1:]
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
    return n + z * (h - n)


def advance(w, table, token, h):
    gi, out = table[token], []
    for i, (wih, whh, bih, bhh) in enumerate(w):
        if i > 0:
            gi = torch.addmm(bih, out[-1], wih.T)
        out.append(gates(gi, torch.addmm(bhh, h[i], whh.T), h[i]))
    return out


def token_step(w, table, head_w, head_b, h):
    token, logp = draw(torch.addmm(head_b, h[-1], head_w.T))
    return token, logp, advance(w, table, token[:, 0], h)


def rollout_cell(m, prompts, group, steps, one=token_step):
    w = [m.layer(i) for i in range(m.gru.num_layers)]
    table = torch.addmm(w[0][2], m.embed.weight, w[0][0].T)
    _, h = m.gru(m.embed(prompts))
    h = [x.repeat_interleave(group, 0) for x in h]
    tokens, logps = [], []
    for _ in range(steps):
        token, logp, h = one(w, table, m.head.weight, m.head.bias, h)
        tokens.append(token)
        logps.append(logp)
    return torch.cat(tokens, 1), torch.cat(logps, 1)


def recorded(f, warm=3):
    """f as a CUDA graph: a function that replays it and returns its result."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm):
            f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f()

    def replay():
        graph.replay()
        return out

    return replay


def head_loss(h, weight, bias, tokens, advantages):
    logp = torch.log_softmax(torch.matmul(h, weight.T) + bias, -1)
    chosen = logp.gather(2, tokens[..., None])[..., 0]
    entropy = -(logp.detach().exp() * logp.detach()).sum(-1).mean()
    return -(advantages[None] * chosen).mean(0).mean(), entropy


def update(m, opt, prompts, tokens, advantages, group, loss_of=head_loss):
    inputs = tokens[:, :-1].T
    _, h0 = m.gru(m.embed(prompts))
    h0 = h0.repeat_interleave(group, 1).contiguous()
    out, _ = m.gru(m.embed(inputs), h0)
    h = torch.cat((h0[-1:], out), 0)
    loss, entropy = loss_of(h, m.head.weight, m.head.bias, tokens.T, advantages)
    opt.zero_grad(set_to_none=False)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0, foreach=True)
    opt.step()
    return loss.detach(), norm, entropy


def optimizer(m, capturable):
    why = []
    for extra in ({"fused": True}, {"foreach": True}):
        try:
            opt = torch.optim.AdamW(m.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, capturable=capturable, **extra)
            for p in m.parameters():
                p.grad = torch.zeros_like(p)
            opt.step()
            return opt
        except (TypeError, RuntimeError) as e:
            why.append(str(e).splitlines()[0])
    raise SystemExit(f"no AdamW works here: {'; '.join(why)}")


def seconds(f, times):
    """Median seconds of f, the device waited for, after two runs that don't count."""
    taken = []
    for i in range(times + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[2:])


def ceilings():
    """Operations a second of a large product, bytes a second of a large copy."""
    a, b = torch.randn(8192, 8192, device="cuda"), torch.randn(8192, 8192, device="cuda")
    flops = 2 * 8192**3 / seconds(lambda: a @ b, 5)
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    return flops, 2 * x.numel() * 4 / seconds(lambda: y.copy_(x), 5)


def main():
    p = argparse.ArgumentParser()
    for name, value in dict(prompts=32, group=8, prompt_len=64, response_len=64, hidden=64, layers=2, steps=20).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    p.add_argument("--json", action="store_true")
    p.add_argument("--tf32", action="store_true", help="products with operands of 11 bits, as --precision tf32")
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes a minute to start")
    p.add_argument("--ways", help="ROLLOUT,UPDATE: only these, e.g. those that an earlier run found the fastest")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.tf32
    dev = "cuda"
    m = TinyLM(a.hidden, a.layers, VOCAB).to(dev)
    m.gru.flatten_parameters()
    prompts = torch.randint(VOCAB, (a.prompt_len, a.prompts), device=dev)
    advantages = torch.randn(a.prompts * a.group, device=dev)
    left_out = {}
    rollouts, updates = {}, {}
    only = a.ways.split(",") if a.ways else None

    def attempt(table, name, make):
        if only and name != only[table is updates]:
            return
        try:
            f = make()
            f()
            torch.cuda.synchronize()
            table[name] = f
        except Exception as e:  # noqa: BLE001 (leave out variants in which PyTorch fails)
            left_out[name] = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            torch.cuda.synchronize()

    with torch.inference_mode(False), torch.no_grad():
        attempt(rollouts, "gru", lambda: lambda: rollout_gru(m, prompts, a.group, a.response_len))
        attempt(rollouts, "cell", lambda: lambda: rollout_cell(m, prompts, a.group, a.response_len))
        attempt(rollouts, "graph", lambda: recorded(lambda: rollout_cell(m, prompts, a.group, a.response_len)))
        if not a.no_compile:
            attempt(rollouts, "compiled", lambda: (lambda one: recorded(lambda: rollout_cell(m, prompts, a.group, a.response_len, one)))(
                torch.compile(token_step, dynamic=False)))
        tokens, logps = next(iter(rollouts.values()))()
        tokens = tokens.clone()
        assert tokens.shape == (a.prompts * a.group, a.response_len) and bool((logps <= 0).all())

    eager = optimizer(m, False)
    attempt(updates, "gru", lambda: lambda: update(m, eager, prompts, tokens, advantages, a.group))
    capturable = optimizer(m, True)
    attempt(updates, "graph", lambda: recorded(lambda: update(m, capturable, prompts, tokens, advantages, a.group)))
    if not a.no_compile:
        attempt(updates, "compiled", lambda: (lambda loss: recorded(lambda: update(m, capturable, prompts, tokens, advantages, a.group, loss)))(
            torch.compile(head_loss, dynamic=False)))

    median = {}
    with torch.no_grad():
        for name, f in rollouts.items():
            median["rollout", name] = seconds(f, a.steps)

    def with_results(f):  # the program reads loss, norm and entropy of each step
        return lambda: [float(x) for x in f()]

    for name, f in updates.items():
        median["update", name] = seconds(with_results(f), a.steps)

    def best(phase):
        return min((v, k[1]) for k, v in median.items() if k[0] == phase)

    (r, how_r), (u, how_u) = best("rollout"), best("update")
    flops, copy = ceilings()
    out = {
        "torch": torch.__version__, "device": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(), "tf32": a.tf32,
        "hidden": a.hidden, "params": sum(x.numel() for x in m.parameters()),
        "rollout_s": r, "rollout": how_r, "update_s": u, "update": how_u, "step_s": r + u,
        "all": {f"{k[0]} {k[1]}": v for k, v in median.items()}, "left_out": left_out,
        "matmul_flops": flops, "copy_bytes_per_s": copy,
    }
    if a.json:
        print(json.dumps(out))
        return
    print(f"torch {out['torch']} on {out['device']}, {out['params']} parameters, medians of {a.steps}")
    for k, v in out["all"].items():
        print(f"  {k:18s} {1000 * v:8.2f} ms")
    for k, v in left_out.items():
        print(f"  {k} left out: {v}")
    print(f"  best step          {1000 * (r + u):8.2f} ms")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use")
    main()
