package train

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
)

func (t *trainer) path(parts ...string) string {
	return filepath.Join(append([]string{t.opts.Dir}, parts...)...)
}

// later keeps a note until there is a log to write it into.
func (t *trainer) later(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// finished returns the result of a run on a GPU that is done: to show it takes no
// GPU. A run on the CPU, and whatever is not as it should be, is left to open.
func (t *trainer) finished() *rundir.Result {
	if t.cfg.Model.Device == "cpu" {
		return nil
	}
	run, err := rundir.Open(t.opts.Dir) // checks the checksums of the files
	if err != nil || run.Result == nil || !bytes.Equal(run.Config, config.Marshal(t.cfg)) {
		return nil
	}
	return run.Result
}

// open takes the folder: it returns the result if the run is done, continues
// from its newest good checkpoint if there is one, and starts from step 0 otherwise.
func (t *trainer) open() (*rundir.Result, error) {
	text := config.Marshal(t.cfg)
	old, err := t.sameRun()
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(t.path(rundir.ResultFile)); err == nil {
		run, err := rundir.Open(t.opts.Dir) // checks the checksums of the files
		if err != nil {
			return nil, fmt.Errorf("%w (the run is done: restore the file, or start over in a new folder with --fresh)", err)
		}
		return run.Result, t.keepBest()
	}
	checkpoints, err := rundir.Subfolder(t.opts.Dir, rundir.CheckpointDir)
	if err != nil {
		return nil, fmt.Errorf("make the checkpoints' folder: %w", err)
	}
	if err := t.noteRewrite(old); err != nil {
		return nil, err
	}
	for _, dir := range []string{t.opts.Dir, checkpoints} {
		if err := rundir.RemoveTemps(dir); err != nil {
			return nil, err
		}
	}
	if err := t.restore(old); err != nil {
		return nil, err
	}
	return nil, t.begin(old, text)
}

// begin cuts the logs to the length that the checkpoint has for them, and writes
// the files that a folder has from the start. The checksums are written first
// and last: at no moment do they
// vouch for what is not there.
func (t *trainer) begin(old, text []byte) error {
	bare := rundir.Checksums{Step: t.state.Step, Files: t.state.Logs}
	if err := rundir.WriteJSON(t.path(rundir.CheckpointDir, rundir.ChecksumsFile), bare); err != nil {
		return err
	}
	for _, f := range t.logs.named() {
		log, err := rundir.OpenLog(t.path(f.name))
		if err != nil {
			return err
		}
		*f.log = log
		if err := log.TruncateTo(t.state.Logs[f.name].Bytes); err != nil {
			return fmt.Errorf("continue run: %w", err)
		}
	}
	if !bytes.Equal(old, text) {
		if err := rundir.WriteFileAtomic(t.path(rundir.ConfigFile), text); err != nil {
			return err
		}
	}
	meta := t.opts.Meta
	meta.Kernel, meta.Threads = kernel.Name(), t.opts.Threads
	meta.Device, meta.Moves = t.device.String(), t.state.Moves
	meta.Started = t.clock.start.UTC().Format(time.RFC3339)
	meta.ConfigHash, meta.InitHash, meta.ProblemsHash = config.Hash(t.cfg), t.inputs.Init, t.inputs.Problems
	if err := rundir.WriteJSON(t.path(rundir.MetaFile), meta); err != nil {
		return err
	}
	if err := t.writeChecksums(); err != nil {
		return err
	}
	return t.writeStatus(rundir.StateRunning, "")
}

// noteRewrite notes how the folder's configuration differs from the one that
// replaces it.
func (t *trainer) noteRewrite(old []byte) error {
	if old == nil || bytes.Equal(old, config.Marshal(t.cfg)) {
		return nil
	}
	diff, _, err := t.differences()
	if diff == "" {
		diff = "the same values, written differently"
	}
	t.later("%s is rewritten: %s", t.path(rundir.ConfigFile), diff)
	return err
}

// restore loads the newest checkpoint that is whole and whose logs are, if
// there is any checkpoint at all. A run from an older one makes the steps since
// then again, with the same lines.
func (t *trainer) restore(configFile []byte) error {
	t.saved = -1
	last, older, err := t.checkpoints()
	if err != nil {
		return err
	}
	var names []string
	if last {
		names = append(names, lastFile)
	}
	for _, step := range older {
		names = append(names, stepName(step))
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
			if err = t.logsHold(s); err == nil && !s.Stopped { // a run that stopped for such numbers is read
				if err = c.Params.CheckFinite(); err != nil {
					err = fmt.Errorf("read %s: %w", path, err)
				}
			}
		}
		if err != nil {
			damage = append(damage, err.Error())
			continue
		}
		if name == lastFile {
			t.saved = s.Step
		}
		for _, d := range damage {
			t.later("damage: %s", d)
		}
		if len(damage) > 0 {
			t.later("continuing from the checkpoint before, %s, after step %d", path, s.Step)
		}
		t.checkBest()
		return t.adopt(path, c, s)
	}
	return fmt.Errorf("continue run: no checkpoint in %s can be continued: %s (restore one of these files from a copy, or start over in a new folder with --fresh)",
		t.opts.Dir, strings.Join(damage, "; "))
}

// nothingSaved is for a folder without a checkpoint: a run that ended before its
// first, which starts from step 0, or one that lost them, which must not pass for it.
func (t *trainer) nothingSaved(configFile []byte) error {
	if info, err := os.Lstat(t.path(rundir.MetricsFile)); err == nil && info.Size() > 0 {
		return fmt.Errorf("continue run: %s holds steps, but there is no checkpoint in %s to continue from (restore one, or start over in a new folder with --fresh)",
			t.path(rundir.MetricsFile), t.path(rundir.CheckpointDir))
	}
	var checksums rundir.Checksums
	err := rundir.ReadJSON(t.path(rundir.CheckpointDir, rundir.ChecksumsFile), &checksums)
	if want := checksums.Files[rundir.ConfigFile]; t.opts.Resume && err == nil && want.SHA256 != "" && want != rundir.PrefixOf(configFile) {
		return fmt.Errorf("continue run: %s is not the configuration that the run started with (restore it, or start over with \"grpo train -c\")", t.path(rundir.ConfigFile))
	}
	return nil
}

// readCheckpoint reads a checkpoint of any version; the state is nil for one
// whose format is another.
func readCheckpoint(path string) (*model.Checkpoint, *state, error) {
	c, err := readOwn(path)
	if err != nil {
		return nil, nil, err
	}
	if c.Metadata[formatKey] != checkpointFormat {
		return c, nil, nil
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

// belongs refuses a whole checkpoint from which this run would not continue with
// the same bits.
func (t *trainer) belongs(path string, c *model.Checkpoint, s *state) error {
	const startOver = "start over in a new folder with --fresh"
	if s == nil {
		format := c.Metadata[formatKey]
		if format == "" {
			format = "1"
		}
		return fmt.Errorf("%s is a checkpoint of format %s, this version of grpo continues format %s (finish the run with the version that started it, or %s)",
			path, format, checkpointFormat, startOver)
	}
	onCPU := c.Metadata[deviceKey] == "" && t.device.String() == ""
	if k := c.Metadata[kernelKey]; !kernel.SameBits(k, kernel.Name()) && onCPU { // else the run moves to another device, with a note
		return fmt.Errorf("%s was written by the kernel %s, this is %s, and the last bits would differ (set GRPO_KERNEL=%s on a machine that has it, or %s)",
			path, k, kernel.Name(), k, startOver)
	}
	if err := t.sameConfig(path, c.Metadata[configKey]); err != nil {
		return fmt.Errorf("%w %s", err, startOver)
	}
	if changed := s.Inputs.differ(t.inputs); len(changed) > 0 {
		return fmt.Errorf("%s was written with other contents of the files that the configuration names: %s: restore them, or %s",
			path, strings.Join(changed, ", "), startOver)
	}
	whole := t.params.Match(c.Params) == nil && c.M != nil &&
		(t.critic != nil) == (c.Critic != nil) && (t.scorers.referencePolicy != nil) == (c.Reference != nil)
	if !whole || s.Epoch != 0 || s.MicroBatch != 0 || s.Seed != t.cfg.Seed {
		return fmt.Errorf("%s is not a checkpoint of this run, although its metadata say so: %s", path, startOver)
	}
	return nil
}

// sameConfig compares the configuration in a checkpoint with this run's.
func (t *trainer) sameConfig(path, text string) error {
	if text == string(config.Marshal(t.cfg)) {
		return nil
	}
	old, err := config.LoadText(path, []byte(text))
	if err != nil {
		return fmt.Errorf("the configuration in %s is of another version of grpo (%w): finish the run with that version, or", path, err)
	}
	here := onDeviceOf(old.Config, t.cfg)
	diff := strings.Join(config.Diff(here, t.cfg), "; ")
	switch {
	case t.opts.Resume && diff != "":
		return fmt.Errorf("%w: %s is not what %s was written under (%s): restore it, or",
			config.ErrConfig, t.path(rundir.ConfigFile), path, diff)
	case config.Hash(here) != config.Hash(t.cfg):
		return fmt.Errorf("%w: %s was written under another configuration (%s): go back to that, or", config.ErrConfig, path, diff)
	}
	return nil
}

// logsHold returns an error unless the logs begin with what they held when s was
// written.
func (t *trainer) logsHold(s *state) error {
	for _, f := range t.logs.named() {
		if err := s.Logs[f.name].Holds(t.path(f.name)); err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over weights, moments and state of a checkpoint.
func (t *trainer) adopt(path string, c *model.Checkpoint, s *state) error {
	if t.critic != nil {
		if err := t.critic.Restore(c.Critic); err != nil {
			return fmt.Errorf("continue run: %s: %w", path, err)
		}
	}
	sets := []struct{ to, from *model.Params }{{t.params, c.Params}, {t.opt.M, c.M}, {t.opt.V, c.V}}
	if t.scorers.referencePolicy != nil {
		sets = append(sets, struct{ to, from *model.Params }{t.scorers.referencePolicy.Params(), c.Reference})
	}
	for _, x := range sets {
		if err := x.to.Set(x.from); err != nil {
			return fmt.Errorf("continue run: %s: %w", path, err)
		}
	}
	t.state = *s
	t.opt.T = s.Updates
	t.moved(c.Metadata[deviceKey])
	if k := c.Metadata[kernelKey]; k != kernel.Name() && t.device.String() == "" && c.Metadata[deviceKey] == "" {
		t.later("the checkpoint was written by the kernel %s, this is %s: both give the same bits", k, kernel.Name())
	}
	return nil
}

// checkBest notes damage to best.safetensors, which a continued run may never
// write again.
func (t *trainer) checkBest() {
	path := t.path(rundir.CheckpointDir, bestFile)
	c, err := readOwn(path)
	if err == nil && !c.Checksummed {
		err = fmt.Errorf("%s: it has lost its checksum", path)
	}
	if err != nil {
		t.later("damage: %v: the weights of the best step so far are lost; the run itself does not need them", err)
	}
}
