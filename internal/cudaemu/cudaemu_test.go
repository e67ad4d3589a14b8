//go:build withcuda && linux

package cudaemu

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"
)

// A grid of blocks that uses every feature the kernels use: shared memory, barriers, shuffles,
// ballots, two dimensions.
const goodSource = `
KERNEL(64) good(int n, float scale, const float* x, float* y) {
    float* s = (float*)SHARED_MEMORY;
    int i = threadIdx.x, at = (blockIdx.y * gridDim.x + blockIdx.x) * 64 + i;
    s[i] = at < n ? x[at] : 0;
    __syncthreads();
    float v = s[63 - i];
    v += __shfl_xor_sync(0xffffffffu, v, 1) * 1000;
    v += __popc(__ballot_sync(0xffffffffu, i % 3 == 0)) * 1e6f;
    if (at < n) y[at] = v * scale;
}`

// own opens the emulator, and skips its tests on a card.
func own(t *testing.T) *Machine {
	t.Helper()
	m := Open(t)
	if m.Real {
		t.Skip("the emulator's own tests")
	}
	return m
}

func TestKernelRuns(t *testing.T) {
	m := own(t)
	mod := m.Compile("good", strings.Replace(goodSource, "__popc(", "__builtin_popcount(", 1))
	const n = 6*64 - 5
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i % 7)
	}
	for _, order := range []string{"forward", "backward", "shuffle", "shuffle:3"} {
		m.Set("CUDAEMU_ORDER", order)
		px, py := Upload(m, x), m.Alloc(4*n)
		mod.Launch("good", [3]int{3, 2, 1}, [3]int{64, 1, 1}, 256, n, float32(0.5), px, py)
		at := func(i int) float64 {
			if i >= n {
				return 0
			}
			return float64(x[i])
		}
		for i, got := range Download[float32](m, py, n) {
			block, k := i/64*64, i%64
			const votes = 11 // of each warp: 0, 3, ... 30, and 33, 36, ... 63
			want := float32(0.5 * (at(block+63-k) + 1000*at(block+63-(k^1)) + 1e6*votes))
			if got != want {
				t.Fatalf("%s: element %d is %v, want %v", order, i, got, want)
			}
		}
	}
	m.Set("CUDAEMU_ORDER", "forward")
}

// Each of these kernels is wrong in one way, which the emulator finds.
func TestFaultsAreFound(t *testing.T) {
	m := own(t)
	for name, c := range map[string]struct {
		source string
		result int
		block  int
		shared int
	}{
		"a write beyond an allocation":        {`KERNEL(64) bad(float* y) { y[threadIdx.x + 1] = 1; }`, 700, 64, 0},
		"a write beyond shared memory":        {`KERNEL(64) bad(float* y) { ((float*)SHARED_MEMORY)[threadIdx.x + 1] = 1; }`, 719, 64, 256},
		"a shuffle of half a warp":            {`KERNEL(64) bad(float* y) { if (threadIdx.x % 32 < 16) y[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1); }`, 719, 64, 0},
		"lanes in different operations":       {`KERNEL(64) bad(float* y) { if (threadIdx.x % 2) __syncwarp(); else __ballot_sync(0xffffffffu, 1); }`, 719, 64, 0},
		"more threads than the launch bounds": {`KERNEL(32) bad(float* y) {}`, 701, 64, 0},
		"more shared memory than there is":    {`KERNEL(64) bad(float* y) {}`, 1, 64, 230 << 10},
		"an empty grid":                       {`KERNEL(64) bad(float* y) {}`, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mod := m.Compile("bad", c.source)
			y := m.Alloc(4 * 64)
			if r := mod.Try("bad", [3]int{1, 1, 1}, [3]int{c.block, 1, 1}, c.shared, y); r != c.result {
				t.Errorf("result %d, want %d", r, c.result)
			}
			m.Recover()
		})
	}
}

// A kernel that lacks a barrier gives other bits in another order of threads.
func TestRaceShowsInTheOrders(t *testing.T) {
	m := own(t)
	mod := m.Compile("race", `KERNEL(64) race(float* y) {
    float* s = (float*)SHARED_MEMORY;
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[(threadIdx.x + 1) % 64];
}`)
	seen := map[float32]bool{}
	for _, order := range []string{"forward", "backward"} {
		m.Set("CUDAEMU_ORDER", order)
		y := m.Alloc(4 * 64)
		mod.Launch("race", [3]int{1, 1, 1}, [3]int{64, 1, 1}, 256, y)
		v := Download[float32](m, y, 64)[5]
		if v != v {
			v = -1 // what was never written is NaN
		}
		seen[v] = true
	}
	m.Set("CUDAEMU_ORDER", "forward")
	if len(seen) != 2 {
		t.Errorf("a race gave the same result in both orders: %v", seen)
	}
}

func TestCompileErrorBringsItsLog(t *testing.T) {
	m := own(t)
	_, log, err := compile(m.nvrtc, "broken.cu", "KERNEL(32) broken(float* y) { nothing }", "sm_90", nil)
	if err == nil || !strings.Contains(log, "nothing") {
		t.Errorf("error %v, log %q", err, log)
	}
}

// A stream's work runs at the next wait, and a captured graph at each launch.
func TestStreamsAndGraphs(t *testing.T) {
	m := own(t)
	var stream, graph, exec uintptr
	m.must("cuStreamCreate", uintptr(unsafe.Pointer(&stream)), 1)
	var pinned uintptr
	m.must("cuMemAllocHost_v2", uintptr(unsafe.Pointer(&pinned)), 16)
	host := (*[4]float32)(*(*unsafe.Pointer)(unsafe.Pointer(&pinned)))
	p := m.Alloc(16)
	*host = [4]float32{1, 2, 3, 4}
	m.must("cuMemcpyHtoDAsync_v2", uintptr(p), pinned, 16, stream)
	host[0] = 9 // too early: the copy has not run
	m.must("cuStreamSynchronize", stream)
	if got := Download[float32](m, p, 4)[0]; got != 9 {
		t.Errorf("a copy from pinned memory ran before it had to: %v", got)
	}
	mod := m.Compile("add", `KERNEL(32) add(float by, float* y) { if (threadIdx.x < 4) y[threadIdx.x] += by; }`)
	var fn uintptr
	name := []byte("add\x00")
	m.must("cuModuleGetFunction", uintptr(unsafe.Pointer(&fn)), mod.handle, uintptr(unsafe.Pointer(&name[0])))
	by := float32(10)
	args := []unsafe.Pointer{unsafe.Pointer(&by), unsafe.Pointer(&p)}
	m.must("cuStreamBeginCapture_v2", stream, 1)
	m.must("cuLaunchKernel", fn, 1, 1, 1, 32, 1, 1, 0, stream, uintptr(unsafe.Pointer(&args[0])), 0)
	var none uintptr
	for name, r := range map[string]int{ // what a card refuses during a capture
		"cuMemAlloc_v2": m.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(&none)), 16), "cuMemFree_v2": m.call("cuMemFree_v2", uintptr(p)),
		"cuMemAllocHost_v2": m.call("cuMemAllocHost_v2", uintptr(unsafe.Pointer(&none)), 16), "cuMemFreeHost": m.call("cuMemFreeHost", pinned),
		"cuModuleLoadData": m.call("cuModuleLoadData", uintptr(unsafe.Pointer(&none)), pinned), "cuCtxSynchronize": m.call("cuCtxSynchronize"),
		"cuStreamSynchronize": m.call("cuStreamSynchronize", stream),
	} {
		if r != 900 {
			t.Errorf("%s during a capture: result %d", name, r)
		}
	}
	m.must("cuStreamEndCapture", stream, uintptr(unsafe.Pointer(&graph)))
	m.must("cuGraphInstantiateWithFlags", uintptr(unsafe.Pointer(&exec)), graph, 0)
	by = 1000 // arguments were read when the launch was captured
	for range 3 {
		m.must("cuGraphLaunch", exec, stream)
	}
	m.must("cuStreamSynchronize", stream)
	if got := Download[float32](m, p, 4); got[0] != 39 || got[3] != 34 {
		t.Errorf("after three launches of a graph: %v", got)
	}
	m.must("cuGraphExecDestroy", exec)
	m.must("cuGraphDestroy", graph)
	m.must("cuStreamDestroy_v2", stream)
	m.must("cuMemFreeHost", pinned)
}

// Memory of the device cannot be read by its address.
func TestDeviceMemoryIsOutOfReach(t *testing.T) {
	m := own(t)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p := Upload(m, []float32{1, 2})
	for _, when := range []string{"before", "after"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s a copy the program can read it", when)
				}
			}()
			t.Log(**(**float32)(unsafe.Pointer(&p)))
		}()
		if got := Download[float32](m, p, 2); got[1] != 2 {
			t.Errorf("a copy is %v", got)
		}
	}
}

// C = alpha·op(A)·op(B) + beta·C, column-major, with rows of padding.
func TestSgemm(t *testing.T) {
	m := own(t)
	blas := load(t, emulator(t), "libcublas.so.12")
	var handle uintptr
	if r := callIn(blas, "cublasCreate_v2", uintptr(unsafe.Pointer(&handle))); r != 0 {
		t.Fatal(r)
	}
	const mm, n, k, ld = 3, 4, 5, 7
	alpha, beta := float32(2), float32(-1)
	for ta := range 2 {
		for tb := range 2 {
			a, b, c := make([]float32, ld*ld), make([]float32, ld*ld), make([]float32, ld*ld)
			for i := range a {
				a[i], b[i], c[i] = float32(i%5), float32(i%3)-1, float32(i)
			}
			pa, pb, pc := Upload(m, a), Upload(m, b), Upload(m, c)
			r := callIn(blas, "cublasSgemm_v2", handle, uintptr(ta), uintptr(tb), mm, n, k, uintptr(unsafe.Pointer(&alpha)), uintptr(pa), ld, uintptr(pb), ld, uintptr(unsafe.Pointer(&beta)), uintptr(pc), ld)
			if r != 0 {
				t.Fatal(r)
			}
			got := Download[float32](m, pc, ld*ld)
			at := func(x []float32, trans, i, j int) float64 {
				if trans == 1 {
					i, j = j, i
				}
				return float64(x[j*ld+i])
			}
			for i := range ld {
				for j := range ld {
					want := float64(c[j*ld+i])
					if i < mm && j < n {
						want = -want
						for p := range k {
							want += 2 * at(a, ta, i, p) * at(b, tb, p, j)
						}
					}
					if math.Abs(float64(got[j*ld+i])-want) > 1e-4 {
						t.Fatalf("transposed %d %d: C[%d,%d] = %v, want %v", ta, tb, i, j, got[j*ld+i], want)
					}
				}
			}
		}
	}
	if r := callIn(blas, "cublasSgemm_v2", handle, 0, 0, mm, n, k, uintptr(unsafe.Pointer(&alpha)), 0, 1, 0, k, uintptr(unsafe.Pointer(&beta)), 0, mm); r != 7 {
		t.Errorf("a leading dimension of 1 for 3 rows: result %d, want 7", r)
	}
	callIn(blas, "cublasDestroy_v2", handle)
}
