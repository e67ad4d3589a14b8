//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/pkg/model/kernel"
)

// Rows of a test are longer than what a kernel may write: the rest is NaN and stays so.

// spread puts rows of width elements ld apart.
func spread[E float32 | float64](x []E, width, ld int) []E {
	y := make([]E, len(x)/width*ld)
	for i := range y {
		y[i] = E(math.NaN())
	}
	for i := range len(x) / width {
		copy(y[i*ld:], x[i*width:(i+1)*width])
	}
	return y
}

// misaligned uploads x to an address that is no multiple of 16 bytes.
func (b bench) misaligned(x []float32) cudaemu.Ptr {
	b.Helper()
	return b.floats(append([]float32{0}, x...)).At(1)
}

func cosSin(angles []float64) (cos, sin []float32) {
	for _, a := range angles {
		s, c := math.Sincos(a)
		cos, sin = append(cos, float32(c)), append(sin, float32(s))
	}
	return cos, sin
}

func TestRMSNormOnGPU(t *testing.T) {
	b := newBench(t, Decoder())
	sums := b.Compile("base.cu", Base().Source)
	c := card(b.Machine)
	const eps = float32(1e-3)
	for _, size := range []struct{ rows, per, width, ldx, ldy int }{
		{1, 1, 1, 1, 1}, {11, 1, 512, 512, 516}, {9, 1, 516, 520, 516}, {3, 1, 1025, 1030, 1027}, {2, 1, 2052, 2052, 2052},
		{70 * 3, 3, 8, 36, 28}, {7 * 5, 5, 5, 27, 26},
	} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v frozen %v", size, frozen), func(t *testing.T) {
				r := random(20)
				rows, width := size.rows, size.width
				x, w, dy := normal(r, rows*width, 1), normal(r, width, 1), normal(r, rows*width, 1)
				old, oldW := normal(r, rows*width, 1), normal(r, width, 1)
				y, rstd := make([]float64, rows*width), make([]float64, rows)
				kernel.ReferenceRMSNorm(rows, width, to64(x), to64(w), float64(eps), y, rstd)
				dx, dw := make([]float64, rows*width), to64(oldW)
				kernel.ReferenceRMSNormBackward(rows, width, to64(x), to64(w), rstd, to64(dy), dx, dw)
				added := to64(old)
				for i := range added {
					added[i] += dx[i]
				}
				all := size.per * width // elements of a row
				apartX := func(x []float32) []float32 { return spread(x, all, size.ldx) }
				apartY := func(x []float32) []float32 { return spread(x, all, size.ldy) }
				got := b.everyOrder(func() [][]float32 {
					px, pw, py, pdy := b.floats(apartX(x)), b.floats(w), b.Alloc(4*rows/size.per*size.ldy), b.floats(apartY(dy))
					pdx, sum := b.floats(apartX(old)), b.floats(oldW)
					b.start(c.Norm(rows, width), rows, size.per, width, px, size.ldx, pw, eps, py, size.ldy)
					parts, second := c.NormBackward(rows, width)
					var room cudaemu.Ptr
					if !frozen {
						room = b.Alloc(4 * parts.Tiles * width)
					}
					b.start(parts, rows, size.per, width, px, size.ldx, pw, eps, pdy, size.ldy, pdx, size.ldx, 1, parts.Tile, room)
					if !frozen {
						sums.Launch(second.Kernel, second.Grid, second.Block, second.Shared, second.Tiles, width, room, sum, 1)
					}
					// In place.
					b.start(parts, rows, size.per, width, px, size.ldx, pw, eps, pdy, size.ldy, pdy, size.ldy, 0, parts.Tile, room)
					b.start(c.Norm(rows, width), rows, size.per, width, px, size.ldx, pw, eps, px, size.ldx)
					n, m := rows/size.per*size.ldx, rows/size.per*size.ldy
					return [][]float32{b.read(py, m), b.read(pdx, n), b.read(sum, width), b.read(pdy, m), b.read(px, n)}
				})
				if frozen {
					dw = to64(oldW)
				}
				near(t, "y", got[0], spread(y, all, size.ldy), 1e-5, 1e-6)
				near(t, "dx added", got[1], spread(added, all, size.ldx), 1e-5, 1e-5)
				near(t, "dw", got[2], dw, 1e-5, 1e-5)
				near(t, "dx in place of dy", got[3], spread(dx, all, size.ldy), 1e-5, 1e-5)
				near(t, "y in place of x", got[4], spread(y, all, size.ldx), 1e-5, 1e-6)
			})
		}
	}
}

// A vector's norm has the same bits in a launch of other vectors and at another alignment: the
// sampler and the learner agree.
func TestRMSNormOnGPUHasOneOrder(t *testing.T) {
	b := newBench(t, Decoder())
	c := card(b.Machine)
	r := random(21)
	for _, width := range []int{128, 1536} {
		const rows = 19
		x, w := normal(r, rows*width, 1), normal(r, width, 1)
		px, pw, py := b.floats(x), b.floats(w), b.Alloc(4*rows*width)
		b.start(c.Norm(rows, width), rows, 1, width, px, width, pw, float32(1e-6), py, width)
		all := b.read(py, rows*width)
		one := b.misaligned(x[17*width : 18*width])
		b.start(c.Norm(1, width), 1, 1, width, one, width, pw, float32(1e-6), one, width)
		if !slices.Equal(b.read(one, width), all[17*width:18*width]) {
			t.Errorf("width %d: a vector alone has other bits", width)
		}
	}
}

func TestRoPEOnGPU(t *testing.T) {
	b := newBench(t, Decoder())
	for _, size := range []struct{ rows, heads, dim, ld int }{{1, 1, 2, 2}, {5, 3, 6, 20}, {4, 5, 64, 400}, {3, 17, 128, 2177}} {
		t.Run(fmt.Sprintf("%+v", size), func(t *testing.T) {
			r := random(22)
			x, angles := normal(r, size.rows*size.heads*size.dim, 1), make([]float64, size.rows*size.dim/2)
			for i := range angles {
				angles[i] = r.Float64() * 100
			}
			cos, sin := cosSin(angles)
			x = spread(x, size.heads*size.dim, size.ld)
			for _, sign := range []float32{1, -1} {
				want := to64(x)
				kernel.ReferenceRoPE(size.rows, size.heads, size.dim, want, size.ld, angles, float64(sign))
				got := b.everyOrder(func() [][]float32 {
					px, upload := b.floats(x), b.floats
					if sign < 0 {
						upload = b.misaligned
					}
					b.start(card(b.Machine).RoPE(size.rows, size.heads, size.dim), size.rows, size.heads, size.dim, px, size.ld,
						upload(cos), upload(sin), sign)
					return [][]float32{b.read(px, len(x))}
				})
				near(t, "rotated", got[0], want, 1e-5, 1e-5)
			}
		})
	}
}

// columnSizes are rows of whole quads and others, with one and several blocks to a row.
var columnSizes = []struct{ rows, width, ldx, ldy int }{{1, 1, 1, 1}, {5, 7, 9, 8}, {6, 64, 68, 64}, {3, 1100, 1104, 1200}, {2, 1030, 1033, 1030}}

func TestAddRowsAndCopyColumns(t *testing.T) {
	b := newBench(t, Decoder())
	c := card(b.Machine)
	for _, size := range columnSizes {
		t.Run(fmt.Sprintf("%+v", size), func(t *testing.T) {
			r := random(23)
			x, bias := normal(r, size.rows*size.width, 1), normal(r, size.width, 1)
			sum := to64(x)
			for i := range sum {
				sum[i] += float64(bias[i%size.width])
			}
			got := b.everyOrder(func() [][]float32 {
				px, py, off := b.floats(spread(x, size.width, size.ldx)), b.Alloc(4*size.rows*size.ldy), b.misaligned(spread(x, size.width, size.ldx))
				b.start(c.Columns(CopyColumns, size.rows, size.width), size.rows, size.width, px, size.ldx, py, size.ldy)
				for _, p := range []cudaemu.Ptr{px, off} {
					b.start(c.Columns(AddRows, size.rows, size.width), size.rows, size.width, p, size.ldx, b.floats(bias))
				}
				return [][]float32{b.read(py, size.rows*size.ldy), b.read(px, size.rows*size.ldx), b.read(off, size.rows*size.ldx)}
			})
			near(t, "copy", got[0], spread(to64(x), size.width, size.ldy), 0, 0)
			near(t, "sum", got[1], spread(sum, size.width, size.ldx), 1e-6, 0)
			near(t, "sum at another alignment", got[2], spread(sum, size.width, size.ldx), 1e-6, 0)
		})
	}
}

func TestSwiGLUOnGPU(t *testing.T) {
	b := newBench(t, Decoder())
	c := card(b.Machine)
	for _, size := range columnSizes {
		rows, ffn := size.rows, size.width
		t.Run(fmt.Sprintf("%d rows of %d", rows, ffn), func(t *testing.T) {
			r := random(24)
			gateUp, da := normal(r, rows*2*ffn, 3), normal(r, rows*ffn, 1)
			gateUp[0] = -200 // its sigmoid is 0
			out, grad := make([]float64, rows*ffn), to64(gateUp)
			kernel.ReferenceSwiGLU(rows, ffn, to64(gateUp), out)
			kernel.ReferenceSwiGLUBackward(rows, ffn, grad, to64(da))
			got := b.everyOrder(func() [][]float32 {
				p, to := b.floats(gateUp), b.Alloc(4*rows*ffn)
				b.start(c.Columns(SwiGLU, rows, ffn), rows, ffn, p, to)
				b.start(c.Columns(SwiGLUBackward, rows, ffn), rows, ffn, p, b.floats(da))
				return [][]float32{b.read(to, rows*ffn), b.read(p, rows*2*ffn)}
			})
			near(t, "output", got[0], out, 1e-5, 1e-6)
			near(t, "gradient", got[1], grad, 1e-5, 1e-5)
		})
	}
}

// nearestBF16 are the bits of the bf16 nearest to x, of two equally near ones the even one.
func nearestBF16(x float32) uint16 {
	low := uint16(math.Float32bits(x) >> 16)
	if v := float64(x); v == float64(float32FromBF16(low)) || math.IsInf(v, 0) {
		return low
	}
	below, above := math.Abs(float64(float32FromBF16(low))), math.Abs(float64(float32FromBF16(low+1)))
	if math.IsInf(above, 0) {
		above = math.Ldexp(1, 128)
	}
	down, up := math.Abs(float64(x))-below, above-math.Abs(float64(x))
	if up < down || up == down && low%2 == 1 {
		return low + 1
	}
	return low
}

func float32FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

func TestToBF16(t *testing.T) {
	b := newBench(t, Decoder())
	c := card(b.Machine)
	inf := float32(math.Inf(1))
	x := []float32{0, float32(math.Copysign(0, -1)), 1, inf, -inf, float32(math.NaN()), math.Float32frombits(0x7f800001),
		math.Float32frombits(0xffffffff), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
	for _, bits := range []uint32{0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0xbf818000, 0x00008000, 0x00018000, 0x7f7f7fff, 0x7f7f8000} {
		x = append(x, math.Float32frombits(bits)) // ties and their neighbours
	}
	r := random(25)
	for range 3000 {
		x = append(x, math.Float32frombits(r.Uint32()))
	}
	for _, n := range []int{1, 3, 20, 1023, 1024, len(x)} {
		for _, shift := range []int{0, 1} { // elements of an alignment that is not whole
			source := append(slices.Repeat([]float32{7}, shift), x[:n]...)
			size := n + shift
			px, py := b.floats(source).At(shift), b.Alloc(4*((size+1)/2+1))
			b.start(c.ToBF16(n), int64(n), px, py+cudaemu.Ptr(2*shift))
			words := b.readInts(py, (size+1)/2+1)
			at := func(i int) uint16 { return uint16(uint32(words[i/2]) >> (16 * (i % 2))) }
			for i, v := range x[:n] {
				got := at(i + shift)
				if v != v {
					if f := float32FromBF16(got); f == f {
						t.Errorf("NaN %x became %x", math.Float32bits(v), got)
					}
				} else if want := nearestBF16(v); got != want {
					t.Errorf("%v (%x) became %x, want %x", v, math.Float32bits(v), got, want)
				}
			}
			if shift == 1 && at(0) != 0xffff || at(size) != 0xffff {
				t.Errorf("%d elements from %d: others were written", n, shift)
			}
		}
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		index                []int32
		skip                 int32
		targets, from, order []int32
	}{
		{nil, -1, nil, []int32{0}, nil},
		{[]int32{5, 0, 5, 2, 0, 5}, -1, []int32{0, 2, 5}, []int32{0, 2, 3, 6}, []int32{1, 4, 3, 0, 2, 5}},
		{[]int32{5, 0, 5, 2, 0, 5}, 5, []int32{0, 2}, []int32{0, 2, 3}, []int32{1, 4, 3}},
		{[]int32{3, -1, 3}, -1, []int32{3}, []int32{0, 2}, []int32{0, 2}},
		{[]int32{4, 4}, 4, nil, []int32{0}, nil},
	} {
		targets, from, order := Lists(c.index, c.skip)
		if !slices.Equal(targets, c.targets) || !slices.Equal(from, c.from) || !slices.Equal(order, c.order) {
			t.Errorf("lists of %v without %d: %v, %v, %v, want %v, %v, %v", c.index, c.skip, targets, from, order, c.targets, c.from, c.order)
		}
	}
}

func TestSumRows(t *testing.T) {
	b := newBench(t, Decoder())
	for _, size := range []struct{ n, width, ldx, ldo, targets int }{
		{1, 1, 1, 1, 1}, {100, 7, 9, 8, 5}, {60, 64, 68, 66, 40}, {35, 1100, 1104, 1100, 3},
	} {
		for _, accumulate := range []int{0, 1} {
			t.Run(fmt.Sprintf("%+v accumulate %d", size, accumulate), func(t *testing.T) {
				r := random(26)
				x, index := normal(r, size.n*size.width, 1), randomInts(r, size.n, size.targets)
				const skip = 1
				old := normal(r, size.targets*size.width, 1)
				want := slices.Clone(old)
				targets, from, order := Lists(index, skip)
				if accumulate == 0 {
					for _, k := range targets {
						clear(want[int(k)*size.width : int(k+1)*size.width])
					}
				}
				for i, k := range index {
					for j := range size.width {
						if k != skip {
							want[int(k)*size.width+j] += x[i*size.width+j] // in this order
						}
					}
				}
				got := b.everyOrder(func() [][]float32 {
					out := b.floats(spread(old, size.width, size.ldo))
					b.start(card(b.Machine).Columns(SumRows, len(targets), size.width), len(targets), size.width, b.ints(targets), b.ints(from),
						b.ints(order), b.floats(spread(x, size.width, size.ldx)), size.ldx, out, size.ldo, accumulate)
					return [][]float32{b.read(out, size.targets*size.ldo)}
				})
				near(t, "sums", got[0], spread(to64(want), size.width, size.ldo), 0, 0)
			})
		}
	}
}

// Launches of the largest sizes fit all cards without a raised limit of shared memory.
func TestLayerLaunchesFit(t *testing.T) {
	for _, c := range cards {
		for _, width := range []int{1, 64, 512, 516, 2048, 8192} {
			const tokens = 100_000
			norm, _ := c.NormBackward(tokens, width)
			heads, _ := c.NormBackward(80*tokens, 128)
			for _, l := range []Launch{
				norm, heads, c.Norm(tokens, width), c.Norm(80*tokens, 128), c.RoPE(tokens, 80, 128), c.Columns(SwiGLU, tokens, 2*width),
				c.Columns(SumRows, tokens, width), c.ToBF16(260_000 * width),
			} {
				if n := l.Block[0] * l.Block[1]; l.Empty() || l.Shared > 48<<10 || n > threads || n%32 != 0 || l.Grid[0] > math.MaxInt32 {
					t.Errorf("sm_%d, width %d: %+v", c.SM, width, l)
				}
			}
		}
	}
}
