package kernel

import (
	"math"
	"strings"
)

// format is how the elements of a matmul's packed operands are stored.
type format uint8

const (
	numbers format = iota
	pairs          // of bf16 in the 32 bits of an element, the first in the lower half
)

// steps is the number of elements of a sum of depth k.
func (f format) steps(k int) int {
	if f == pairs {
		return (k + 1) / 2
	}
	return k
}

// HasBF16 reports whether the kernel in use has fast bf16 matmuls: it needs a processor with
// AVX512_BF16. The portable version is slower than float32.
func HasBF16() bool { return active == pathAVX512 && hasBF16() }

// BF16Name is [Name] for a run whose matmuls are in bf16: another kernel, with other bits.
func BF16Name() string { return Name() + bf16Suffix }

// InBF16 reports whether the kernel of a name is one of [BF16Name].
func InBF16(name string) bool { return strings.HasSuffix(name, bf16Suffix) }

const bf16Suffix = "+bf16"

// roundPair returns x and y in bf16 as a pair.
func roundPair(x, y float32) float32 {
	return math.Float32frombits(roundBits(x)>>16 | roundBits(y)&^0xffff)
}

// roundBits returns the bits of x with the upper half rounded to bf16. Subnormal numbers become 0.
func roundBits(x float32) uint32 {
	b := math.Float32bits(x)
	switch {
	case x != x:
		return b | 1<<22 // quiet
	case b&(0xff<<23) == 0:
		return b & (1 << 31)
	}
	return b + 0x7fff + b>>16&1
}

// RoundBF16 rounds numbers to bf16 in place, as matmuls in bf16 round their operands.
func RoundBF16(x []float32) {
	for i, v := range x {
		x[i] = math.Float32frombits(roundBits(v) &^ 0xffff)
	}
}

// multiplyAddPairs adds the products of the pairs x and y to acc, those of the upper halves first.
func multiplyAddPairs(x, y, acc float32) float32 {
	bx, by := math.Float32bits(x), math.Float32bits(y)
	acc = multiplyAddFlush(bx&^0xffff, by&^0xffff, acc)
	return multiplyAddFlush(bx<<16, by<<16, acc)
}

// multiplyAddFlush is fma without subnormal numbers. float64 holds the product exactly, and the
// sum's rounding to float64 never changes that to float32: where the exponents are so far apart
// that it loses bits, the sum is next to one of the two, which are both float32.
func multiplyAddFlush(x, y uint32, acc float32) float32 {
	sum := float64(flush(acc)) + float64(float64(flush(math.Float32frombits(x)))*float64(flush(math.Float32frombits(y))))
	const smallest = 0x1p-126 - 0x1p-151 // what rounds to a normal number
	if math.Abs(sum) < smallest {
		return float32(math.Copysign(0, sum))
	}
	return float32(sum)
}

// flush returns x, or a zero of its sign if it is subnormal.
func flush(x float32) float32 {
	if b := math.Float32bits(x); b&(0xff<<23) == 0 {
		return math.Float32frombits(b & (1 << 31))
	}
	return x
}

// pairColumns rounds rows×n numbers, ld apart, to rows×⌈n/2⌉ pairs of neighbours in a row, ldt apart.
func pairColumns(rows, n int, x []float32, ld int, to []float32, ldt int) {
	half := pairs.steps(n)
	for i := range rows {
		roundRow(x[i*ld:i*ld+n], to[i*ldt:i*ldt+half])
	}
}

func roundRowGo(x, to []float32) {
	for i := range to {
		var second float32
		if 2*i+1 < len(x) {
			second = x[2*i+1]
		}
		to[i] = roundPair(x[2*i], second)
	}
}

// pairRows rounds rows×n numbers, ld apart, to ⌈rows/2⌉×n pairs of neighbours in a column, ldt apart.
func pairRows(rows, n int, x []float32, ld int, to []float32, ldt int) {
	done := pairRowsVecs(rows/2, n, x, ld, to, ldt)
	for p := range pairs.steps(rows) {
		first, second, from := x[2*p*ld:], []float32(nil), done
		if 2*p+1 < rows {
			second = x[(2*p+1)*ld:]
		} else {
			from = 0
		}
		for j := from; j < n; j++ {
			var y float32
			if second != nil {
				y = second[j]
			}
			to[p*ldt+j] = roundPair(first[j], y)
		}
	}
}

// packPairsT packs the pairs of a block of depth k and n columns that is stored transposed, as n
// rows ldb apart, in panels.
func packPairsT(k, n int, b []float32, ldb int, to []float32) {
	var rows [nr * kBlock]float32
	kb := pairs.steps(k)
	for j := 0; j < n; j += nr {
		w := min(nr, n-j)
		pairColumns(w, k, b[j*ldb:], ldb, rows[:], kb)
		packPanelsT(kb, w, rows[:], kb, to[j*kb:])
	}
}

// packPairs packs the pairs of a block of depth k and n columns, whose rows are ldb apart.
func packPairs(k, n int, b []float32, ldb int, to []float32) {
	kb := pairs.steps(k)
	for j := 0; j < n; j += nr {
		panel := to[j*kb : (j+nr)*kb]
		w := min(nr, n-j)
		if w < nr {
			clear(panel)
		}
		pairRows(k, w, b[j:], ldb, panel, nr)
	}
}

// splitPairs writes the numbers of kb pairs, nr apart, to a row; the last pair may have no second.
func splitPairs(kb int, column, row []float32) {
	for p := range kb {
		bits := math.Float32bits(column[p*nr])
		row[2*p] = math.Float32frombits(bits << 16)
		if 2*p+1 < len(row) {
			row[2*p+1] = math.Float32frombits(bits &^ 0xffff)
		}
	}
}

// tilesPairs is the portable version of a block of pairs, see [tilesGo].
func tilesPairs(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	for i := range rows {
		for j := range panels * nr {
			var acc float32
			at := a.data[i*a.rowStride:]
			for p := range kb {
				acc = multiplyAddPairs(at[p*a.kStride], packed[j/nr*kb*nr+p*nr+j%nr], acc)
			}
			if add {
				acc += c[i*ldc+j]
			}
			c[i*ldc+j] = acc
		}
	}
}

// PackBF16 is [PackB] in bf16, for [Pool.GemmPacked].
func PackBF16(transB bool, k, n int, b []float32, ldb int, into *Packed) {
	pack(pairs, transB, k, n, b, ldb, into)
}

// GemmBF16 is [Pool.Gemm] in bf16.
func (p *Pool) GemmBF16(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int,
	accumulate bool, c []float32, ldc int) {
	checkGemm(transA, transB, m, n, k, a, lda, b, ldb, c, ldc)
	v := viewA(transA, a, lda)
	v.format, v.unrounded = pairs, k
	p.gemmView(transB, m, n, k, v, b, ldb, accumulate, c, ldc)
}

// pairA returns op(A) in bf16, in the memory of s.
func (p *Pool) pairA(transA bool, m, k int, a []float32, lda int, s *scratch) matrixA {
	steps := pairs.steps(k)
	s.a = grow(s.a, m*steps)
	out := s.a
	if transA {
		p.rows(steps, 2*m, func(lo, hi int) {
			pairRows(min(2*hi, k)-2*lo, m, a[2*lo*lda:], lda, out[lo*m:], m)
		})
		return matrixA{data: out, rowStride: 1, kStride: m, format: pairs}
	}
	p.rows(m, k, func(lo, hi int) { pairColumns(hi-lo, k, a[lo*lda:], lda, out[lo*steps:], steps) })
	return matrixA{data: out, rowStride: steps, kStride: 1, format: pairs}
}
