package sweep

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// watch follows the folder of a run with a process. It reads only the lines added
// since the last poll, so that two polls a second cost nothing.
type watch struct {
	dir     string
	metrics tail[rundir.Metrics]
	evals   tail[rundir.Eval]
	status  *rundir.Status
	stamps  [len(heartbeat)]stamp
	started stamp         // of metrics.jsonl before the process
	base    int           // step of the checkpoint from which the process continues
	silent  time.Duration // since the last heartbeat
}

// A change of one of these files shows that the process is alive.
var heartbeat = [...]string{
	rundir.StatusFile, rundir.MetricsFile, rundir.EvalFile, rundir.SamplesFile, rundir.LogFile, rundir.ResultFile,
	sweepdir.TaskLog,
}

// stamp is the size and time of a file, which show a change.
type stamp struct {
	size    int64
	changed time.Time
}

func stampOf(path string) stamp {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime()}
}

// newWatch is called before the process starts.
func newWatch(dir string) *watch {
	w := &watch{dir: dir}
	w.metrics.path = filepath.Join(dir, rundir.MetricsFile)
	w.evals.path = filepath.Join(dir, rundir.EvalFile)
	w.started = stampOf(w.metrics.path)
	w.poll()
	w.base = w.saved()
	return w
}

// poll reads what is new. alive: a file changed; moved: there are new steps,
// evaluations or a new status.
func (w *watch) poll() (alive, moved bool) {
	for i, name := range heartbeat {
		if now := stampOf(filepath.Join(w.dir, name)); now != w.stamps[i] {
			w.stamps[i] = now
			alive = true
		}
	}
	if !alive {
		return false, false
	}
	newSteps := w.metrics.read(func(last, next rundir.Metrics) bool { return next.Step == last.Step+1 })
	newEvals := w.evals.read(func(last, next rundir.Eval) bool { return next.Step >= last.Step })
	var s rundir.Status
	if err := rundir.ReadJSON(filepath.Join(w.dir, rundir.StatusFile), &s); err == nil {
		moved = w.status == nil || *w.status != s
		w.status = &s
	}
	return true, moved || newSteps || newEvals
}

// saved is the step of the run's last checkpoint.
func (w *watch) saved() int { return rundir.SavedStep(w.dir) }

// stepped says whether the process had made a step at the last poll.
func (w *watch) stepped() bool {
	return w.saved() > w.base || len(w.metrics.lines) > w.base && stampOf(w.metrics.path) != w.started
}

// state is the run without its configuration, metadata and samples.
func (w *watch) state(e sweepdir.Entry) sweepdir.RunState {
	return sweepdir.RunState{Entry: e, State: rundir.StateRunning, Run: &rundir.Run{
		Dir: w.dir, Metrics: w.metrics.lines, Evals: w.evals.lines, Status: w.status,
	}}
}

// stepTime is the mean time of the run's steps; 0 before the first.
func (w *watch) stepTime() time.Duration {
	var s float64
	for _, m := range w.metrics.lines {
		s += m.Time.RolloutS + m.Time.RewardS + m.Time.UpdateS + m.Time.EvalS
	}
	return time.Duration(s / float64(max(1, len(w.metrics.lines))) * float64(time.Second))
}

// tail reads a JSONL file as it grows. A file that was cut, by a process that
// continues from a checkpoint, is read again from its start.
type tail[T any] struct {
	path   string
	offset int64
	lines  []T
}

// read appends the new lines and returns whether there are any; follows says whether
// a line can come after another.
func (t *tail[T]) read(follows func(last, next T) bool) bool {
	ok, changed := t.readOn(follows)
	if ok {
		return changed
	}
	// Lines that still don't follow are left to the next poll.
	t.offset, t.lines = 0, nil
	t.readOn(follows)
	return true
}

// readOn is read; ok = false if the file does not continue the lines read before.
func (t *tail[T]) readOn(follows func(last, next T) bool) (ok, changed bool) {
	f, err := regular.Open(t.path)
	if err != nil {
		return t.offset == 0, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < t.offset {
		return false, false
	}
	data, err := io.ReadAll(io.NewSectionReader(f, t.offset, min(info.Size()-t.offset, regular.MaxLog)))
	if err != nil {
		return false, false
	}
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return true, changed
		}
		var v T
		if rundir.Unmarshal(line, &v) != nil || len(t.lines) > 0 && !follows(t.lines[len(t.lines)-1], v) {
			return false, changed
		}
		t.lines = append(t.lines, v)
		t.offset += int64(len(line)) + 1
		data, changed = rest, true
	}
}

func taskLog(run string) string { return filepath.Join(run, sweepdir.TaskLog) }

// logTail returns the end of the output of a run's process since offset, or of the
// run's own log if the process printed nothing, and the path of that log.
func logTail(dir string, offset int64) (text, path string) {
	path = taskLog(dir)
	text = LastLines(path, offset)
	if own := filepath.Join(dir, rundir.LogFile); text == "" && stampOf(own) != (stamp{}) {
		return LastLines(own, 0), own
	}
	return text, path
}

// LastLines returns at most tailLines lines from the last tailBytes of a file, and of
// a panic the first lines, which have the message.
func LastLines(path string, from int64) string {
	const tailLines, tailBytes = 12, 64 << 10
	data, _, err := regular.Tail(path, from, tailBytes)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	begin := max(0, len(lines)-tailLines)
	for i, l := range lines {
		if bytes.HasPrefix(l, []byte("panic: ")) || bytes.HasPrefix(l, []byte("fatal error: ")) {
			begin = i
			break
		}
	}
	return string(bytes.Join(lines[begin:min(begin+tailLines, len(lines))], []byte("\n")))
}

// lastMessage is the message with which a program ended, if its log has one.
func lastMessage(text string) string {
	var message string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, p := range []string{"panic: ", "fatal error: ", "runtime: "} {
			if strings.HasPrefix(line, p) {
				return line
			}
		}
		if rest, ok := strings.CutPrefix(line, "grpo: "); ok {
			message = rest
		}
	}
	return message
}
