package cmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// readers are commands that only read or report; run is a run's folder.
var readers = []struct {
	args string
	with os.Signal
}{
	{"eval run", os.Interrupt}, // the first: see TestFirstSignalEndsWhatOnlyReads
	{"data stats problems/val.jsonl", os.Interrupt},
	{"config check run/config.yaml", os.Interrupt},
	{"config show", syscall.SIGTERM},
	{"status run", os.Interrupt},
	{"report run", os.Interrupt},
	{"compare run", os.Interrupt},
	{"ablate list", os.Interrupt},
	{"explain clip", os.Interrupt},
	{"version", syscall.SIGHUP},
}

// evil clears the screen, sets the title, turns the text and forges a line.
const evil = "x\x1b[2J\x1b]0;t\a\u202eY\u2028\u009b\x7f\xff\r\nto continue: rm -rf ~"

// shownEvil begins every faithful display of evil.
const shownEvil = `x\x1b[2J`

// checkShown fails where a text could do something to a terminal, or has a
// forged line.
func checkShown(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "to continue: rm") {
			t.Errorf("%s: a line is forged: %q", what, text)
		}
	}
	untrusted.CheckText(t, text)
}

// runHere is a command in this process, with its output checked.
func runHere(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	s := &State{
		Args: append([]string{"grpo"}, args...), Env: env, In: strings.NewReader(""), Out: &out, Err: &err,
		Now: time.Now, Host: func() (string, error) { return "host", nil },
	}
	code = Run(context.Background(), s)
	checkShown(t, strings.Join(args, " ")+", stdout", out.String())
	checkShown(t, strings.Join(args, " ")+", stderr", err.String())
	return code, out.String(), err.String()
}

// long marks tests that -short leaves out.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short")
	}
}

// evilSweep is a sweep whose files hold evil wherever a text may stand: one run
// is finished, one failed, one has not started, one has an invalid configuration.
func evilSweep(t *testing.T, dir string) {
	t.Helper()
	if code, _, stderr := runHere(t, nil, "sweep", "lr", "--values", "1e-3,3e-3", "--seeds", "2", "-c", "smoke", "--steps", "1", "--out", dir, "--prepare"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := runHere(t, nil, "task", "--sweep", dir, "--index", "0"); code != 0 {
		t.Fatal(stderr)
	}
	m, err := sweepdir.ReadManifest(dir)
	expect.OK(t, err)
	evil := strings.ToValidUTF8(evil, "") // JSON has no other
	m.Name, m.Title, m.Question, m.Base = evil, evil, evil+"?", m.Base+"# \x1b[2J\u202e"
	m.Notes, m.Argv = []string{evil}, []string{"grpo", evil}
	m.Fixed, m.Varied = []sweepdir.Override{{Key: evil, Value: evil}}, []string{evil}
	for i := range m.Arms {
		m.Arms[i].Name, m.Arms[i].Label = m.Arms[i].Name+evil, m.Arms[i].Label+evil
		m.Arms[i].Set = append(m.Arms[i].Set, sweepdir.Override{Key: evil, Value: evil})
	}
	m.Axes[0].Label, m.Axes[0].Short = evil, evil
	m.Runs[3].Config += "\"a\\e[2J\\nto continue: rm\": 1\n"
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(dir, m))
	failed := m.Runs[1].Path(dir)
	expect.OK(t, os.MkdirAll(failed, 0o755))
	expect.OK(t, os.WriteFile(filepath.Join(failed, rundir.ConfigFile), []byte(m.Runs[1].Config), 0o644))
	expect.OK(t, rundir.WriteJSON(filepath.Join(failed, rundir.StatusFile), rundir.Status{State: rundir.StateFailed, Steps: 1, Error: evil}))
	done := m.Runs[0].Path(dir)
	meta, err := os.ReadFile(filepath.Join(done, rundir.MetaFile))
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(done, rundir.MetaFile), bytes.Replace(meta, []byte(`"host": "`), []byte(`"host": "\u001b[2J`), 1), 0o644))
}

// Whatever a folder from someone else contains, the commands show it as text.
func TestUntrustedFolders(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	evilSweep(t, "study/lr")
	expect.OK(t, sweepdir.WriteStudy("study", sweepdir.Study{
		Format: sweepdir.FormatVersion, Hash: "00000000", Name: evil, Title: evil, Argv: []string{"grpo", evil},
		Parts: []sweepdir.Part{{Name: "lr", Question: evil, Chosen: evil}, {Name: "later", Question: evil}},
	}))
	m, err := sweepdir.ReadManifest("study/lr")
	expect.OK(t, err)
	// A run by itself: its name and its error.
	expect.OK(t, os.MkdirAll("run", 0o755))
	expect.OK(t, os.WriteFile("run/config.yaml", []byte("name: \"a\\e[2J\\nto continue: rm\"\nalgorithm: {loss_type: \"\\u202e\"}\n"), 0o644))
	expect.OK(t, rundir.WriteJSON("run/status.json", rundir.Status{State: evil, Step: 1, Steps: 2, Error: evil}))
	sample, err := rundir.Marshal(rundir.Sample{
		Split: rundir.SplitVal, Decoding: rundir.DecodingSampled, Problem: evil, Prompt: evil, Completion: evil, Gold: evil,
	})
	expect.OK(t, err)
	expect.OK(t, os.WriteFile("run/samples.jsonl", append(sample, '\n'), 0o644))
	for _, tt := range []struct {
		args  []string
		shows bool // evil is part of what is asked for
	}{
		{[]string{"samples", "run"}, true},
		{[]string{"status", "study"}, true},
		{[]string{"status", "study/lr"}, true},
		{[]string{"status", "run"}, true},
		{[]string{"status", m.Runs[1].Path("study/lr")}, true},
		{[]string{"report", "study/lr"}, true},
		{[]string{"report", "study"}, true},
		{[]string{"report", "run", "--out", "out"}, true},
		{[]string{"compare", "study", "run"}, true},
		{[]string{"compare", "study", "run", "--md"}, true},
		{[]string{"compare", "study", "run", "--csv"}, true},
		{[]string{"train", "--resume", "run"}, false},
		{[]string{"config", "check", "run/config.yaml"}, false},
		{[]string{"eval", "run"}, false},
		{[]string{"task", "--sweep", "study/lr", "--index", "3"}, true},
		{[]string{"ablate", "study/lr/manifest.json", "--dry-run"}, false},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			_, out, stderr := runHere(t, nil, tt.args...)
			if tt.shows && !strings.Contains(out+stderr, `\x1b[2J`) {
				t.Errorf("it does not show the text:\n%s%s", out, stderr)
			}
		})
	}
	// The forged line is one of the text; the real one is there.
	if _, out, _ := runHere(t, nil, "status", "study/lr"); strings.Count(out, "\nto continue: ") != 1 || !strings.Contains(out, "\nto continue: grpo $'x\\033[2J") {
		t.Errorf("the command that continues is not shown:\n%s", out)
	}
	for _, file := range []string{"study/results.md", "study/results.csv", "study/report.html", "study/lr/results.md", "study/lr/results.csv", "study/lr/report.html", "out/results.md"} {
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		checkShown(t, file, string(text))
		if !strings.Contains(string(text), `\x1b[2J`) && !strings.Contains(string(text), `\\x1b[2J`) {
			t.Errorf("%s does not show the text", file)
		}
	}
}

// The same for problems and for what is made of them.
func TestUntrustedProblems(t *testing.T) {
	long(t)
	t.Chdir(t.TempDir())
	var train, good, bad bytes.Buffer
	for range 8 {
		expect.OK(t, writeLine(&train, map[string]string{"question": "What is 3 + 4?", "answer": "3 + 4 = 7\n#### 7"}))
		expect.OK(t, writeLine(&good, map[string]string{"question": "What is 2 + 3? " + evil, "answer": "2 + 3 = 5 " + evil + "\n#### 5", "type": evil}))
		expect.OK(t, writeLine(&bad, map[string]string{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### " + evil}))
	}
	expect.OK(t, os.WriteFile("train.jsonl", train.Bytes(), 0o644))
	expect.OK(t, os.WriteFile("good.jsonl", good.Bytes(), 0o644))
	expect.OK(t, os.WriteFile("bad.jsonl", append(good.Bytes(), bad.Bytes()...), 0o644))
	expect.OK(t, os.WriteFile("batch.json", []byte(`{"cases": [{"name": "\u001b[2J\nto continue: rm", "\u202e": 1}]}`), 0o644))
	for _, tt := range []struct {
		args  string
		shows bool
	}{
		{"data stats good.jsonl", true},
		{"data stats bad.jsonl", true},
		{"data stats bad.jsonl --skip-bad", true},
		{"eval --samples 3 --set data.source=gsm8k --set data.train_file=train.jsonl --set data.val_file=good.jsonl --set data.val_size=8", true},
		{"explain loss --batch batch.json", false},
		{"explain rewards --batch batch.json", false},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, out, stderr := runHere(t, nil, strings.Fields(tt.args)...)
			if tt.shows && !strings.Contains(out+stderr, `\x1b[2J`) {
				t.Errorf("it does not show the text:\n%s%s", out, stderr)
			}
		})
	}
}

func writeLine(b *bytes.Buffer, v any) error {
	data, err := rundir.Marshal(v)
	b.Write(append(data, '\n'))
	return err
}

// The same for arguments, paths and the environment.
func TestUntrustedArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{evil}, {"--" + evil}, {"config", evil}, {"config", "check", evil}, {"config", "show", "--set", evil}, {"config", "show", "--set", "seed=" + evil},
		{"config", "show", "-c", evil}, {"status", evil}, {"report", evil}, {"compare", evil}, {"compare", "x", "--sort-by", evil},
		{"eval", evil}, {"eval", "--split", evil}, {"eval", "--which", evil, "x"}, {"data", "stats", evil},
		{"train", "--seed", evil}, {"train", "--resume", evil}, {"train", "--set", "model.init=./" + evil}, {"sft", "-c", evil},
		{"sweep", evil}, {"sweep", evil, "--values", "1"}, {"sweep", "lr", "--values", evil}, {"sweep", "--axis", evil}, {"sweep", "lr", "--seeds", evil},
		{"ablate", evil}, {"ablate", "show", evil}, {"task", "--sweep", evil, "--index", "0"}, {"explain", evil}, {"explain", "advantages", "--group", evil},
		{"explain", "loss", "--batch", evil}, {"bench", "step", "--device", evil}, {"assignment", "--values", evil},
	} {
		if code, _, stderr := runHere(t, nil, args...); code == 0 || !strings.Contains(stderr, shownEvil) && !strings.Contains(stderr, "x\\") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	runHere(t, nil, "help", evil)
	for _, kv := range []string{"GRPO_SEED=" + evil, "GRPO_" + evil + "=1", "GRPO_KERNEL=" + evil} {
		if code, _, stderr := runHere(t, []string{kv}, "config", "show"); code == 0 {
			t.Errorf("%q: exit code %d: %s", kv, code, stderr)
		}
	}
	// What a user calls a folder is shown, and quoted where it can be copied.
	dir := "new\nline's \x1b[2J"
	code, out, stderr := runHere(t, nil, "sweep", "lr", "--values", "1e-3", "--seeds", "1", "-c", "smoke", "--out", dir, "--prepare")
	if want := `grpo task --sweep $'new\012line\047s \033[2J' --index N`; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want %s: %s%s", code, want, out, stderr)
	}
	if code, out, stderr := runHere(t, nil, "sweep", "lr", "--values", "1e-3", "--seeds", "1", "-c", "smoke", "--out", dir, "--dry-run", "--quiet"); code != 0 || !strings.Contains(out, `new\nline's \x1b[2J`) {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}
