//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"grpo/pkg/sweepdir"
)

// smallSweep is the sweep that is broken: two rates with two seeds, each run as
// small as [smallRun].
var smallSweep = append([]string{"sweep", "lr", "--values", "1e-3,3e-3", "--seeds", "1,2"},
	slices.DeleteFunc(slices.Clone(smallRun[1:]), func(s string) bool { return slices.Contains([]string{"--threads", "1", "--seed", "7"}, s) })...)

// sweep starts the small sweep in dir. No other sweep may be next to dir: its
// finished runs would be copied.
func (l *lab) sweep(dir string) *process {
	return l.command(append(slices.Clone(smallSweep), "--out", dir)...)
}

// killSweep is [killTraining] for a sweep. A kill hits the command itself, whose
// children have to notice, or one of the children, which the command has to
// tell and the next one to make good.
func killSweep(l *lab) (report, error) {
	reference := filepath.Join(l.dir(), "sweep")
	whole, err := l.sweep(reference).wait()
	if err != nil || whole.code != 0 {
		return report{}, fmt.Errorf("the undisturbed sweep: %w%s", err, whole)
	}
	kills, children, sweeps, drawn, want := 0, 0, 0, 0, max(2, l.tries(60))
	for kills < want {
		dir := filepath.Join(l.dir(), "sweep")
		for n := 1; ; n++ {
			if n > tooMany {
				return report{}, fmt.Errorf("%s: no end after %d commands", dir, n)
			}
			p, child, killed := l.sweep(dir), kills%2 == 1, false
			if kills < want {
				killed, err = l.killInSweep(p, time.Duration(l.rng.Float64()*float64(whole.took)), child)
				if err != nil {
					return report{}, err
				}
			}
			o, err := p.wait()
			if err != nil {
				return report{}, err
			}
			if killed && child {
				children++
			}
			if killed && (child || o.signal == syscall.SIGKILL) {
				kills++
			}
			switch {
			case o.code == 0:
			case o.signal == syscall.SIGKILL:
				continue
			case child && killed:
				if err := clear(o, []int{1}, "the same command tries"); err != nil {
					return report{}, fmt.Errorf("%s: command %d: %w", dir, n, err)
				}
				continue
			default:
				return report{}, fmt.Errorf("%s: command %d: %s", dir, n, o)
			}
			break
		}
		sweeps++
		if err := sameSweep(reference, dir); err != nil {
			return report{}, fmt.Errorf("after %d kills: %w", kills, err)
		}
		n, err := hidden(dir)
		if err != nil {
			return report{}, err
		}
		drawn += n
	}
	return report{tries: kills, text: fmt.Sprintf("%d kills over %d sweeps of 4 runs, %d of them of a child: all %d sweeps equal; %s", kills, sweeps, children, sweeps, leftDrawing(drawn))}, nil
}

// killInSweep starts a sweep and, at its moment, kills it or a child of it. It
// says whether there was anything to kill.
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

// sameSweep compares each run of two finished sweeps, their requests, and the
// names of the files beside the runs.
func sameSweep(reference, dir string) error {
	want, err := sweepdir.Open(reference)
	if err != nil {
		return err
	}
	got, err := sweepdir.Open(dir)
	if err != nil {
		return err
	}
	if want.Manifest.Hash != got.Manifest.Hash || !got.Finished() || len(want.Runs) != len(got.Runs) || len(got.Runs) == 0 {
		return fmt.Errorf("%s: not the sweep that it was: hash %s, want %s; finished %v", dir, got.Manifest.Hash, want.Manifest.Hash, got.Finished())
	}
	for i := range want.Runs {
		if err := sameRun(want.Runs[i].Path(reference), got.Runs[i].Path(dir)); err != nil {
			return err
		}
	}
	for _, name := range []string{"", sweepdir.RunsDir} {
		a, err := os.ReadDir(filepath.Join(reference, name))
		if err != nil {
			return err
		}
		b, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		b = slices.DeleteFunc(b, func(e os.DirEntry) bool { return ofReport(e.Name()) })
		sameName := func(x, y os.DirEntry) bool { return x.Name() == y.Name() }
		if !slices.EqualFunc(a, b, sameName) {
			return fmt.Errorf("%s: the files differ: %v and %v", filepath.Join(dir, name), a, b)
		}
	}
	return nil
}
