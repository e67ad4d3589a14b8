package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestChoosePath(t *testing.T) {
	for _, c := range []struct {
		wish string
		best path
		want path
	}{
		{"", pathAVX512, pathAVX512},
		{"", pathGo, pathGo},
		{"go", pathAVX512, pathGo},
		{"avx2", pathAVX512, pathAVX2},
		{"avx2", pathAVX2, pathAVX2},
		{"avx512", pathAVX2, pathAVX2},
		{"avx512", pathGo, pathGo},
		{"sse", pathAVX2, pathAVX2},
		{"", pathNEON, pathNEON},
		{"neon", pathNEON, pathNEON},
		{"go", pathNEON, pathGo},
		{"avx2", pathNEON, pathNEON},
		{"neon", pathAVX512, pathAVX512},
	} {
		if got := choosePath(c.wish, c.best); got != c.want {
			t.Errorf("choosePath(%q, %v) = %v, want %v", c.wish, c.best, got, c.want)
		}
	}
	if wish := os.Getenv("GRPO_KERNEL"); Name() != choosePath(wish, bestPath()).String() {
		t.Errorf("Name() = %q with GRPO_KERNEL=%q", Name(), wish)
	}
}

// call is a call of every exported kernel: a shape, a layout and a magnitude.
type call struct {
	seed                       int64
	scale, odd                 float32
	rows, cols, depth          int
	transA, transB, accumulate bool
}

// The magnitudes of calls, and what is added to one number.
var (
	callScales = []float32{1e-39, 1e-3, 1, 20, 1e19}
	callOdds   = []float32{0, 0, 1e-45, 3e38, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
)

// results runs the kernels of the active path.
func (c call) results(pool *Pool) (out map[string][]float32) {
	r := rand.New(rand.NewSource(c.seed))
	scale, odd, rows, cols, depth := c.scale, c.odd, c.rows, c.cols, c.depth
	transA, transB, accumulate := c.transA, c.transB, c.accumulate
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = (2*r.Float32() - 1) * scale
		}
		x[r.Intn(n)] += odd
		return x
	}
	a, b, old := values(rows*depth), values(depth*cols), values(rows*cols)
	gi, gh, bih, bhh, h := values(rows*3*cols), values(rows*3*cols), values(3*cols), values(3*cols), values(rows*cols)
	dout, gates := values(rows*cols), values(rows*4*cols)
	targets, ids := randTargets(r, rows, cols), randTargets(r, rows, rows)
	w, g, m, v := values(cols), values(cols), values(cols), values(cols)
	for i := range v {
		v[i] = float32(math.Abs(float64(v[i])))
	}
	out = map[string][]float32{}
	get := func(name string, from []float32) []float32 {
		out[name] = slices.Clone(from)
		return out[name]
	}
	zeros := func(name string, n int) []float32 { return get(name, make([]float32, n)) }
	lda, ldb := depth, cols
	if transA {
		lda = rows
	}
	if transB {
		ldb = depth
	}
	Gemm(transA, transB, rows, cols, depth, a, lda, b, ldb, accumulate, get("Gemm", old), cols)
	pool.Gemm(transA, transB, rows, cols, depth, a, lda, b, ldb, accumulate, get("Pool.Gemm", old), cols)
	var packed Packed
	PackB(transB, depth, cols, b, ldb, &packed)
	GemmPacked(transA, rows, cols, depth, a, lda, &packed, accumulate, get("GemmPacked", old), cols)
	pool.GemmGates(3*cols, cols, rows, gates, 4*cols, 2*cols, cols, h, cols, zeros("GemmGates", 3*cols*cols), cols)
	GRUForward(rows, cols, gi, gh, bih, bhh, h, zeros("GRUForward", rows*cols), zeros("GRUForward saves", rows*4*cols))
	GRUBackward(rows, cols, dout, h, get("GRUBackward gates", gates), zeros("GRUBackward dgh", rows*3*cols), zeros("GRUBackward dh", rows*cols))
	logp, entropy, probs := zeros("logp", rows), zeros("entropy", rows), zeros("probs", rows*cols)
	LogSoftmaxGather(rows, cols, h, 0.7, targets, logp, entropy, probs)
	LogSoftmaxBackward(rows, cols, probs, logp, entropy, targets, dout[:rows], dout[rows*cols-rows:], 0.7, zeros("LogSoftmaxBackward", rows*cols))
	top, sum, h0 := Softmax(cols, h[:cols], 0.7, zeros("Softmax", cols))
	get("Softmax sums", []float32{top, sum, h0, LogProb(h[0], top, 0.7, sum)})
	AddBias(rows, cols, get("AddBias", h), cols, bih)
	ColSum(rows, cols, h, cols, accumulate, get("ColSum", bih[:cols]))
	Axpy(0.3, h, get("Axpy", dout))
	ScatterAdd(ids, cols, h, cols, rows, get("ScatterAdd", dout), cols)
	y, rstd := zeros("RMSNorm", rows*cols), zeros("RMSNorm rstd", rows)
	RMSNorm(rows, cols, h, bih, 1e-5, y, rstd)
	dx, dw := get("RMSNormBackward dx", old), get("RMSNormBackward dw", g)
	RMSNormBackward(rows, cols, h, bih, rstd, dout, dx, dw)
	RoPE(rows, 2, cols, get("RoPE", gates), 4*cols, gi, gh, -1)
	SwiGLU(rows, cols, gates, zeros("SwiGLU", rows*cols))
	SwiGLUBackward(rows, cols, get("SwiGLUBackward", gates), dout)
	SoftmaxBackward(probs, get("SoftmaxBackward", dout), 0.7)
	bits := math.Float64bits(SumSquares(h))
	get("SumSquares", []float32{math.Float32frombits(uint32(bits)), math.Float32frombits(uint32(bits >> 32))})
	AdamW(get("AdamW w", w), g, get("AdamW m", m), get("AdamW v", v), 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.5, 3)
	return out
}

// TestVectorPathsAgreeEverywhere draws shapes, layouts and magnitudes (with
// subnormal, huge and infinite numbers among them) for every exported kernel.
func TestVectorPathsAgreeEverywhere(t *testing.T) {
	if bestPath() != pathAVX512 {
		t.Skip("this processor has no AVX-512")
	}
	usePath(t, pathAVX512) // puts the old one back at the end
	pool := newPool(t, 2)
	rapid.Check(t, func(rt *rapid.T) {
		c := call{
			seed:  rapid.Int64().Draw(rt, "seed"),
			scale: rapid.SampledFrom(callScales).Draw(rt, "scale"), odd: rapid.SampledFrom(callOdds).Draw(rt, "odd"),
			rows: rapid.IntRange(1, 40).Draw(rt, "rows"), cols: rapid.IntRange(1, 140).Draw(rt, "cols"),
			depth:  rapid.IntRange(1, 600).Draw(rt, "depth"),
			transA: rapid.Bool().Draw(rt, "transA"), transB: rapid.Bool().Draw(rt, "transB"),
			accumulate: rapid.Bool().Draw(rt, "accumulate"),
		}
		active = pathAVX2
		want := c.results(pool)
		active = pathAVX512
		for name, got := range c.results(pool) {
			sameBits(rt, name, got, want[name])
		}
	})
}

var pin = flag.Bool("pin", false, "write testdata/bits.txt")

// TestVectorBits: every kernel has the pinned bits on every vector path, over random shapes, layouts
// and magnitudes. They are those of AVX2, so a processor of another kind is compared with it.
func TestVectorBits(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	const calls = 60
	pool := newPool(t, 2)
	file := filepath.Join("testdata", "bits.txt")
	for _, p := range pathsUpTo(bestPath())[1:] {
		usePath(t, p)
		hashes := map[string]hash.Hash{}
		for i := range int64(calls) {
			r := rand.New(rand.NewSource(i))
			c := call{seed: i, scale: callScales[r.Intn(len(callScales))], odd: callOdds[r.Intn(len(callOdds))],
				rows: 1 + r.Intn(40), cols: 1 + r.Intn(140), depth: 1 + r.Intn(300),
				transA: r.Intn(2) == 0, transB: r.Intn(2) == 0, accumulate: r.Intn(2) == 0}
			for name, x := range c.results(pool) {
				if hashes[name] == nil {
					hashes[name] = sha256.New()
				}
				for _, v := range x {
					if v != v {
						v = math.Float32frombits(sentinel) // any NaN
					}
					hashes[name].Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
				}
			}
		}
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(hashes)) {
			lines = append(lines, fmt.Sprintf("%x %s", hashes[name].Sum(nil)[:8], name))
		}
		if *pin {
			expect.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		}
		want, err := os.ReadFile(file)
		expect.OK(t, err)
		pinned := strings.Split(strings.TrimSpace(string(want)), "\n")
		if len(pinned) != len(lines) {
			t.Fatalf("%v: %d kernels, %d pinned", p, len(lines), len(pinned))
		}
		for i, line := range lines {
			if line != pinned[i] {
				t.Errorf("%v: bits %s, want %s", p, line, pinned[i])
			}
		}
	}
}

func TestSameBits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"avx2", "avx512", true},
		{"avx512", "avx2", true},
		{"neon", "avx2", true},
		{"avx512", "neon", true},
		{"neon", "go", false},
		{"go", "go", true},
		{"avx2", "avx2", true},
		{"go", "avx2", false},
		{"avx512", "go", false},
		{"abacus", "avx2", false},
		{"", "avx2", false},
		{"", "go", false},
		{"abacus", "abacus", true},
	} {
		if got := SameBits(c.a, c.b); got != c.want {
			t.Errorf("SameBits(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestAssemblyRegisters: AVX2 functions use no register or instruction that
// needs AVX-512 (the assembler would silently accept them), and none returns
// with dirty upper halves.
func TestAssemblyRegisters(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly found: %v", err)
	}
	beyond := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2[0-9]|3[01])|Z[0-9]+|K[0-7])\b`)
	wide := regexp.MustCompile(`\b[YZ][0-9]+\b`) // the others leave the upper halves alone
	text := regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		name, last, dirty := "", "", false
		for i, line := range strings.Split(string(data), "\n") {
			if m := text.FindStringSubmatch(line); m != nil {
				name, dirty = m[1], false
			}
			if strings.HasSuffix(name, "AVX2") && beyond.MatchString(line) && !strings.HasPrefix(line, "//") {
				t.Errorf("%s:%d: %s uses AVX-512: %s", file, i+1, name, strings.TrimSpace(line))
			}
			dirty = dirty || wide.MatchString(line)
			if op := strings.TrimSpace(line); op == "RET" && dirty && last != "VZEROUPPER" {
				t.Errorf("%s:%d: %s returns without VZEROUPPER", file, i+1, name)
			} else if op != "" {
				last = op
			}
		}
	}
}
