package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"grpo/internal/regular"
)

// A process takes a folder by a claim: a folder ClaimsDir/N with the files
//
//	owner.json   who it is: [Owner]
//	heartbeat    gets a byte every 20 s; it is emptied and removed when the claim is released
//
// It needs no locks, only operations that are atomic on every shared file system. A claim is filled
// under a temporary name and then renamed, so it always has its owner; of two processes that make
// the same claim, one finds the name taken. The holder of a folder is the owner of its highest
// claim, unless that is free: see [readOwner]. Claims of processes that trained stay, as the record
// of a run's attempts.
//
// Exactly one process holds a folder. It makes claim N+1 after it saw that claim N is free, lists
// the claims again, and withdraws if there is a higher one. A claim that has held is removed only
// if there is a higher one. So its number can be made again, but never holds again: a process that
// was slow between listing and renaming finds the higher claim when it lists again.

// Names of the claims and their files.
const (
	ClaimsDir = ".claims"
	ownerFile = "owner.json"
	beatFile  = "heartbeat"
)

// Hold is a claim of this process.
type Hold struct {
	dir         string // the folder
	number      int
	beats       *os.File
	stop, ended chan struct{} // of the heartbeat's goroutine
}

// Lock takes the folder for this process until [Hold.Release] is called or the process ends in any
// way. If another process has it, the error is a [*LockedError]; Lock does not wait.
func Lock(dir string) (*Hold, error) {
	claims := filepath.Join(dir, ClaimsDir)
	if err := os.Mkdir(claims, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("lock: %w", Explain(err))
	}
	taken := 0 // a claim that a cached list may lack
	for range 100 {
		all, err := claimsIn(claims)
		if err != nil {
			return nil, fmt.Errorf("lock: %w", Explain(err))
		}
		last := slices.Max(append(all, taken))
		if last > 0 {
			path := claimPath(claims, last)
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				taken = 0 // withdrawn
				continue
			}
			if o, free := readOwner(path); !free {
				return nil, &LockedError{Dir: dir, Owner: o}
			}
		}
		h, err := makeClaim(dir, last+1)
		switch {
		case errors.Is(err, fs.ErrExist):
			taken = last + 1
			continue
		case errors.Is(err, fs.ErrNotExist): // the holder took the temporary folder for a leftover
			continue
		case err != nil:
			return nil, fmt.Errorf("lock: %w", Explain(err))
		}
		if all, err = claimsIn(claims); err != nil {
			return nil, fmt.Errorf("lock: %w", errors.Join(Explain(err), h.Release()))
		}
		if slices.Max(append(all, 0)) <= h.number {
			h.tidy(all)
			return h, nil
		}
		// Another process may make the claim again, as uselessly, while it is removed.
		err = h.Release()
		_ = os.RemoveAll(h.path())
		if err != nil {
			return nil, err
		}
	}
	return nil, &LockedError{Dir: dir}
}

// makeClaim makes claim number n of the folder; the error is [fs.ErrExist] if there is one.
func makeClaim(dir string, n int) (*Hold, error) {
	h := &Hold{dir: dir, number: n, stop: make(chan struct{}), ended: make(chan struct{})}
	owner, err := Marshal(self())
	if err != nil {
		return nil, err
	}
	var temp string
	err = makeTemp(h.path(), func(name string) error {
		temp = name
		return os.Mkdir(name, 0o777)
	})
	if err != nil {
		return nil, err
	}
	if err = writeNew(filepath.Join(temp, ownerFile), append(owner, '\n'), true); err == nil {
		err = writeNew(filepath.Join(temp, beatFile), []byte("."), false)
	}
	if err == nil {
		err = Rename(temp, h.path())
	}
	if err != nil {
		os.RemoveAll(temp)
		return nil, err
	}
	// The file stays open, so that heartbeats never get into a folder of the same name that replaced
	// this one.
	if h.beats, err = regular.Create(filepath.Join(h.path(), beatFile)); err != nil {
		os.Remove(filepath.Join(h.path(), beatFile)) // releases it
		return nil, err
	}
	go h.beat()
	return h, nil
}

// writeNew writes a new file. With sync it survives a power cut if its folder does.
func writeNew(path string, text []byte, sync bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// beat shows other machines that this process exists. A write that fails is not an error: the next
// may succeed, and if none does, another process takes over and [Hold.Check] says so.
func (h *Hold) beat() {
	defer close(h.ended)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
			if _, err := h.beats.WriteString("."); err == nil {
				_ = h.beats.Sync()
			}
		}
	}
}

// Begin records that this process trains the run in the folder, from now on; see [Owners].
func (h *Hold) Begin(now time.Time) error {
	before, _ := Owners(h.dir) // a damaged record does not keep the run from going on
	o := self()
	o.Attempt, o.Started = len(before)+1, now.UTC().Format(time.RFC3339)
	return WriteJSON(filepath.Join(h.path(), ownerFile), o)
}

// Check returns a [*LockedError] if another process has taken over the folder: this one was
// suspended for so long that it counted as dead. A run calls it before each write.
func (h *Hold) Check() error {
	claims := filepath.Join(h.dir, ClaimsDir)
	all, err := claimsIn(claims)
	last := slices.Max(append(all, 0))
	if err != nil || last <= h.number {
		return nil // a folder that can't be read fails at the write itself
	}
	o, _ := readOwner(claimPath(claims, last))
	return &LockedError{Dir: h.dir, Owner: o, Lost: true}
}

// Release ends the claim, also in a folder that was moved. It does not touch the claims of a folder
// that replaced this one.
func (h *Hold) Release() error {
	path := filepath.Join(h.path(), beatFile)
	same, err := stillAt(h.beats, path)
	close(h.stop)
	<-h.ended
	err = errors.Join(err, h.beats.Truncate(0), h.beats.Close())
	if same {
		if rerr := os.Remove(path); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// tidy removes the lower claims of processes that did not train, and leftovers of killed ones. They
// are harmless, so that an error does not matter.
func (h *Hold) tidy(all []int) {
	claims := filepath.Join(h.dir, ClaimsDir)
	for _, n := range all {
		var o Owner
		path := claimPath(claims, n)
		if n < h.number && ReadJSON(filepath.Join(path, ownerFile), &o) == nil && o.Started == "" {
			_ = os.RemoveAll(path)
		}
	}
	_ = RemoveTemps(claims)
	_ = RemoveTemps(h.path())
}

func (h *Hold) path() string { return claimPath(filepath.Join(h.dir, ClaimsDir), h.number) }

func claimPath(claims string, n int) string { return filepath.Join(claims, strconv.Itoa(n)) }

// claimsIn lists the numbers of claims. Other names are ignored; a link in the place of the folder
// is an error.
func claimsIn(claims string) (all []int, err error) {
	if err := regular.Folder(claims); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(claims)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		n, perr := strconv.Atoi(e.Name())
		if perr == nil && n > 0 && n < maxClaim && strconv.Itoa(n) == e.Name() && e.IsDir() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

// maxClaim bounds the numbers of claims in a folder of unknown origin.
const maxClaim = 1_000_000_000
