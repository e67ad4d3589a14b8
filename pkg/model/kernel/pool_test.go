package kernel

import (
	"fmt"
	"math/rand"
	"runtime"
	"sync/atomic"
	"testing"
)

func TestPoolRunsEachTaskOnce(t *testing.T) {
	for _, threads := range []int{-1, 0, 1, 2, 3, 5} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			p := newPool(t, threads)
			if want := max(1, threads); p.Threads() != want {
				t.Fatalf("Threads() = %d, want %d", p.Threads(), want)
			}
			for _, tasks := range []int{0, 1, 2, 3, 7, 100, 1000} {
				for range 20 {
					count := make([]atomic.Int32, tasks)
					inUse := make([]atomic.Bool, p.Threads())
					p.Run(tasks, func(task, worker int) {
						if !inUse[worker].CompareAndSwap(false, true) {
							t.Errorf("worker %d runs two tasks at once", worker)
						}
						count[task].Add(1)
						inUse[worker].Store(false)
					})
					for i := range count {
						if got := count[i].Load(); got != 1 {
							t.Fatalf("task %d of %d ran %d times", i, tasks, got)
						}
					}
				}
			}
		})
	}
}

// TestPoolManyShortCalls checks that no task of one call runs in another one, by results that only
// the call's own writes explain.
func TestPoolManyShortCalls(t *testing.T) {
	for _, procs := range []int{1, 4} {
		t.Run(fmt.Sprint("GOMAXPROCS ", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			p := newPool(t, 4)
			out := make([]int, 16)
			for call := range 300 {
				tasks := 2 + call%15
				p.Run(tasks, func(task, _ int) { out[task] = call })
				for i := range tasks {
					if out[i] != call {
						t.Fatalf("call %d: task %d was left at %d", call, i, out[i])
					}
				}
			}
		})
	}
}

// TestPoolUsesItsThreads: tasks that wait for each other can only end if they
// run at the same time.
func TestPoolUsesItsThreads(t *testing.T) {
	p := newPool(t, 3)
	for range 10 {
		var here atomic.Int32
		p.Run(3, func(int, int) {
			here.Add(1)
			for here.Load() < 3 {
				runtime.Gosched()
			}
		})
	}
}

// TestPoolSlowCore: while one thread is slow with a task, the others do the rest.
func TestPoolSlowCore(t *testing.T) {
	p := newPool(t, 3)
	const tasks = 24
	var done atomic.Int32
	rest := make(chan struct{})
	p.Run(tasks, func(task, _ int) {
		if task == 0 {
			<-rest
		} else if done.Add(1) == tasks-1 {
			close(rest)
		}
	})
}

// TestPoolCuts: more tasks, for threads on slow cores, give the same bits.
func TestPoolCuts(t *testing.T) {
	coarse, fine := newPool(t, 2), newPool(t, 2)
	coarse.cuts, fine.cuts = 2, 2*shareTasks
	r := rand.New(rand.NewSource(5))
	const m, n, k = 70, 300, 400
	a, b := randSlice(r, m*k), randSlice(r, k*n)
	ids := randTargets(r, k, m)
	run := func(p *Pool) []float32 {
		out := make([]float32, 3*m*n+n)
		p.Gemm(false, false, m, n, k, a, k, b, n, false, out, n)
		p.Gemm(false, true, m, n, k, a, k, b, k, false, out[m*n:], n)
		p.ScatterAdd(ids, n, b, n, m, out[2*m*n:], n)
		p.ColSum(k, n, b, n, false, out[3*m*n:])
		return out
	}
	sameBits(t, "finer cuts", run(fine), run(coarse))
}

func TestPoolMisuse(t *testing.T) {
	var none *Pool
	if none.Threads() != 1 {
		t.Errorf("a nil pool has %d threads, want 1", none.Threads())
	}
	sum := 0
	none.Run(5, func(task, worker int) { sum += task + worker })
	if sum != 10 {
		t.Errorf("a nil pool's tasks add up to %d, want 10", sum)
	}
	none.Close()

	p := NewPool(2)
	p.Run(2, func(task, worker int) {
		if worker == 0 {
			mustPanic(t, "nested Run", func() { p.Run(2, func(int, int) {}) })
		}
	})
	p.Close()
	p.Close()
	mustPanic(t, "Run after Close", func() { p.Run(2, func(int, int) {}) })
}

func TestPoolAllocs(t *testing.T) {
	p := newPool(t, 3)
	var n atomic.Int64
	f := func(int, int) { n.Add(1) }
	if got := testing.AllocsPerRun(500, func() { p.Run(8, f) }); got > 0 {
		t.Errorf("%v allocations a call", got)
	}
}

// TestPoolColumns: the split sums have the bits of the plain ones.
func TestPoolColumns(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, threads := range []int{1, 2, 3, 5} {
		p := newPool(t, threads)
		for _, s := range []struct{ rows, n, ld int }{{1, 5, 5}, {700, 192, 192}, {900, 97, 100}, {5000, 8, 9}, {2000, 33, 33}} {
			name := fmt.Sprintf("%d threads, %dx%d", threads, s.rows, s.n)
			x, want := randSlice(r, s.rows*s.ld), make([]float32, s.n)
			got := make([]float32, s.n)
			ColSum(s.rows, s.n, x, s.ld, false, want)
			p.ColSum(s.rows, s.n, x, s.ld, false, got)
			sameBits(t, "ColSum "+name, got, want)

			const outRows = 11
			ids := make([]int, s.rows)
			for i := range ids {
				ids[i] = r.Intn(outRows)
			}
			sums, wantSums := make([]float32, outRows*s.ld), make([]float32, outRows*s.ld)
			ScatterAdd(ids, s.n, x, s.ld, outRows, wantSums, s.ld)
			p.ScatterAdd(ids, s.n, x, s.ld, outRows, sums, s.ld)
			sameBits(t, "ScatterAdd "+name, sums, wantSums)
		}
	}
}

// TestPoolGemmGates: a separate gate does not change the bits.
func TestPoolGemmGates(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, threads := range []int{1, 2, 3} {
		p := newPool(t, threads)
		for _, s := range []struct{ h, n, k int }{{5, 7, 3}, {8, 8, 300}, {33, 17, 700}, {64, 64, 1100}, {100, 40, 520}} {
			m := 3 * s.h
			a, b := randSlice(r, s.k*4*s.h), randSlice(r, s.k*s.n)
			together := make([]float32, s.k*m)
			for i := range s.k {
				copy(together[i*m:], a[i*4*s.h:][:2*s.h])
				copy(together[i*m+2*s.h:], a[i*4*s.h+3*s.h:][:s.h])
			}
			want, got := make([]float32, m*s.n), make([]float32, m*s.n)
			Gemm(true, false, m, s.n, s.k, together, m, b, s.n, false, want, s.n)
			p.GemmGates(m, s.n, s.k, a, 4*s.h, 2*s.h, s.h, b, s.n, got, s.n)
			sameBits(t, fmt.Sprintf("%d threads, H %d, n %d, k %d", threads, s.h, s.n, s.k), got, want)
		}
	}
}

// Any number of threads gives the bits of one.
func TestPoolElements(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	const n = 1<<18 + 77
	g := randSlice(r, n)
	run := func(p *Pool) [][]float32 {
		w, m, v := append([]float32{}, g...), make([]float32, n), make([]float32, n)
		for step := 1; step < 3; step++ {
			p.AdamW(w, g, m, v, 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.5, step)
		}
		return [][]float32{w, m, v}
	}
	want := run(nil)
	for _, threads := range []int{2, 3} {
		p := newPool(t, threads)
		got := run(p)
		for i, name := range []string{"w", "m", "v"} {
			sameBits(t, name, got[i], want[i])
		}
		p.Clear(got[0])
		sameBits(t, "cleared", got[0], make([]float32, n))
	}
}
