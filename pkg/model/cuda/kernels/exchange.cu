// exchange reduces N items of P sums each over the S lanes of a group (N ≤ S,
// powers of two; lane is the index in the group). Lane l ends up with item
// itemOf<N>(l) in v[0]. Each step exchanges half of the items with another lane,
// so N items over N lanes take N-1 shuffles instead of N·log N. The order of the
// additions is fixed.
template <int N, int P, int S> DEVICE void exchange(float (&v)[N][P], int lane) {
    int mask = 1;
#pragma unroll
    for (int n = N; n > 1; n /= 2, mask *= 2) {
        bool upper = lane & mask;
#pragma unroll
        for (int i = 0; i < n / 2; i++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                float low = v[i][p], high = v[i + n / 2][p];
                float give = upper ? low : high, keep = upper ? high : low;
                v[i][p] = keep + __shfl_xor_sync(FULL, give, mask);
            }
    }
#pragma unroll
    for (; mask < S; mask *= 2)
#pragma unroll
        for (int p = 0; p < P; p++) v[0][p] += __shfl_xor_sync(FULL, v[0][p], mask);
}

template <int N> DEVICE int itemOf(int lane) {
    int item = 0;
#pragma unroll
    for (int n = N / 2, bit = 1; n > 0; n /= 2, bit *= 2)
        if (lane & bit) item += n;
    return item;
}

DEVICE void multiplyAdd(float& sum, float4 a, const float (&w)[4]) {
    sum += a.x * w[0];
    sum += a.y * w[1];
    sum += a.z * w[2];
    sum += a.w * w[3];
}
