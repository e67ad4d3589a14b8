"""One GRPO step of a Llama or Qwen2 network in PyTorch on a GPU, as fast as PyTorch does it.

The step is that of `grpo bench step --model --device cuda --prompt-len --response-len`: a rollout of
prompts x group completions of fixed lengths, then one update by reinforce_with_baseline with a mean
over tokens, entropies on the side, clipping and AdamW, of all weights or of LoRA adapters to all linear
layers. Weights are random. Only torch is needed. What grpo also does on the host in its step (decoding
and grading the texts, metrics) and the entropies of its sampler are left out here.

With --precision bf16 weights, activations and their gradients are bfloat16; AdamW updates weights in
float32 of which these are copies. LoRA's base has no copy in float32; the rollout adds the adapters to
a copy of it first.

Each phase is written in several ways, which are tried once; the fastest is then measured:
  rollout  sdpa       a token at a time, a cache for each completion, scaled_dot_product_attention
           shared     the same, but a group reads its prompt's cache once, and attention is two matmuls
           ... graph  a step as a CUDA graph, one for each 64 tokens of the cache that it reads
           ... compiled graph   the same with all but attention through torch.compile
  update   shared     prompts run once for their group; completions attend to them
           full       each completion runs with its prompt
           ... compiled   the same with all but attention through torch.compile
The loss computes the logits of --chunk tokens at a time and their gradient in the forward pass, so no
logits are kept. The update is cut into micro-batches of --micro-groups groups, or keeps only the input
of each layer with --checkpointing.

    python3 bench/torch_gpu_decoder.py --shape smollm2 --precision bf16 --json
    python3 bench/torch_gpu_decoder.py --shape qwen2.5-1.5b --precision bf16 --lora-rank 16 --micro-groups 8
    python3 bench/torch_gpu_decoder.py --shape tiny --prompts 2 --group 2 --prompt-len 5 --response-len 6  # also without a GPU
"""

import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.utils.checkpoint import checkpoint

SHAPES = {  # vocab, hidden, ffn, layers, heads, kv_heads, head_dim, theta, bias
    "smollm2": (49152, 576, 1536, 30, 9, 3, 64, 1e5, False),
    "qwen2.5-1.5b": (151936, 1536, 8960, 28, 12, 2, 128, 1e6, True),
    "tiny": (260, 24, 40, 2, 4, 2, 8, 1e4, True),
}
BUCKET = 64  # tokens of the cache by which the graphs of decoding differ


class Net:
    """Weights by name, in the precision of the matmuls, and what is trained, in float32."""

    def __init__(self, shape, dtype, rank, dev):
        self.vocab, self.hidden, self.ffn, self.layers, self.heads, self.kv, self.dim, self.theta, self.bias = SHAPES[shape]
        self.dtype, self.dev, self.rank = dtype, dev, rank
        q, k, h, f = self.heads * self.dim, self.kv * self.dim, self.hidden, self.ffn
        self.splits = {"qkv": [q, k, k], "o": [h], "gu": [f, f], "down": [h]}
        ins = {"qkv": h, "o": q, "gu": h, "down": f}
        make = lambda *s: torch.randn(*s, device=dev) * 0.02  # noqa: E731
        w = {"embed": make(self.vocab, h), "norm": torch.ones(h, device=dev)}
        adapters = {}
        for i in range(self.layers):
            for name, parts in self.splits.items():
                w[f"{i}.{name}"] = make(sum(parts), ins[name])
                if rank:
                    adapters[f"{i}.{name}.a"] = make(rank * len(parts), ins[name])
                    for j, n in enumerate(parts):
                        adapters[f"{i}.{name}.b{j}"] = torch.zeros(n, rank, device=dev)
            w[f"{i}.n1"], w[f"{i}.n2"] = torch.ones(h, device=dev), torch.ones(h, device=dev)
            if self.bias:
                w[f"{i}.bias"] = torch.zeros(q + 2 * k, device=dev)
        self.count = sum(x.numel() for x in w.values())
        self.trained = sum(x.numel() for x in (adapters or w).values())
        self.master = adapters if rank else w
        work = {n: x.to(dtype) for n, x in {**w, **adapters}.items()}
        for n in self.master:  # a leaf of its own in every precision
            work[n] = (self.master[n] if dtype == torch.float32 else work[n]).requires_grad_()
        self.w = work
        if dtype == torch.float32:
            self.master = {n: work[n] for n in self.master}
        self.opt = adamw([x.detach().requires_grad_() if dtype != torch.float32 else x for x in self.master.values()], dev)

    def layer(self, i):
        return {n.split(".", 1)[1]: x for n, x in self.w.items() if n.split(".", 1)[0] == str(i)}

    def merged(self, into):
        """The layers' weights with the adapters added, in the tensors of an earlier call."""
        if not self.rank:
            return [self.layer(i) for i in range(self.layers)]
        into = into or [{n: x.clone() for n, x in self.layer(i).items() if n.split(".")[0] == n} for i in range(self.layers)]
        for i, to in enumerate(into):
            w = self.layer(i)
            for name, parts in self.splits.items():
                low, lo = w[name + ".a"].split(self.rank), 0
                for j, n in enumerate(parts):
                    torch.addmm(w[name][lo:lo + n], w[f"{name}.b{j}"], low[j], alpha=2.0, out=to[name][lo:lo + n])
                    lo += n
        return into

    def refresh(self):
        """AdamW's update and the copies of the weights in the precision of the matmuls."""
        params = self.opt.param_groups[0]["params"]
        leaves = [self.w[n] for n in self.master]
        if self.dtype != torch.float32:
            for p, x in zip(params, leaves):
                p.grad = x.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        self.opt.step()
        if self.dtype != torch.float32:
            with torch.no_grad():
                torch._foreach_copy_(leaves, [p.detach() for p in params])
        for x in leaves:
            x.grad = None
        return norm


def adamw(params, dev):
    return torch.optim.AdamW(params, lr=1e-5, betas=(0.9, 0.99), weight_decay=0.0, fused=dev == "cuda" or None)


def rms(x, w):
    return F.rms_norm(x, w.shape, w, 1e-6)


def linear(w, name, x, parts):
    y = F.linear(x, w[name], w.get("bias") if name == "qkv" else None)
    if name + ".a" not in w:
        return y
    low = F.linear(x, w[name + ".a"]) * 2.0  # alpha / rank = 32 / 16
    rank = low.shape[-1] // len(parts)
    return y + torch.cat([F.linear(low[..., j * rank:(j + 1) * rank], w[f"{name}.b{j}"]) for j in range(len(parts))], -1)


def rotate(x, cos, sin):  # x (..., tokens, dim)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def project(w, x, net, cos, sin):
    """Queries, keys and values, (rows, heads, tokens, dim)."""
    b, t, _ = x.shape
    q, k, v = linear(w, "qkv", rms(x, w["n1"]), net.splits["qkv"]).split(net.splits["qkv"], -1)
    heads = lambda y, n: y.view(b, t, n, net.dim).transpose(1, 2)  # noqa: E731
    return rotate(heads(q, net.heads), cos, sin), rotate(heads(k, net.kv), cos, sin), heads(v, net.kv)


def rest(w, x, out, net):
    x = x + linear(w, "o", out, net.splits["o"])
    g, u = linear(w, "gu", rms(x, w["n2"]), net.splits["gu"]).split(net.ffn, -1)
    return x + linear(w, "down", F.silu(g) * u, net.splits["down"])


def block(parts, w, x, net, cos, sin, before, group):
    """A layer over rows of tokens. before: keys and values of the prompts, each for group rows. parts:
    what comes before and after attention, [project, rest], through torch.compile or not."""
    b, t, _ = x.shape
    q, k, v = parts[0](w, x, net, cos, sin)
    kk, vv = k, v
    if before is not None:
        kk = torch.cat((before[0].repeat_interleave(group, 0), k), 2)
        vv = torch.cat((before[1].repeat_interleave(group, 0), v), 2)
    n = net.heads // net.kv
    kk, vv = kk.repeat_interleave(n, 1), vv.repeat_interleave(n, 1)
    if before is None:
        out = F.scaled_dot_product_attention(q, kk, vv, is_causal=True)
    else:
        out = F.scaled_dot_product_attention(q, kk, vv, attn_mask=causal_lower_right(t, kk.shape[2]))
    return parts[1](w, x, out.transpose(1, 2).reshape(b, t, -1), net), k, v


def angles(net, positions):
    f = net.theta ** (-torch.arange(0, net.dim, 2, device=net.dev).float() / net.dim)
    a = positions[:, None].float() * f
    return a.cos().to(net.dtype), a.sin().to(net.dtype)


def layers(net, x, start, before, group, parts, keep):
    """All layers; before and the result are lists of keys and values of each."""
    cos, sin = angles(net, torch.arange(start, start + x.shape[1], device=net.dev))
    out = []
    for i in range(net.layers):
        run = (lambda *a: checkpoint(block, *a, use_reentrant=False)) if keep == "inputs" else block
        x, k, v = run(parts, net.layer(i), x, net, cos, sin, before and before[i], group)
        out.append((k, v))
    return x, out


# ---- rollout


def draw(logits):
    """Tokens by exponential races, and their log-probabilities."""
    logits = logits.float()
    token = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1, keepdim=True)
    return token, logits.gather(1, token) - logits.logsumexp(-1, keepdim=True)


def attend_each(q, k, v, seen, shared, group, net):
    """One token of each row over its own cache of prompt and completion; a key head's queries are rows."""
    n = q.shape[0]
    out = F.scaled_dot_product_attention(q.view(n, net.kv, -1, net.dim), k, v, attn_mask=seen)
    return out.reshape(n, 1, -1)


def attend_shared(q, k, v, seen, shared, group, net):
    """The same over the prompt's cache, read once for its group, and the row's own."""
    n, r = q.shape[0], net.heads // net.kv
    p = n // group
    ks, vs = shared
    mine = q.view(n, net.kv, r, net.dim)
    grouped = mine.view(p, group, net.kv, r, net.dim).transpose(1, 2).reshape(p, net.kv, group * r, net.dim)
    scale = 1 / math.sqrt(net.dim)
    first = (grouped @ ks.transpose(2, 3)).view(p, net.kv, group, r, -1).transpose(1, 2).reshape(n, net.kv, r, -1)
    own = (mine @ k.transpose(2, 3)) + seen
    weights = torch.cat((first, own), -1).float().mul(scale).softmax(-1).to(q.dtype)
    a, b = weights.split([ks.shape[2], k.shape[2]], -1)
    a = a.reshape(p, group, net.kv, r, -1).transpose(1, 2).reshape(p, net.kv, group * r, -1)
    out = (a @ vs).view(p, net.kv, group, r, net.dim).transpose(1, 2).reshape(n, net.kv, r, net.dim)
    return (out + b @ v).reshape(n, 1, -1)


def decode_block(parts, w, x, net, cos, sin, cache, shared, at, upto, seen, group, attend):
    q, k, v = parts[0](w, x, net, cos, sin)
    cache[0].index_copy_(2, at, k)
    cache[1].index_copy_(2, at, v)
    out = attend(q, cache[0][:, :, :upto], cache[1][:, :, :upto], seen, shared, group, net)
    return parts[1](w, x, out, net)


class Rollout:
    """The state of sampling, static so that a step can be recorded."""

    def __init__(self, net, a, shared, parts):
        self.net, self.a, self.parts, n = net, a, parts, a.prompts * a.group
        self.attend, self.offset = (attend_shared, 0) if shared else (attend_each, a.prompt_len)
        size = self.offset + a.response_len
        zeros = lambda *s: torch.zeros(*s, device=net.dev, dtype=net.dtype)  # noqa: E731
        self.cache = [[zeros(n, net.kv, size, net.dim) for _ in "kv"] for _ in range(net.layers)]
        self.prompt = [[zeros(a.prompts, net.kv, a.prompt_len, net.dim) for _ in "kv"] for _ in range(net.layers)]
        self.size, self.graphs, self.w = size, {}, None
        self.at = torch.zeros(1, dtype=torch.long, device=net.dev)
        self.token = torch.zeros(n, 1, dtype=torch.long, device=net.dev)
        self.tokens = torch.zeros(n, a.response_len, dtype=torch.long, device=net.dev)
        self.logps = torch.zeros(n, a.response_len, device=net.dev)
        self.cos, self.sin = angles(net, torch.arange(a.prompt_len + a.response_len, device=net.dev))

    def step(self, upto):
        """Runs the last tokens and samples the next; at counts the tokens of the completions."""
        net, at = self.net, self.at + self.offset
        x = net.w["embed"][self.token]
        cos, sin = self.cos[self.at + self.a.prompt_len], self.sin[self.at + self.a.prompt_len]
        seen = torch.zeros(1, upto, device=net.dev, dtype=net.dtype).masked_fill_(
            torch.arange(upto, device=net.dev)[None] > at, -math.inf).view(1, 1, 1, upto)
        for i in range(net.layers):
            x = decode_block(self.parts, self.w[i], x, net, cos, sin, self.cache[i], self.prompt[i], at, upto, seen, self.a.group, self.attend)
        self.at += 1
        self.sample(x[:, 0])

    def sample(self, x):
        token, logp = self.parts[2](rms(x, self.net.w["norm"]) @ self.net.w["embed"].T)
        self.token.copy_(token)
        self.tokens.index_copy_(1, self.at, token)
        self.logps.index_copy_(1, self.at, logp)

    def run(self, prompts, recorded):
        with torch.no_grad():
            a, net = self.a, self.net
            self.w = net.merged(self.w)
            x, kv = layers(net, net.w["embed"][prompts], 0, None, 1, (project, rest), "")
            for i, pair in enumerate(kv):
                for j in range(2):
                    if self.offset == 0:
                        self.prompt[i][j].copy_(pair[j])
                    else:
                        self.cache[i][j][:, :, :a.prompt_len].copy_(pair[j].repeat_interleave(a.group, 0))
            self.at.zero_()
            self.sample(x[:, -1].repeat_interleave(a.group, 0))
            for t in range(1, a.response_len):
                upto = min(self.size, (self.offset + t + BUCKET - 1) // BUCKET * BUCKET)
                if not recorded:
                    self.step(upto)
                    continue
                if upto not in self.graphs:
                    saved = self.at.clone(), self.token.clone()
                    self.graphs[upto] = record(lambda: self.step(upto))
                    self.at.copy_(saved[0])
                    self.token.copy_(saved[1])
                self.graphs[upto].replay()
            return self.tokens, self.logps


def record(f):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        f()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    return graph


# ---- update


def chunk_loss(h, w, targets, coef):
    """Loss and entropies of some tokens, the gradient of the logits, and log-probabilities."""
    logits = (h @ w.T).float()
    lse = logits.logsumexp(-1, keepdim=True)
    p = (logits - lse).exp()
    entropy = lse[:, 0] - (p * logits).sum(-1)
    logp = logits.gather(1, targets[:, None])[:, 0] - lse[:, 0]
    d = (p * coef[:, None]).scatter_add(1, targets[:, None], -coef[:, None])
    return logp, entropy.sum(), d.to(h.dtype)


class HeadLoss(torch.autograd.Function):
    """sum of -coef · log p(target), with the gradients computed in the forward pass."""

    @staticmethod
    def forward(ctx, h, w, targets, coef, size, one, want_w):
        dh, dw = torch.empty_like(h), torch.zeros_like(w, dtype=torch.float32) if want_w else None
        loss, entropy, logps = 0.0, 0.0, []
        for lo in range(0, h.shape[0], size):
            part = slice(lo, lo + size)
            logp, e, d = one(h[part], w, targets[part], coef[part])
            torch.mm(d, w, out=dh[part])
            if want_w:
                dw += d.T @ h[part]
            loss, entropy = loss - (coef[part] * logp).sum(), entropy + e
            logps.append(logp)
        ctx.save_for_backward(dh, dw.to(w.dtype) if want_w else None)
        ctx.mark_non_differentiable(entropy)
        return loss, entropy, torch.cat(logps)

    @staticmethod
    def backward(ctx, dloss, *_):
        dh, dw = ctx.saved_tensors
        return dh * dloss.to(dh.dtype), dw if dw is None else dw * dloss.to(dw.dtype), None, None, None, None, None


def update(net, a, prompts, tokens, advantages, shared, parts, loss_of):
    total, logps, entropy = a.prompts * a.group * a.response_len, [], 0.0
    keep, embed = "inputs" if a.checkpointing else "", net.w["embed"]
    for lo in range(0, a.prompts, a.micro_groups):
        p = prompts[lo:lo + a.micro_groups]
        rows = slice(lo * a.group, (lo + a.micro_groups) * a.group)
        t = tokens[rows]
        if shared:
            first, kv = layers(net, F.embedding(p, embed), 0, None, 1, parts, keep)
            h, _ = layers(net, F.embedding(t[:, :-1], embed), a.prompt_len, kv, a.group, parts, keep)
            h = torch.cat((first[:, -1:].repeat_interleave(a.group, 0), h), 1)
        else:
            both = torch.cat((p.repeat_interleave(a.group, 0), t[:, :-1]), 1)
            h, _ = layers(net, F.embedding(both, embed), 0, None, 1, parts, keep)
            h = h[:, a.prompt_len - 1:]
        h = rms(h, net.w["norm"]).reshape(-1, net.hidden)
        coef = (advantages[rows] / total).repeat_interleave(a.response_len)
        loss, e, logp = HeadLoss.apply(h, embed, t.reshape(-1), coef, a.chunk, loss_of, not net.rank)
        loss.backward()
        logps.append(logp.detach())
        entropy = entropy + e.detach()
    return net.refresh(), entropy, torch.cat(logps).view(len(tokens), -1)


# ---- measuring


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(f, times):
    """Median seconds of f, the device waited for, after a run that doesn't count."""
    taken = []
    for i in range(times + 1):
        wait()
        begin = time.perf_counter()
        f()
        wait()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[1:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", choices=list(SHAPES), default="smollm2")
    p.add_argument("--precision", choices=["float32", "tf32", "bf16"], default="float32")
    for name, value in dict(prompts=32, group=8, prompt_len=128, response_len=128, lora_rank=0, micro_groups=32, chunk=8192, steps=5).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    p.add_argument("--checkpointing", action="store_true")
    p.add_argument("--ways", help="ROLLOUT,UPDATE: only these, e.g. those that an earlier run found the fastest")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    torch.manual_seed(1)
    on_gpu = torch.cuda.is_available()
    dev = "cuda" if on_gpu else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
    torch._dynamo.config.cache_size_limit = 32  # shapes and gradients of the phases, 8 by default
    net = Net(a.shape, torch.bfloat16 if a.precision == "bf16" else torch.float32, a.lora_rank, dev)
    prompts = torch.randint(net.vocab, (a.prompts, a.prompt_len), device=dev)
    advantages = torch.randn(a.prompts * a.group, device=dev)
    only, left_out, compiled = a.ways.split(",") if a.ways else None, {}, {}

    def through_compile(*functions):
        for f in functions:
            if f not in compiled:
                compiled[f] = torch.compile(f, dynamic=False)
        return [compiled[f] for f in functions]

    def fastest(phase, ways):
        """The way with the fewest seconds in one run after a run that does not count."""
        best = (math.inf, None, None)
        for name, make in ways.items():
            if only and name != only[phase == "update"]:
                continue
            try:
                f = make()
                best = min(best, (seconds(f, 1), name, f), key=lambda x: x[0])
            except Exception as e:  # noqa: BLE001 (leave out ways in which PyTorch fails)
                left_out[f"{phase} {name}"] = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            f = None
            if on_gpu:
                torch.cuda.empty_cache()
        if best[1] is None:
            raise SystemExit(f"no {phase} works here: {left_out}")
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        return seconds(best[2], a.steps), best[1], best[2](), torch.cuda.max_memory_allocated() if on_gpu else 0

    def rollouts(shared, recorded, fast):
        def make():
            r = Rollout(net, a, shared, through_compile(project, rest, draw) if fast else (project, rest, draw))
            return lambda: r.run(prompts, recorded)
        return make

    ways = {"sdpa": rollouts(False, False, False), "shared": rollouts(True, False, False)}
    if on_gpu:
        for name, shared in (("sdpa", False), ("shared", True)):
            ways[name + " graph"], ways[name + " compiled graph"] = rollouts(shared, True, False), rollouts(shared, True, True)
    roll, how_roll, (tokens, logps), roll_peak = fastest("rollout", ways)
    tokens, logps = tokens.clone(), logps.clone()

    net.opt.param_groups[0]["lr"] = 0.0  # so that all ways compute the log-probabilities of the sampler

    def updates(shared, fast):
        def make():
            functions = through_compile(project, rest, chunk_loss) if fast else (project, rest, chunk_loss)
            return lambda: update(net, a, prompts, tokens, advantages, shared, functions[:2], functions[2])
        return make

    ways = {"shared": updates(True, False), "full": updates(False, False)}
    if on_gpu:
        ways["shared compiled"], ways["full compiled"] = updates(True, True), updates(False, True)
    step, how_step, (_, entropy, again), step_peak = fastest("update", ways)

    differ = float((again - logps).abs().max())
    limit = 0.5 if a.precision == "bf16" else 2e-2 if a.precision == "tf32" else 1e-3
    assert differ < limit, f"rollout and update differ by {differ} in a log-probability"
    out = {
        "torch": torch.__version__, "device": torch.cuda.get_device_name() if on_gpu else "cpu", "precision": a.precision,
        "params": net.count, "trained": net.trained, "rollout_s": roll, "rollout": how_roll, "update_s": step, "update": how_step,
        "step_s": roll + step, "peak_bytes": max(roll_peak, step_peak), "logprob_max_diff": differ,
        "entropy": float(entropy) / tokens.numel(), "left_out": left_out,
    }
    if a.json:
        print(json.dumps(out))
        return
    for k, v in out.items():
        print(f"{k:18s} {v}")


if __name__ == "__main__":
    main()
