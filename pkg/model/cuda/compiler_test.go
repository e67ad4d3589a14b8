//go:build withcuda && linux

package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/cudalib"
	"grpo/internal/expect"
	"grpo/pkg/model/cuda/kernels"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name  string
		arch  int
		known []int
		want  string
		cubin bool
		fails string
	}{
		{"a card that the compiler supports", 90, []int{70, 80, 90}, "sm_90", true, ""},
		{"a newer card", 120, []int{70, 80, 90}, "compute_90", false, ""},
		{"a card between", 86, []int{80, 90}, "compute_80", false, ""},
		{"a card that is too old", 61, []int{75, 80}, "", false, "compute capability is 6.1, the oldest that the compiler supports is 7.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cubin, err := targetFor(c.arch, c.known)
			if c.fails != "" {
				wantError(t, err, c.fails)
				return
			}
			if err != nil || got != c.want || cubin != c.cubin {
				t.Errorf("targetFor(%d) = %q, %v, %v, want %q, %v", c.arch, got, cubin, err, c.want, c.cubin)
			}
		})
	}
}

func TestCompileErrors(t *testing.T) {
	d := device(t)
	load := func(name, source, kernel string) error {
		return d.Do(func() error {
			_, err := d.Load(name, source, nil, []string{kernel})
			return err
		})
	}
	wantError(t, load("broken", "extern \"C\" __global__ void f() { nonsense }\n", "f"), "compile broken for sm_90", "nonsense")
	wantError(t, load("base", kernels.Base().Source, "thrice"), "find the kernel thrice in base")
}

func TestFirstLines(t *testing.T) {
	if got, want := firstLines("a\n\n  b  \nc\nd\n", 2), "a | b | ..."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Compiled code is found again; a file that was cut or changed is not used.
func TestCache(t *testing.T) {
	c := cache{filepath.Join(t.TempDir(), "new")}
	k := key("source", "sm_90", "12.4")
	if c.get(k) != nil {
		t.Error("there is code before any was put")
	}
	c.put(k, []byte("code"))
	if got := string(c.get(k)); got != "code" {
		t.Errorf("got %q, want code", got)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"emptied": func([]byte) []byte { return nil },
		"changed": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		data, err := os.ReadFile(c.path(k))
		expect.OK(t, err)
		expect.OK(t, os.WriteFile(c.path(k), damage(slices.Clone(data)), 0o644))
		if c.get(k) != nil {
			t.Errorf("a file that was %s is taken for whole", name)
		}
		c.put(k, []byte("code"))
		if string(c.get(k)) != "code" {
			t.Errorf("a file that was %s is not written again", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(c.folder, "*.tmp"))
	expect.OK(t, err)
	if len(left) > 0 {
		t.Errorf("files are left over: %v", left)
	}
	none := cache{}
	none.put(k, []byte("code"))
	if none.get(k) != nil {
		t.Error("no folder keeps code")
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	for name, parts := range map[string][]string{
		"one": {"ab", "c"}, "another cut": {"a", "bc"}, "another order": {"c", "ab"}, "together": {"abc"},
	} {
		k := key(parts...)
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
}

// A second device finds the code that the first one compiled; damaged code is
// compiled again.
func TestCompiledCodeIsFoundAgain(t *testing.T) {
	env := environment(t)
	load := func() {
		d, err := Open(Options{Getenv: func(name string) string { return env[name] }})
		expect.OK(t, err)
		defer d.Close()
		expect.OK(t, d.Do(func() error {
			scaling(t, d)
			return nil
		}))
	}
	load()
	files, err := filepath.Glob(filepath.Join(env[CacheEnv], "*.bin"))
	expect.OK(t, err)
	if len(files) != 1 {
		t.Fatalf("%d files in the cache, want 1", len(files))
	}
	good, err := os.ReadFile(files[0])
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(files[0], good[:len(good)/2], 0o644))
	load()
	again, err := os.ReadFile(files[0])
	expect.OK(t, err)
	if len(again) != len(good) {
		t.Errorf("the damaged file has %d bytes after another load, want %d", len(again), len(good))
	}
}

// NVIDIA's own compiler, if installed, compiles the kernels for every generation of cards it
// supports.
func TestToolkitCompiles(t *testing.T) {
	folder := os.Getenv("GRPO_TEST_NVRTC")
	if folder == "" {
		t.Skip("GRPO_TEST_NVRTC names no folder of libnvrtc")
	}
	c, err := openCompiler(func(name string) string { return map[string]string{cudalib.Env: folder}[name] }, 12040)
	expect.OK(t, err)
	known, err := c.architectures()
	expect.OK(t, err)
	t.Logf("NVRTC %s supports %v", c.version(), known)
	card := kernels.Card{SM: 90, SMs: 132, Shared: 227 << 10}
	for _, arch := range []int{70, 80, 86, 90} {
		target, cubin, err := targetFor(arch, known)
		expect.OK(t, err)
		card.SM = arch
		modules := []kernels.Module{kernels.Base()}
		if plan, ok := card.GRU(64); ok {
			modules = append(modules, plan.Module())
		}
		if plan, ok := card.Rollout(64, 2, 100); ok {
			modules = append(modules, plan.Module())
		}
		for _, m := range modules {
			code, err := c.compile(m.Name, m.Source, target, cubin, []string{"--std=c++17"})
			expect.OK(t, err)
			t.Logf("%s for %s: %d bytes", m.Name, target, len(code))
		}
	}
}
