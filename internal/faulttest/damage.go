//go:build unix

package main

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

// forPeople are the files that no figure comes from: their content is nobody's
// input, so damage in them need not be found.
func forPeople(name string) bool {
	return name == rundir.MetaFile || name == rundir.LogFile || name == rundir.LockFile || filepath.Ext(name) == ".png"
}

// unfinished makes a folder of a run that was told to stop in the middle.
func (l *lab) unfinished() (string, error) {
	for range tooMany {
		dir := l.dir()
		o, err := l.train(dir).signalled(timedSignal{after: l.took/3 + l.moment()/3, signal: syscall.SIGTERM})
		if err != nil {
			return "", err
		}
		if o.code == 75 {
			return dir, nil
		}
		if o.code > 0 && o.code != 130 {
			return "", fmt.Errorf("%s: %s", dir, o)
		}
	}
	return "", errors.New("no run could be interrupted in the middle")
}

// flip changes one byte of a file, cut takes away its end.
func (l *lab) flip(data []byte) (string, []byte) {
	out, at := slices.Clone(data), l.rng.IntN(len(data))
	out[at] ^= byte(1 + l.rng.IntN(255))
	return fmt.Sprintf("byte %d changed from %#x to %#x", at, data[at], out[at]), out
}

func (l *lab) cut(data []byte) (string, []byte) {
	n := l.rng.IntN(len(data))
	return fmt.Sprintf("cut to %d of %d bytes", n, len(data)), slices.Clone(data[:n])
}

func flipUnfinished(l *lab) (report, error) { return l.damageUnfinished(l.flip) }
func cutUnfinished(l *lab) (report, error)  { return l.damageUnfinished(l.cut) }
func flipFinished(l *lab) (report, error)   { return l.damageFinished(l.flip) }
func cutFinished(l *lab) (report, error)    { return l.damageFinished(l.cut) }

// damageUnfinished damages a file of an unfinished run and gives the command.
func (l *lab) damageUnfinished(damage func([]byte) (string, []byte)) (report, error) {
	from, err := l.unfinished()
	if err != nil {
		return report{}, err
	}
	return l.damaged(from, damage, nil, func(dir, name string, o outcome) (string, error) {
		err := l.same(dir)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			return asEver, err
		}
		// The run never reads this file again. Whoever does is told, and the
		// rest is as it should be.
		data, rerr := os.ReadFile(filepath.Join(l.reference, name))
		if rerr == nil {
			rerr = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		return "refused when read", errors.Join(rerr, l.same(dir))
	})
}

const asEver = "as if nothing had happened"

// damageFinished does so with a finished run, whose command shows the result.
func (l *lab) damageFinished(damage func([]byte) (string, []byte)) (report, error) {
	shown, err := l.train(l.reference, "--json").wait()
	if err != nil || shown.code != 0 {
		return report{}, fmt.Errorf("show the undisturbed run: %w%s", err, shown)
	}
	return l.damaged(l.reference, damage, []string{"--json"}, func(dir, _ string, o outcome) (string, error) {
		return asEver, sameJSON(shown.stdout, o.stdout, l.reference, dir)
	})
}

// damaged copies a folder, damages one file of it, gives the command and checks
// that it refused, naming the file or its folder, or that what came out is right.
func (l *lab) damaged(from string, damage func([]byte) (string, []byte), more []string, right func(dir, name string, o outcome) (string, error)) (report, error) {
	files, err := names(from)
	if err != nil {
		return report{}, err
	}
	files = slices.DeleteFunc(files, forPeople)
	came, n, first := map[string]int{}, max(4, l.tries(60)), l.rng.IntN(len(files))
	for i := range n {
		dir := l.dir()
		if err := copyTree(from, dir); err != nil {
			return report{}, err
		}
		name := files[(first+i)%len(files)]
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return report{}, err
		}
		if len(data) == 0 {
			continue
		}
		what, bad := damage(data)
		if err := os.WriteFile(filepath.Join(dir, name), bad, 0o644); err != nil {
			return report{}, err
		}
		o, err := l.train(dir, more...).wait()
		if err != nil {
			return report{}, err
		}
		how := "refused"
		if o.code == 0 {
			how, err = right(dir, name, o)
		} else {
			err = clear(o, []int{1, 2}, name, filepath.Dir(filepath.Join(dir, name)))
		}
		came[how]++
		if err != nil {
			return report{}, fmt.Errorf("%s, %s: %w", name, what, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return report{}, err
		}
	}
	var parts []string
	for _, how := range slices.Sorted(maps.Keys(came)) {
		parts = append(parts, fmt.Sprintf("%d %s", came[how], how))
	}
	return report{tries: n, text: fmt.Sprintf("%d times, over %d files: %s, none wrong", n, min(n, len(files)), strings.Join(parts, ", "))}, nil
}
