// Package process tells which process this is and whether another one still exists, also where
// several machines share a folder.
package process

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Place is where a process id has a meaning. An empty string is unknown.
type Place struct {
	Host      string // the machine's name
	Machine   string // a hash of the machine's permanent id
	Boot      string // the id of the time since the machine was started
	Namespace string // the namespace of process ids: each container has its own
}

// Here is the place of this process.
var Here = sync.OnceValue(func() Place {
	p := here()
	p.Host, _ = os.Hostname()
	if p.Machine != "" { // the id itself is confidential, see machine-id(5)
		sum := sha256.Sum256([]byte("grpo " + p.Machine))
		p.Machine = hex.EncodeToString(sum[:8])
	}
	return p
})

// Same reports whether a process id means the same in both places.
func (p Place) Same(q Place) bool {
	return p.Boot == q.Boot && p.Namespace == q.Namespace && (p.Boot != "" || p.Host == q.Host)
}

// Ended reports that every process of p has ended, because its machine was started again: this is
// known only at a place q of that machine.
func (p Place) Ended(q Place) bool {
	return p.Machine != "" && p.Machine == q.Machine && p.Host == q.Host && p.Boot != "" && q.Boot != "" &&
		p.Boot != q.Boot
}

// Born is the start time of a process here, in the system's own form; "" if it is unknown. With its
// id it identifies a process, because ids are used again.
func Born(pid int) string {
	born, _ := inspect(pid)
	return born
}

// Exists reports whether the process here with this id and start time exists; known is false if the
// system does not tell. One that was killed and not yet waited for by its parent does not exist.
func Exists(pid int, born string) (exists, known bool) {
	if pid <= 0 || !signalable(pid) {
		return false, true
	}
	now, ended := inspect(pid)
	if now == "" || born == "" {
		return true, false
	}
	return now == born && !ended, true
}

// Getenv is [os.Getenv] in an environment that was passed in.
func Getenv(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// Job returns the name of the scheduler's job that this process is, "" without one, and how often
// the scheduler has started it again. A scheduler never runs two processes of an array's task, or
// of an index of a Kubernetes job, at a time.
//
// Slurm sets its variables. In Kubernetes, GRPO_JOB is the name of an Indexed Job, which does not
// count.
func Job(getenv func(string) string) (name string, restart int) {
	restart, _ = strconv.Atoi(getenv("SLURM_RESTART_COUNT")) // unset at first
	array, task := getenv("SLURM_ARRAY_JOB_ID"), getenv("SLURM_ARRAY_TASK_ID")
	job, index := getenv("GRPO_JOB"), getenv("JOB_COMPLETION_INDEX")
	switch {
	case array != "" && task != "":
		return "slurm " + array + "_" + task, restart
	case getenv("SLURM_JOB_ID") != "":
		return "slurm " + getenv("SLURM_JOB_ID"), restart
	case job != "" && index != "":
		return kubernetes + job + "-" + index, 0
	}
	return "", 0
}

const kubernetes = "kubernetes "

// Replaces reports whether a job's process with this number of restarts is started only after one
// of the same job with the number before has ended.
func Replaces(job string, restart, before int) bool {
	return restart > before || strings.HasPrefix(job, kubernetes)
}

// Age is the time since t by the clock of this machine.
func Age(t time.Time) time.Duration { return time.Since(t) }
