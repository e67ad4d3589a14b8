package train

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/inputfiles"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// restore loads the newest valid checkpoint whose logs are intact, if any checkpoint exists. From
// an older one, the run repeats the steps since then, with the same lines.
func (t *trainer) restore(configFile []byte) error {
	t.saved = -1
	names, err := t.checkpoints()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return t.nothingSaved(configFile)
	}
	var damage []string
	for _, name := range names {
		path := t.path(rundir.CheckpointDir, name)
		c, s, err := readCheckpoint(path)
		if err == nil {
			if err := t.belongs(path, c, s); err != nil {
				return fmt.Errorf("continue run: %w", err)
			}
			if err = t.logsHold(s); err == nil && !s.Stopped { // a diverged run may have NaN weights
				if err = c.Params.CheckFinite(); err != nil {
					err = fmt.Errorf("read %s: %w", path, err)
				}
			}
		}
		if err != nil {
			damage = append(damage, err.Error())
			continue
		}
		if name == rundir.LastFile {
			t.saved = s.Step
		}
		for _, d := range damage {
			t.later("damage: %s", d)
		}
		if len(damage) > 0 {
			t.later("continuing from the checkpoint before, %s, after step %d", path, s.Step)
		}
		if err := t.verifyBest(); err != nil { // the continued run may never write them again
			t.later("damage: %v: the weights of the best step so far are lost; the run itself does not need them", err)
		}
		if err := t.adopt(c, s); err != nil {
			return fmt.Errorf("continue run: %s: %w", path, err)
		}
		return nil
	}
	return fmt.Errorf("continue run: no checkpoint in %s can be continued: %s (restore one of these "+
		"files from a copy, or start over in a new folder with --fresh)",
		t.opts.Dir, strings.Join(damage, "; "))
}

// nothingSaved handles a folder without a checkpoint: a run that ended before its first starts at
// step 0; a run that lost its checkpoints is refused.
func (t *trainer) nothingSaved(configFile []byte) error {
	if info, err := os.Lstat(t.path(rundir.MetricsFile)); err == nil && info.Size() > 0 {
		return fmt.Errorf("continue run: %s has steps, but there is no checkpoint in %s to continue "+
			"from (restore one, or start over in a new folder with --fresh)",
			t.path(rundir.MetricsFile), t.path(rundir.CheckpointDir))
	}
	var checksums rundir.Checksums
	err := rundir.ReadJSON(t.path(rundir.CheckpointDir, rundir.ChecksumsFile), &checksums)
	want := checksums.Files[rundir.ConfigFile]
	if t.opts.Resume && err == nil && want.SHA256 != "" && want != rundir.PrefixOf(configFile) {
		return fmt.Errorf("continue run: %s is not the configuration that the run started with (restore "+
			"it, or start over with \"grpo train -c\")",
			t.path(rundir.ConfigFile))
	}
	return nil
}

// readCheckpoint reads a checkpoint of any version; the state is nil if the file
// has another format.
func readCheckpoint(path string) (*model.Checkpoint, *state, error) {
	c, err := policy.ReadOwn(path)
	if err != nil || c.Metadata[formatKey] != checkpointFormat {
		return c, nil, err
	}
	if !c.Checksummed {
		return nil, nil, fmt.Errorf("read %s: it has lost its checksum: the file was damaged or changed", path)
	}
	s := new(state)
	if err := rundir.Unmarshal([]byte(c.Metadata[stateKey]), s); err != nil {
		return nil, nil, fmt.Errorf("read %s: %s: %w", path, stateKey, err)
	}
	return c, s, nil
}

// belongs returns an error if this run would not continue from an intact checkpoint with the same
// bits.
func (t *trainer) belongs(path string, c *model.Checkpoint, s *state) error {
	const startOver = "start over in a new folder with --fresh"
	if s == nil {
		return fmt.Errorf("%s is a checkpoint of format %s, this version of grpo continues format %s "+
			"(finish the run with the version that started it, or %s)",
			path, cmp.Or(c.Metadata[formatKey], "1"), checkpointFormat, startOver)
	}
	// A move to another device gets a note instead.
	if k, now := c.Metadata[kernelKey], t.model.Kernel(); t.onCPU(c) && !kernel.SameBits(k, now) {
		fix := "set GRPO_KERNEL=" + k + " on a machine that has it"
		if kernel.InBF16(k) != kernel.InBF16(now) {
			fix = "restore model.precision"
		}
		return fmt.Errorf("%s was written by the kernel %s, this is %s, and the last bits would differ (%s, or %s)",
			path, k, now, fix, startOver)
	}
	if err := t.sameConfig(path, c.Metadata[rundir.ConfigKey]); err != nil {
		return fmt.Errorf("%w %s", err, startOver)
	}
	then := s.Inputs
	if s.Step == 0 { // no reward has been used: a script may be corrected
		then.Rewards = t.inputs.Rewards
	}
	if changed := then.differ(t.inputs); len(changed) > 0 {
		var meta rundir.Meta
		if rundir.ReadJSON(t.path(rundir.MetaFile), &meta) == nil && meta.InputFiles != nil {
			files, _ := inputfiles.Compare(meta.InputFiles, t.files)
			changed = append(changed, files...)
		}
		return fmt.Errorf("%s was written with other contents of the files that the configuration names: "+
			"%s: restore them, or %s",
			path, strings.Join(changed, ", "), startOver)
	}
	complete := t.Params.Match(c.Params) == nil && t.hasMoments(s.Updates) == (c.M != nil) &&
		(t.critic != nil) == (c.Critic != nil) && t.hasReference(s.Step) == (c.Reference != nil) &&
		t.hasOld(s.Step) == (c.Sampler != nil)
	if !complete || s.Epoch != 0 || s.MicroBatch != 0 || s.Seed != t.cfg.Seed {
		return fmt.Errorf("%s is not a checkpoint of this run, although its metadata say so: %s", path, startOver)
	}
	return nil
}

// onCPU reports whether both the checkpoint's run and this one are on the CPU.
func (t *trainer) onCPU(c *model.Checkpoint) bool {
	return c.Metadata[deviceKey] == "" && t.Device.String() == ""
}

// sameConfig compares the configuration in a checkpoint with this run's.
func (t *trainer) sameConfig(path, saved string) error {
	if saved == string(config.Marshal(t.cfg)) {
		return nil
	}
	old, err := config.LoadText(path, []byte(saved))
	if err != nil {
		return fmt.Errorf("the configuration in %s is of another version of grpo (%w): finish the run "+
			"with that version, or", path, err)
	}
	here := onDeviceOf(old.Config, t.cfg)
	diff := strings.Join(config.Diff(here, t.cfg), "; ")
	switch {
	case t.opts.Resume && diff != "":
		return fmt.Errorf("%w: %s is not what %s was written under (%s): restore it, or",
			config.ErrConfig, t.path(rundir.ConfigFile), path, diff)
	case config.Hash(here) != config.Hash(t.cfg):
		return fmt.Errorf("%w: %s was written under another configuration (%s): go back to that, or",
			config.ErrConfig, path, diff)
	}
	return nil
}

// logsHold returns an error unless the logs start with their content as of s.
func (t *trainer) logsHold(s *state) error {
	for _, name := range logFiles {
		if err := s.Logs[name].Holds(t.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// adopt copies weights, moments and state from a checkpoint.
func (t *trainer) adopt(c *model.Checkpoint, s *state) error {
	if t.critic != nil {
		if err := t.critic.Restore(c.Critic); err != nil {
			return err
		}
	}
	if c.Sampler != nil {
		if err := t.adoptOld(c.Sampler); err != nil {
			return err
		}
	}
	to, from := []*model.Params{t.Params}, []*model.Params{c.Params}
	if c.M != nil {
		to, from = append(to, t.opt.M, t.opt.V), append(from, c.M, c.V)
	}
	if c.Reference != nil {
		to, from = append(to, t.scorers.referencePolicy.Params()), append(from, c.Reference)
	}
	for i := range to {
		if err := to[i].Set(from[i]); err != nil {
			return err
		}
	}
	if err := t.resample(s.Step); err != nil {
		return err
	}
	t.state = *s
	t.opt.T = s.Updates
	t.moved(c.Metadata[deviceKey])
	if k, now := c.Metadata[kernelKey], t.model.Kernel(); k != now && t.onCPU(c) {
		t.later("the checkpoint was written by the kernel %s, this is %s: both give the same bits", k, now)
	}
	return nil
}

// onDeviceOf returns a with the device of b, and its precision unless both are the CPU: a run may
// move between devices. Under LoRA it stays in bf16 or out of it: the hash of the frozen weights,
// which in bf16 are rounded, must stay the same.
func onDeviceOf(a, b config.Config) config.Config {
	moves := a.Model.Device != b.Model.Device || a.Model.Device != "cpu"
	if moves && (a.Train.LoRA.Rank == 0 || (a.Model.Precision == "bf16") == (b.Model.Precision == "bf16")) {
		a.Model.Precision = b.Model.Precision
	}
	a.Model.Device = b.Model.Device
	return a
}

// moved notes that the run continues on a different device than its checkpoint's.
func (t *trainer) moved(was string) {
	now := t.Device.String()
	if was == now {
		return
	}
	line := fmt.Sprintf("the run moved from %s to %s after step %d: its bits match those of neither device",
		cmp.Or(was, "the CPU"), cmp.Or(now, "the CPU"), t.state.Step)
	t.state.Moves = append(t.state.Moves, line)
	t.later("%s", line)
}
