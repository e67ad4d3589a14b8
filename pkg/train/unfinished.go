package train

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// UnfinishedFile has the completions of the evaluations after a step, in the run's folder until the run ends.
const UnfinishedFile = "unfinished.jsonl"

// unfinished is the sampler of the evaluations of a Llama or Qwen network, which can take an hour on the CPU: it
// writes down what it samples, so that a run that was interrupted samples only the rest. Completions depend on
// weights, prompts and random numbers alone, so they have the same bits.
type unfinished struct {
	model.Sampler
	check  func() error // an error if the folder is another process's
	log    *rundir.Log  // nil: not opened yet
	pieces map[string]piece
	step   int
	policy string // a hash of the policy after step
	curve  int    // the number of the curve's problems
}

// piece has the completions of some prompts by one decoding: a line of the file.
type piece struct {
	Step        int    `json:"step"`
	Key         string `json:"key"` // a hash of all that they depend on
	Completions []kept `json:"completions"`
	SHA256      string `json:"sha256"` // of the rest
}

// kept is what evaluations read of a completion.
type kept struct {
	Tokens []int `json:"tokens"`
	Ended  bool  `json:"ended"`
}

func (p *piece) sum() string {
	h := sha256.New()
	fmt.Fprint(h, p.Step, p.Key, p.Completions)
	return hex.EncodeToString(h.Sum(nil))
}

// evaluationSampler is the sampler of the evaluations after a step.
func (t *trainer) evaluationSampler(step int) (model.Sampler, error) {
	if t.folder == nil || t.Device.GPU != nil {
		return t.sampler, nil
	}
	u := &t.unfinished
	if u.log == nil {
		damaged, err := u.open(t.path(UnfinishedFile))
		if err != nil {
			return nil, err
		}
		if damaged > 0 {
			t.note("damage: %s: line %d: the completions from there on are sampled again", t.path(UnfinishedFile), damaged)
		}
		u.Sampler, u.check, u.step, u.curve = t.sampler, t.hold.Check, -1, len(t.data.problems.Val)
	}
	if u.step == step {
		return u, nil
	}
	h := sha256.New()
	fmt.Fprintln(h, config.Hash(t.cfg), t.model.Kernel(), t.inputs.Init, t.inputs.Network)
	model.WriteFloats(h, t.Params.Flat)
	u.step, u.policy = step, hex.EncodeToString(h.Sum(nil))
	for _, p := range u.pieces {
		if p.Step != step { // all are of one step
			clear(u.pieces)
			return u, u.log.TruncateTo(0)
		}
	}
	return u, nil
}

// open reads the file. It cuts it before the first line that is damaged, and returns its number, 0 if there is
// none; a process that was killed leaves half a line, which is no damage.
func (u *unfinished) open(path string) (damaged int, err error) {
	data, err := regular.Read(path, regular.MaxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("continue the evaluation: %w (remove the file to start it over)", err)
	}
	u.pieces = map[string]piece{}
	var good int64
	for line := range bytes.Lines(data) {
		if line[len(line)-1] != '\n' {
			break
		}
		var p piece
		if rundir.Unmarshal(line, &p) != nil || p.SHA256 != p.sum() {
			damaged = len(u.pieces) + 1
			break
		}
		u.pieces[p.Key] = p
		good += int64(len(line))
	}
	if u.log, err = rundir.OpenLog(path); err != nil {
		return 0, err
	}
	return damaged, u.log.TruncateTo(good)
}

// SampleEach implements [model.SampleEach], with the completions of the file where it has them.
func (u *unfinished) SampleEach(prompts [][]int, group int, opts []model.Sampling, draws model.Draws) (
	[][]model.Completion, error) {
	const together = 256 // completions: a sampler takes as many at a time
	out := make([][]model.Completion, len(opts))
	size := max(1, together/group)
	for lo, hi := 0, 0; lo < len(prompts); lo = hi {
		hi = min(lo+size, len(prompts))
		if lo < u.curve { // a piece of the curve's problems alone serves the last evaluation, too
			hi = min(hi, u.curve)
		}
		at := draws
		at.B += uint32(lo)
		part, err := u.piece(prompts[lo:hi], group, opts, at)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i] = append(out[i], part[i]...)
		}
	}
	return out, nil
}

// piece completes some prompts. Greedy completions do not depend on draws: those of the curve's problems serve the last
// evaluation, too.
func (u *unfinished) piece(prompts [][]int, group int, opts []model.Sampling, draws model.Draws) (
	[][]model.Completion, error) {
	out, keys := make([][]model.Completion, len(opts)), make([]string, len(opts))
	var missing []model.Sampling
	for i, o := range opts {
		h := sha256.New()
		fmt.Fprintln(h, u.policy, group, prompts, o.Greedy, o.Temperature, o.TopP, o.TopK, o.MinTokens, o.MaxTokens)
		if !o.Greedy {
			fmt.Fprintln(h, draws)
		}
		keys[i] = hex.EncodeToString(h.Sum(nil))
		p, ok := u.pieces[keys[i]]
		if !ok {
			missing = append(missing, o)
			continue
		}
		for _, c := range p.Completions {
			out[i] = append(out[i], model.Completion{Tokens: c.Tokens, Ended: c.Ended})
		}
		if o.Watch != nil {
			n := len(p.Completions)
			if err := o.Watch(0, n, n*o.MaxTokens); err != nil { // they took no tokens
				return nil, err
			}
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	sampled, err := model.SampleEach(u.Sampler, prompts, group, missing, draws)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i] != nil {
			continue
		}
		out[i], sampled = sampled[0], sampled[1:]
		p := piece{Step: u.step, Key: keys[i]}
		for _, c := range out[i] {
			p.Completions = append(p.Completions, kept{c.Tokens, c.Ended})
		}
		p.SHA256 = p.sum()
		if err := u.check(); err != nil {
			return nil, err
		}
		u.pieces[p.Key] = p
		if err := u.log.Append(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// remove removes the file of a run whose evaluations are over.
func (u *unfinished) remove(path string) error {
	u.close()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the completions of evaluations that are over: %w", err)
	}
	return nil
}

func (u *unfinished) close() {
	if u.log != nil {
		_ = u.log.Close() // the lines were written
		u.log = nil
	}
}
