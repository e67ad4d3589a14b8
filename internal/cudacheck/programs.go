package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// program runs one of the programs and returns its output, which also goes to the part's log.
func (c *check) program(env []string, name string, args ...string) ([]byte, error) {
	if !strings.Contains(name, "/") {
		if p := filepath.Join(c.bin, name); exists(p) {
			name = p
		}
	}
	limit := c.limit
	if !c.until.IsZero() {
		limit = min(limit, time.Until(c.until))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(c.bin, "tree") // from here the tests find the reference data
	cmd.Env = append(append(os.Environ(), c.libraries()...), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, c.log), io.MultiWriter(&problems, c.log, os.Stderr)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // Go prints its goroutines
	cmd.WaitDelay = 5 * time.Second
	what, begin := filepath.Base(name)+" "+strings.Join(args, " "), time.Now()
	fmt.Fprintf(c.log, "== %s\n", what)
	err := cmd.Run()
	fmt.Printf("%.1f s: %s\n", time.Since(begin).Seconds(), what)
	switch {
	case ctx.Err() != nil:
		return out.Bytes(), fmt.Errorf("%s: ended after %.1f s; %s has its output", what, time.Since(begin).Seconds(),
			c.log.Name())
	case err != nil:
		return out.Bytes(), fmt.Errorf("%s: %w: %s", what, err, lastLines(problems.String()+out.String(), 8))
	}
	return out.Bytes(), nil
}

// libraries points the programs to the CUDA libraries of PyTorch's packages, unless
// the environment names others or there is a toolkit with both.
func (c *check) libraries() []string {
	const name = "GRPO_CUDA_LIBS"
	if os.Getenv(name) != "" || len(found("/usr/local/cuda/lib64")) == 2 {
		return nil
	}
	if c.libs == nil {
		c.libs = []string{}
		out, err := exec.Command(c.python, "-c", "import nvidia\nfor p in nvidia.__path__: print(p)").Output()
		if err == nil {
			for _, root := range strings.Fields(string(out)) {
				for _, pattern := range []string{"*/lib", "*/*/lib"} {
					dirs, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is good
					for _, d := range dirs {
						if len(found(d)) > 0 {
							c.libs = append(c.libs, d)
						}
					}
				}
			}
		}
	}
	if len(c.libs) == 0 {
		return nil
	}
	return []string{name + "=" + strings.Join(c.libs, ":")}
}

// found lists which of the two libraries are in a folder.
func found(dir string) []string {
	var out []string
	for _, lib := range []string{"libnvrtc.so.*", "libcublas.so.*"} {
		if m, _ := filepath.Glob(filepath.Join(dir, lib)); len(m) > 0 {
			out = append(out, lib)
		}
	}
	return out
}

// jsonOf runs a program that prints JSON.
func (c *check) jsonOf(into any, name string, args ...string) error {
	out, err := c.program(nil, name, args...)
	if err != nil {
		return err
	}
	// Libraries may print before the JSON.
	if i := bytes.IndexByte(out, '{'); i > 0 {
		out = out[i:]
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, lastLines(string(out), 3))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// stepOf is the part of the output of `grpo bench step --json` that is used here.
type stepOf struct {
	MedianStepS float64 `json:"median_step_s"`
	MedianS     struct {
		Rollout float64 `json:"rollout"`
		Update  float64 `json:"update"`
	} `json:"median_s"`
	Device         string `json:"device"`
	DeviceBytes    int    `json:"device_bytes"`
	DeviceRequests int    `json:"device_requests"`
	DeviceFree     []int  `json:"device_free"`
}

// bench measures steps of a size: see benchArgs.
func (c *check) bench(device, precision string, hidden, completions, length, steps int) (*stepOf, error) {
	r := &stepOf{}
	return r, c.jsonOf(r, "grpo", benchArgs(device, precision, hidden, completions, length, steps)...)
}

// benchArgs are the arguments for steps of a size: hidden units, completions in groups of 8, and
// lengths.
func benchArgs(device, precision string, hidden, completions, length, steps int) []string {
	args := []string{"bench", "step", "--json", "--device", device, "--hidden", fmt.Sprint(hidden), "--layers", "2",
		"--prompts", fmt.Sprint(max(1, completions/8)), "--group", fmt.Sprint(min(8, completions)),
		"--prompt-len", fmt.Sprint(length), "--response-len", fmt.Sprint(length), "--steps", fmt.Sprint(steps)}
	if device != "cpu" {
		args = append(args, "--precision", precision)
	}
	return args
}

// card returns the name of the GPU, which a tiny step prints.
func card(c *check) (string, error) {
	r, err := c.bench("cuda", "float32", 8, 2, 4, 1)
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(r.Device, ",")
	return name, nil
}

func ms(seconds float64) string { return fmt.Sprintf("%.2f", 1000*seconds) }
