//go:build linux

package train

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// atStep is an observer that does something after a step.
type atStep struct {
	watch
	step int
	do   func()
}

func (a *atStep) Step(m rundir.Metrics) {
	if m.Step == a.step {
		a.do()
	}
}

// A disk fills up during a run: the error names the cause, the newest checkpoint is intact, and
// after space is freed the run ends like the uninterrupted one.
func TestDiskThatFillsUp(t *testing.T) {
	long(t)
	cfg := mini(t, "n_grpo_steps=6")
	want := uninterrupted(t, cfg)
	for _, free := range []int64{0, 5000, 9_000, 13_000} { // room for 0 bytes, a line, two files, almost a checkpoint
		mnt := t.TempDir()
		if err := syscall.Mount("tmpfs", mnt, "tmpfs", 0, "size=1m"); err != nil {
			t.Skipf("no small file system to be had here: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(mnt, syscall.MNT_DETACH) })
		dir, ballast := filepath.Join(mnt, "run"), filepath.Join(mnt, "ballast")
		fill := func() {
			var st syscall.Statfs_t
			expect.OK(t, syscall.Statfs(mnt, &st))
			left := max(0, int64(st.Bfree)*st.Bsize-free)
			put(t, ballast, make([]byte, left/st.Bsize*st.Bsize))
		}
		_, err := Run(context.Background(), cfg, options(dir, &atStep{step: 3, do: fill}, 1))
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%d bytes free: error %v", free, err)
			continue
		}
		if temps, _ := filepath.Glob(filepath.Join(dir, "*", ".*tmp")); len(temps) > 0 {
			t.Errorf("%d bytes free: left behind %q", free, temps)
		}
		if _, _, err := readCheckpoint(filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)); err != nil {
			t.Errorf("%d bytes free: %v", free, err)
		}
		if _, err := rundir.Open(dir); err != nil {
			t.Errorf("%d bytes free: %v", free, err)
		}
		remove(t, ballast)
		if _, err := Run(context.Background(), cfg, options(dir, &watch{}, 1)); err != nil {
			t.Errorf("%d bytes free, then room: %v", free, err)
			continue
		}
		sameBits(t, want, open(t, dir))
	}
}

// A run's folder is removed or moved: the run ends with an error and does not touch what is at the
// path now. A moved folder can be continued.
func TestFolderRemovedOrMoved(t *testing.T) {
	long(t)
	cfg := mini(t, "n_grpo_steps=6")
	want := uninterrupted(t, cfg)
	for _, tt := range []struct {
		name string
		take func(dir, away string)
	}{
		{"removed", func(dir, _ string) { remove(t, dir) }},
		{"moved", func(dir, away string) { rename(t, dir, away) }},
		{"replaced", func(dir, away string) {
			rename(t, dir, away)
			for _, name := range []string{rundir.MetricsFile, rundir.StatusFile, filepath.Join(rundir.CheckpointDir, rundir.LastFile)} {
				expect.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				put(t, filepath.Join(dir, name), []byte("another's"))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			away := dir + "-away"
			_, err := Run(context.Background(), cfg, options(dir, &atStep{step: 3, do: func() { tt.take(dir, away) }}, 1))
			expect.Error(t, err, "in the meantime", dir)
			if tt.name == "replaced" {
				for _, path := range filesOf(t, dir) {
					if string(slurp(t, path)) != "another's" {
						t.Errorf("%s was written to", path)
					}
				}
				if n := len(filesOf(t, dir)); n != 3 {
					t.Errorf("%d files in the new folder", n)
				}
			} else if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is there again: %v", err)
			}
			if tt.name == "removed" {
				return
			}
			sameBits(t, want, mustRun(t, cfg, away, 1))
		})
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	expect.OK(t, os.Rename(from, to))
}

// A process that was suspended for so long that another took over its run writes nothing more, and
// leaves nothing that keeps the other from going on.
func TestRunTakenOver(t *testing.T) {
	cfg := mini(t, "n_grpo_steps=6")
	want := uninterrupted(t, cfg)
	dir := filepath.Join(t.TempDir(), "run")
	files := map[string]string{}
	claim := filepath.Join(dir, rundir.ClaimsDir, "2")
	takeOver := func() {
		expect.OK(t, os.MkdirAll(claim, 0o755))
		put(t, filepath.Join(claim, "owner.json"), []byte(`{"host": "n2", "pid": 4711, "machine": "m2", "boot": "b2"}`))
		put(t, filepath.Join(claim, "heartbeat"), nil)
		for _, path := range filesOf(t, dir) {
			files[path] = string(slurp(t, path))
		}
	}
	_, err := Run(context.Background(), cfg, options(dir, &atStep{step: 3, do: takeOver}, 1))
	var locked *rundir.LockedError
	if !errors.As(err, &locked) || !locked.Lost || !strings.Contains(err.Error(), "process 4711 on n2 took over") {
		t.Errorf("error %v", err)
	}
	for _, path := range filesOf(t, dir) {
		if text, ok := files[path]; !ok || string(slurp(t, path)) != text {
			t.Errorf("%s was written to", path)
		}
		delete(files, path)
	}
	if len(files) > 0 {
		t.Errorf("removed: %v", files)
	}
	remove(t, filepath.Join(claim, "heartbeat"))
	sameBits(t, want, mustRun(t, cfg, dir, 1))
	owners, err := rundir.Owners(dir)
	if err != nil || len(owners) != 2 || owners[1].Attempt != 2 || owners[0].PID != os.Getpid() {
		t.Errorf("owners %+v, %v", owners, err)
	}
}
