//go:build withcuda && linux

package kernels

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/cudaemu"
)

// resources are a kernel's resources reported by ptxas.
type resources struct {
	kernel                   string
	registers, spills, stack int // spills: bytes stored and loaded
	shared                   int // static
}

var (
	entryLine    = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spillLine    = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registerLine = regexp.MustCompile(`Used (\d+) registers`)
	sharedPart   = regexp.MustCompile(`(\d+) bytes smem`)
)

func parseResources(log string) []resources {
	var out []resources
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	for line := range strings.Lines(log) {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			out = append(out, resources{kernel: m[1]})
		}
		if len(out) == 0 {
			continue
		}
		r := &out[len(out)-1]
		if m := spillLine.FindStringSubmatch(line); m != nil {
			r.stack, r.spills = number(m[1]), number(m[2])+number(m[3])
		}
		if m := registerLine.FindStringSubmatch(line); m != nil {
			r.registers = number(m[1])
		}
		if m := sharedPart.FindStringSubmatch(line); m != nil {
			r.shared = number(m[1])
		}
	}
	return out
}

// Cards for whose architectures the sources must compile. Shared memory after
// opting in is NVIDIA's number for the compute capability.
var cards = []Card{
	{SM: 70, SMs: 80, Shared: 96 << 10}, {SM: 75, SMs: 68, Shared: 64 << 10}, {SM: 80, SMs: 108, Shared: 163 << 10},
	{SM: 86, SMs: 82, Shared: 99 << 10}, {SM: 89, SMs: 128, Shared: 99 << 10}, {SM: 90, SMs: 132, Shared: 227 << 10},
	{SM: 120, SMs: 170, Shared: 99 << 10},
}

// All modules compile for all architectures without warnings, keep their numbers
// in registers, and fit each launch's block.
func TestNVRTCCompilesEverything(t *testing.T) {
	nvrtc := cudaemu.OpenNVRTC(t)
	compile := func(t *testing.T, m Module, c Card, maxSpill int, threads map[string]int) {
		t.Helper()
		code, log, err := nvrtc.Compile(m.Name+".cu", m.Source, fmt.Sprintf("sm_%d", c.SM), "--ptxas-options=-v")
		if err != nil && strings.Contains(log, "invalid value for --gpu-architecture") {
			t.Skipf("this NVRTC does not know sm_%d", c.SM)
		}
		if err != nil || strings.Contains(log, "warning") || len(code) == 0 {
			t.Fatalf("%v\n%s", err, log)
		}
		found := map[string]bool{}
		for _, r := range parseResources(log) {
			found[r.kernel] = true
			t.Logf("%-22s %3d registers, %d bytes of spills, %d of stack", r.kernel, r.registers, r.spills, r.stack)
			if r.spills > maxSpill || r.shared > 0 {
				t.Errorf("%s: %d bytes of spills (at most %d), %d of static shared memory", r.kernel, r.spills, maxSpill, r.shared)
			}
			n := threads[strings.TrimSuffix(r.kernel, narrow)]
			if n > 0 && n < blockThreads {
				n = blockThreads / n * n // the blocks that a launch assumes
			}
			if n*roundUp(r.registers, 8) > 65536 {
				t.Errorf("%s: %d threads of %d registers don't fit a multiprocessor", r.kernel, n, r.registers)
			}
		}
		for _, k := range m.Kernels {
			if !found[k] {
				t.Errorf("the module %s has no %s", m.Name, k)
			}
		}
	}
	for _, c := range cards {
		if os.Getenv("GRPO_LONG") == "" && c.SM != 90 && c.SM != 70 {
			continue // a minute and a half for all
		}
		t.Run(fmt.Sprintf("sm_%d base", c.SM), func(t *testing.T) { compile(t, Base(), c, 0, nil) })
		t.Run(fmt.Sprintf("sm_%d decoder", c.SM), func(t *testing.T) { compile(t, Decoder(), c, 0, nil) })
		for _, h := range []int{5, 64, 128, 256} {
			if os.Getenv("GRPO_LONG") == "" && h == 5 {
				continue
			}
			p, ok := c.GRU(h)
			if !ok {
				continue
			}
			t.Run(fmt.Sprintf("sm_%d gru of %d", c.SM, h), func(t *testing.T) {
				compile(t, p.Module(), c, 256, map[string]int{GRUForward: p.forwardThreads, GRUBackward: p.backwardThreads})
			})
		}
		for _, h := range []int{5, 64, 256} {
			if os.Getenv("GRPO_LONG") == "" && (c.SM != 90 || h != 64) {
				continue
			}
			p, ok := c.Rollout(h, 2, 100)
			if !ok {
				t.Errorf("no rollout of H = %d on sm_%d", h, c.SM)
				continue
			}
			t.Run(fmt.Sprintf("sm_%d rollout of %d", c.SM, h), func(t *testing.T) {
				compile(t, p.Module(), c, 256, map[string]int{p.kernel(2): rolloutThreads, p.kernel(4): rolloutThreads, p.kernel(8): rolloutThreads})
			})
		}
		for _, s := range [][3]int{{9, 3, 64}, {14, 2, 64}, {32, 8, 128}, {4, 1, 256}, {8, 2, 16}, {2, 1, 4}} {
			if os.Getenv("GRPO_LONG") == "" && (c.SM != 90 || s[2] < 64) {
				continue
			}
			p, ok := c.Attention(s[0], s[1], s[2])
			if !ok {
				t.Errorf("no attention of %v on sm_%d", s, c.SM)
				continue
			}
			t.Run(fmt.Sprintf("sm_%d attention of %v", c.SM, s), func(t *testing.T) { compile(t, p.Module(), c, 256, nil) })
		}
	}
}

// No launch needs more shared memory than its card has, for any size in use.
func TestLaunchesFitTheirCards(t *testing.T) {
	for _, c := range cards {
		for _, h := range []int{64, 128, 256, 1024} {
			var all []Launch
			if p, ok := c.GRU(h); ok {
				for _, n := range []int{1, 32, 256, 512, 4096, 65536} {
					all = append(all, p.Forward(n), p.Backward(n))
				}
			}
			if p, ok := c.Rollout(h, 2, 100); ok {
				for _, n := range []int{1, 256, 4096, 65536} {
					all = append(all, p.Launch(n))
				}
			}
			const rows = 4096 * 64
			a, b := c.SumSquares(2 * 6 * h * h)
			d, e := c.ColSum(rows, 100)
			f, g, ok := c.TableGrad(rows, 3*h, 100)
			if !ok {
				t.Errorf("sm_%d: no table gradient for a vocabulary of 100", c.SM)
			}
			all = append(all, a, b, d, e, f, g, c.BiasGrad(h), c.Gather(4096, h), c.ScatterAdd(h, 512), c.Gates(GRUGatesForward, 4096, h),
				c.Rows(HeadForward, rows), c.Head(HeadBackward, 4096, 1<<18), c.Choose(4096, 1<<18), c.Pick(4096, 100), c.Elementwise(Add, rows))
			for _, l := range all {
				if n := l.Block[0] * l.Block[1] * l.Block[2]; l.Shared > c.Shared || n > 1024 || l.Grid[1] > 65535 || l.Empty() {
					t.Errorf("sm_%d, H = %d: %+v", c.SM, h, l)
				}
			}
			for _, l := range []Launch{a, b, d, e, g, c.BiasGrad(h), c.ScatterAdd(h, 512), c.Choose(4096, 1<<18)} {
				if l.Shared > 48<<10 {
					t.Errorf("%s asks for %d bytes of shared memory, above what needs no leave", l.Kernel, l.Shared)
				}
			}
		}
	}
}
