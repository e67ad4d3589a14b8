package cmd

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/pflag"

	"grpo/pkg/config"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// sweepFlags say how the runs of a sweep are done.
type sweepFlags struct {
	jobs      int
	keepGoing bool
	failFast  bool
}

func (f *sweepFlags) add(fs *pflag.FlagSet) {
	countVar(fs, &f.jobs, "jobs", 0, 0, maxCount, "parallel runs (0 = one per core, which is also the maximum; fewer if memory is short)")
	fs.BoolVar(&f.failFast, "fail-fast", false, "if a run fails, save the others and stop (default: the others continue)")
	// --keep-going names the default; it remains for scripts that pass it. It is
	// hidden and not marked as deprecated, since cobra writes that note to stdout.
	fs.BoolVar(&f.keepGoing, "keep-going", false, "run the others if a run fails (the default)")
	fs.Lookup("keep-going").Hidden = true
}

func (f *sweepFlags) check() error {
	if f.keepGoing && f.failFast {
		return fmt.Errorf("%w: --keep-going and --fail-fast exclude each other", config.ErrConfig)
	}
	return nil
}

// runSweep freezes a plan in dir, or finds it there, and does what is missing
// of it. The sweep is returned in its current state even with an error, so that
// finished runs can be reported; it is nil if nothing could be started. Runs
// that the sweeps in the folders studySweeps and siblings have finished are copied.
func runSweep(ctx context.Context, s *State, dir string, p *sweep.Plan, f sweepFlags, obs sweep.Observer, studySweeps, siblings []string) (*sweepdir.Sweep, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	available := s.available()
	if err := sweep.CheckMemory(dir, p.Manifest, available); err != nil {
		return nil, err
	}
	if err := sweep.Prepare(dir, p); err != nil {
		return nil, err
	}
	program, err := thisProgram()
	if err != nil {
		return nil, fmt.Errorf("find this program to start its runs: %w", err)
	}
	return sweep.Run(ctx, dir, sweep.Options{
		Jobs: f.jobs, FailFast: f.failFast, StudySweeps: studySweeps, Siblings: siblings, Version: version, Memory: available, Observer: obs, Now: s.Now,
		Launcher: sweep.Local{Path: program, Name: s.Args[0], Env: s.Env, Now: s.Now},
	})
}

// thisProgram is the path of the program that is running. Linux has a name for
// it that stays the same program when its file is replaced, so that a sweep is
// not finished by another build than it was started by.
func thisProgram() (string, error) {
	const self = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}
