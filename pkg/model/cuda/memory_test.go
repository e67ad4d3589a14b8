//go:build withcuda && linux

package cuda

import (
	"testing"

	"grpo/internal/expect"
)

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
