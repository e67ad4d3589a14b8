package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// Dir is the folder of a sweep, or of a study, with a file JOB.json of each submitted job, and
// the logs of the jobs.
const Dir = "slurm"

// LogFolder is the folder of the logs of a sweep or a study, as sbatch takes it; dir is absolute.
func LogFolder(dir string) string { return strings.ReplaceAll(filepath.Join(dir, Dir), "%", "%%") }

// Submission is a job that was submitted to Slurm. Each has a file of its own, so that two
// submissions never write the same file.
type Submission struct {
	Job     string `json:"job"`
	Comment string `json:"comment"` // of the job: the sweep's hash at that time, which added seeds change
	Indices []int  `json:"indices"` // runs of the manifest: tasks of an array; empty for other jobs
	// Offset is what a task of the array adds to its own number, which has a limit.
	Offset int `json:"offset"`
	// Continues marks the job that submits the next runs of a study.
	Continues bool     `json:"continues,omitempty"`
	Report    string   `json:"report,omitempty"` // id of the job that reports afterwards
	Time      string   `json:"time"`             // RFC 3339
	Program   string   `json:"program"`
	Version   string   `json:"version"`
	SHA256    string   `json:"sha256"`
	Exclude   string   `json:"exclude,omitempty"` // nodes
	Command   []string `json:"command"`           // sbatch with its arguments
}

// readSubmissions reads the submissions of the sweep or study in dir, the oldest first. The folder
// may come from anyone: ids go to commands of Slurm and must be ids.
func readSubmissions(dir string) ([]Submission, error) {
	folder := filepath.Join(dir, Dir)
	if err := regular.Folder(folder); err != nil {
		return nil, fmt.Errorf("read the submitted jobs: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the submitted jobs: %w", err)
	}
	var out []Submission
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !IsID(id) {
			continue
		}
		var s Submission
		file := filepath.Join(folder, e.Name())
		if err := rundir.ReadJSON(file, &s); err != nil {
			return nil, err
		}
		if s.Job != id || s.Report != "" && !IsID(s.Report) {
			return nil, fmt.Errorf("read %s: it is about job %q with the report %q, not about job %s",
				file, s.Job, s.Report, id)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Submission) int {
		return cmp.Or(cmp.Compare(len(a.Job), len(b.Job)), strings.Compare(a.Job, b.Job))
	})
	return out, nil
}

func (s Submission) Write(dir string) error {
	folder, err := rundir.Subfolder(dir, Dir)
	if err != nil {
		return fmt.Errorf("record job %s: %w", s.Job, err)
	}
	return rundir.WriteJSON(filepath.Join(folder, s.Job+".json"), s)
}

// logOf is the log of one task of the submission.
func (s Submission) logOf(dir string, index int) string {
	return filepath.Join(dir, Dir, fmt.Sprintf("%s_%d.log", s.Job, index-s.Offset))
}

// Queue is the submissions of a sweep or a study, with the last answer of squeue.
type Queue struct {
	Dir         string
	Submissions []Submission
	tasks       []Task // of this folder alone
}

// ReadQueue asks Slurm, in one call, about all jobs that were submitted for the sweep or study in
// dir. Without submissions it asks nothing. Tasks with another comment than the recorded one are
// those of another job with the same id.
func ReadQueue(ctx context.Context, dir string, run Exec) (*Queue, error) {
	queues, err := ReadQueues(ctx, []string{dir}, run)
	if len(queues) == 0 {
		return nil, err
	}
	return queues[0], err
}

// PatientQueue is [ReadQueue] that tries again: squeue fails now and then under load.
func PatientQueue(ctx context.Context, dir string, run Exec) (q *Queue, err error) {
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		if q, err = ReadQueue(ctx, dir, run); err == nil || IsMissing(err) || pause > 2*time.Second {
			return q, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return q, err
		}
	}
}

// ReadQueues is [ReadQueue] for several folders. With an error of Slurm it returns the submissions
// without tasks.
func ReadQueues(ctx context.Context, dirs []string, run Exec) (out []*Queue, err error) {
	var ids []string
	for _, dir := range dirs {
		q := &Queue{Dir: dir}
		if q.Submissions, err = readSubmissions(dir); err != nil {
			return nil, err
		}
		ids = slices.AppendSeq(ids, maps.Keys(q.comments()))
		out = append(out, q)
	}
	slices.Sort(ids)
	tasks, err := Tasks(ctx, run, slices.Compact(ids))
	for _, q := range out {
		comments := q.comments()
		for _, t := range tasks {
			if c := comments[t.Job]; c != "" && t.Comment == c {
				q.tasks = append(q.tasks, t)
			}
		}
	}
	return out, err
}

// comments are the comments of the submitted jobs, by id.
func (q *Queue) comments() map[string]string {
	out := map[string]string{}
	for _, s := range q.Submissions {
		out[s.Job] = s.Comment
		if s.Report != "" {
			out[s.Report] = s.Comment
		}
	}
	return out
}

// Task is what Slurm does for a run, by its index; nil if it knows of nothing. A task that is still
// in the queue comes before one that ended.
func (q *Queue) Task(index int) *Task {
	var found *Task
	for _, s := range q.Submissions {
		if !slices.Contains(s.Indices, index) {
			continue
		}
		for i, t := range q.tasks {
			if t.Job == s.Job && t.Index == index-s.Offset && (found == nil || found.Ended()) {
				found = &q.tasks[i]
			}
		}
	}
	return found
}

// Busy returns the runs that are queued or running, by their index. A job that Slurm holds because its
// node could not start it would wait for ever, and does not count.
func (q *Queue) Busy() map[int]bool {
	byJob := map[string]Submission{}
	for _, s := range q.Submissions {
		byJob[s.Job] = s
	}
	out := map[int]bool{}
	for _, t := range q.tasks {
		s := byJob[t.Job]
		index := t.Index + s.Offset
		if !t.Ended() && !t.LaunchFailed() && t.Index >= 0 && slices.Contains(s.Indices, index) {
			out[index] = true
		}
	}
	return out
}

// Last is the last submission of a run; nil if there is none.
func (q *Queue) Last(index int) *Submission {
	for i := len(q.Submissions) - 1; i >= 0; i-- {
		if slices.Contains(q.Submissions[i].Indices, index) {
			return &q.Submissions[i]
		}
	}
	return nil
}

// Alive returns the ids of jobs that are still in the queue, and those of them that continue a
// study.
func (q *Queue) Alive() (ids, continuing []string) {
	continues := map[string]bool{}
	for _, s := range q.Submissions {
		continues[s.Job] = s.Continues
	}
	for _, t := range q.tasks {
		if t.Ended() || slices.Contains(ids, t.Job) {
			continue
		}
		ids = append(ids, t.Job)
		if continues[t.Job] {
			continuing = append(continuing, t.Job)
		}
	}
	return ids, continuing
}

// FailedNodes lists the nodes on which a job ended because they failed.
func (q *Queue) FailedNodes() (out []string) {
	for _, t := range q.tasks {
		failed := t.State == "NODE_FAIL" || strings.Contains(strings.ToUpper(t.Reason), "NODE_FAIL")
		if failed && t.Node != "" && !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	return out
}

// Folders returns the folders with submissions of a sweep, or of a study and its parts.
func Folders(dir string) ([]string, error) {
	if !sweepdir.IsStudy(dir) {
		return []string{dir}, nil
	}
	parts, err := sweepdir.StartedParts(dir)
	return append([]string{dir}, parts...), err
}

// Ended describes how the job of an unfinished run ended, with the last line of its log. It is empty
// for a run without a job, or whose job left no log and no state.
func (q *Queue) Ended(index int) (text, log string) {
	s := q.Last(index)
	if s == nil {
		return "", ""
	}
	id := fmt.Sprintf("%s_%d", s.Job, index-s.Offset)
	log = s.logOf(q.Dir, index)
	line := sweep.LastLines(log, 0)
	line = line[strings.LastIndexByte(line, '\n')+1:]
	state := ""
	if t := q.Task(index); t != nil {
		state = " (" + t.State + ")"
	}
	switch {
	case line != "":
		return fmt.Sprintf("job %s ended%s: %s", id, state, strings.TrimPrefix(line, "grpo: ")), log
	case state != "":
		return fmt.Sprintf("job %s ended%s", id, state), ""
	}
	return "", ""
}

// CancelAll cancels the jobs of a sweep or a study that are in the queue, and returns their ids.
// submitted counts all that there ever were.
func CancelAll(ctx context.Context, dir string, run Exec) (ids []string, submitted int, err error) {
	dirs, err := Folders(dir)
	if err != nil {
		return nil, 0, err
	}
	queues, err := ReadQueues(ctx, dirs, run)
	for _, q := range queues {
		alive, _ := q.Alive()
		ids = append(ids, alive...)
		submitted += len(q.Submissions)
	}
	if err != nil || len(ids) == 0 {
		return nil, submitted, err
	}
	return ids, submitted, Cancel(ctx, run, ids)
}

// Follower is the [sweep.Queue] of a sweep, whose jobs are recorded in its own folder, the first, and
// in the folder of its study.
type Follower struct {
	run    Exec
	dirs   []string
	queues []*Queue // the last answer
}

// NewFollower returns a queue that was not asked yet.
func NewFollower(run Exec, dirs ...string) *Follower { return &Follower{run: run, dirs: dirs} }

// Name implements [sweep.Queue].
func (*Follower) Name() string { return "Slurm" }

// Ask implements [sweep.Queue].
func (f *Follower) Ask(ctx context.Context) error {
	queues, err := ReadQueues(ctx, f.dirs, f.run)
	if err == nil {
		f.queues = queues
	}
	return err
}

// Job implements [sweep.Queue].
func (f *Follower) Job(index int) sweep.JobState {
	t := f.queues[0].Task(index)
	if t == nil || t.Ended() {
		return sweep.JobState{}
	}
	return sweep.JobState{ID: t.ID, Exists: true, Waits: t.Waiting(), Held: t.HeldText()}
}

// Ended implements [sweep.Queue].
func (f *Follower) Ended(index int) (text, log string) { return f.queues[0].Ended(index) }

// MaySubmit implements [sweep.Queue].
func (f *Follower) MaySubmit() bool {
	_, continuing := f.queues[len(f.queues)-1].Alive()
	return len(continuing) > 0
}
