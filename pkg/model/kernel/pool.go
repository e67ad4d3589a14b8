package kernel

import (
	"runtime"
	"sync/atomic"

	"grpo/internal/cores"
)

// Pool is a group of goroutines that run the tasks of one caller at a time: fork, work, join. Its
// goroutines live until Close. A nil *Pool runs everything in the caller.
//
// Tasks are assigned dynamically, so results must depend on the task alone, not on the worker.
type Pool struct {
	threads int
	cuts    int
	// job has a counter of calls (upper half) and the number of unassigned tasks (lower half) in
	// one word, so that a worker that wakes late can only take a task of the call it has seen.
	job     atomic.Uint64
	pending atomic.Int64 // tasks not yet finished
	tasks   int
	f       func(task, worker int)
	busy    atomic.Bool
	closed  atomic.Bool
	spinFor int             // polls before a worker, or the caller, sleeps
	wake    []chan struct{} // one for each goroutine, capacity 1
	done    chan struct{}   // capacity 1
	gemm    gemmJob
}

// spins is a tenth of a millisecond of polling for work, or for the end of a run. A step has about
// sixty runs with shorter gaps, and waking a sleeping thread can take longer, especially on a
// virtual machine: with two threads an update is a seventh faster than with a twentieth of it.
const spins = 200_000

// NewPool starts a pool of the given number of threads, the caller included;
// less than 1 counts as 1.
func NewPool(threads int) *Pool {
	p := &Pool{threads: max(1, threads), cuts: max(1, threads), done: make(chan struct{}, 1)}
	p.gemm.task = p.gemmTask
	if runtime.GOMAXPROCS(0) >= p.threads {
		p.spinFor = spins // otherwise it would occupy a processor that a worker needs
	}
	if n := cores.Fast(); n > 0 && p.threads > n {
		p.cuts = shareTasks * p.threads
	}
	for w := 1; w < p.threads; w++ {
		ch := make(chan struct{}, 1)
		p.wake = append(p.wake, ch)
		go p.serve(w, ch)
	}
	return p
}

// Threads returns the number of workers, the caller included.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// Cuts returns the number of equal tasks into which work is cut that is costly to cut: Threads, or more
// if some threads are on slow cores, so that the fast ones need not wait for them.
func (p *Pool) Cuts() int {
	if p == nil {
		return 1
	}
	return p.cuts
}

// Run calls f(task, worker) once for each task in [0, tasks) and returns when all are done. worker
// is in [0, Threads()), and calls with the same worker never overlap, so it may index scratch
// memory. The caller is worker 0. Run does not allocate.
//
// A pool serves one Run at a time: f must not call Run, and a second caller panics. A panic in f on
// another worker ends the program.
func (p *Pool) Run(tasks int, f func(task, worker int)) {
	if p.Threads() == 1 || tasks <= 1 {
		for i := range tasks {
			f(i, 0)
		}
		return
	}
	if p.closed.Load() {
		panic("kernel: Pool.Run after Close")
	}
	if !p.busy.CompareAndSwap(false, true) {
		panic("kernel: Pool.Run while another Run of the same pool is in progress")
	}
	p.f, p.tasks = f, tasks
	p.pending.Store(int64(tasks))
	call := p.job.Load()>>32 + 1
	p.job.Store(call<<32 | uint64(uint32(tasks)))
	for _, ch := range p.wake[:min(len(p.wake), tasks-1)] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	p.work(0)
	for i := 0; i < p.spinFor && len(p.done) == 0; i++ {
	}
	<-p.done
	p.f = nil
	p.busy.Store(false)
}

// work takes tasks until none is left.
func (p *Pool) work(worker int) {
	for {
		word := p.job.Load()
		left := word & (1<<32 - 1)
		if left == 0 {
			return
		}
		if !p.job.CompareAndSwap(word, word-1) {
			continue
		}
		// The task belongs to this call and is unfinished, so Run has not returned and f and tasks
		// are still valid.
		p.f(p.tasks-int(left), worker)
		if p.pending.Add(-1) == 0 {
			p.done <- struct{}{}
		}
	}
}

func (p *Pool) serve(worker int, wake <-chan struct{}) {
	for {
		p.work(worker)
		if p.spin() {
			continue
		}
		if _, open := <-wake; !open {
			return
		}
	}
}

// spin reports whether work arrived within a short while.
func (p *Pool) spin() bool {
	for range p.spinFor {
		if p.job.Load()&(1<<32-1) != 0 {
			return true
		}
	}
	return false
}

// Close ends the pool's goroutines. The pool must be idle; a second Close does
// nothing.
func (p *Pool) Close() {
	if p == nil || !p.closed.CompareAndSwap(false, true) {
		return
	}
	for _, ch := range p.wake {
		close(ch)
	}
}
