package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
)

// Files in the checkpoint folder.
const (
	lastFile   = "last.safetensors" // weights, moments and state: a run continues from it
	bestFile   = "best.safetensors" // weights of the best validation reward
	stepPrefix = "step-"            // output.checkpoint_every_n_steps
	stateKey   = "grpo.state"       // metadata of last.safetensors
	configKey  = "grpo.config_hash"
	kernelKey  = "grpo.kernel"
)

// state is what a run remembers besides weights and moments. It goes into the
// checkpoint whole.
type state struct {
	Step    int     `json:"step"` // steps made
	Updates int     `json:"updates"`
	Elapsed float64 `json:"elapsed_s"` // of former processes
	Drawn   int     `json:"drawn"`     // problems drawn for training

	// The adaptive entropy coefficient, and what of it the next update applies.
	EntropyCoef  float64 `json:"entropy_coef"`
	EntropyApply float64 `json:"entropy_apply"`

	Initial rundir.Eval  `json:"initial"`
	Final   rundir.Eval  `json:"final"`
	Best    rundir.Eval  `json:"best"`
	Unseen  *rundir.Eval `json:"unseen"`
	Test    *rundir.Eval `json:"test"`

	// Signal counts groups with a learning signal, Right the right completions
	// of training, Completions all of them.
	Signal      int `json:"signal"`
	Groups      int `json:"groups"`
	Right       int `json:"right"`
	Completions int `json:"completions"`

	DivergedAt     *int   `json:"diverged_at"`
	DivergedReason string `json:"diverged_reason"`

	// Lengths of the JSONL files in bytes when the checkpoint was written: what
	// stands behind them is cut, never doubled.
	MetricsSize int64 `json:"metrics_size"`
	EvalSize    int64 `json:"eval_size"`
	SamplesSize int64 `json:"samples_size"`
}

func (s *state) note(r *rollout) {
	s.Groups += r.stats.Groups
	s.Signal += r.stats.Groups - r.silent
	s.Completions += len(r.completions)
	for _, v := range r.verdicts {
		if v.Right {
			s.Right++
		}
	}
}

// files are the open logs of a run.
type files struct{ metrics, eval, samples *rundir.Log }

func (f *files) each(do func(*rundir.Log) error) error {
	for _, l := range []*rundir.Log{f.metrics, f.eval, f.samples} {
		if l != nil {
			if err := do(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *files) sync() error { return f.each((*rundir.Log).Sync) }

func (f *files) close() {
	_ = f.each(func(l *rundir.Log) error { _ = l.Close(); return nil }) // synced before whatever matters
}

func (t *trainer) path(parts ...string) string {
	return filepath.Join(append([]string{t.opts.Dir}, parts...)...)
}

// open takes the folder: it returns the result if the run is done, continues
// from its checkpoint if there is one, and starts afresh otherwise.
func (t *trainer) open() (*rundir.Result, error) {
	text := config.Marshal(t.cfg)
	switch old, err := os.ReadFile(t.path(rundir.ConfigFile)); {
	case errors.Is(err, fs.ErrNotExist):
		if err := rundir.WriteFileAtomic(t.path(rundir.ConfigFile), text); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("open run: %w", err)
	case !bytes.Equal(old, text):
		if err := t.sameRun(); err != nil {
			return nil, err
		}
	}
	var done rundir.Result
	switch err := rundir.ReadJSON(t.path(rundir.ResultFile), &done); {
	case err == nil:
		return &done, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := t.restore(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		size int64
		log  **rundir.Log
	}{
		{rundir.MetricsFile, t.state.MetricsSize, &t.files.metrics},
		{rundir.EvalFile, t.state.EvalSize, &t.files.eval},
		{rundir.SamplesFile, t.state.SamplesSize, &t.files.samples},
	} {
		if err := cut(t.path(f.name), f.size); err != nil {
			return nil, err
		}
		log, err := rundir.OpenLog(t.path(f.name))
		if err != nil {
			return nil, err
		}
		*f.log = log
	}
	meta := t.opts.Meta
	meta.Kernel, meta.Threads = kernel.Name(), t.opts.Threads
	meta.Started = t.started.UTC().Format(time.RFC3339)
	meta.ConfigHash, meta.InitHash = config.Hash(t.cfg), t.first.Hash()
	if err := rundir.WriteJSON(t.path(rundir.MetaFile), meta); err != nil {
		return nil, err
	}
	return nil, t.writeStatus(rundir.StateRunning, "")
}

// cut truncates a log to what its checkpoint knows of. OpenLog refuses a torn
// line, so this comes first.
func cut(path string, size int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && size == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("continue run: %w", err)
	}
	if info.Size() < size {
		return fmt.Errorf("continue run: %s has %d bytes, its checkpoint knows of %d: the file lost lines; start anew with --fresh", path, info.Size(), size)
	}
	if info.Size() > size {
		if err := os.Truncate(path, size); err != nil {
			return fmt.Errorf("continue run: %w", err)
		}
	}
	return nil
}

// sameRun compares the folder's configuration with this run's, key by key.
func (t *trainer) sameRun() error {
	old, err := config.Load(config.LoadOptions{Path: t.path(rundir.ConfigFile)})
	if err != nil {
		return fmt.Errorf("the folder %s holds a configuration that can't be read: %w", t.opts.Dir, err)
	}
	if config.Hash(old.Config) == config.Hash(t.cfg) {
		return nil
	}
	return fmt.Errorf("%w: %s holds a run of another configuration (%s); give another --out, or --fresh to begin anew beside it",
		config.ErrConfig, t.opts.Dir, strings.Join(config.Diff(old.Config, t.cfg), "; "))
}

// restore loads the last checkpoint, if there is one.
func (t *trainer) restore() error {
	path := t.path(rundir.CheckpointDir, lastFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := model.ReadFile(path)
	if err != nil {
		return fmt.Errorf("continue run: %w", err)
	}
	for _, want := range []struct{ key, what, value string }{
		{configKey, "configuration", config.Hash(t.cfg)}, {kernelKey, "kernel", kernel.Name()},
	} {
		if got := c.Metadata[want.key]; got != want.value {
			return fmt.Errorf("continue run: %s was written under %s %q, this is %q: the bits would differ; start anew with --fresh", path, want.what, got, want.value)
		}
	}
	if c.Params.Spec != t.params.Spec || c.M == nil {
		return fmt.Errorf("continue run: %s holds %v, this run is of %v with optimizer moments", path, c.Params.Spec, t.params.Spec)
	}
	d := json.NewDecoder(strings.NewReader(c.Metadata[stateKey]))
	d.DisallowUnknownFields()
	if err := d.Decode(&t.state); err != nil {
		return fmt.Errorf("continue run: %s: its state can't be read: %w", path, err)
	}
	if (t.critic != nil) != (c.Critic != nil) || (t.judges.reference != nil) != (c.Reference != nil) {
		return fmt.Errorf("continue run: %s lacks the critic or the reference policy of this run; start anew with --fresh", path)
	}
	if t.critic != nil {
		if err := t.critic.Restore(c.Critic); err != nil {
			return fmt.Errorf("continue run: %s: %w", path, err)
		}
	}
	if t.judges.reference != nil {
		copy(t.judges.reference.Flat, c.Reference.Flat)
	}
	copy(t.params.Flat, c.Params.Flat)
	copy(t.opt.M.Flat, c.M.Flat)
	copy(t.opt.V.Flat, c.V.Flat)
	t.opt.T = t.state.Updates
	return nil
}

// save writes the checkpoint that the run continues from, after the logs are
// safe on disk.
func (t *trainer) save() error {
	if err := t.files.sync(); err != nil {
		return err
	}
	if err := t.saveLast(); err != nil {
		return err
	}
	return t.writeStatus(rundir.StateRunning, "")
}

func (t *trainer) saveLast() error {
	s := t.state
	s.Updates = t.opt.T
	s.Elapsed += t.opts.Now().Sub(t.started).Seconds()
	s.MetricsSize, s.EvalSize, s.SamplesSize = t.files.metrics.Size(), t.files.eval.Size(), t.files.samples.Size()
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	c := model.Checkpoint{Params: t.params, M: t.opt.M, V: t.opt.V, Reference: t.judges.reference, Metadata: map[string]string{
		stateKey: string(text), configKey: config.Hash(t.cfg), kernelKey: kernel.Name(),
	}}
	if t.critic != nil {
		c.Critic = t.critic.State()
	}
	data, err := c.Encode()
	if err != nil {
		return err
	}
	return rundir.WriteFileAtomic(t.path(rundir.CheckpointDir, lastFile), data)
}

func (t *trainer) saveWeights(name string) error {
	data, err := model.Encode(t.params, nil, map[string]string{configKey: config.Hash(t.cfg)})
	if err != nil {
		return err
	}
	return rundir.WriteFileAtomic(t.path(rundir.CheckpointDir, name), data)
}

// saveEvery keeps the weights of every k-th step, the last few of them.
func (t *trainer) saveEvery(step int) error {
	every := t.cfg.Output.CheckpointEveryNSteps
	if every == 0 || step%every != 0 {
		return nil
	}
	if err := t.saveWeights(fmt.Sprintf("%s%06d.safetensors", stepPrefix, step)); err != nil {
		return err
	}
	old, err := filepath.Glob(t.path(rundir.CheckpointDir, stepPrefix+"*.safetensors"))
	if err != nil {
		return err
	}
	slices.Sort(old)
	for _, path := range old[:max(0, len(old)-t.cfg.Output.KeepCheckpoints)] {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("drop an old checkpoint: %w", err)
		}
	}
	return nil
}

func (t *trainer) writeStatus(name, problem string) error {
	return rundir.WriteJSON(t.path(rundir.StatusFile), rundir.Status{
		State: name, Step: t.state.Step, Steps: t.cfg.Train.NGRPOSteps, PID: os.Getpid(),
		Updated: t.opts.Now().UTC().Format(time.RFC3339), Reward: t.state.Final.Sampled.AnswerReward, Error: problem,
	})
}
