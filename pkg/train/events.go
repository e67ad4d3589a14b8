package train

import (
	"fmt"
	"os"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/tensorboard"
)

// events writes the event file of a run (output.tensorboard). The file is derived from the logs: a
// process that starts or continues the run replaces it by what the logs hold then, so that no step
// is lost or there twice, and appends an event for each line of the logs.
type events struct {
	file *os.File // nil: no event file
	time *tensorboard.Timeline
}

// openEvents is called after [trainer.begin], which cuts the logs to the checkpoint.
func (t *trainer) openEvents() error {
	if !t.cfg.Output.TensorBoard {
		return nil
	}
	run, err := rundir.Open(t.opts.Dir)
	if err != nil {
		return err
	}
	data, timeline := tensorboard.Run(run)
	path := t.path(rundir.EventsFile)
	if err := rundir.WriteFileAtomic(path, data); err != nil {
		return err
	}
	f, err := regular.Create(path)
	if err != nil {
		return fmt.Errorf("open the event file: %w", err)
	}
	t.events = events{f, timeline}
	return nil
}

// derived completes the files of a finished run that are derived from its logs.
func (t *trainer) derived() error {
	if err := t.events.sync(); err != nil {
		return err
	}
	run, err := rundir.Open(t.opts.Dir)
	if err != nil {
		return err
	}
	if err := t.hold.Check(); err != nil {
		return err
	}
	return rundir.WriteFileAtomic(t.path(rundir.TableFile), run.CSV(sweepdir.Arms{}.Of(t.opts.Dir), fmt.Sprint(t.cfg.Seed)))
}

// add appends the event of a line of metrics or of an evaluation.
func (e *events) add(line any) error {
	if e.file == nil {
		return nil
	}
	var data []byte
	switch v := line.(type) {
	case rundir.Metrics:
		data = e.time.Step(v)
	case rundir.Eval:
		data = e.time.Eval(v)
	}
	if _, err := e.file.Write(data); err != nil {
		return fmt.Errorf("append to the event file: %w", rundir.Explain(err))
	}
	return nil
}

// sync makes the events survive a power cut.
func (e *events) sync() error {
	if e.file == nil {
		return nil
	}
	if err := e.file.Sync(); err != nil {
		return fmt.Errorf("sync the event file: %w", rundir.Explain(err))
	}
	return nil
}

func (e *events) close() {
	if e.file != nil {
		_ = e.file.Close() // synced before
	}
}
