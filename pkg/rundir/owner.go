package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"grpo/internal/process"
	"grpo/internal/regular"
)

// Owner is the process that made a claim of a folder.
type Owner struct {
	Attempt   int    `json:"attempt"` // of the run, from 1; 0 of a process that did not train
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Machine   string `json:"machine"`   // see [process.Place]
	Boot      string `json:"boot"`      // likewise
	Namespace string `json:"namespace"` // likewise
	Born      string `json:"born"`      // see [process.Born]
	Job       string `json:"job"`       // of a scheduler, such as "slurm 123_4"; see [process.Job]
	Restart   int    `json:"restart"`   // of the job
	Started   string `json:"started"`   // RFC 3339; "" of a process that did not train
}

// self is this process. It is a variable for tests of other machines.
var self = sync.OnceValue(func() Owner {
	p := process.Here()
	o := Owner{Host: p.Host, PID: os.Getpid(), Machine: p.Machine, Boot: p.Boot, Namespace: p.Namespace}
	o.Born = process.Born(o.PID)
	o.Job, o.Restart = process.Job(os.Getenv)
	return o
})

func (o Owner) place() process.Place {
	return process.Place{Host: o.Host, Machine: o.Machine, Boot: o.Boot, Namespace: o.Namespace}
}

// Elsewhere reports whether the process is, or was, on another machine, in another container, or on
// this machine before its last start.
func (o Owner) Elsewhere() bool { return !o.place().Same(self().place()) }

// Replaced reports whether the process belongs to an earlier start of this process's job. It has
// ended, or a scheduler has told it to.
func (o Owner) Replaced() bool {
	me := self()
	return o.Job != "" && o.Job == me.Job && process.Replaces(me.Job, me.Restart, o.Restart)
}

// String describes the process for a message.
func (o Owner) String() string {
	if o.PID == 0 {
		return "another process"
	}
	s := fmt.Sprintf("process %d", o.PID)
	if o.Elsewhere() {
		s += " on " + o.Host
	}
	if o.Job != "" {
		s += " (job " + o.Job + ")"
	}
	return s
}

// LockedError reports that another process writes to the folder.
type LockedError struct {
	Dir   string
	Owner Owner // without a PID if it is unknown
	// Lost: this process had the folder, and the other took it over.
	Lost bool
}

// Error implements error.
func (e *LockedError) Error() string {
	switch {
	case e.Lost:
		return fmt.Sprintf("write to %s: %s took over this folder, because this process gave no sign of life for "+
			"%.0f minutes or its job was started again; nothing more was written", e.Dir, e.Owner, deadAfter.Minutes())
	case e.Owner.PID != 0 && e.Owner.Elsewhere():
		return fmt.Sprintf("lock %s: %s is writing to this folder (if it was killed, give the same command again %.0f "+
			"minutes after its last sign of life)", e.Dir, e.Owner, deadAfter.Minutes())
	}
	return fmt.Sprintf("lock %s: %s is writing to this folder", e.Dir, e.Owner)
}

const (
	// The owner of a claim adds a byte to its heartbeat this often.
	beatEvery = 20 * time.Second
	// A process on another machine counts as dead so long after its last heartbeat. It is far above
	// beatEvery, because the machines' clocks differ and file systems cache times for up to a minute.
	deadAfter = 5 * time.Minute
)

// readOwner reads the owner of the claim in the folder path, and whether the claim is free: its
// owner has released it, or is dead. It changes nothing.
//
// If owner.json can't be read, only the heartbeat's time counts. Then a missing heartbeat does not
// mean that the claim is released, because a network file system may still say that the whole claim
// does not exist.
func readOwner(path string) (o Owner, free bool) {
	err := ReadJSON(filepath.Join(path, ownerFile), &o)
	if err != nil {
		o = Owner{}
	}
	last, beats, beatErr := beatAt(filepath.Join(path, beatFile))
	if err == nil && (errors.Is(beatErr, fs.ErrNotExist) || beatErr == nil && beats == 0) {
		return o, true
	}
	me := self()
	switch {
	case err != nil:
	case !o.Elsewhere():
		if exists, known := process.Exists(o.PID, o.Born); known {
			return o, !exists
		}
	case o.place().Ended(me.place()):
		return o, true
	case o.Replaced():
		return o, true
	}
	if beatErr != nil {
		info, err := os.Lstat(path)
		if err != nil {
			return o, false
		}
		last = info.ModTime()
	}
	// A time in the future, from an archive or a wrong clock, must not hold a folder for ever.
	age := process.Age(last)
	return o, age > deadAfter || age < -deadAfter
}

// beatAt returns the time and the number of heartbeats. The file is opened because network file
// systems check only then whether their cached times are valid.
func beatAt(path string) (last time.Time, beats int64, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return last, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return last, 0, err
	}
	return info.ModTime(), info.Size(), nil
}

// Holder returns the process that writes to the folder; held is false if there is none, and known is
// false if that can't be determined. It changes nothing.
func Holder(dir string) (o Owner, held, known bool) {
	claims := filepath.Join(dir, ClaimsDir)
	all, err := claimsIn(claims)
	if err != nil || len(all) == 0 {
		return Owner{}, false, err == nil
	}
	o, free := readOwner(claimPath(claims, slices.Max(all)))
	if free {
		return Owner{}, false, true
	}
	return o, true, true
}

// Held is [Holder] without the process.
func Held(dir string) (held, known bool) {
	_, held, known = Holder(dir)
	return held, known
}

// Owners returns the processes that have trained the run in dir, oldest first. A folder without
// claims, as of the first release or of a copied run, has none.
func Owners(dir string) ([]Owner, error) {
	claims := filepath.Join(dir, ClaimsDir)
	all, err := claimsIn(claims)
	var out []Owner
	for _, n := range all {
		var o Owner
		rerr := ReadJSON(filepath.Join(claimPath(claims, n), ownerFile), &o)
		switch {
		case errors.Is(rerr, fs.ErrNotExist): // removed in the meantime
		case rerr != nil:
			err = errors.Join(err, rerr)
		case o.Started != "":
			out = append(out, o)
		}
	}
	return out, err
}
