package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(dir)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("second lock: %v", err)
	}
	if want := fmt.Sprint(os.Getpid()); locked.Holder != want || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %q, want the process %s and the folder", err, want)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	unlock, err = Lock(dir)
	if err != nil {
		t.Fatalf("after the unlock: %v", err)
	}
	unlock()
}

func TestLockFails(t *testing.T) {
	_, err := Lock(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// However many processes try at once, and although every holder removes the file, no two hold the
// lock at a time.
func TestLockExcludes(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var held, taken int
	var mu sync.Mutex
	for range 8 {
		wg.Go(func() {
			for range 200 {
				unlock, err := Lock(dir)
				if err != nil {
					var locked *LockedError
					if !errors.As(err, &locked) {
						t.Errorf("lock: %v", err)
					}
					continue
				}
				mu.Lock()
				if held++; held > 1 {
					t.Errorf("%d hold the lock", held)
				}
				taken++
				mu.Unlock()
				mu.Lock()
				held--
				mu.Unlock()
				if err := unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if taken == 0 {
		t.Error("the lock was never taken")
	}
}

// lockChildEnv makes the test binary take the lock and wait to be killed.
const lockChildEnv = "GRPO_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockChildEnv); dir != "" {
		if _, err := Lock(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		select {}
	}
	os.Exit(m.Run())
}

func TestLockOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), lockChildEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 6)
	if _, err := out.Read(buf); err != nil || string(buf) != "locked" {
		t.Fatalf("the child said %q, %v", buf, err)
	}
	var locked *LockedError
	if _, err := Lock(dir); !errors.As(err, &locked) || locked.Holder != fmt.Sprint(child.Process.Pid) {
		t.Errorf("while the child lives: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatalf("after the child was killed: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}
