//go:build withcuda && linux

package cuda

import "unsafe"

// Graph is recorded work that runs as a whole: one call instead of one for
// each kernel, which pays where kernels are shorter than their launches.
type Graph struct {
	d    *Device
	exec uintptr
}

// Record records what f asks of the device, without running it. The work must
// neither wait nor allocate, and reads and writes the same memory each time.
func (d *Device) Record(f func() error) (*Graph, error) {
	if err := d.check(call(d.drv.cuStreamBeginCapture, d.stream, captureModeThreadLocal), "begin to record a graph"); err != nil {
		return nil, err
	}
	d.capturing = true
	failed := f()
	d.capturing = false
	graph := new(uintptr)
	r := call(d.drv.cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(graph)))
	if failed != nil {
		if *graph != 0 {
			call(d.drv.cuGraphDestroy, *graph)
		}
		return nil, failed
	}
	if err := d.check(r, "record a graph"); err != nil {
		return nil, err
	}
	defer func() { call(d.drv.cuGraphDestroy, *graph) }()
	exec := new(uintptr)
	if err := d.check(call(d.drv.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(exec)), *graph, 0), "prepare a recorded graph"); err != nil {
		return nil, err
	}
	return &Graph{d, *exec}, nil
}

// Launch runs the recorded work.
func (g *Graph) Launch() error {
	return g.d.check(call(g.d.drv.cuGraphLaunch, g.exec, g.d.stream), "run a recorded graph")
}

// Close frees the graph; the device has nothing of it left to run. A nil graph is
// none.
func (g *Graph) Close() {
	if g != nil && g.exec != 0 {
		call(g.d.drv.cuGraphExecDestroy, g.exec)
		g.exec = 0
	}
}
