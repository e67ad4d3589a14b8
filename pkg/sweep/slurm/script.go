package slurm

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/config"
)

// Script is a batch job.
type Script struct {
	Name    string
	Comment string // identifies the sweep that the job belongs to
	Log     string // pattern of the log's path
	Dir     string // working directory
	Array   string // tasks, see [Indices]; empty: not an array
	After   []string
	Signal  bool // ask for SIGUSR2 before the time limit

	Settings config.Launcher // Partition, Account, QOS, GRES, Exclude, Setup and Directives
	CPUs     int
	Memory   int64         // bytes; 0 = the cluster's default
	Time     time.Duration // 0 = the cluster's default
	// Command is the program with its arguments; Rest follows them as it is.
	Command []string
	Rest    string
}

// signalBefore is how long before the time limit a job is asked to save, in seconds. Slurm may send
// the signal up to a minute earlier.
const signalBefore = 120

// Args are the arguments of sbatch, which reads the text from its standard input. Paths are
// arguments, because the quoting in #SBATCH lines is Slurm's own. An argument wins over such a line, so
// the user's own directive about a signal or a requeue takes the place of the argument.
func (s Script) Args() []string {
	args := []string{
		"--parsable", "--requeue", "--open-mode=append", "--job-name=" + s.Name, "--comment=" + s.Comment,
		"--output=" + s.Log, "--chdir=" + s.Dir,
	}
	has := func(name string) bool {
		return slices.ContainsFunc(s.Settings.Directives, func(d string) bool { return option(d) == name })
	}
	if has("no-requeue") {
		args = slices.Delete(args, 1, 2)
	}
	if s.Signal && !has("signal") {
		args = append(args, fmt.Sprintf("--signal=B:USR2@%d", signalBefore))
	}
	if s.Array != "" {
		args = append(args, "--array="+s.Array)
	}
	if len(s.After) > 0 {
		args = append(args, "--dependency=afterany:"+strings.Join(s.After, ":"))
	}
	return args
}

// Text is the script. The program replaces the shell, so that Slurm's signals reach it.
func (s Script) Text() string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	directive := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "#SBATCH --%s=%s\n", name, value)
		}
	}
	l := s.Settings
	directive("partition", l.Partition)
	directive("account", l.Account)
	directive("qos", l.QOS)
	directive("nodes", "1")
	directive("ntasks", "1")
	directive("cpus-per-task", strconv.Itoa(s.CPUs))
	if s.Memory > 0 {
		directive("mem", fmt.Sprintf("%dM", (s.Memory+1<<20-1)>>20))
	}
	if s.Time > 0 {
		directive("time", strconv.Itoa(int(math.Ceil(s.Time.Minutes()))))
	}
	directive("gres", l.GRES)
	directive("exclude", l.Exclude)
	for _, d := range l.Directives {
		fmt.Fprintf(&b, "#SBATCH %s\n", d)
	}
	for _, line := range l.Setup {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "exec %s%s\n", textutil.CommandLine(s.Command), s.Rest)
	return b.String()
}

// CommandLine is the script with the command that submits it, for a shell.
func (s Script) CommandLine() string {
	return textutil.CommandLine(append([]string{"sbatch"}, s.Args()...)) + " <<'END'\n" + s.Text() + "END\n"
}

// Submit submits the job and returns its id. The end of ctx does not kill sbatch, which may have submitted the job
// already, and has a time limit of its own.
func Submit(ctx context.Context, run Exec, s Script) (id string, err error) {
	out, err := run(context.WithoutCancel(ctx), s.Text(), "sbatch", s.Args()...)
	if err != nil {
		return "", err
	}
	id, _, _ = strings.Cut(strings.TrimSpace(out), ";") // "id" or "id;cluster"
	if !IsID(id) {
		return "", &Error{Program: "sbatch", Text: fmt.Sprintf("it printed %q and no job id", textutil.Printable(out, 200))}
	}
	return id, nil
}

// Hint is what to do about the refusal of a job, by the setting that it is about.
func Hint(err error) string {
	text := strings.ToLower(err.Error())
	for _, h := range []struct{ word, hint string }{
		{"partition", "set another partition: --partition, launcher.partition (sinfo lists them)"},
		{"account", "set your account: --account, launcher.account"},
		{"qos", "set another quality of service: --qos, launcher.qos"},
		{"memory", "ask for less memory: --memory, launcher.memory"},
		{"time limit", "ask for less time: --time, launcher.time"},
		{"gres", "set other resources: --gres, launcher.gres"},
		{"node configuration", "no node has so much: ask for less by --memory, --cpus or --gres"},
		{"cpu", "ask for fewer cores: --cpus, launcher.cpus"},
		{"node", "set other nodes: --exclude, launcher.exclude"},
		{"array", "the cluster limits the tasks of an array or of a user: submit again when some have ended"},
		{"limit", "the cluster limits your jobs: submit again when some have ended"},
	} {
		if strings.Contains(text, h.word) {
			return h.hint
		}
	}
	return "see the settings of the section launcher"
}

// IsID reports whether text is the id of a job: digits.
func IsID(text string) bool {
	return text != "" && len(text) < 12 && strings.Trim(text, "0123456789") == ""
}

// Indices writes the tasks of an array: 0,3,5-9. limit is the maximum that runs at a time; 0 = no limit.
func Indices(tasks []int, limit int) string {
	out := textutil.Ranges(slices.Sorted(slices.Values(tasks)))
	if limit > 0 {
		out += fmt.Sprintf("%%%d", limit)
	}
	return out
}

// Report is a short job of one core with the settings of s and without the generic resources of a
// run, which calls the program with these arguments. log is the folder of its log.
func (s Script) Report(log, program string, args ...string) Script {
	const memory, limit = 2 << 30, 30 * time.Minute
	s.Name += "-report"
	s.Log, s.Signal, s.CPUs, s.Memory, s.Time = filepath.Join(log, "%j.log"), false, 1, memory, limit
	s.Settings.GRES, s.Settings.Exclude = "", ""
	s.Settings.Directives = slices.DeleteFunc(slices.Clone(s.Settings.Directives), isAmount)
	if given, err := config.ParseTime(s.Settings.Time); err == nil && given > 0 {
		s.Time = min(limit, given)
	}
	s.Command = append([]string{program}, args...)
	return s
}

// option is the name of the option in a directive.
func option(directive string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(directive, "-"), "=")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// isAmount says whether a directive asks for more of something than a report needs.
func isAmount(directive string) bool {
	name := option(directive)
	return strings.HasPrefix(name, "gpu") || slices.Contains([]string{
		"G", "N", "n", "c", "t", "gres", "mem", "mem-per-cpu", "mem-per-gpu", "cpus-per-task", "cpus-per-gpu", "nodes",
		"ntasks", "exclusive", "time", "time-min", "signal", "array", "a", "output", "o", "error", "e",
	}, name)
}

// Array is an array job of runs of a sweep.
type Array struct {
	Script
	Indices []int // of the runs
	Offset  int   // added to the number of a task
}

// Arrays divides the job of these runs into arrays whose task numbers are below the cluster's size
// limit. parallelism is the number of tasks at a time (0 = no limit).
func (s Script) Arrays(indices []int, size, parallelism int) (out []Array) {
	for _, i := range slices.Sorted(slices.Values(indices)) {
		offset := i / size * size
		if len(out) == 0 || out[len(out)-1].Offset != offset {
			out = append(out, Array{Script: s, Offset: offset})
		}
		last := &out[len(out)-1]
		last.Indices = append(last.Indices, i)
	}
	for i := range out {
		a := &out[i]
		var tasks []int
		for _, index := range a.Indices {
			tasks = append(tasks, index-a.Offset)
		}
		a.Array = Indices(tasks, parallelism)
		index := `"$SLURM_ARRAY_TASK_ID"`
		if a.Offset > 0 {
			index = `"$((SLURM_ARRAY_TASK_ID + ` + strconv.Itoa(a.Offset) + `))"`
		}
		a.Rest = " --index " + index + ` --threads "$SLURM_CPUS_PER_TASK"`
	}
	return out
}
