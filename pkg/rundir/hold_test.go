package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"grpo/internal/expect"
)

func lock(t *testing.T, dir string) *Hold {
	t.Helper()
	h, err := Lock(dir)
	expect.OK(t, err)
	return h
}

// refused returns the error of a folder that another process has.
func refused(t *testing.T, dir string) *LockedError {
	t.Helper()
	h, err := Lock(dir)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("lock: %v, %v", h, err)
	}
	return locked
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	h := lock(t, dir)
	err := refused(t, dir)
	if want := fmt.Sprintf("process %d is writing", os.Getpid()); err.Owner.PID != os.Getpid() ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q, want %q and the folder", err, want)
	}
	expect.OK(t, h.Release())
	h = lock(t, dir)
	expect.OK(t, h.Release())
	if got := names(t, filepath.Join(dir, ClaimsDir)); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the claims are %q: that of the process before was not removed", got)
	}
}

func TestLockFails(t *testing.T) {
	if _, err := Lock(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	// Claims would be made outside the folder.
	dir, outside := t.TempDir(), t.TempDir()
	expect.OK(t, os.Symlink(outside, filepath.Join(dir, ClaimsDir)))
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), ClaimsDir) || len(names(t, outside)) != 0 {
		t.Errorf("error %v, outside %q", err, names(t, outside))
	}
	if held, known := Held(dir); held || known {
		t.Errorf("held %v, known %v", held, known)
	}
	if _, err := Owners(dir); err == nil {
		t.Error("owners behind a link")
	}
}

// However many processes try at once, although claims are removed, and although some are slow
// between listing the claims and making theirs, no two have the folder at a time.
func TestLockExcludes(t *testing.T) {
	for _, slow := range []bool{false, true} {
		if slow {
			osRename = func(from, to string) error {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				return os.Rename(from, to)
			}
			defer func() { osRename = os.Rename }()
		}
		dir := t.TempDir()
		var wg sync.WaitGroup
		var mu sync.Mutex
		taken := 0
		for range 8 {
			wg.Go(func() {
				for range 40 {
					h, err := Lock(dir)
					var locked *LockedError
					if errors.As(err, &locked) {
						time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
						continue
					}
					if err != nil {
						t.Errorf("lock: %v", err)
						continue
					}
					if !mu.TryLock() {
						t.Error("two have the folder")
						return
					}
					taken++
					if err := h.Check(); err != nil {
						t.Error(err)
					}
					mu.Unlock()
					if err := h.Release(); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if taken < 8 {
			t.Errorf("the folder was taken only %d times", taken)
		}
		if got := names(t, filepath.Join(dir, ClaimsDir)); len(got) > 8 {
			t.Errorf("claims left behind: %q", got)
		}
	}
}

// A process that listed the claims long ago makes one that was removed in the meantime. It must not
// hold the folder.
func TestLockOfASlowProcess(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, lock(t, dir).Release())
	var current *Hold
	osRename = func(from, to string) error { // the claim 2 of the slow process
		osRename = os.Rename
		expect.OK(t, lock(t, dir).Release()) // 2
		current = lock(t, dir)               // 3, which removes 2
		return os.Rename(from, to)
	}
	err := refused(t, dir)
	if current == nil || current.number != 3 || err.Owner.PID != os.Getpid() {
		t.Fatalf("%+v, %v", current, err)
	}
	if got := names(t, filepath.Join(dir, ClaimsDir)); !slices.Equal(got, []string{"3"}) {
		t.Errorf("the claims are %q", got)
	}
	expect.OK(t, current.Check())
	expect.OK(t, current.Release())
}

// lockChildEnv makes the test binary take the folder, say so and wait to be killed, or with
// lockLoopEnv take it many times, and check that it is alone.
const lockChildEnv, lockLoopEnv = "GRPO_TEST_LOCK_DIR", "GRPO_TEST_LOCK_LOOP"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockChildEnv); dir != "" {
		if err := lockChild(dir, os.Getenv(lockLoopEnv) != ""); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func lockChild(dir string, loop bool) error {
	for taken := 0; taken < 25; {
		h, err := Lock(dir)
		var locked *LockedError
		switch {
		case loop && errors.As(err, &locked):
			time.Sleep(time.Millisecond)
			continue
		case err != nil:
			return err
		case !loop:
			fmt.Println("locked")
			select {}
		}
		taken++
		inside := filepath.Join(dir, "inside")
		f, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return fmt.Errorf("two have the folder: %w", err)
		}
		if err := errors.Join(f.Close(), os.Remove(inside), h.Release()); err != nil {
			return err
		}
	}
	return nil
}

func lockProcess(t *testing.T, dir string, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), append(env, lockChildEnv+"="+dir)...)
	out, err := child.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, child.Start())
	return child, bufio.NewReader(out)
}

func TestLockExcludesProcesses(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		child, out := lockProcess(t, dir, lockLoopEnv+"=1")
		wg.Go(func() {
			text, _ := out.ReadString(0)
			if err := child.Wait(); err != nil {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
	wg.Wait()
}

// A killed process blocks nobody, also before its parent has waited for it.
func TestLockOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	child, out := lockProcess(t, dir)
	if text, err := out.ReadString('\n'); err != nil || text != "locked\n" {
		t.Fatalf("the child said %q, %v", text, err)
	}
	if err := refused(t, dir); err.Owner.PID != child.Process.Pid {
		t.Errorf("while the child lives: %v", err)
	}
	if held, known := Held(dir); !held || !known {
		t.Errorf("held %v, known %v", held, known)
	}
	expect.OK(t, child.Process.Kill())
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		held, known := Held(dir)
		if !held && known {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("held %v, known %v", held, known)
		}
	}
	h := lock(t, dir)
	child.Wait()
	expect.OK(t, h.Release())
}

// claimOf makes a claim of another process, whose last heartbeat is this old.
func claimOf(t *testing.T, dir string, n int, o Owner, age time.Duration) string {
	t.Helper()
	path := claimPath(filepath.Join(dir, ClaimsDir), n)
	expect.OK(t, os.MkdirAll(path, 0o777))
	expect.OK(t, WriteJSON(filepath.Join(path, ownerFile), o))
	beat := filepath.Join(path, beatFile)
	write(t, beat, "..")
	at := time.Now().Add(-age)
	expect.OK(t, os.Chtimes(beat, at, at))
	return path
}

// other is a process on another machine.
func other() Owner {
	return Owner{Host: "n2", PID: 4711, Machine: "m2", Boot: "b2", Namespace: "pid:[2]", Born: "1", Started: "2026-01-02T03:04:05Z"}
}

func TestOwnersOnOtherMachines(t *testing.T) {
	me := self()
	with := func(change func(o *Owner)) Owner {
		o := other()
		change(&o)
		return o
	}
	for _, tt := range []struct {
		name string
		self Owner
		o    Owner
		age  time.Duration
		held bool
	}{
		{"it lives", me, other(), time.Minute, true},
		{"its clock is a minute ahead", me, other(), -time.Minute, true},
		{"it is dead", me, other(), 6 * time.Minute, false},
		{"its time is in the future", me, other(), -time.Hour, false},
		{"this machine was started again", me,
			with(func(o *Owner) { o.Host, o.Machine = me.Host, me.Machine }), time.Second, me.Machine == "" || me.Boot == ""},
		{"another process here had this id", me,
			with(func(o *Owner) {
				o.Host, o.Machine, o.Boot, o.Namespace, o.PID = me.Host, me.Machine, me.Boot, me.Namespace, me.PID
			}), time.Second, me.Born == ""},
		{"this process, without a heartbeat for long", me, me, time.Hour, me.Born != ""},
		{"this job, requeued", Owner{Host: "n3", Boot: "b3", Job: "slurm 7_3", Restart: 1},
			with(func(o *Owner) { o.Job = "slurm 7_3" }), time.Second, false},
		{"this job, on two nodes", Owner{Host: "n3", Boot: "b3", Job: "slurm 7_3", Restart: 1},
			with(func(o *Owner) { o.Job, o.Restart = "slurm 7_3", 1 }), time.Second, true},
		{"another task of the job", Owner{Host: "n3", Boot: "b3", Job: "slurm 7_2", Restart: 1},
			with(func(o *Owner) { o.Job = "slurm 7_3" }), time.Second, true},
		{"this index, in another pod", Owner{Host: "p3", Boot: "b3", Job: "kubernetes lr-3"},
			with(func(o *Owner) { o.Job = "kubernetes lr-3" }), time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := self
			self = func() Owner { return tt.self }
			defer func() { self = before }()
			dir := t.TempDir()
			claimOf(t, dir, 1, tt.o, tt.age)
			if o, held, known := Holder(dir); held != tt.held || !known || held && o != tt.o {
				t.Errorf("holder %+v, held %v, known %v", o, held, known)
			}
			if tt.held {
				if err := refused(t, dir); err.Owner != tt.o {
					t.Errorf("error %v", err)
				}
				return
			}
			expect.OK(t, lock(t, dir).Release())
		})
	}
}

// A process of an earlier start of this job keeps the folder while it exists on this machine.
func TestReplaced(t *testing.T) {
	me, before := self(), self
	me.Job, me.Restart = "slurm 7_3", 1
	self = func() Owner { return me }
	defer func() { self = before }()
	for _, tt := range []struct {
		job      string
		restart  int
		replaced bool
	}{{me.Job, 0, true}, {me.Job, 1, false}, {"slurm 7_2", 0, false}, {"", 0, false}} {
		dir, o := t.TempDir(), me
		o.Job, o.Restart = tt.job, tt.restart
		claimOf(t, dir, 1, o, time.Second)
		if got, held, _ := Holder(dir); !held || got.Replaced() != tt.replaced {
			t.Errorf("%+v: held %v, replaced %v", tt, held, got.Replaced())
		}
	}
}

// What a claim says of a process on another machine is in the message.
func TestLockedError(t *testing.T) {
	dir, o := t.TempDir(), other()
	o.Job = "slurm 7_3"
	claimOf(t, dir, 1, o, 0)
	if err := refused(t, dir); !strings.Contains(err.Error(), "process 4711 on n2 (job slurm 7_3) is writing") {
		t.Error(err)
	}
}

// A claim whose files are damaged or hidden by a cache holds the folder, but not for ever.
func TestDamagedClaims(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"no owner":   func(t *testing.T, path string) { expect.OK(t, os.Remove(filepath.Join(path, ownerFile))) },
		"half owner": func(t *testing.T, path string) { write(t, filepath.Join(path, ownerFile), `{"host": "n2", `) },
		"nothing": func(t *testing.T, path string) {
			expect.OK(t, os.Remove(filepath.Join(path, ownerFile)))
			expect.OK(t, os.Remove(filepath.Join(path, beatFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := claimOf(t, dir, 1, other(), 0)
			damage(t, path)
			if err := refused(t, dir); err.Owner.PID != 0 || !strings.Contains(err.Error(), "another process") {
				t.Error(err)
			}
			old := time.Now().Add(-time.Hour)
			_ = os.Chtimes(filepath.Join(path, beatFile), old, old)
			expect.OK(t, os.Chtimes(path, old, old))
			h := lock(t, dir)
			expect.OK(t, h.Begin(time.Unix(0, 0)))
			expect.OK(t, h.Release())
		})
	}
	dir := t.TempDir()
	for _, name := range []string{"x", "0", "-1", "01", "1000000000", strconv.FormatUint(1<<63, 10)} {
		expect.OK(t, os.MkdirAll(filepath.Join(dir, ClaimsDir, name), 0o777))
	}
	write(t, filepath.Join(dir, ClaimsDir, "7"), "")
	write(t, filepath.Join(dir, ".lock"), "4711\n") // of the first release
	h := lock(t, dir)
	if h.number != 1 {
		t.Errorf("claim %d", h.number)
	}
	expect.OK(t, h.Release())
}

// A process that lost its folder finds out, and leaves the new owner's claim alone.
func TestLost(t *testing.T) {
	dir := t.TempDir()
	h := lock(t, dir)
	expect.OK(t, h.Begin(time.Unix(0, 0)))
	expect.OK(t, h.Check())
	claimOf(t, dir, 2, other(), 0)
	var lost *LockedError
	if err := h.Check(); !errors.As(err, &lost) || !lost.Lost || !strings.Contains(err.Error(), "process 4711 on n2 took over this folder") {
		t.Errorf("error %v", err)
	}
	expect.OK(t, h.Release())
	if o, held, _ := Holder(dir); !held || o.PID != 4711 {
		t.Errorf("holder %+v", o)
	}
}

// The heartbeats and the end of a process whose folder was replaced do not reach the claim of the
// same number there.
func TestReplacedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	expect.OK(t, os.Mkdir(dir, 0o777))
	h := lock(t, dir)
	expect.OK(t, os.Rename(dir, dir+"-away"))
	path := claimOf(t, dir, 1, other(), 0)
	if held, _ := Held(dir + "-away"); !held {
		t.Error("the moved folder is not held")
	}
	_, err := h.beats.WriteString(".")
	expect.OK(t, errors.Join(err, h.Release()))
	if got := read(t, filepath.Join(path, beatFile)); got != ".." {
		t.Errorf("heartbeat %q", got)
	}
	expect.OK(t, lock(t, dir+"-away").Release())
}

// The processes that trained stay on record; those that only took the folder do not.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	if all, err := Owners(dir); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for i := range 3 {
		h := lock(t, dir)
		expect.OK(t, h.Begin(time.Unix(int64(i), 0)))
		expect.OK(t, h.Release())
		expect.OK(t, lock(t, dir).Release()) // a command that has nothing to train
	}
	all, err := Owners(dir)
	expect.OK(t, err)
	for i, o := range all {
		want := self()
		want.Attempt, want.Started = i+1, time.Unix(int64(i), 0).UTC().Format(time.RFC3339)
		if o != want {
			t.Errorf("attempt %d: %+v", i+1, o)
		}
	}
	if got := names(t, filepath.Join(dir, ClaimsDir)); len(all) != 3 || !slices.Equal(got, []string{"1", "3", "5", "6"}) {
		t.Errorf("%d attempts, claims %q", len(all), got)
	}
}

// A network file system repeats a request whose answer was lost: the second says that the file does
// not exist.
func TestRenameRepeated(t *testing.T) {
	osRename = func(from, to string) error {
		if err := os.Rename(from, to); err != nil {
			return err
		}
		return os.Rename(from, to)
	}
	defer func() { osRename = os.Rename }()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	expect.OK(t, WriteFileAtomic(path, []byte("1")))
	expect.OK(t, WriteFileAtomic(path, []byte("2")))
	fill := func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("3"), 0o666) }
	expect.OK(t, NewFolder(filepath.Join(dir, "new"), fill))
	expect.OK(t, NewFolder(filepath.Join(dir, "new2"), fill))
	expect.OK(t, ReplaceFolder(filepath.Join(dir, "new"), fill))
	h := lock(t, dir)
	expect.OK(t, h.Release())
	if got := read(t, path); got != "2" {
		t.Errorf("content %q", got)
	}
	osRename = func(from, _ string) error { return errors.Join(os.RemoveAll(from), fs.ErrNotExist) }
	if err := WriteFileAtomic(path, []byte("3")); !errors.Is(err, fs.ErrNotExist) || read(t, path) != "2" {
		t.Errorf("a lost file: %v", err)
	}
}
