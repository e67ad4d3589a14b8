//go:build withcuda && linux

package cuda

import (
	"strings"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/cudalib"
	"grpo/internal/expect"
	"grpo/pkg/model/cuda/kernels"
)

// device opens the emulated card.
func device(t *testing.T) *Device { return opened(t, Options{}) }

// opened is the emulated card with these options.
func opened(t *testing.T, o Options) *Device {
	t.Helper()
	env := environment(t)
	o.Getenv = func(name string) string { return env[name] }
	d, err := Open(o)
	expect.OK(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func environment(t *testing.T) map[string]string {
	return map[string]string{cudalib.Env: cudaemu.Build(t), CacheEnv: t.TempDir()}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not contain %q", err, p)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has several lines", err)
	}
}

// scaling loads the kernel of these tests.
func scaling(t *testing.T, d *Device) *Kernel {
	t.Helper()
	base := kernels.Base()
	k, err := d.Load(base.Name, base.Source, []string{"--std=c++17"}, []string{kernels.Axpy})
	expect.OK(t, err)
	return k[kernels.Axpy]
}

// twice doubles n numbers.
func twice(k *Kernel, n int, x Pointer) error {
	return k.Launch(Grid{X: 1, ThreadsX: 256}, L(n), F(1), P(x), P(x)) // x += x
}

func TestLaunchAndCopies(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Do(func() error {
		scale := scaling(t, d)
		x, err := d.Alloc(400, "x")
		expect.OK(t, err)
		in := make([]float32, 100)
		for i := range in {
			in[i] = float32(i)
		}
		expect.OK(t, Upload(d, x, 0, in))
		expect.OK(t, twice(scale, 100, x.At(0)))
		expect.OK(t, twice(scale, 50, x.At(50)))
		out := make([]float32, 60)
		expect.OK(t, Download(d, out, x, 40))
		for i, v := range out {
			want := float32(2 * (i + 40))
			if i+40 >= 50 {
				want *= 2
			}
			if v != want {
				t.Errorf("number %d is %v, want %v", i+40, v, want)
			}
		}
		wantError(t, Upload(d, x, 1, in), "100 elements from 1 on exceed 400 bytes")
		wantError(t, Download(d, in, x, 1), "exceed")
		return nil
	}))
}

// A slice that is not pinned may change after its upload, also one of several stages.
func TestUploadedSlicesMayChange(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Do(func() error {
		x := make([]int32, 5*stageSize/8+3)
		for i := range x {
			x[i] = int32(i)
		}
		m, err := d.Alloc(4*len(x), "x")
		expect.OK(t, err)
		expect.OK(t, Upload(d, m, 0, []int32{7}))
		expect.OK(t, Upload(d, m, 1, x[1:]))
		clear(x)
		expect.OK(t, Download(d, x, m, 0))
		if x[0] != 7 {
			t.Errorf("the first element is %d, want 7", x[0])
		}
		for i, v := range x[1:] {
			if int(v) != i+1 {
				t.Fatalf("element %d is %d", i+1, v)
			}
		}
		return nil
	}))
}

func TestRecordedWork(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Do(func() error {
		scale := scaling(t, d)
		x, err := d.Alloc(40, "x")
		expect.OK(t, err)
		expect.OK(t, Upload(d, x, 0, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
		g, err := d.Record(func() error {
			if err := twice(scale, 10, x.At(0)); err != nil {
				return err
			}
			return d.Zero(x.At(9), 1)
		})
		expect.OK(t, err)
		out := make([]float32, 10)
		expect.OK(t, Download(d, out, x, 0))
		if out[0] != 1 {
			t.Errorf("recording ran the work: %v", out)
		}
		expect.OK(t, g.Launch())
		expect.OK(t, g.Launch())
		expect.OK(t, Download(d, out, x, 0))
		if out[1] != 8 || out[9] != 0 {
			t.Errorf("after two runs %v, want 8 at 1 and 0 at 9", out)
		}
		g.Close()
		_, err = d.Record(func() error {
			_, err := d.Alloc(1<<20, "something new")
			return err
		})
		wantError(t, err, "not while a graph is recorded")
		return nil
	}))
}

// A graph would copy what is in the pinned buffer when it runs.
func TestRecordedCopyNeedsPinnedMemory(t *testing.T) {
	d := device(t)
	_ = d.Do(func() error {
		m, err := d.Alloc(4, "x")
		expect.OK(t, err)
		_, err = d.Record(func() error { return Upload(d, m, 0, []float32{1}) })
		wantError(t, err, "a graph copies from pinned memory only")
		return nil
	})
}

// After an error of the device every call returns that error.
func TestFirstErrorStays(t *testing.T) {
	d := device(t)
	_ = d.Do(func() error {
		first := scaling(t, d).Launch(Grid{X: 1, ThreadsX: 4096}, L(0), F(1), P(0), P(0))
		wantError(t, first, "launch axpy with 1 blocks of 4096 threads")
		if err := d.Sync(); err != first {
			t.Errorf("after it %v, want the same", err)
		}
		return nil
	})
	if err := d.Do(func() error { return nil }); err == nil {
		t.Error("the device continues")
	}
}

func TestClosedDevice(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Close())
	expect.OK(t, d.Close())
	wantError(t, d.Do(func() error { return nil }), "has been closed")
}

// Errors name the cause in one line, with the fix.
func TestOpenRefuses(t *testing.T) {
	env := environment(t)
	open := func(ordinal int) error {
		d, err := Open(Options{Ordinal: ordinal, Getenv: func(name string) string { return env[name] }})
		if err == nil {
			_ = d.Close()
		}
		return err
	}
	wantError(t, open(9), "open GPU 9", "there are 1")
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"CUDAEMU_CARDS", "0", []string{"no NVIDIA GPU found", "CUDA_VISIBLE_DEVICES", "--device cpu"}},
		{"CUDAEMU_DRIVER", "11080", []string{"the driver is of CUDA 11.8, at least 12.0 is needed", "525 or newer", "--device cpu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cudaemu.Setenv(t, c.name, c.value)
			wantError(t, open(0), c.want...)
		})
	}
	expect.OK(t, open(0))
}

// A card that the compiler no longer supports, and kernels that the driver can't load.
func TestLoadRefuses(t *testing.T) {
	t.Run("an old card", func(t *testing.T) {
		cudaemu.Setenv(t, "CUDAEMU_SM", "52")
		d := device(t)
		wantError(t, d.Do(func() error {
			_, err := d.Load("base", kernels.Base().Source, nil, nil)
			return err
		}), "compile base for emulated card", "compute capability is 5.2", "install an older CUDA", "--device cpu")
	})
	t.Run("code of a newer compiler", func(t *testing.T) {
		d := device(t)
		wantError(t, d.Do(func() error {
			_, err := d.module("base", []byte("code that the driver can't load"))
			return err
		}), "load base on emulated card", "the driver supports CUDA 12.4", "NVRTC 12.4", "update NVIDIA's driver", cudalib.Env)
	})
}

func TestPool(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Do(func() error {
		start := d.Memory()
		a, err := d.Alloc(1000, "a")
		expect.OK(t, err)
		b, err := d.Alloc(5000, "b")
		expect.OK(t, err)
		if m := d.Memory(); m.InUse != start.InUse+1024+5120 || m.Pieces != start.Pieces+2 || m.Requests != start.Requests+2 {
			t.Errorf("after two pieces %+v, at the start %+v", m, start)
		}
		was := b.ptr
		d.Free(a)
		d.Free(b)
		c, err := d.Alloc(4800, "c") // of b's rounded size
		expect.OK(t, err)
		if c.ptr != was || d.Memory().Requests != start.Requests+2 {
			t.Errorf("a piece of a size that was freed came from the driver: %+v", d.Memory())
		}
		again := *c
		d.Free(c)
		d.Free(nil)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("memory could be freed twice")
				}
			}()
			d.Free(&again)
		}()
		_, err = d.Alloc(1<<40, "a giant")
		wantError(t, err, "allocate 1024.00 GiB for a giant", "are free of", "rollout.rollout_batch_size", "train.gradient_accumulation_steps")
		if _, err := d.Alloc(100, "small"); err != nil {
			t.Errorf("after a piece that did not fit: %v", err)
		}
		if m := d.Memory(); m.Kept != 0 {
			t.Errorf("a piece did not fit, and %d bytes were kept", m.Kept)
		}
		return nil
	}))
}

func TestRounded(t *testing.T) {
	for _, c := range []struct{ size, want int }{{0, 512}, {1, 512}, {512, 512}, {513, 1024}, {8192, 8192}, {8193, 9216}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1<<17}} {
		if got := rounded(c.size); got != c.want {
			t.Errorf("rounded(%d) = %d, want %d", c.size, got, c.want)
		}
	}
	for n := 1; n < 1<<22; n += n/3 + 1 {
		if r := rounded(n); r < n || n > 4096 && r > n+n/4 {
			t.Errorf("rounded(%d) = %d", n, r)
		}
	}
}

func TestPinnedMemory(t *testing.T) {
	d := device(t)
	expect.OK(t, d.Do(func() error {
		before := d.Memory().Host
		s, err := Pinned[int32](d, 10)
		expect.OK(t, err)
		if d.Memory().Host != before+40 || len(s) != 10 {
			t.Errorf("%d bytes for %d numbers", d.Memory().Host, len(s))
		}
		FreePinned(d, s)
		FreePinned[int32](d, nil)
		if left := d.Memory().Host - before; left != 0 {
			t.Errorf("%d bytes are left", left)
		}
		return nil
	}))
}
