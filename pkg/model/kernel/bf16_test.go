package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// onHardware skips a test that compares the processor with the portable version.
func onHardware(t *testing.T) {
	t.Helper()
	if !HasBF16() {
		t.Skip("this processor has no AVX512_BF16")
	}
}

// anyFloat draws float32 of any exponent, subnormal, zero, infinite and NaN.
func anyFloat(r *rand.Rand) float32 {
	switch r.Intn(6) {
	case 0:
		return math.Float32frombits(r.Uint32()&(1<<31) | r.Uint32()>>uint(9+r.Intn(23)))
	case 1:
		return float32(r.NormFloat64())
	case 2:
		return float32(math.Inf(1 - 2*r.Intn(2)))
	}
	return math.Float32frombits(r.Uint32())
}

// around draws numbers whose products are near a power of two.
func around(exponent int) func(*rand.Rand) float32 {
	return func(r *rand.Rand) float32 {
		return float32((r.Float64() - 0.5) * math.Ldexp(1, exponent/2+r.Intn(8)))
	}
}

// productBF16 is A·B in bf16, and their pairs as bits.
func productBF16(m, n, k int, a, b []float32) (c []float32, bits []uint32) {
	var pool *Pool
	steps := pairs.steps(k)
	c, rows, columns := make([]float32, m*n), make([]float32, m*steps), make([]float32, steps*n)
	pool.GemmBF16(false, false, m, n, k, a, k, b, n, false, c, n)
	pairColumns(m, k, a, k, rows, pairs.steps(k))
	pairRows(k, n, b, n, columns, n)
	for _, x := range append(rows, columns...) {
		bits = append(bits, math.Float32bits(x))
	}
	return c, bits
}

// TestBF16Instructions compares the processor's instructions with the portable version, over
// operands of all kinds.
func TestBF16Instructions(t *testing.T) {
	onHardware(t)
	check := func(t interface {
		Helper()
		Fatalf(string, ...any)
	}, m, n, k int, a, b []float32) {
		t.Helper()
		fast, fastBits := productBF16(m, n, k, a, b)
		active = pathGo
		slow, slowBits := productBF16(m, n, k, a, b)
		active = pathAVX512
		sameBits(t, "product", fast, slow)
		for i, w := range slowBits {
			if fastBits[i] != w {
				t.Fatalf("pair %d is %#x, want %#x", i, fastBits[i], w)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
		draw := []func(*rand.Rand) float32{anyFloat, around(0), around(-130), around(120)}[r.Intn(4)]
		m, n, k := 3, 35, 1+r.Intn(70)
		a, b := make([]float32, m*k), make([]float32, k*n)
		for _, x := range [][]float32{a, b} {
			for i := range x {
				x[i] = draw(r)
			}
		}
		check(rt, m, n, k, a, b)
	})
	// 2⁻¹²⁶ less a little, which rounds to it or is subnormal, and what overflows.
	for e := -80; e <= -70; e++ {
		x, y := float32(math.Ldexp(1, -63)), float32(math.Ldexp(1, e))
		check(t, 1, 1, 3, []float32{x, 0, -y}, []float32{x, 0, y})
		check(t, 1, 1, 3, []float32{-x, 0, y}, []float32{x, 0, y})
		check(t, 1, 1, 2, []float32{1 / x, 1 / x}, []float32{1 / x, float32(math.Ldexp(1, 64-e-72))})
	}
}

// TestBF16Rounding compares the rounding with its definition: of the two neighbours in bf16, the
// nearer one, and of two as near the even one.
func TestBF16Rounding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := math.Float32frombits(rapid.Uint32().Draw(rt, "bits"))
		got := math.Float32frombits(roundBits(x) &^ 0xffff)
		bits := math.Float32bits(x)
		switch {
		case x != x:
			if got == got {
				rt.Fatalf("NaN became %v", got)
			}
			return
		case bits&(0xff<<23) == 0:
			if got != 0 || math.Signbit(float64(got)) != math.Signbit(float64(x)) {
				rt.Fatalf("subnormal %v became %v", x, got)
			}
			return
		case bits&^(1<<31) >= 0x7f7f8000: // up to infinity
			if !math.IsInf(float64(got), int(math.Copysign(1, float64(x)))) {
				rt.Fatalf("%v became %v", x, got)
			}
			return
		}
		low, high := math.Float32frombits(bits&^0xffff), math.Float32frombits(bits&^0xffff+0x10000)
		below, above := math.Abs(float64(x)-float64(low)), math.Abs(float64(high)-float64(x))
		want := low
		if above < below || above == below && bits>>16&1 == 1 {
			want = high
		}
		if got != want {
			rt.Fatalf("%v became %v, want %v", x, got, want)
		}
	})
}

// oracleBF16 is the recurrence of the package comment, by definition.
func (p *product) oracleBF16() []float32 {
	out := append([]float32(nil), p.c.x...)
	at := func(g *guarded, trans bool, i, j int) float32 {
		if trans {
			i, j = j, i
		}
		return math.Float32frombits(roundBits(g.x[i*g.ld+j]) &^ 0xffff)
	}
	for i := range p.m {
		for j := range p.n {
			sum := p.c.x[i*p.c.ld+j]
			for p0 := 0; p0 < p.k; p0 += 2 * kBlock {
				var acc float32
				for q := p0; q < min(p0+2*kBlock, p.k); q += 2 {
					if q+1 < p.k {
						acc = fma32(at(p.a, p.transA, i, q+1), at(p.b, p.transB, q+1, j), acc)
					}
					acc = fma32(at(p.a, p.transA, i, q), at(p.b, p.transB, q, j), acc)
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

// TestGemmBF16Bits compares the matmul with the recurrence, bit for bit: with and without packing,
// with any number of threads, over all heights of tiles, tails of columns and several blocks of k.
func TestGemmBF16Bits(t *testing.T) {
	shapes := [][3]int{{100, 33, 70}, {5, 1100, 3}, {13, 17, 4*kBlock + 9}, {97, 16, 2 * kBlock}, {7, 100, 2*kBlock + 1},
		{300, 100, 64}, {24, 384, 128}, {50, 1030, 300}}
	r := rand.New(rand.NewSource(1))
	for m := 1; m <= 26; m++ {
		shapes = append(shapes, [3]int{m, 1 + r.Intn(100), 1 + r.Intn(40)})
	}
	for n := 1; n <= 34; n++ {
		shapes = append(shapes, [3]int{1 + r.Intn(20), n, 1 + r.Intn(20)})
	}
	onEachPath(t, func(t *testing.T) {
		if active == pathAVX2 {
			t.Skip("the same as the portable version")
		}
		most, counts := math.MaxInt, []int{1, 3}
		switch {
		case testing.Short():
			most, counts = 1<<14, counts[1:]
		case active == pathGo: // slow
			most = 1 << 17
		}
		for _, threads := range counts {
			pool := newPool(t, threads)
			for _, s := range shapes {
				if s[0]*s[1]*s[2] > most {
					continue
				}
				for i, mode := range modes {
					p := newProduct(r, mode.transA, mode.transB, i%2 == 0, s[0], s[1], s[2], r.Intn(2)*r.Intn(7))
					name := fmt.Sprintf("%s, %d threads", shapeName(mode.name, s[0], s[2], s[1]), threads)
					want := p.oracleBF16()
					sameBits(t, name, p.run(t, pool.GemmBF16).x, want)
					sameBits(t, name+", packed", p.run(t, byPacking(pool, PackBF16)).x, want)
				}
			}
		}
	})
}

// TestAssemblyBytes compares the instructions that are written as bytes with what a disassembler
// reads in them.
func TestAssemblyBytes(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump (binutils) is not installed")
	}
	data, err := os.ReadFile("bf16_amd64.s")
	expect.OK(t, err)
	written := regexp.MustCompile(`// (V\w+) Z(\d+) Z(\d+) Z(\d+)\n\s+LONG +\$0x(\w+)\n\s+WORD +\$0x(\w+)\n`)
	var code []byte
	var want []string
	for _, m := range written.FindAllStringSubmatch(string(data), -1) {
		first, err1 := strconv.ParseUint(m[5], 16, 32)
		last, err2 := strconv.ParseUint(m[6], 16, 16)
		if err1 != nil || err2 != nil {
			t.Fatalf("unreadable bytes: %q", m[0])
		}
		code = binary.LittleEndian.AppendUint32(code, uint32(first))
		code = binary.LittleEndian.AppendUint16(code, uint16(last))
		want = append(want, fmt.Sprintf("%s %%zmm%s,%%zmm%s,%%zmm%s", strings.ToLower(m[1]), m[2], m[3], m[4]))
	}
	if n := strings.Count(string(data), "LONG "); n == 0 || n != len(want) {
		t.Fatalf("%d of %d instructions in bytes have their text", len(want), n)
	}
	file := filepath.Join(t.TempDir(), "code")
	expect.OK(t, os.WriteFile(file, code, 0o600))
	out, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file).Output()
	expect.OK(t, err)
	line := regexp.MustCompile(`(?m)^ +[0-9a-f]+:\s+(\w+) +(\S+)\s*$`)
	got := line.FindAllStringSubmatch(string(out), -1)
	if len(got) != len(want) {
		t.Fatalf("objdump reads %d instructions, want %d:\n%.400s", len(got), len(want), out)
	}
	for i, w := range want {
		if g := got[i][1] + " " + got[i][2]; g != w {
			t.Errorf("instruction %d is %s, want %s", i, g, w)
		}
	}
}
