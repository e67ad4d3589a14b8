package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
)

// torchOf is the part of the output of torch_gpu_step.py and torch_gpu_decoder.py that is used here.
type torchOf struct {
	Torch   string            `json:"torch"`
	Rollout float64           `json:"rollout_s"`
	Update  float64           `json:"update_s"`
	Step    float64           `json:"step_s"`
	HowR    string            `json:"rollout"`
	HowU    string            `json:"update"`
	LeftOut map[string]string `json:"left_out"`
	Peak    float64           `json:"matmul_flops"`     // a large matmul in the same precision, operations per second
	Copy    float64           `json:"copy_bytes_per_s"` // bytes read and written
	Bytes   float64           `json:"peak_bytes"`
}

// alternate runs both programs in turn, twice, and takes the better median of each. PyTorch tries all
// its ways first, and then only the fastest. If PyTorch fails, grpo's numbers are there.
func (c *check) alternate(grpo, torch []string) (ours *stepOf, theirs *torchOf, err error) {
	for range 2 {
		o, p := &stepOf{}, &torchOf{}
		if err := c.jsonOf(o, "grpo", grpo...); err != nil {
			return ours, theirs, err
		}
		if ours == nil || o.MedianStepS < ours.MedianStepS {
			ours = o
		}
		if err := c.jsonOf(p, c.python, torch...); err != nil {
			return ours, theirs, err
		}
		if theirs == nil {
			torch = append(torch, "--ways", p.HowR+","+p.HowU)
			theirs = p
		} else if p.Step < theirs.Step {
			p.LeftOut = theirs.LeftOut
			theirs = p
		}
	}
	return ours, theirs, nil
}

// vocab is the size of the vocabulary, TinyLM's.
const vocab = 100

// floors are lower bounds of the seconds of a step: its operations at the rate of a
// large matmul, and the bytes that it must move at the rate of a large copy.
//
// Operations: 12·L·H² + 2·H·V per token in the forward pass, minus 6·H² for the
// first layer (a table lookup); three times that in the update, once in the rollout.
//
// Bytes of the update in float32, per token and layer: the forward pass writes the
// state (H) and the four gates (4H) and, above the first layer, writes and reads the
// input projections (6H); the backward pass reads dout, the gates and the previous
// state (6H), writes the gates' gradients (4H), and its matmuls read these twice and
// both operands (10H), and write the gradient for the layer below (H). The head
// writes and reads the logits and their gradient twice each (4V), and the states and
// their gradient (2H). The rollout keeps its states on the chip and moves almost
// nothing.
func floors(hidden, completions, length int, flops, bandwidth float64) (arithmetic, bytes float64) {
	const layers = 2
	h, n, p := float64(hidden), float64(completions), float64(completions/8)
	t := float64(length)
	inputs, predictions := p*t+n*(t-1), n*t
	forward := inputs*(12*layers-6)*h*h + predictions*2*h*vocab
	moved := 4 * (inputs*(layers*(5+6+4+10+1)+6*(layers-1))*h + predictions*(4*vocab+2*h))
	return 4 * forward / flops, moved / bandwidth
}

// step compares both programs at a hidden size.
func step(c *check, hidden int) (*table, error) {
	t := newTable("H", "completions", "grpo: rollout + update = step, ms", "PyTorch: rollout + update = step, ms",
		"faster by", "floor by arithmetic, ms", "floor by bandwidth, ms")
	want := 1.0
	if hidden <= 256 {
		want = 2
	}
	for _, completions := range []int{256, 4096} {
		ours, theirs, err := c.steps(hidden, completions)
		if ours == nil {
			return t, err
		}
		mine := fmt.Sprintf("%s + %s = %s", ms(ours.MedianS.Rollout), ms(ours.MedianS.Update), ms(ours.MedianStepS))
		if err != nil {
			t.fails("%d completions: %v", completions, err)
		}
		if theirs == nil {
			t.row(hidden, completions, mine, "failed", "", "", "")
			continue
		}
		ratio := theirs.Step / ours.MedianStepS
		arithmetic, bandwidth := floors(hidden, completions, 64, theirs.Peak, theirs.Copy)
		t.row(hidden, completions, mine,
			fmt.Sprintf("%s (%s) + %s (%s) = %s",
				ms(theirs.Rollout), theirs.HowR, ms(theirs.Update), theirs.HowU, ms(theirs.Step)),
			fmt.Sprintf("%.2f", ratio), ms(arithmetic), ms(bandwidth))
		if ratio < want {
			t.fails("at %d completions grpo is %.2f times as fast as PyTorch, not %g", completions, ratio, want)
		}
		if completions == 256 {
			t.note("PyTorch %s; matmuls in float32 at %.1f TFLOP/s, copies at %.2f TB/s, both measured in the same process. "+
				"Prompt and completion have 64 tokens each.", theirs.Torch, theirs.Peak/1e12, theirs.Copy/1e12)
		}
	}
	return t, nil
}

// steps are the better steps of both programs, as far as they ran.
func (c *check) steps(hidden, completions int) (ours *stepOf, theirs *torchOf, err error) {
	steps := 30
	if hidden*completions > 1<<20 {
		steps = 8
	}
	return c.alternate(benchArgs("cuda", "float32", hidden, completions, 64, steps),
		[]string{filepath.Join(c.bin, "torch_gpu_step.py"), "--hidden", fmt.Sprint(hidden),
			"--prompts", fmt.Sprint(completions / 8), "--group", "8", "--prompt-len", "64", "--response-len", "64", "--steps",
			fmt.Sprint(steps), "--json"})
}

// precision measures speed and error of the faster matmuls.
func precision(c *check) (*table, error) {
	t := newTable("H", "completions", "float32, ms", "tf32, ms", "bf16, ms")
	for _, hidden := range []int{64, 256, 1024} {
		row := []any{hidden, 1024}
		for _, p := range []string{"float32", "tf32", "bf16"} {
			r, err := c.bench("cuda", p, hidden, 1024, 64, 10)
			if err != nil {
				return t, err
			}
			row = append(row, ms(r.MedianStepS))
		}
		t.row(row...)
	}
	if err := costs(c, t); err != nil {
		return t, err
	}
	for _, p := range []string{"tf32", "bf16"} {
		dir := filepath.Join(c.out, "precision-"+p)
		r, err := c.train(dir, "--device", "cuda", "--set", "model.precision="+p)
		if err != nil {
			return t, err
		}
		t.note("The default experiment in %s, seed 1: from %.3f to %.3f sampled.", p,
			r.Result.Initial.Sampled.AnswerReward, r.Result.Final.Sampled.AnswerReward)
	}
	return t, nil
}

// costs notes the errors of the precisions, as measured by a test.
func costs(c *check, t *table) error {
	out, err := c.program(onCard, "gpu.test", "-test.v", "-test.run", "^TestGPUPrecisionCosts$")
	found := regexp.MustCompile(`costs: (\S+) \| (.+?) \| (\S+) \| (\S+)`).FindAllSubmatch(out, -1)
	for _, m := range found {
		t.note("%s, H = 64, %s: a log-probability changes by at most %s, the gradient by %s of its norm "+
			"(the CPU is the reference).", m[1], m[2], m[3], m[4])
	}
	if err != nil {
		t.fails("%s", failures(out, err))
	} else if len(found) == 0 {
		return errors.New("gpu.test printed no errors of the precisions")
	}
	return nil
}

// sizes finds the size from which the GPU is faster.
func sizes(c *check) (*table, error) {
	t := newTable("H", "completions", "operations of a step", "CPU, ms", "GPU, ms", "GPU faster by")
	for _, hidden := range []int{16, 64, 128, 256} {
		for _, completions := range []int{16, 64, 256, 1024} {
			if hidden*completions > 1<<17 {
				continue // minutes on a CPU
			}
			gpu, err := c.bench("cuda", "float32", hidden, completions, 32, 10)
			if err != nil {
				return t, err
			}
			cpu, err := c.bench("cpu", "", hidden, completions, 32, 5)
			if err != nil {
				return t, err
			}
			operations, _ := floors(hidden, completions, 32, 1, 1)
			t.row(hidden, completions, fmt.Sprintf("%.2g", operations), ms(cpu.MedianStepS), ms(gpu.MedianStepS),
				fmt.Sprintf("%.2f", cpu.MedianStepS/gpu.MedianStepS))
		}
	}
	t.note("Prompts and completions of 32 tokens; the CPU with all its cores.")
	return t, nil
}
