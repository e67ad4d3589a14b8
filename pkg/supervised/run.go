package supervised

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"grpo/internal/cores"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/inputfiles"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// This file is the life of a supervised run, `grpo sft` or `grpo reward-model`. It can't be continued: its folder
// has config.yaml, a log and, when the run is done, the weights and record.json.

// Options are what a supervised run needs besides its configuration. L is a line of its log.
type Options[L any] struct {
	Dir      string // the run's folder
	Threads  int    // of the CPU; 0 = one for each fast core
	Step     func(line L, steps int)
	Note     func(string)
	Memory   budget.MemoryCheck // nil = no check
	Progress model.Progress
}

// supervised is a supervised run with a configuration C, a log of lines L and a record R.
type supervised[C config.Root, L, R any] struct {
	cfg   C
	opts  Options[L]
	kind  rundir.Kind
	log   string // the name of its log
	load  func(config.LoadOptions) (*config.Loaded[C], error)
	files map[string]string // the SHA-256 of the files that the run reads, by path
	model *policy.Model
	policy.Network
	hold  *rundir.Hold
	lines *rundir.Log
}

// task is what one kind of supervised run does, in the order of the calls. close is called last, also
// after an error.
type task[R any] interface {
	paths() []string                       // the files that it reads
	same(*R) error                         // nil if the record is this run's and its files are complete
	read() (budget.Memory, error)          // reads all input
	build() error                          // opens the network
	train(ctx context.Context) (*R, error) // the record, but for its weights
	save(rec *R) error                     // writes the weights
	close()
}

// run shows the record of a finished run, or makes the run. Bad input leaves no folder.
func (s *supervised[C, L, R]) run(ctx context.Context, t task[R]) (rec *R, err error) {
	s.opts.Threads = cmp.Or(s.opts.Threads, cores.Threads())
	if rec, err := s.finished(t.same); rec != nil || err != nil {
		return rec, err
	}
	if s.files, err = (inputfiles.Hashes{}).Sums(t.paths()); err != nil {
		return nil, err
	}
	need, err := t.read()
	if err != nil {
		return nil, err
	}
	if err := s.opts.Memory.Pass(need); err != nil {
		return nil, err
	}
	defer func() {
		t.close()
		s.Network.Close()
	}()
	if err := t.build(); err != nil {
		return nil, err
	}
	if s.hold, err = rundir.Acquire(s.opts.Dir, s.kind, s.sameRequest); err != nil {
		return nil, err
	}
	defer s.hold.Release()
	for _, f := range []struct {
		name string
		text []byte
	}{{rundir.ConfigFile, config.Marshal(s.cfg)}, {s.log, nil}} {
		if err := rundir.WriteFileAtomic(s.path(f.name), f.text); err != nil {
			return nil, err
		}
	}
	if s.lines, err = rundir.OpenLog(s.path(s.log)); err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.lines.Close(); err == nil {
			err = cerr
		}
	}()
	for _, note := range s.Device.Notes {
		s.opts.Note(note)
	}
	if rec, err = t.train(ctx); err != nil {
		return nil, err
	}
	s.opts.Progress.Do("writing the weights")
	if err := s.hold.Check(); err != nil {
		return nil, err
	}
	if err := t.save(rec); err != nil {
		return nil, err
	}
	return rec, rundir.WriteJSON(s.path(rundir.RecordFile), rec)
}

// steps makes steps: step trains, evaluates if that is due after every steps and after the last, and reports
// whether to stop early. Each has its line in the log. what names the steps in an error.
func (s *supervised[C, L, R]) steps(ctx context.Context, what string, steps, every int,
	step func(n int, evaluate bool) (line L, stop bool, err error)) error {
	for n := 1; n <= steps; n++ {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %sstep %d of %d; the same command starts from the beginning",
				rundir.ErrNothingSaved, what, n, steps)
		}
		line, stop, err := step(n, n == steps || n%every == 0)
		if err != nil {
			return err
		}
		if err := s.hold.Check(); err != nil {
			return err
		}
		if err := s.lines.Append(line); err != nil {
			return err
		}
		s.opts.Step(line, steps)
		if stop {
			return nil
		}
	}
	return nil
}

func (s *supervised[C, L, R]) path(name string) string { return filepath.Join(s.opts.Dir, name) }

// sameRequest returns an error if the folder has a run of another configuration.
func (s *supervised[C, L, R]) sameRequest() error {
	differences := func() (string, bool, error) {
		old, err := s.load(config.LoadOptions{Path: s.path(rundir.ConfigFile)})
		if err != nil {
			return "", true, err
		}
		return strings.Join(config.Diff(old.Config, s.cfg), "; "), config.Hash(old.Config) != config.Hash(s.cfg), nil
	}
	_, err := rundir.OwnConfig(s.opts.Dir, config.Marshal(s.cfg), differences, s.log, rundir.RecordFile)
	return err
}

// finished returns the record of a finished run, with a note that it is done; nil if it is not. It writes no files.
func (s *supervised[C, L, R]) finished(same func(*R) error) (*R, error) {
	if err := rundir.Allow(s.opts.Dir, s.kind, s.sameRequest); err != nil {
		return nil, err
	}
	rec := new(R)
	err := rundir.ReadJSON(s.path(rundir.RecordFile), rec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = same(rec)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (the run is done: put the file back, or start in a new folder with --fresh)", err)
	}
	s.opts.Note(fmt.Sprintf("the run in %s is done; this is its record (no file was changed)", s.opts.Dir))
	return rec, nil
}

// sameInputs returns an error if a record is of a run of another configuration, or of one with other contents of
// its files (then; nil in records of earlier versions) than these have now.
func (s *supervised[C, L, R]) sameInputs(hash string, then map[string]string, paths []string) error {
	if hash != config.Hash(s.cfg) {
		return fmt.Errorf("%s is the record of another configuration", s.path(rundir.RecordFile))
	}
	if then == nil {
		return nil
	}
	now, err := inputfiles.Hashes{}.Sums(paths)
	if err != nil {
		return err
	}
	changed, gone := inputfiles.Compare(then, now)
	if len(changed) > 0 {
		return fmt.Errorf("the run was trained on other contents of %s", strings.Join(changed, ", "))
	}
	inputfiles.NoteGone(s.opts.Note, gone)
	return nil
}

// hasWeights returns an error unless a file has the weights with a checksum.
func hasWeights(path, want string) error {
	c, err := policy.ReadOwn(path)
	if err == nil && c.Params.Hash() != want {
		err = fmt.Errorf("%s does not hold the weights that %s names", path, rundir.RecordFile)
	}
	return err
}
