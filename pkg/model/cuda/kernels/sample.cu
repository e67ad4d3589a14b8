// Sampling token by token, for networks that are too large for the rollout kernel.
// A warp for each row.

KERNEL(128) sample_pick(int rows, int group, int vocab, const float* logits, const float* bias,
                        float inv, double topP, int topK, int minTokens, int maxTokens, int greedy, int eos,
                        const double* uniform, unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0,
                        int t, int* tokens, float* logps, int* lengths, int* ended, int* next, int* alive) {
    int warp = threadIdx.x / 32, row = blockIdx.x * 4 + warp;
    if (row >= rows || lengths[row] != t || ended[row]) return;
    Choice c = {inv, topP, topK, minTokens, maxTokens, greedy, eos, group, uniform, k0, k1, a, b0, c0};
    float* p = (float*)(SHARED_MEMORY + warp * ((8 * vocab + 15) / 16 * 16));
    Logits x = {logits + (long long)row * vocab, bias};
    float logp;
    int id = choose(c, x, vocab, row, t, p, &logp);
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
    tokens[(long long)row * maxTokens + t] = id;
    logps[(long long)row * maxTokens + t] = logp;
    lengths[row] = t + 1;
    ended[row] = id == eos;
    next[row] = id;
    if (id != eos && t + 1 < maxTokens) atomicAdd(alive, 1);
}
