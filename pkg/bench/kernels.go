// Package bench measures the speed of the arithmetic, kernel by kernel and
// shape by shape, next to the peak of a core.
package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"grpo/pkg/model/kernel"
)

// Options of a measurement.
type Options struct {
	Now func() time.Time
	// Repeats is the number of samples of each case; the median counts.
	Repeats int
	// Sample is the minimum duration of a sample.
	Sample time.Duration
}

// Row is one kernel at one shape.
type Row struct {
	Kernel string `json:"kernel"`
	Shape  string `json:"shape"`
	// Seconds of one call, the median of the samples.
	Seconds float64 `json:"seconds"`
	// GFLOPS counts multiplications and additions of matmuls; it is 0 for the other
	// kernels, whose cost is NsPerUnit.
	GFLOPS float64 `json:"gflops,omitempty"`
	// Share is GFLOPS over the measured peak of one core.
	Share float64 `json:"share_of_peak,omitempty"`
	// NsPerUnit is the time of one hidden unit, logit or weight.
	NsPerUnit float64 `json:"ns_per_unit,omitempty"`
}

// Kernels is the result of [MeasureKernels].
type Kernels struct {
	Path string `json:"kernel"` // "avx512", "avx2", "neon" or "go"
	// Peak is the rate of a loop of multiply-adds on registers; 0 without assembly.
	Peak float64 `json:"peak_gflops"`
	// PeakBF16 is the same in bf16; 0 without AVX512_BF16.
	PeakBF16 float64 `json:"peak_bf16_gflops,omitempty"`
	// Best is the rate of the fastest matmul.
	Best float64 `json:"best_gflops"`
	Rows []Row   `json:"rows"`
}

// matmul is op(A)·op(B) at a shape.
type matmul struct {
	m, n, k        int
	transA, transB bool
	packed, bf16   bool
	use            string
}

// matmuls of TinyLM at hidden sizes 64 and 128, common benchmark shapes, and matmuls of SmolLM2.
var matmuls = []matmul{
	{m: 36, n: 192, k: 64, packed: true, use: "a step's gates, H 64"},
	{m: 36, n: 64, k: 192, packed: true, use: "a step's backward pass, H 64"},
	{m: 192, n: 64, k: 6144, transA: true, use: "gradient of W, H 64"},
	{m: 128, n: 100, k: 64, packed: true, use: "logits, H 64"},
	{m: 36, n: 384, k: 128, packed: true, use: "a step's gates, H 128"},
	{m: 36, n: 128, k: 384, packed: true, use: "a step's backward pass, H 128"},
	{m: 384, n: 128, k: 6144, transA: true, use: "gradient of W, H 128"},
	{m: 256, n: 192, k: 64, use: "256x64x192"},
	{m: 256, n: 192, k: 64, transB: true, use: "256x64x192"},
	{m: 256, n: 192, k: 64, transA: true, use: "256x64x192"},
	{m: 256, n: 384, k: 128, use: "256x128x384"},
	{m: 256, n: 384, k: 128, transB: true, use: "256x128x384"},
	{m: 256, n: 384, k: 128, transA: true, use: "256x128x384"},
	{m: 4096, n: 100, k: 64, use: "4096x64x100"},
	{m: 4096, n: 100, k: 64, transB: true, use: "4096x64x100"},
	{m: 4096, n: 100, k: 64, transA: true, use: "4096x64x100"},
	{m: 64, n: 49152, k: 576, transB: true, packed: true, use: "SmolLM2, logits of 64 tokens"},
	{m: 1, n: 49152, k: 576, transB: true, packed: true, use: "SmolLM2, logits of a token"},
	{m: 64, n: 3072, k: 576, transB: true, packed: true, use: "SmolLM2, gate and up of 64 tokens"},
	{m: 1500, n: 3072, k: 576, transB: true, use: "SmolLM2, gate and up of an update"},
	{m: 1500, n: 576, k: 3072, use: "SmolLM2, its gradient"},
	{m: 3072, n: 576, k: 1500, transA: true, use: "SmolLM2, gradient of its weights"},
}

func (p matmul) name() string {
	letter := func(t bool) string {
		if t {
			return "T"
		}
		return "N"
	}
	s := fmt.Sprintf("%s%s %dx%dx%d", letter(p.transA), letter(p.transB), p.m, p.k, p.n)
	if p.packed {
		s += " packed"
	}
	return s
}

func (p matmul) run() func() {
	a, b, c := fill(p.m*p.k), fill(p.k*p.n), make([]float32, p.m*p.n)
	lda, ldb := p.k, p.n
	if p.transA {
		lda = p.m
	}
	if p.transB {
		ldb = p.k
	}
	gemm, pack := kernel.Gemm, kernel.PackB
	if p.bf16 {
		gemm, pack = (*kernel.Pool)(nil).GemmBF16, kernel.PackBF16
	}
	if !p.packed {
		return func() { gemm(p.transA, p.transB, p.m, p.n, p.k, a, lda, b, ldb, false, c, p.n) }
	}
	var packed kernel.Packed
	pack(p.transB, p.k, p.n, b, ldb, &packed)
	return func() { kernel.GemmPacked(p.transA, p.m, p.n, p.k, a, lda, &packed, false, c, p.n) }
}

// MeasureKernels measures every kernel on one thread.
func MeasureKernels(ctx context.Context, o Options) (*Kernels, error) {
	out := &Kernels{Path: kernel.Name()}
	const rounds = 100_000
	if flops := kernel.Peak(rounds); flops > 0 {
		out.Peak = flops / o.least(func() { kernel.Peak(rounds) }) / 1e9
	}
	all := slices.Clone(matmuls)
	if flops := kernel.PeakBF16(rounds); flops > 0 {
		out.PeakBF16 = flops / o.least(func() { kernel.PeakBF16(rounds) }) / 1e9
		for _, p := range matmuls {
			if p.bf16 = true; strings.HasPrefix(p.use, "SmolLM2") {
				all = append(all, p)
			}
		}
	}
	for _, p := range all {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s := o.median(p.run())
		r := Row{Kernel: "sgemm", Shape: p.name() + ", " + p.use, Seconds: s}
		r.GFLOPS = 2 * float64(p.m) * float64(p.n) * float64(p.k) / s / 1e9
		peak := out.Peak
		if p.bf16 {
			r.Kernel, peak = "gemm in bf16", out.PeakBF16
		} else {
			out.Best = math.Max(out.Best, r.GFLOPS)
		}
		if peak > 0 {
			r.Share = r.GFLOPS / peak
		}
		out.Rows = append(out.Rows, r)
	}
	for _, e := range elementwise() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s := o.median(e.run)
		row := Row{Kernel: e.name, Shape: e.shape, Seconds: s, NsPerUnit: 1e9 * s / float64(e.units)}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// Case is a kernel at a shape, for what measures something other than time.
type Case struct {
	Kernel, Shape string
	// Units are multiply-adds of matmuls in float32, and hidden units, logits or weights of other kernels.
	Units int
	Run   func()
}

// Cases are the kernels of [MeasureKernels] that take fewer than most units.
func Cases(most int) []Case {
	var out []Case
	for _, p := range matmuls {
		if units := p.m * p.n * p.k; units < most {
			out = append(out, Case{"sgemm", p.name(), units, p.run()})
		}
	}
	for _, e := range elementwise() {
		if e.units < most {
			out = append(out, Case{e.name, e.shape, e.units, e.run})
		}
	}
	return out
}

// samples are the seconds of one call, Repeats of them, sorted.
func (o Options) samples(f func()) []float64 {
	f() // warms caches and buffers
	calls := 1
	var out []float64
	for len(out) < o.Repeats {
		begin := o.Now()
		for range calls {
			f()
		}
		d := o.Now().Sub(begin)
		if d < o.Sample {
			calls = max(calls+1, int(float64(calls)*math.Min(10, 1.2*float64(o.Sample)/math.Max(1, float64(d)))))
			continue
		}
		out = append(out, d.Seconds()/float64(calls))
	}
	slices.Sort(out)
	return out
}

func (o Options) median(f func()) float64 {
	s := o.samples(f)
	return s[len(s)/2]
}

// least is for the peak, which other load can only lower.
func (o Options) least(f func()) float64 { return o.samples(f)[0] }

func fill(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i*2654435761%2048)/1024 - 1
	}
	return x
}

// work is a kernel other than a matmul.
type work struct {
	name, shape string
	units       int
	run         func()
}

func elementwise() []work {
	var out []work
	for _, h := range []int{64, 128} {
		const rows = 36
		gi, gh, bias := fill(rows*3*h), fill(rows*3*h), fill(3*h)
		state, next, save := fill(rows*h), make([]float32, rows*h), make([]float32, rows*4*h)
		gates, dgh, dh := make([]float32, rows*4*h), make([]float32, rows*3*h), make([]float32, rows*h)
		shape := fmt.Sprintf("%d states of %d", rows, h)
		kernel.GRUForward(rows, h, gi, gh, bias, bias, state, next, gates)
		out = append(out,
			work{"gru forward", shape, rows * h, func() {
				kernel.GRUForward(rows, h, gi, gh, bias, bias, state, next, save)
			}},
			work{"gru backward", shape + ", with a copy of the gates", rows * h, func() {
				copy(save, gates)
				kernel.GRUBackward(rows, h, state, next, save, dgh, dh)
			}})
	}
	const rows, v = 128, 100
	logits, probs := fill(rows*v), make([]float32, rows*v)
	targets, logp, entropy := make([]int, rows), make([]float32, rows), make([]float32, rows)
	dlogp, dent, d := fill(rows), fill(rows), make([]float32, rows*v)
	kernel.LogSoftmaxGather(rows, v, logits, 1, targets, logp, entropy, probs)
	shape := fmt.Sprintf("%d rows of %d", rows, v)
	out = append(out,
		work{"log-softmax, gather, entropy", shape, rows * v, func() {
			kernel.LogSoftmaxGather(rows, v, logits, 1, targets, logp, entropy, probs)
		}},
		work{"its gradient", shape, rows * v, func() {
			kernel.LogSoftmaxBackward(rows, v, probs, logp, entropy, targets, dlogp, dent, 1, d)
		}})

	const n = 62820
	w, g, m, s := fill(n), fill(n), make([]float32, n), make([]float32, n)
	const table = 192
	ids, sums := make([]int, 2048), make([]float32, v*table)
	for i := range ids {
		ids[i] = i * 7 % v
	}
	x := fill(len(ids) * table)
	const tokens, hidden, wide = 64, 576, 1536
	act, gu, rstd := make([]float32, tokens*wide), fill(tokens*2*wide), make([]float32, tokens)
	var packed kernel.Packed
	return append(out,
		work{"swiglu", fmt.Sprintf("%d rows of %d", tokens, wide), tokens * wide, func() {
			kernel.SwiGLU(tokens, wide, gu, act)
		}},
		work{"rms norm", fmt.Sprintf("%d rows of %d", tokens, hidden), tokens * hidden, func() {
			kernel.RMSNorm(tokens, hidden, x, w, 1e-5, act, rstd)
		}},
		work{"packing, transposed", fmt.Sprintf("%dx%d", hidden, table), hidden * table, func() {
			kernel.PackB(true, hidden, table, x, hidden, &packed)
		}},
		work{"adamw", fmt.Sprintf("%d weights", n), n, func() {
			kernel.AdamW(w, g, m, s, 1e-6, 0.9, 0.95, 1e-8, 0, 1, 1)
		}},
		work{"sum of squares", fmt.Sprintf("%d weights", n), n, func() { kernel.SumSquares(g) }},
		work{"scatter-add", fmt.Sprintf("%d rows of %d", len(ids), table), len(ids) * table, func() {
			kernel.ScatterAdd(ids, table, x, table, v, sums, table)
		}},
		work{"column sums", fmt.Sprintf("%d rows of %d", len(ids), table), len(ids) * table, func() {
			kernel.ColSum(len(ids), table, x, table, false, sums)
		}})
}
