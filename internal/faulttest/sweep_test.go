//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"grpo/pkg/sweepdir"
)

// smallSweep is the sweep under test, which gets its seeds: two learning rates, each run as small as
// [smallRun].
var smallSweep = append([]string{"sweep", "lr", "--values", "1e-3,3e-3"},
	slices.DeleteFunc(slices.Clone(smallRun[1:]), func(s string) bool {
		return slices.Contains([]string{"--threads", "1", "--seed", "7"}, s)
	})...)

// The seeds of the small sweep: two, or two and, if the look at them does not end the sweep, a third.
const (
	twoSeeds = "1,2"
	looks    = "2..3"
)

// sweep starts the small sweep in dir. No other sweep may be next to dir: its
// finished runs would be copied.
func (l *lab) sweep(dir, seeds string) *process {
	return l.command(append(slices.Clone(smallSweep), "--seeds", seeds, "--out", dir)...)
}

// killSweep is [killTraining] for a sweep. A kill hits either the command, whose children must
// notice, or one child, which the command must report and the next command must repeat. Every second
// sweep has planned looks, which must end as they do without kills.
func killSweep(l *lab) (string, error) {
	seeds, references, took := []string{twoSeeds, looks}, map[string]string{}, map[string]time.Duration{}
	for _, s := range seeds {
		references[s] = filepath.Join(l.dir(), "sweep")
		whole, err := l.sweep(references[s], s).succeed()
		if err != nil {
			return "", fmt.Errorf("the reference sweep of seeds %s: %w", s, err)
		}
		took[s] = whole.took
	}
	kills, children, sweeps, drawn, want := 0, 0, 0, 0, max(2, l.tries(60))
	for ; kills < want; sweeps++ {
		dir, seeds := filepath.Join(l.dir(), "sweep"), seeds[sweeps%2]
		_, err := untilDone(dir, func() (o outcome, err error) {
			p, child, killed := l.sweep(dir, seeds), kills%2 == 1, false
			if kills < want {
				killed, err = l.killInSweep(p, time.Duration(l.rng.Float64()*float64(took[seeds])), child)
				if err != nil {
					return o, err
				}
			}
			if o, err = p.wait(); err != nil {
				return o, err
			}
			if killed && child {
				children++
			}
			if killed && (child || o.signal == syscall.SIGKILL) {
				kills++
			}
			switch {
			case o.code == 0 || o.signal == syscall.SIGKILL:
				return o, nil
			case child && killed:
				return o, clear(o, []int{1}, "the same command tries")
			}
			return o, errors.New(o.String())
		})
		n, cerr := countHidden(dir)
		if err := errors.Join(err, cerr); err != nil {
			return "", err
		}
		drawn += n
		if err := sameSweep(references[seeds], dir); err != nil {
			return "", fmt.Errorf("after %d kills: %w", kills, err)
		}
	}
	return fmt.Sprintf("%d kills over %d sweeps, every second with planned looks, %d of them of a child: all %d sweeps equal; %s",
		kills, sweeps, children, sweeps, leftDrawing(drawn)), nil
}

// killInSweep starts a sweep and, at this moment, kills it or one of its children. It reports
// whether there was a process to kill.
func (l *lab) killInSweep(p *process, moment time.Duration, child bool) (bool, error) {
	if err := p.start(); err != nil {
		return false, err
	}
	time.Sleep(moment)
	if !child {
		return p.cmd.Process.Kill() == nil, nil
	}
	k := l.rng.IntN(4)
	for range 100 { // it may be between two children
		killed, err := killChild(p.cmd.Process.Pid, k)
		if err != nil {
			return false, errors.Join(err, p.cmd.Process.Kill())
		}
		if killed {
			return true, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false, nil
}

// sameSweep compares the runs of two finished sweeps, their requests, and the names
// of their other files.
func sameSweep(reference, dir string) error {
	want, err := sweepdir.Open(reference)
	if err != nil {
		return err
	}
	got, err := sweepdir.Open(dir)
	if err != nil {
		return err
	}
	a, b := want.Manifest.Hash, got.Manifest.Hash
	if a != b || !got.Finished() || len(want.Runs) != len(got.Runs) || len(got.Runs) == 0 {
		return fmt.Errorf("%s: not the same sweep: hash %s, want %s; finished %v", dir, b, a, got.Finished())
	}
	if !reflect.DeepEqual(want.Manifest.Looks, got.Manifest.Looks) {
		return fmt.Errorf("%s: the looks are %v, want %v", dir, got.Manifest.Looks, want.Manifest.Looks)
	}
	for i := range want.Runs {
		if want.Runs[i].State == sweepdir.Stopped {
			continue
		}
		if err := sameRun(want.Runs[i].Path(reference), got.Runs[i].Path(dir)); err != nil {
			return err
		}
	}
	_, err = sameNames(reference, dir)
	return err
}
