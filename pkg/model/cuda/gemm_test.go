//go:build withcuda && linux

package cuda

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// Each precision keeps its number of bits of an operand.
func TestPrecisionRoundsOperands(t *testing.T) {
	const fine, finer = 1 + 1.0/(1<<9), 1 + 1.0/(1<<12)
	for p, want := range map[Precision][]float32{Float32: {fine, finer}, TF32: {fine, 1}, BFloat16: {1, 1}} {
		d := opened(t, Options{Precision: p})
		expect.OK(t, d.Do(func() error {
			x, err := d.Alloc(4*5, "operands and products")
			expect.OK(t, err)
			expect.OK(t, Upload(d, x, 0, []float32{fine, finer, 1}))
			expect.OK(t, d.Gemm(false, false, 2, 1, 1, x.At(0), 1, x.At(2), 1, false, x.At(3), 1))
			got := make([]float32, 2)
			expect.OK(t, Download(d, got, x, 3))
			if !slices.Equal(got, want) {
				t.Errorf("%s: the products with 1 of 1+2⁻⁹ and 1+2⁻¹² are %v, want %v", p, got, want)
			}
			return nil
		}))
	}
}

// Matmuls of all four forms, with leading dimensions, a factor and accumulation, and of operands in
// bfloat16, which holds these numbers exactly.
func TestGemm(t *testing.T) {
	for _, p := range []Precision{Float32, TF32, BFloat16} {
		d := opened(t, Options{Precision: p})
		expect.OK(t, d.Do(func() error {
			const m, n, k, lda, ldb, ldc = 3, 4, 5, 9, 8, 7
			a, b, c := make([]float32, 9*9), make([]float32, 9*9), make([]float32, 9*9)
			halfA, halfB := make([]uint16, len(a)), make([]uint16, len(b))
			for i := range a {
				a[i], b[i], c[i] = float32(i%7)-3, float32(i%5)-2, float32(i%3)
				halfA[i], halfB[i] = uint16(math.Float32bits(a[i])>>16), uint16(math.Float32bits(b[i])>>16)
			}
			mem := make([]*Mem, 5)
			for i := range mem {
				matrix, err := d.Alloc(4*len(a), "a matrix")
				expect.OK(t, err)
				mem[i] = matrix
			}
			expect.OK(t, Upload(d, mem[0], 0, a))
			expect.OK(t, Upload(d, mem[1], 0, b))
			expect.OK(t, Upload(d, mem[3], 0, halfA))
			expect.OK(t, Upload(d, mem[4], 0, halfB))
			check := func(transA, transB, accumulate bool, from int, alpha float32, gemm func() error) {
				t.Helper()
				expect.OK(t, Upload(d, mem[2], 0, c))
				expect.OK(t, gemm())
				got := make([]float32, len(c))
				expect.OK(t, Download(d, got, mem[2], 0))
				for i := range m {
					for j := range n {
						var want float32
						for q := range k {
							x, y := a[from+i*lda+q], b[from+q*ldb+j]
							if transA {
								x = a[from+q*lda+i]
							}
							if transB {
								y = b[from+j*ldb+q]
							}
							want += x * y
						}
						want *= alpha
						if accumulate {
							want += c[i*ldc+j]
						}
						if got[i*ldc+j] != want {
							t.Fatalf("%v, transposed %v %v, accumulate %v: element %d, %d is %v, want %v", p, transA, transB, accumulate, i, j, got[i*ldc+j], want)
						}
					}
				}
				if got[n] != c[n] {
					t.Errorf("the number after a row changed from %v to %v", c[n], got[n])
				}
			}
			for _, transA := range []bool{false, true} {
				for _, transB := range []bool{false, true} {
					for _, accumulate := range []bool{false, true} {
						check(transA, transB, accumulate, 0, 1, func() error {
							return d.Gemm(transA, transB, m, n, k, mem[0].At(0), lda, mem[1].At(0), ldb, accumulate, mem[2].At(0), ldc)
						})
						check(transA, transB, accumulate, 0, 0.5, func() error {
							return d.GemmScaled(transA, transB, m, n, k, 0.5, mem[0].At(0), lda, mem[1].At(0), ldb, accumulate, mem[2].At(0), ldc)
						})
						check(transA, transB, accumulate, 3, -2, func() error {
							return d.GemmBF16(transA, transB, m, n, k, -2, mem[3].At(0).AddBF16(3), lda, mem[4].At(0).AddBF16(3), ldb, accumulate, mem[2].At(0), ldc)
						})
					}
				}
			}
			zeros := func(gemm func(accumulate bool) error) {
				t.Helper()
				expect.OK(t, Upload(d, mem[2], 0, c))
				got := make([]float32, m*n)
				expect.OK(t, gemm(true))
				expect.OK(t, Download(d, got, mem[2], 0))
				if !slices.Equal(got, c[:m*n]) {
					t.Errorf("an empty matmul was added: %v", got)
				}
				expect.OK(t, gemm(false))
				expect.OK(t, Download(d, got, mem[2], 0))
				if slices.ContainsFunc(got, func(v float32) bool { return v != 0 }) {
					t.Errorf("an empty matmul is %v", got)
				}
			}
			zeros(func(accumulate bool) error {
				return d.Gemm(false, false, m, n, 0, mem[0].At(0), lda, mem[1].At(0), ldb, accumulate, mem[2].At(0), n)
			})
			zeros(func(accumulate bool) error {
				return d.GemmBF16(false, false, m, n, 0, 1, mem[3].At(0), lda, mem[4].At(0), ldb, accumulate, mem[2].At(0), n)
			})
			return nil
		}))
	}
}
