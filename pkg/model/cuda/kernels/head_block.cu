// Heads of large vocabularies: a block for each row.

KERNEL_OF_BLOCKS(ROW_THREADS, 2)
head_forward_block(int rows, int vocab, const float* logits, const float* bias, float inv, const int* targets,
                   float* logp, float* entropy, float* stats) {
    int i = blockIdx.x;
    if (i >= rows) return;
    Logits row = {logits + (long long)i * vocab, bias};
    Softmax s = blockSoftmax(row, vocab, inv, (float*)SHARED_MEMORY);
    if (threadIdx.x == 0) writeHead(i, row(targets[i]), s, inv, logp, entropy, stats);
}

// Several blocks for each row: the second dimension of the grid.
KERNEL(ROW_THREADS) head_backward_block(int rows, int vocab, float* logits, const float* bias, float inv,
                                        const int* targets, const float* stats, const float* entropy,
                                        const float* dlogp, const float* dentropy) {
    int i = blockIdx.x;
    if (i >= rows) return;
    float* x = logits + (long long)i * vocab;
    Logits row = {x, bias};
    HeadGrad grad(i, inv, targets, stats, entropy, dlogp, dentropy);
    for (int j = 4 * (blockIdx.y * ROW_THREADS + threadIdx.x); j < vocab; j += 4 * ROW_THREADS * gridDim.y) {
        float4 v = fourLogits(row, j, vocab);
        storeFour(x, j, vocab, make_float4(grad(j, v.x), grad(j + 1, v.y), grad(j + 2, v.z), grad(j + 3, v.w)));
    }
}
