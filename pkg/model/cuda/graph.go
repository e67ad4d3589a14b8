//go:build withcuda && linux

package cuda

import "unsafe"

// Graph is recorded work that runs in one call: faster if kernels take less time than their
// launches.
type Graph struct {
	d    *Device
	exec uintptr
}

// Record records the work that f queues, without running it. f must not wait or allocate; each run
// uses the same memory.
func (d *Device) Record(f func() error) (*Graph, error) {
	if err := d.check(call(d.drv.cuStreamBeginCapture, d.stream, captureModeThreadLocal),
		"begin to record a graph"); err != nil {
		return nil, err
	}
	d.capturing = true
	err := f()
	d.capturing = false
	graph := new(uintptr)
	r := call(d.drv.cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(graph)))
	defer func() {
		if *graph != 0 {
			call(d.drv.cuGraphDestroy, *graph)
		}
	}()
	if err == nil {
		err = d.check(r, "record a graph")
	}
	if err != nil {
		return nil, err
	}
	exec := new(uintptr)
	if err := d.check(call(d.drv.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(exec)), *graph, 0),
		"prepare a recorded graph"); err != nil {
		return nil, err
	}
	return &Graph{d, *exec}, nil
}

// Launch runs the recorded work.
func (g *Graph) Launch() error {
	return g.d.check(call(g.d.drv.cuGraphLaunch, g.exec, g.d.stream), "run a recorded graph")
}

// Close frees the graph, which must not be running. A nil graph is allowed.
func (g *Graph) Close() {
	if g != nil && g.exec != 0 {
		call(g.d.drv.cuGraphExecDestroy, g.exec)
		g.exec = 0
	}
}
