// A warp samples a token by the rule of pkg/model (sampling.go): the same sums in
// the same order in double, so that the same probabilities and the same random
// number give the same token.

struct Choice {
    float inv;
    double topP;
    int topK, minTokens, maxTokens, greedy, eos, group;
    const double* uniform;
    unsigned k0, k1, a, b0, c0;
};

// uniformNumber is pkg/rng's Stream.Float64 (Philox4x32-10).
DEVICE double uniformNumber(unsigned k0, unsigned k1, unsigned x0, unsigned x1, unsigned x2, unsigned x3) {
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xD2511F53u, x0), l0 = 0xD2511F53u * x0;
        unsigned h1 = __umulhi(0xCD9E8D57u, x2), l1 = 0xCD9E8D57u * x2;
        x0 = h1 ^ x1 ^ k0;
        x1 = l1;
        x2 = h0 ^ x3 ^ k1;
        x3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    unsigned long long bits = ((unsigned long long)x0 << 32 | x1) >> 11;
    return (double)bits * (1.0 / 9007199254740992.0);
}

// number is the random number for token t of a row.
DEVICE double number(const Choice& c, int row, int t) {
    if (c.uniform) return c.uniform[(long long)row * c.maxTokens + t];
    return uniformNumber(c.k0, c.k1, c.a, c.b0 + row / c.group, c.c0 + row % c.group, t);
}

#define GROUP 16 // probabilities of a group, which are summed first

// groupSum sums a group as pkg/model does: in four partial sums, the remainder in
// the first.
DEVICE double groupSum(const float* p, int n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += p[i];
        s1 += p[i + 1];
        s2 += p[i + 2];
        s3 += p[i + 3];
    }
    for (; i < n; i++) s0 += p[i];
    return (s0 + s1) + (s2 + s3);
}

// prefix adds the lanes' numbers to base in order and returns the sum up to this
// lane; total is the sum over n lanes.
DEVICE double prefix(double v, double base, int n, int lane, double* total) {
    double run = base, mine = base;
    for (int i = 0; i < n; i++) {
        run += __shfl_sync(FULL, v, i);
        if (i == lane) mine = run;
    }
    *total = run;
    return mine;
}

// pick returns the first token at which the cumulative sum of p exceeds u times
// the total, in all lanes.
DEVICE int pick(const float* p, int vocab, double u, int lane) {
    int groups = (vocab + GROUP - 1) / GROUP;
    double total = 0;
    for (int base = 0; base < groups; base += 32) {
        int k = base + lane;
        double sum = k < groups ? groupSum(p + k * GROUP, min(GROUP, vocab - k * GROUP)) : 0.0;
        prefix(sum, total, min(32, groups - base), lane, &total);
    }
    double target = u * total, below = 0, before = 0;
    int group = 0;
    bool passed = false;
    for (int base = 0; base < groups && !passed; base += 32) {
        int k = base + lane;
        double sum = k < groups ? groupSum(p + k * GROUP, min(GROUP, vocab - k * GROUP)) : 0.0;
        double start = below, mine = prefix(sum, below, min(32, groups - base), lane, &below);
        double previous = __shfl_up_sync(FULL, mine, 1);
        if (lane == 0) previous = start;
        int found = firstAbove(k < groups && sum != 0, mine, target, &passed);
        if (found >= 0) {
            group = base + found;
            before = __shfl_sync(FULL, previous, found);
        }
    }
    int at = group * GROUP, n = min(GROUP, vocab - at);
    float v = lane < n ? p[at + lane] : 0.0f;
    double sum, mine = prefix(v, before, n, lane, &sum);
    int found = firstAbove(lane < n && v != 0, mine, target, &passed);
    return at + max(found, 0);
}

// truncate zeroes the probabilities that top-k and then top-p exclude. A token's
// rank by descending probability, then ascending id, is the number of tokens
// before it, counted in quadratic time: for small vocabularies.
DEVICE void truncate(float* p, int* order, int vocab, int topK, double topP, int lane) {
    for (int j = lane; j < vocab; j += 32) order[j] = j;
    __syncwarp();
    for (int j = lane; j < vocab; j += 32) {
        int rank = 0;
        for (int i = 0; i < vocab; i++) rank += p[i] > p[j] || (p[i] == p[j] && i < j);
        order[rank] = j;
    }
    __syncwarp();
    int keep = topK > 0 ? min(vocab, topK) : vocab;
    double total = 0, sum = 0;
    for (int k = 0; k < keep; k++) total += p[order[k]];
    for (int k = 0; k < keep; k++) {
        sum += p[order[k]];
        if (sum >= topP * total) keep = k + 1;
    }
    __syncwarp();
    for (int k = keep + lane; k < vocab; k += 32) p[order[k]] = 0;
    __syncwarp();
}

// likeliest returns the most probable token (the lowest id on a tie) in all lanes.
DEVICE int likeliest(const float* p, int vocab, int lane) {
    float best = -1;
    int at = 0;
    for (int j = lane; j < vocab; j += 32)
        if (p[j] > best) {
            best = p[j];
            at = j;
        }
    for (int mask = 16; mask > 0; mask >>= 1) {
        float other = __shfl_xor_sync(FULL, best, mask);
        int otherAt = __shfl_xor_sync(FULL, at, mask);
        if (other > best || (other == best && otherAt < at)) {
            best = other;
            at = otherAt;
        }
    }
    return at;
}

// withoutEnd fills p with the softmax without the end token, times the constant of model.Chooser, if p is 0 beside the
// end token, which is more likely by e^88 or more.
template <class Row> DEVICE void withoutEnd(const Choice& c, Row logits, int vocab, float* p, int lane) {
    float most = 0, top = -infinity();
    for (int j = lane; j < vocab; j += 32) {
        most = fmaxf(most, p[j]);
        if (j != c.eos) top = fmaxf(top, logits(j));
    }
    most = warpMax(most);
    top = warpMax(top);
    if (most > 0 || !(top > -infinity())) return;
    for (int j = lane; j < vocab; j += 32) p[j] = j == c.eos ? 0.0f : expf((logits(j) - top) * c.inv) * 0x1p-109f;
    __syncwarp();
}

// choose writes softmax(row·inv) to p (shared memory of the warp, followed by room
// for the order) and returns token t of the row; logp receives its
// log-probability. All lanes of the warp call it and get the same result.
template <class Row> DEVICE int choose(const Choice& c, Row logits, int vocab, int row, int t, float* p, float* logp) {
    int lane = threadIdx.x % 32;
    Softmax s = rowSoftmax(logits, vocab, c.inv, lane);
    float scale = 1 / s.sum;
    for (int j = lane; j < vocab; j += 32) p[j] = t < c.minTokens && j == c.eos ? 0.0f : expf((logits(j) - s.top) * c.inv) * scale;
    __syncwarp();
    if (t < c.minTokens) withoutEnd(c, logits, vocab, p, lane);
    int id;
    if (c.greedy) {
        id = likeliest(p, vocab, lane);
    } else {
        if (c.topP < 1 || c.topK > 0) truncate(p, (int*)(p + vocab), vocab, c.topK, c.topP, lane);
        id = pick(p, vocab, number(c, row, t), lane);
    }
    *logp = (logits(id) - s.top) * c.inv - logf(s.sum);
    __syncwarp();
    return id;
}
