package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// The folder checkpoint/ contains
//
//	last.safetensors          the newest checkpoint
//	step-000010.safetensors   older ones, output.keep_checkpoints in all
//	best.safetensors          the weights of the best validation reward
//	best/                     these of a Llama or Qwen network, as a Hugging Face folder in float32,
//	                          or of adapters, as a PEFT folder
//	reference.safetensors     log-probabilities of the pairs of files under the reference policy of dpo
//	seal.json                 checksums of the logs as of the newest one (rundir.Checksums)
//
// A finished run with output.keep "best" keeps only the best weights.
//
// A checkpoint is a safetensors file with a checksum: the policy's weights under PyTorch's names,
// AdamW's moments, and, if there are any, the reference model, the earlier policy that samples and the
// critic with its moments. Its
// metadata are
//
//	grpo.sha256        of the whole file
//	grpo.format        the number of this format
//	grpo.kernel        the name of the kernel: see [kernel.SameBits]
//	grpo.device        the GPU and its precision; absent on the CPU
//	grpo.config        the resolved configuration, as in config.yaml
//	grpo.config_hash   its hash
//	grpo.state         the rest, as JSON: see [state]
//
// A run continues only from a checkpoint of its own format and configuration, written by a kernel
// that gives the same bits; otherwise its results would change unnoticed.
const (
	formatKey = "grpo.format"
	kernelKey = "grpo.kernel"
	deviceKey = "grpo.device"
	hashKey   = "grpo.config_hash"
	stateKey  = "grpo.state"
	stepKey   = "grpo.step" // of best.safetensors
)

// checkpointFormat is raised whenever a run could not continue with the same bits: when the fields
// of the state, random streams, the order of problems or the arithmetic change. Files before 2 have
// no number.
const checkpointFormat = "2"

// state is the part of a checkpoint that is neither weights nor moments.
type state struct {
	Step    int `json:"step"` // steps made
	Updates int `json:"updates"`
	// Checkpoints are written between steps, so these two are 0; other values are another format.
	Epoch      int `json:"epoch"`
	MicroBatch int `json:"micro_batch"`
	// Seed keys every random stream, together with purpose, step, prompt, sample
	// and token. Drawn is the data cursor: the problems drawn so far.
	Seed    uint64  `json:"seed"`
	Drawn   int     `json:"drawn"`
	Inputs  inputs  `json:"inputs"`
	Elapsed float64 `json:"elapsed_s"` // of earlier processes

	// The adaptive entropy coefficient, and its value for the next update.
	EntropyCoef  float64 `json:"entropy_coef"`
	EntropyApply float64 `json:"entropy_apply"`

	Initial rundir.Eval  `json:"initial"`
	Final   rundir.Eval  `json:"final"`
	Best    rundir.Eval  `json:"best"`
	Unseen  *rundir.Eval `json:"unseen"`
	Test    *rundir.Eval `json:"test"`
	// Sets are the evaluations on the sets of files, in the order of eval.sets.
	Sets []rundir.SetResult `json:"sets,omitempty"`

	Signal      int `json:"signal"` // number of informative groups
	Groups      int `json:"groups"`
	Right       int `json:"right"` // number of correct training completions
	Completions int `json:"completions"`
	// WithoutPairs counts the steps of dpo that made no update.
	WithoutPairs int `json:"steps_without_pairs,omitempty"`
	Checks       int `json:"checks"` // number of passed checks

	DivergedAt     *int   `json:"diverged_at"`
	DivergedReason string `json:"diverged_reason"`
	Stopped        bool   `json:"stopped"` // numbers are no longer finite: no next step

	Moves []string `json:"moves,omitempty"` // device changes
	// Logs are the JSONL files, by name, as of this checkpoint: later lines are cut so that none is
	// written twice, and earlier lines must be unchanged.
	Logs map[string]rundir.Prefix `json:"logs"`
}

// count adds the outcomes of a rollout.
func (s *state) count(r *rollout) {
	s.Groups += r.groups()
	s.Signal += r.groups() - r.zeroAdvantage
	s.Completions += len(r.completions)
	for _, v := range r.verdicts {
		if v.Right {
			s.Right++
		}
	}
}

func stepName(step int) string { return fmt.Sprintf("step-%06d.safetensors", step) }

// stepOf returns the step in the name of an older checkpoint.
func stepOf(name string) (step int, ok bool) {
	_, err := fmt.Sscanf(name, "step-%d.safetensors", &step)
	return step, err == nil && step >= 0 && name == stepName(step)
}

// checkpoints lists the files of checkpoints, newest first.
func (t *trainer) checkpoints() ([]string, error) {
	entries, err := os.ReadDir(t.path(rundir.CheckpointDir))
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var last, older []string
	for _, e := range entries {
		if e.Name() == rundir.LastFile {
			last = append(last, rundir.LastFile)
		} else if _, ok := stepOf(e.Name()); ok {
			older = append(older, e.Name())
		}
	}
	slices.SortFunc(older, func(a, b string) int {
		stepA, _ := stepOf(a)
		stepB, _ := stepOf(b)
		return stepB - stepA
	})
	return append(last, older...), nil
}

// checkpointDue reports whether to save a checkpoint after this step.
func (t *trainer) checkpointDue(step int, evaluated bool) bool {
	every := t.cfg.Output.CheckpointEveryNSteps
	due := evaluated
	if every > 0 {
		due = step%every == 0 || step == t.cfg.Train.NGRPOSteps
	}
	return due || t.checkpointOverdue()
}

// defaultMinutes is output.checkpoint_every_minutes of a Llama or Qwen run, whose steps may take
// minutes.
const defaultMinutes = 10

// checkpointOverdue reports whether the last checkpoint is too old, and there is room for another.
func (t *trainer) checkpointOverdue() bool {
	minutes := t.cfg.Output.CheckpointEveryMinutes
	if minutes == 0 && t.folder != nil {
		minutes = defaultMinutes
	}
	if minutes == 0 || t.opts.Now().Sub(t.savedAt).Minutes() < minutes {
		return false
	}
	err := t.opts.Disk.Pass(t.opts.Dir, budget.CheckpointBytes(t.model, t.cfg))
	if err != nil {
		t.savedAt = t.opts.Now() // the next try
		t.note("no checkpoint after %g minutes (output.checkpoint_every_minutes): %v", minutes, err)
	}
	return err == nil
}

// checkpoint saves a checkpoint and the run's status.
func (t *trainer) checkpoint(status string) error {
	err := t.save()
	if err == nil && status != rundir.StateRunning {
		err = t.disk.wait()
	}
	if err != nil {
		return err
	}
	return t.writeStatus(status, "")
}

// save syncs the logs, writes the checkpoint, and then writes their checksums.
func (t *trainer) save() error {
	t.opts.Progress.Do("writing a checkpoint")
	if err := t.hold.Check(); err != nil {
		return err
	}
	if err := t.logs.sync(); err != nil {
		return err
	}
	c, err := t.current()
	if err != nil {
		return err
	}
	dir, before, step := t.path(rundir.CheckpointDir), t.saved, t.state.Step
	last := filepath.Join(dir, rundir.LastFile)
	commit, err := rundir.PrepareFile(last, func(f *os.File) error { return c.WriteChecksummed(f) }, t.hold.Check)
	if err != nil {
		return err
	}
	t.saved, t.savedAt = step, t.opts.Now()
	checksums := t.checksums()
	return t.disk.do(func() error {
		// If the folder was lost in the meantime, commit removes its temporary file.
		if t.hold.Check() == nil && before >= 0 && before != step && t.cfg.Output.KeepCheckpoints > 1 {
			if err := rundir.Keep(last, filepath.Join(dir, stepName(before))); err != nil {
				return fmt.Errorf("save checkpoint in %s: %w", dir, err)
			}
		}
		if err := commit(); err != nil {
			return err
		}
		if err := t.dropOld(step); err != nil {
			return err
		}
		return rundir.WriteJSON(filepath.Join(dir, rundir.ChecksumsFile), checksums)
	})
}

// current returns the current checkpoint, in the run's own memory.
func (t *trainer) current() (*model.Checkpoint, error) {
	s := t.state
	s.Seed, s.Inputs = t.cfg.Seed, t.inputs
	s.Updates = t.opt.T
	s.Elapsed += t.clock.seconds()
	s.Logs = t.logs.prefixes()
	text, err := rundir.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("save checkpoint: %w", err)
	}
	c := &model.Checkpoint{Params: t.Params, M: t.opt.M, V: t.opt.V, Metadata: map[string]string{
		formatKey: checkpointFormat, kernelKey: t.model.Kernel(),
		rundir.ConfigKey: string(config.Marshal(t.cfg)), hashKey: config.Hash(t.cfg), stateKey: string(text),
	}}
	if on := t.Device.String(); on != "" {
		c.Metadata[deviceKey] = on
	}
	if !t.hasMoments(s.Updates) {
		c.M, c.V = nil, nil
	}
	if t.hasReference(s.Step) {
		c.Reference = t.scorers.referencePolicy.Params()
	}
	if t.hasOld(s.Step) {
		c.Sampler = t.oldParams()
	}
	if t.critic != nil {
		c.Critic = t.critic.State()
	}
	return c, nil
}

// The checkpoint of a Llama or Qwen network is large, so it leaves out what a continued run has
// anyway. That of a TinyLM does not: earlier versions need it.

// hasMoments reports whether a checkpoint has AdamW's moments: before the first update all are 0.
func (t *trainer) hasMoments(updates int) bool { return t.folder == nil || updates > 0 }

// hasReference reports whether the checkpoint after a step has the reference model: until it moves,
// it is the initial policy, which is read again and compared with its hash.
func (t *trainer) hasReference(step int) bool {
	every := t.cfg.Algorithm.RefModelSyncSteps
	return t.scorers.referencePolicy != nil && (t.folder == nil || every > 0 && step >= every)
}

// dropOld removes checkpoints beyond output.keep_checkpoints, and any that are newer than the step
// at which a run resumed after damage.
func (t *trainer) dropOld(current int) error {
	names, err := t.checkpoints()
	if err != nil {
		return err
	}
	kept := 1 // last.safetensors
	for _, name := range names {
		step, ok := stepOf(name)
		if !ok {
			continue
		}
		if step < current && kept < t.cfg.Output.KeepCheckpoints {
			kept++
			continue
		}
		if err := os.Remove(t.path(rundir.CheckpointDir, name)); err != nil {
			return fmt.Errorf("drop an old checkpoint: %w", err)
		}
	}
	return nil
}

// checksums are lengths and checksums of the files as of the current step.
func (t *trainer) checksums() rundir.Checksums {
	s := rundir.Checksums{Step: t.state.Step, Files: t.logs.prefixes()}
	s.Files[rundir.ConfigFile] = rundir.PrefixOf(config.Marshal(t.cfg))
	return s
}

// writer waits for the disk while a run goes on. A checkpoint of a Llama or Qwen network is in the
// system's memory after a second or two, but takes many to reach the disk. Only then does it get
// its name, so a crash before leaves the previous one.
type writer struct {
	background bool       // otherwise tasks are done at once
	last       chan error // the result of the task that was given last
}

// do does a task after those before it, none of which may have failed. In the background the error
// is that of the next wait.
func (w *writer) do(task func() error) error {
	if !w.background {
		return task()
	}
	before, result := w.last, make(chan error, 1)
	w.last = result
	go func() {
		var err error
		if before != nil {
			err = <-before
		}
		if err == nil {
			err = task()
		}
		result <- err
	}()
	return nil
}

// wait waits for all tasks and returns the first error.
func (w *writer) wait() (err error) {
	if w.last != nil {
		err = <-w.last
	}
	w.last = nil
	return err
}
