//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"grpo/pkg/rundir"
)

// onlyShown are the files that the program never reads back, so damage in them need
// not be found.
func onlyShown(name string) bool {
	return slices.Contains([]string{rundir.MetaFile, rundir.LogFile, rundir.TableFile, rundir.EventsFile}, name) ||
		slices.Contains([]string{".png", ".html"}, filepath.Ext(name))
}

// unfinished makes a folder of a run that was stopped in the middle.
func (l *lab) unfinished() (string, error) {
	for range tooMany {
		dir := l.dir()
		o, err := l.train(dir).signalled(timedSignal{after: l.took/3 + l.moment()/3, signal: syscall.SIGTERM})
		if err != nil || o.code == 75 {
			return dir, err
		}
		if o.code > 0 && o.code != 130 {
			return "", fmt.Errorf("%s: %s", dir, o)
		}
	}
	return "", errors.New("no run could be interrupted in the middle")
}

// flip changes one byte of a file, cut removes its end.
func (l *lab) flip(data []byte) (string, []byte) {
	out, at := slices.Clone(data), l.rng.IntN(len(data))
	out[at] ^= byte(1 + l.rng.IntN(255))
	return fmt.Sprintf("byte %d changed from %#x to %#x", at, data[at], out[at]), out
}

func (l *lab) cut(data []byte) (string, []byte) {
	n := l.rng.IntN(len(data))
	return fmt.Sprintf("cut to %d of %d bytes", n, len(data)), slices.Clone(data[:n])
}

func flipUnfinished(l *lab) (string, error) { return l.damageUnfinished(l.flip) }
func cutUnfinished(l *lab) (string, error)  { return l.damageUnfinished(l.cut) }
func flipFinished(l *lab) (string, error)   { return l.damageFinished(l.flip) }
func cutFinished(l *lab) (string, error)    { return l.damageFinished(l.cut) }

const unaffected = "unaffected"

// damageUnfinished damages a file of an unfinished run and continues it.
func (l *lab) damageUnfinished(damage func([]byte) (string, []byte)) (string, error) {
	from, err := l.unfinished()
	if err != nil {
		return "", err
	}
	return l.damaged(from, damage, nil, func(dir, name string, o outcome) (string, error) {
		err := l.same(dir)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			return unaffected, err
		}
		// The run never reads this file again, but a reader gets an error. All other files must be
		// correct.
		data, rerr := os.ReadFile(filepath.Join(l.reference, name))
		if rerr == nil {
			rerr = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		return "rejected when read", errors.Join(rerr, l.same(dir))
	})
}

// damageFinished damages a file of a finished run, whose command shows the result.
func (l *lab) damageFinished(damage func([]byte) (string, []byte)) (string, error) {
	from := l.dir() // showing a run plots it again, and other faults read the reference
	if err := os.CopyFS(from, os.DirFS(l.reference)); err != nil {
		return "", err
	}
	shown, err := l.train(from, "--json").succeed()
	if err != nil {
		return "", fmt.Errorf("show the reference run: %w", err)
	}
	return l.damaged(from, damage, []string{"--json"}, func(dir, _ string, o outcome) (string, error) {
		return unaffected, sameJSON(shown.stdout, o.stdout, from, dir)
	})
}

// damaged copies a folder, damages one of its files, runs the command and checks that
// it refused, naming the file or its folder, or that its result is right.
func (l *lab) damaged(from string, damage func([]byte) (string, []byte), more []string,
	right func(dir, name string, o outcome) (string, error)) (string, error) {
	files, err := names(from)
	if err != nil {
		return "", err
	}
	files = slices.DeleteFunc(files, onlyShown)
	counts, n, first := map[string]int{}, max(4, l.tries(60)), l.rng.IntN(len(files))
	for i := range n {
		dir := l.dir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			return "", err
		}
		name := files[(first+i)%len(files)]
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if len(data) == 0 {
			continue
		}
		what, bad := damage(data)
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			return "", err
		}
		o, err := l.train(dir, more...).wait()
		if err != nil {
			return "", err
		}
		how := "refused"
		if o.code == 0 {
			how, err = right(dir, name, o)
		} else {
			err = clear(o, []int{1, 2}, name, filepath.Dir(path))
		}
		counts[how]++
		if err != nil {
			return "", fmt.Errorf("%s, %s: %w", name, what, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	var parts []string
	for _, how := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[how], how))
	}
	return fmt.Sprintf("%d times, over %d files: %s, none wrong", n, min(n, len(files)), strings.Join(parts, ", ")), nil
}
