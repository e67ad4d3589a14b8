//go:build linux

// Command instructions runs each kernel once between two calls of getppid, at which the plugin of the
// script count-instructions prints how many instructions were executed since the call before.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"grpo/pkg/bench"
)

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	for _, c := range bench.Cases(1 << 25) {
		c.Run() // grows buffers
		fmt.Fprintf(os.Stderr, "%s\t%s\t%d\t", c.Kernel, c.Shape, c.Units)
		syscall.Getppid()
		c.Run()
		syscall.Getppid()
	}
}
