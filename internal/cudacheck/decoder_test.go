package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model/hf"
)

// The random network has the shape that it should have, and weights that differ.
func TestRandomNetwork(t *testing.T) {
	dir, err := (&check{}).randomNetwork(tinyShape)
	expect.OK(t, err)
	defer os.RemoveAll(dir)
	c, err := hf.Open(dir)
	expect.OK(t, err)
	defer c.Close()
	s := tinyShape
	if got := c.Config; got.Arch != s.arch || got.Vocab != s.vocab || got.Hidden != s.hidden || got.FFN != s.ffn || got.Layers != s.layers ||
		got.Heads != s.heads || got.KVHeads != s.kv || got.HeadDim != s.dim || got.RopeTheta != s.theta || !got.Tied || !got.QKVBias {
		t.Errorf("%+v", *got)
	}
	x, err := c.Read("model.layers.1.mlp.down_proj.weight")
	if err != nil || x[0] == x[1] || x[0] == 0 {
		t.Errorf("weights %v: %v", x[:2], err)
	}
	if x, err = c.Read("model.norm.weight"); err != nil || x[0] != 1 {
		t.Errorf("the last norm is %v: %v", x[:1], err)
	}
}

// PyTorch's program has the same shapes.
func TestShapesArePyTorchs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "bench", "torch_gpu_decoder.py"))
	expect.OK(t, err)
	for _, s := range []shape{smollm2Shape, qwenShape, tinyShape} {
		theta := strings.Replace(fmt.Sprintf("%.0e", s.theta), "e+0", "e", 1)
		bias := map[bool]string{true: "True", false: "False"}[s.arch == "qwen2"]
		line := fmt.Sprintf("%q: (%d, %d, %d, %d, %d, %d, %d, %s, %s)", s.name, s.vocab, s.hidden, s.ffn, s.layers, s.heads, s.kv, s.dim, theta, bias)
		if !strings.Contains(string(data), line) {
			t.Errorf("bench/torch_gpu_decoder.py has no %s", line)
		}
	}
}

// The times of a run are medians without the first step, in which kernels are compiled.
func TestTimesOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	line := func(differ string, rollout, reward, update float64) string {
		return fmt.Sprintf(`{"sampler_logprob_max_diff":%s,"time":{"rollout_s":%g,"reward_s":%g,"update_s":%g}}`+"\n", differ, rollout, reward, update)
	}
	text := line("0.5", 100, 1, 50) + line("null", 3, 1, 5) + line("0.25", 2, 1, 7) + line("0.75", 9, 1, 4)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	rollout, rest, differ, steps, err := timesOf(path)
	if err != nil || rollout != 3 || rest != 6 || differ != 0.75 || steps != 4 {
		t.Errorf("rollout %v, rest %v, difference %v, %d steps, %v", rollout, rest, differ, steps, err)
	}
}
