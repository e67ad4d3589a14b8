package reward

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
)

// TestMain makes the test binary a command: "serve MODE [ARG]" answers requests, with the faults of
// the mode.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(m.Run())
}

// once reports whether this is the first call for a file, which it makes.
func once(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func serve(mode string, args []string) {
	in, out := bufio.NewReader(os.Stdin), os.Stdout
	for {
		switch mode {
		case "ignore": // reads nothing, and does not end with its input
			time.Sleep(time.Hour)
		case "closed":
			os.Stdin.Close()
			time.Sleep(time.Hour)
		case "dies":
			fmt.Fprintf(os.Stderr, "Traceback:\n  line 3\nKeyError: 'x\x1b[31m'\n")
			os.Exit(3)
		case "flood": // fills the pipe of stderr before it reads
			fmt.Fprint(os.Stderr, strings.Repeat(strings.Repeat("e", 99)+"\n", 5000))
		case "eager": // fills the pipe of stdout before it reads
			fmt.Fprint(out, strings.Repeat("a", 1<<20))
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			panic(err)
		}
		rewards := make([]any, len(r.Completions))
		for i, c := range r.Completions {
			rewards[i], _ = strconv.ParseFloat(c.Answer, 64)
			if c.Answer == "" {
				rewards[i] = nil
			}
		}
		a := map[string]any{"id": r.ID, "version": r.Version, "rewards": rewards}
		switch mode {
		case "midway": // ends in the middle of the first batch of a later step
			if r.Step > 1 && (len(args) == 0 || once(args[0])) {
				fmt.Fprint(out, `{"id": 2, "rewa`)
				os.Exit(0)
			}
		case "late":
			if once(args[0]) {
				time.Sleep(time.Hour)
			}
		case "garbage":
			fmt.Fprintln(out, "loading the model...")
		case "nan":
			fmt.Fprintf(out, "{\"id\": %d, \"rewards\": [NaN]}\n", r.ID)
			continue
		case "count":
			a["rewards"] = append(rewards, 1)
		case "twice":
			text, _ := json.Marshal(a)
			fmt.Fprintf(out, "%s\n", text)
		case "grandchild": // leaves a process behind that has its pipes
			c := exec.Command(os.Args[0], "serve", "ignore")
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				panic(err)
			}
			if err := os.WriteFile(args[0], []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
				panic(err)
			}
		case "columns":
			a["columns"] = map[string]any{"n": []any{float64(len(r.Completions))}, "who": []any{"me"}}
		case "size":
			a["columns"] = map[string]any{"n": slices.Repeat([]any{len(rewards)}, len(rewards))}
		case "wait": // a millisecond for each completion
			for range rewards {
				time.Sleep(time.Millisecond)
			}
		case "slow":
			time.Sleep(50 * time.Millisecond)
		case "pid":
			a["columns"] = map[string]any{"pid": slices.Repeat([]any{float64(os.Getpid())}, len(rewards))}
		}
		text, _ := json.Marshal(a)
		fmt.Fprintf(out, "%s\n", text)
	}
}

func spec(mode string, args ...string) Spec {
	return Spec{Name: "judge", Command: append([]string{os.Args[0], "serve", mode}, args...), Timeout: 20 * time.Second}
}

// batch has these answers, which the commands return as rewards; "" is null.
func batch(step, group int, answers ...string) Batch {
	b := Batch{Step: step, GroupSize: group, MaxTokens: 64}
	for i, a := range answers {
		b.Completions = append(b.Completions, Completion{
			Prompt: "How many?\n", Completion: fmt.Sprintf("%d \u2028 <<1+1=2>>\n\xff", i), Tokens: []int{1, 2}, Answer: a,
		})
	}
	return b
}

func open(t *testing.T, ctx context.Context, s Spec) (f Function, notes *[]string) {
	t.Helper()
	notes = new([]string)
	f, err := Open(ctx, s, func(text string) { *notes = append(*notes, text) })
	expect.OK(t, err)
	t.Cleanup(f.Close)
	return f, notes
}

func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

func TestCommand(t *testing.T) {
	nan := math.NaN()
	for _, mode := range []string{"plain", "flood", "slow"} {
		t.Run(mode, func(t *testing.T) {
			s := spec(mode)
			s.Workers = 3
			f, notes := open(t, t.Context(), s)
			for step := 1; step <= 3; step++ {
				got, err := f.Score(batch(step, 2, "1", "2", "3", "", "5", "6", "7", "8"))
				expect.OK(t, err)
				if want := []float64{1, 2, 3, nan, 5, 6, 7, 8}; !equal(got.Rewards, want) {
					t.Fatalf("step %d: rewards %v, want %v", step, got.Rewards, want)
				}
			}
			if len(*notes) > 0 {
				t.Errorf("notes %q", *notes)
			}
		})
	}
}

// TestWorkers: a batch is cut between prompts, and each worker is one process that stays.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := spec("pid")
	s.Workers = 2
	f, _ := open(t, t.Context(), s)
	var first []any
	for step := range 2 {
		got, err := f.Score(batch(step, 2, "1", "2", "3", "4", "5", "6"))
		expect.OK(t, err)
		pids := got.Columns["pid"]
		if pids[0] != pids[1] || pids[2] != pids[5] || pids[0] == pids[2] {
			t.Errorf("processes %v", pids)
		}
		if first == nil {
			first = pids
		}
		if !slices.Equal(first, pids) {
			t.Errorf("processes %v, then %v", first, pids)
		}
	}
}

// TestFaults: each fault is one error that names the function, the step, the command and the cause,
// or, with null on error, a note and no rewards.
func TestFaults(t *testing.T) {
	for mode, want := range map[string]string{
		"dies":    "the process ended without an answer (exit status 3); its last lines on stderr:\n  Traceback:\n    line 3\n  KeyError: 'x\\x1b[31m'",
		"midway":  "the process ended without an answer (exit status 0)",
		"ignore":  "it gave no answer within 300ms (does it flush",
		"closed":  "it does not read its input",
		"garbage": `not the JSON object of an answer (print anything else to stderr): "loading the model..."`,
		"nan":     "JSON has no NaN and no Infinity (write null",
		"count":   `"rewards" has 3 elements for 2 completions`,
		"twice":   `"id" is 1, want 2 (it must print one line for each line that it reads`,
		"columns": `column "n" has 1 element for 2 completions`,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := spec(mode)
			if mode == "ignore" {
				s.Timeout = 300 * time.Millisecond
			}
			score := func(s Spec) (got Scores, notes *[]string, err error) {
				f, notes := open(t, t.Context(), s)
				for step := 1; step <= 2 && err == nil; step++ {
					b := batch(step, 1, "1", "2")
					if mode == "closed" { // more than fits into a pipe
						b.Completions[0].Completion = strings.Repeat("x", 1<<20)
					}
					got, err = f.Score(b)
				}
				return got, notes, err
			}
			_, _, err := score(s)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "reward judge: step ") ||
				!strings.Contains(err.Error(), "serve "+mode) {
				t.Errorf("error %v, want ... %s", err, want)
			}
			s.NullOnError = true
			got, notes, err := score(s)
			if err != nil || !equal(got.Rewards, []float64{math.NaN(), math.NaN()}) {
				t.Errorf("with null: %v, %v", got.Rewards, err)
			}
			if all := strings.Join(*notes, ""); !strings.Contains(all, strings.ReplaceAll(want, "\n  ", " | ")) || !strings.Contains(all, "2 completions without this reward") {
				t.Errorf("notes %q", all)
			}
		})
	}
}

// TestRestart: a process that dies or hangs once is started again, and the batch has its rewards.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"midway", "late"} {
		s := spec(mode, filepath.Join(t.TempDir(), "once"))
		if s.Restarts = 1; mode == "late" {
			s.Timeout = time.Second
		}
		f, notes := open(t, t.Context(), s)
		for step := 1; step <= 2; step++ {
			got, err := f.Score(batch(step, 1, "1", "2"))
			if err != nil || !equal(got.Rewards, []float64{1, 2}) {
				t.Fatalf("%s, step %d: %v, %v", mode, step, got.Rewards, err)
			}
		}
		if len(*notes) != 1 || !strings.HasSuffix((*notes)[0], "the process is started again") {
			t.Errorf("%s: notes %q", mode, *notes)
		}
	}
}

// TestEager: a process that writes more than a pipe holds before it reads blocks nobody.
func TestEager(t *testing.T) {
	t.Parallel()
	f, _ := open(t, t.Context(), spec("eager"))
	b := batch(1, 1, "1")
	b.Completions[0].Completion = strings.Repeat("x", 1<<20)
	expect.Error(t, expect.Err(f.Score(b)), "not the JSON object")
}

// TestEnd: closing, and the end of the context, kill a process that does not end by itself, with the
// processes it has started.
func TestEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"close", "cancel"} {
		pidFile := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		s := spec("grandchild", pidFile)
		f, err := Open(ctx, s, nil)
		expect.OK(t, err)
		expect.OK(t, expect.Err(f.Score(batch(1, 1, "1"))))
		if how == "cancel" {
			cancel()
			if _, err := f.Score(batch(2, 1, "1")); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
		f.Close()
		cancel()
		text, err := os.ReadFile(pidFile)
		expect.OK(t, err)
		pid, _ := strconv.Atoi(string(text))
		deadline := time.Now().Add(5 * time.Second)
		for alive(pid) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if alive(pid) {
			t.Errorf("%s: the process that the command has started is still there", how)
		}
	}
}

// TestCancel: an interrupted call does not wait for the answer.
func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f, _ := open(t, ctx, spec("ignore"))
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	if _, err := f.Score(batch(1, 1, "1")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestMissingProgram(t *testing.T) {
	_, err := Open(t.Context(), Spec{Name: "judge", Command: []string{"./no-such-program", "a b"}}, nil)
	expect.Error(t, err, "reward judge: start ./no-such-program 'a b': ")
}

func TestPattern(t *testing.T) {
	f, _ := open(t, t.Context(), Spec{Name: "p", Pattern: `(?m)^#### -?\d+$`})
	b := Batch{Completions: []Completion{{Completion: "2+2=4\n#### 4"}, {Completion: "#### 4."}, {}}}
	if got, err := f.Score(b); err != nil || !equal(got.Rewards, []float64{1, 0, 0}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := CheckPattern(`(a`); err == nil {
		t.Error("a broken pattern was accepted")
	}
}

func TestExpr(t *testing.T) {
	c := Completion{Prompt: "2+2?\n", Completion: "4 pens", Tokens: []int{1, 2, 3}, Ended: true, Answer: "4", Right: true,
		Problem: Problem{ID: "p1", Type: "add", Fields: json.RawMessage(`{"level": 3, "tags": ["a"]}`)}}
	for text, want := range map[string]float64{
		"1 - len(tokens) / max_tokens":                      1 - 3.0/64,
		"right":                                             1,
		"formatted ? 1 : -0.5":                              -0.5,
		"right ? nil : 0":                                   math.NaN(),
		`completion contains "pens" && step == 2`:           1,
		`float(split(completion, " ")[0]) - float(answer)`:  0,
		"problem.fields.level * 2":                          6,
		`problem.type == "add" ? len(problem.id) : 0`:       2,
		`completion matches "^[0-9]" ? 1 : 0`:               1,
		`problem.fields?.missing ?? 0.25`:                   0.25,
		"let n = len(tokens); n > 2 && ended ? n : -n":      3,
		`count(split(completion, ""), # in ["e","p"]) + .5`: 2.5,
	} {
		f, _ := open(t, t.Context(), Spec{Name: "e", Expr: text})
		got, err := f.Score(Batch{Step: 2, MaxTokens: 64, Completions: []Completion{c}})
		if err != nil || !equal(got.Rewards, []float64{want}) {
			t.Errorf("%s: %v, %v, want %v", text, got.Rewards, err, want)
		}
	}
	for text, want := range map[string]string{
		"1 +":        "not an expression: ",
		"compl":      "not an expression: unknown name compl (1:1)",
		"completion": "its value is a string, want a number",
		"now()":      "not an expression: unknown name now (",
		"keys({})":   "not an expression: unknown name keys (",
	} {
		expect.Error(t, CheckExpr(text), want)
	}
	for _, text := range []string{"1 / 0", "float(completion)", "problem.fields.tags", `len(repeat("abc", 1000000000))`} {
		s := Spec{Name: "e", Expr: text}
		f, _ := open(t, t.Context(), s)
		b := Batch{Step: 2, Completions: []Completion{c, c}}
		if _, err := f.Score(b); err == nil || !strings.HasPrefix(err.Error(), "reward e: step 2: the expression failed for completion 1: ") {
			t.Errorf("%s: error %v", text, err)
		}
		s.NullOnError = true
		f, notes := open(t, t.Context(), s)
		if got, err := f.Score(b); err != nil || !equal(got.Rewards, []float64{math.NaN(), math.NaN()}) || len(*notes) != 1 {
			t.Errorf("%s: %v, %v, %q", text, got.Rewards, err, *notes)
		}
	}
}

func TestHashFiles(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "r.py")
	expect.OK(t, os.WriteFile(script, []byte("1"), 0o600))
	a, err := HashFiles([]string{"python3", script, "--flag", dir, filepath.Join(dir, "missing")})
	if err != nil || len(a) != 1 || a[script] != "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" {
		t.Errorf("%v, %v", a, err)
	}
}
