//go:build withcuda && linux

package cuda

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"grpo/internal/cudalib"
)

// blas is cuBLAS with its handle.
type blas struct {
	blasFunctions
	handle uintptr
}

// blasFunctions are the addresses of its functions.
type blasFunctions struct {
	cublasCreate, cublasDestroy, cublasSetStream, cublasSetWorkspace, cublasSgemm uintptr `suffix:"_v2"`
	cublasSetMathMode, cublasGemmEx, cublasGetStatusString                        uintptr
}

// Constants of cuBLAS.
const (
	opN             = 0
	opT             = 1
	mathDefault     = 0
	mathTF32        = 3
	realFloat32     = 0        // CUDA_R_32F
	realBFloat16    = 14       // CUDA_R_16BF
	computeFloat32  = 68       // CUBLAS_COMPUTE_32F: sums in float32
	computeFastBF16 = 75       // CUBLAS_COMPUTE_32F_FAST_16BF: matmuls of bfloat16, sums in float32
	blasWorkspace   = 32 << 20 // as cuBLAS itself allocates on the largest cards
)

func openBLAS(env func(string) string, driverVersion int) (*blas, error) {
	lib, err := cudalib.Open(env, cudalib.Sonames("libcublas", driverVersion)...)
	if err != nil {
		return nil, fmt.Errorf("%w; it is NVIDIA's library of matmuls: install the CUDA toolkit or the package "+
			"nvidia-cublas, and point $%s at its folder", err, cudalib.Env)
	}
	b := &blas{}
	return b, lib.Bind(&b.blasFunctions)
}

func (b *blas) check(result int, format string, args ...any) error {
	if result == success {
		return nil
	}
	p, _, _ := purego.SyscallN(b.cublasGetStatusString, uintptr(result))
	return fmt.Errorf("%s: %s", fmt.Sprintf(format, args...), text(p))
}

// Precision is how matmuls are computed; everything else is float32.
type Precision string

// The precisions, with the relative rounding error of an operand.
const (
	Float32  Precision = "float32" // 2⁻²⁴
	TF32     Precision = "tf32"    // operands rounded to 11 bits: 2⁻¹¹
	BFloat16 Precision = "bf16"    // operands rounded to 8 bits: 2⁻⁸
)

// start creates the handle; the context is current.
func (b *blas) start(stream uintptr, workspace *Mem, p Precision) error {
	h := new(uintptr)
	if err := b.check(call(b.cublasCreate, uintptr(unsafe.Pointer(h))), "start cuBLAS"); err != nil {
		return err
	}
	b.handle = *h
	if err := b.check(call(b.cublasSetStream, b.handle, stream), "give cuBLAS its stream"); err != nil {
		return err
	}
	// With its own workspace cuBLAS would leak memory in a captured graph.
	if err := b.check(call(b.cublasSetWorkspace, b.handle, workspace.ptr, blasWorkspace),
		"give cuBLAS its workspace"); err != nil {
		return err
	}
	mode := uintptr(mathDefault)
	if p == TF32 {
		mode = mathTF32
	}
	return b.check(call(b.cublasSetMathMode, b.handle, mode), "set the precision of cuBLAS")
}

func (b *blas) stop() {
	if b.handle != 0 {
		call(b.cublasDestroy, b.handle)
		b.handle = 0
	}
}
