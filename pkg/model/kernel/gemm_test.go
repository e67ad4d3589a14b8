package kernel

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"pgregory.net/rapid"
)

// product is a matmul with all its arguments, in guarded memory.
type product struct {
	transA, transB, accumulate bool
	m, n, k                    int
	a, b, c                    *guarded
}

// newProduct fills a matmul; leading dimensions exceed the rows by gap.
func newProduct(r *rand.Rand, transA, transB, accumulate bool, m, n, k, gap int) *product {
	p := &product{transA: transA, transB: transB, accumulate: accumulate, m: m, n: n, k: k}
	matrix := func(trans bool, rows, cols int) *guarded {
		if trans {
			rows, cols = cols, rows
		}
		return newGuarded(rows, cols, cols+gap, r.Intn(9), uniform(r, 1))
	}
	p.a, p.b, p.c = matrix(transA, m, k), matrix(transB, k, n), matrix(false, m, n)
	return p
}

// run computes the matmul by gemm into a copy of c and returns it.
func (p *product) run(t testing.TB, gemm gemmFunc) *guarded {
	t.Helper()
	c := *p.c
	c.buf = append([]float32(nil), p.c.buf...)
	c.x = c.buf[c.lo : c.lo+len(p.c.x)]
	gemm(p.transA, p.transB, p.m, p.n, p.k, p.a.x, p.a.ld, p.b.x, p.b.ld, p.accumulate, c.x, c.ld)
	c.check(t, "c")
	return &c
}

type gemmFunc = func(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, accumulate bool,
	c []float32, ldc int)

// byPacking is a matmul that packs B first.
func byPacking(pool *Pool, pack func(transB bool, k, n int, b []float32, ldb int, into *Packed)) gemmFunc {
	return func(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, accumulate bool,
		c []float32, ldc int) {
		var p Packed
		pack(transB, k, n, b, ldb, &p)
		pool.GemmPacked(transA, m, n, k, a, lda, &p, accumulate, c, ldc)
	}
}

var gemmByPacking = byPacking(nil, PackB)

// oracle is the recurrence of the package comment, by definition.
func (p *product) oracle() []float32 {
	out := append([]float32(nil), p.c.x...)
	at := func(g *guarded, trans bool, i, j int) float32 {
		if trans {
			i, j = j, i
		}
		return g.x[i*g.ld+j]
	}
	for i := range p.m {
		for j := range p.n {
			var sum float32
			if p.accumulate {
				sum = p.c.x[i*p.c.ld+j]
			}
			for p0 := 0; p0 < p.k; p0 += kBlock {
				var acc float32
				for q := p0; q < min(p0+kBlock, p.k); q++ {
					x, y := at(p.a, p.transA, i, q), at(p.b, p.transB, q, j)
					if active == pathGo {
						acc += float32(x * y)
					} else {
						acc = fma32(x, y, acc)
					}
				}
				if p0 == 0 && !p.accumulate {
					sum = acc
				} else {
					sum += acc
				}
			}
			out[i*p.c.ld+j] = sum
		}
	}
	return out
}

var modes = []struct {
	name           string
	transA, transB bool
}{{"NN", false, false}, {"NT", false, true}, {"TN", true, false}, {"TT", true, true}}

// TestGemmBits compares every version of the matmul with the recurrence, bit for bit, over all
// heights of tiles, column tails and several blocks of k.
func TestGemmBits(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		type shape struct{ m, n, k int }
		shapes := []shape{{100, 33, 70}, {5, 1100, 3}, {13, 17, 2*kBlock + 9}, {97, 16, kBlock}, {7, 100, kBlock + 1}}
		for m := 1; m <= 26; m++ {
			shapes = append(shapes, shape{m, 1 + r.Intn(100), 1 + r.Intn(40)})
		}
		for n := 1; n <= 34; n++ {
			shapes = append(shapes, shape{1 + r.Intn(20), n, 1 + r.Intn(20)})
		}
		for _, s := range shapes {
			for _, mode := range modes {
				for _, accumulate := range []bool{false, true} {
					p := newProduct(r, mode.transA, mode.transB, accumulate, s.m, s.n, s.k, r.Intn(2)*r.Intn(7))
					name := fmt.Sprintf("%s accumulate=%v", shapeName(mode.name, s.m, s.k, s.n), accumulate)
					want := p.oracle()
					sameBits(t, name, p.run(t, Gemm).x, want)
					sameBits(t, name+" packed", p.run(t, gemmByPacking).x, want)
				}
			}
		}
	})
}

// TestGemmStripsBits: a copy in strips of a transposed matrix changes no bits.
func TestGemmStripsBits(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		p := newProduct(rand.New(rand.NewSource(3)), true, false, true, 18, roundUp(minCopied, nr), 21, 0)
		sameBits(t, "TN", p.run(t, Gemm).x, p.oracle())
	})
}

// TestGemmOrderBits: neither the order of the blocks, which depends on the size of the result, nor a
// copy of rows that are a multiple of 4 KB apart, or of rows of a transposed matrix, changes bits.
func TestGemmOrderBits(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	r := rand.New(rand.NewSource(1))
	onEachPath(t, func(t *testing.T) {
		for i, mode := range modes {
			near := newProduct(r, mode.transA, mode.transB, i%2 == 0, 30, minCopied+9, 600, 1024-600)
			sameBits(t, mode.name+" of rows 4 KB apart", near.run(t, Gemm).x, near.oracle())
			strips := newProduct(r, mode.transA, mode.transB, i%2 == 0, mBlock+12, minCopied+nr, 300, 0)
			sameBits(t, mode.name+" in strips", strips.run(t, Gemm).x, strips.oracle())
			large := newProduct(r, mode.transA, mode.transB, i%2 == 0, cCached/350, 370, bBlock+kBlock+9, 0)
			sameBits(t, mode.name+" of a large result", large.run(t, Gemm).x, large.run(t, gemmByPacking).x)
			if HasBF16() {
				var pool *Pool
				large = newProduct(r, mode.transA, mode.transB, i%2 == 0, cCached/350, 370, 2*bBlock+kBlock+9, 0)
				sameBits(t, mode.name+" in bf16", large.run(t, pool.GemmBF16).x, large.run(t, byPacking(pool, PackBF16)).x)
			}
		}
	})
}

// TestGemmReference compares with the float64 reference, which shares no code with the kernels.
func TestGemmReference(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
			m, n, k := rapid.IntRange(0, 40).Draw(rt, "m"), rapid.IntRange(0, 70).Draw(rt, "n"), rapid.IntRange(0, 300).Draw(rt, "k")
			p := newProduct(r, rapid.Bool().Draw(rt, "transA"), rapid.Bool().Draw(rt, "transB"), rapid.Bool().Draw(rt, "accumulate"), m, n, k, rapid.IntRange(0, 5).Draw(rt, "gap"))
			want := wide64(p.c.x)
			ReferenceGemm(p.transA, p.transB, m, n, k, wide64(p.a.x), p.a.ld, wide64(p.b.x), p.b.ld, p.accumulate, want, p.c.ld)
			got := p.run(t, Gemm)
			for i := range m {
				near(t, "row", got.x[i*got.ld:i*got.ld+n], want[i*got.ld:i*got.ld+n], 0, 1e-6*float64(k+2))
			}
		})
	})
}

func TestPoolGemmBits(t *testing.T) {
	counts := []int{0, 1, 2, 3, 5}
	shapes := []struct{ m, n, k int }{{24, 384, 128}, {192, 64, 1500}, {50, 1030, 400}, {1, 192, 64}, {300, 100, 64}, {6, 2000, 130}}
	if testing.Short() { // the race detector wants goroutines that meet, not all their numbers
		counts, shapes = []int{3}, shapes[:3]
	}
	for _, threads := range counts {
		t.Run(fmt.Sprint(threads, " threads"), func(t *testing.T) {
			var pool *Pool // 0: nil
			if threads > 0 {
				pool = NewPool(threads)
				defer pool.Close()
			}
			r := rand.New(rand.NewSource(3))
			for _, s := range shapes {
				for _, mode := range modes {
					p := newProduct(r, mode.transA, mode.transB, s.m%2 == 0, s.m, s.n, s.k, 1)
					want := p.run(t, Gemm).x
					name := shapeName(mode.name, s.m, s.k, s.n)
					sameBits(t, name, p.run(t, pool.Gemm).x, want)
					sameBits(t, name+" packed", p.run(t, byPacking(pool, PackB)).x, want)
				}
			}
		})
	}
}

// TestGemmPackedPlus compares a matmul that adds products of small depth to some of its columns with
// separate matmuls.
func TestGemmPackedPlus(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	r := rand.New(rand.NewSource(5))
	onEachPath(t, func(t *testing.T) {
		for _, s := range []struct{ m, n, k, rank int }{{64, 960, 130, 16}, {5, 70, 300, 3}, {300, 100, 64, 260}, {3, 40, 0, 2}} {
			base := newProduct(r, false, true, s.m%2 == 0, s.m, s.n, s.k, 1)
			var b Packed
			PackB(true, s.k, s.n, base.b.x, base.b.ld, &b)
			var more []Product
			want := base.run(t, Gemm)
			for i, from := range []int{0, s.n / 2 / nr * nr} {
				n := s.n - from
				if i == 0 {
					n = min(n, s.n/2/nr*nr-3)
				}
				p := newProduct(r, false, true, true, s.m, n, s.rank, 2)
				x := Product{From: from, A: p.a.x, Lda: p.a.ld, B: new(Packed)}
				PackB(true, p.k, n, p.b.x, p.b.ld, x.B)
				more = append(more, x)
				Gemm(false, true, p.m, n, p.k, p.a.x, p.a.ld, p.b.x, p.b.ld, true, want.x[from:], want.ld)
			}
			for _, pool := range []*Pool{nil, pool} {
				got := base.run(t, func(_, _ bool, m, n, k int, a []float32, lda int, _ []float32, _ int, accumulate bool,
					c []float32, ldc int) {
					pool.GemmPackedPlus(false, m, n, k, a, lda, &b, accumulate, c, ldc, more)
				})
				sameBits(t, shapeName("plus", s.m, s.k, s.n), got.x, want.x)
			}
		}
	})
}

// TestTransposed: packed columns come back as the rows they were, in any part.
func TestTransposed(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(4))
		for _, s := range []struct{ k, n int }{{1, 1}, {7, 16}, {256, 40}, {300, 17}, {600, 130}} {
			rows := make([]float32, s.n*s.k) // n rows of k
			for i := range rows {
				rows[i] = r.Float32()
			}
			rounded := make([]float32, len(rows))
			for i, x := range rows {
				rounded[i] = math.Float32frombits(roundBits(x) &^ 0xffff)
			}
			var p, inBF16 Packed
			PackB(true, s.k, s.n, rows, s.k, &p)
			PackBF16(true, s.k, s.n, rows, s.k, &inBF16)
			lo := r.Intn(s.n)
			hi := lo + r.Intn(s.n-lo+1)
			for _, part := range [][2]int{{0, s.n}, {lo, hi}} {
				got := make([]float32, (part[1]-part[0])*s.k)
				p.Transposed(part[0], part[1], got)
				sameBits(t, shapeName("transposed", 0, s.k, s.n), got, rows[part[0]*s.k:part[1]*s.k])
				inBF16.Transposed(part[0], part[1], got)
				sameBits(t, shapeName("transposed in bf16", 0, s.k, s.n), got, rounded[part[0]*s.k:part[1]*s.k])
			}
			mustPanic(t, "too many columns", func() { p.Transposed(0, s.n+1, make([]float32, 2*len(rows)+s.k)) })
			mustPanic(t, "too little memory", func() { p.Transposed(0, s.n, make([]float32, len(rows)-1)) })
		}
	})
}

// TestGemmNonFinite: NaN and infinities reach exactly the elements they should; old contents of an
// overwritten C do not matter.
func TestGemmNonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	onEachPath(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			a, b float32 // a[3,2] and b[2,5]
			want func(float32) bool
		}{
			{"NaN in A", nan, 1, func(x float32) bool { return x != x }},
			{"NaN in B", 1, nan, func(x float32) bool { return x != x }},
			{"Inf times 1", inf, 1, func(x float32) bool { return x == inf }},
			{"Inf times 0", inf, 0, func(x float32) bool { return x != x }},
		} {
			const m, n, k = 19, 21, 7
			a, b, out := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
			fillWith(a, 1)
			fillWith(b, 1)
			fillWith(out, nan)
			a[3*k+2], b[2*n+5] = c.a, c.b
			Gemm(false, false, m, n, k, a, k, b, n, false, out, n)
			for i := range m {
				for j := range n {
					x := out[i*n+j]
					special := i == 3 && c.a != 1 || j == 5 && c.b != 1 && c.b != 0
					if i == 3 && j == 5 && !c.want(x) {
						t.Errorf("%s: c[3,5] = %v", c.name, x)
					}
					if !special && !(math.Abs(float64(x)) <= k) {
						t.Errorf("%s: c[%d,%d] = %v", c.name, i, j, x)
					}
				}
			}
		}
	})
}

func fillWith(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

func TestGemmAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	r := rand.New(rand.NewSource(4))
	const m, n, k = 300, 100, 64
	a, b, c := randSlice(r, m*k), randSlice(r, n*k), make([]float32, m*n)
	pool := newPool(t, 2)
	var packed Packed
	for name, f := range map[string]func(){
		"Gemm":            func() { Gemm(false, true, m, n, k, a, k, b, k, false, c, n) },
		"PackB":           func() { PackB(true, k, n, b, k, &packed) },
		"GemmPacked":      func() { GemmPacked(false, m, n, k, a, k, &packed, false, c, n) },
		"Pool.Gemm":       func() { pool.Gemm(false, true, m, n, k, a, k, b, k, false, c, n) },
		"Pool.GemmPacked": func() { pool.GemmPacked(false, m, n, k, a, k, &packed, false, c, n) },
	} {
		PackB(true, k, n, b, k, &packed)
		// A collection may empty the pool of scratch memory in between, hence not 0.
		if got := testing.AllocsPerRun(200, f); got > 0.5 {
			t.Errorf("%s: %v allocations a call", name, got)
		}
	}
}

func FuzzGemm(f *testing.F) {
	f.Add(uint8(7), uint8(17), uint16(300), uint8(0), int64(1))
	f.Add(uint8(1), uint8(100), uint16(64), uint8(7), int64(2))
	f.Add(uint8(0), uint8(0), uint16(0), uint8(3), int64(3))
	f.Fuzz(func(t *testing.T, m, n uint8, k uint16, flags uint8, seed int64) {
		r := rand.New(rand.NewSource(seed))
		p := newProduct(r, flags&1 > 0, flags&2 > 0, flags&4 > 0, int(m%64), int(n), int(k%600), int(flags>>3)%8)
		want := p.oracle()
		sameBits(t, "Gemm", p.run(t, Gemm).x, want)
		sameBits(t, "GemmPacked", p.run(t, gemmByPacking).x, want)
	})
}
