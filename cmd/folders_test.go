//go:build unix

package cmd

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
)

// small is a run of two steps that takes a fraction of a second.
var small = []string{"-c", "smoke", "--set", "data.val_size=16", "--set", "data.test_size=16", "--set", "data.unseen_size=8",
	"--set", "rollout_batch_size=16", "--steps", "2", "-q"}

const tinySFT = `name: tiny
data: {val_size: 16, test_size: 16, unseen_size: 8}
model: {hidden_size: 16, num_layers: 1}
eval_size: 16
stages:
  - {name: capability, corpus: capability, examples: 100, steps: 5, batch_size: 8, every_n_steps: 5, accept_sampled_min: 0}
`

// A command of this file ends within a second; a pipe that it waits for never
// gets a writer.
const hangs = time.Minute

// in runs a command in the folder dir and returns its exit code and all it wrote.
func in(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	c := grpo(t, args...)
	c.Dir = dir
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	expect.OK(t, c.Start())
	timer := time.AfterFunc(hangs, func() { c.Process.Kill() })
	err := c.Wait()
	if !timer.Stop() {
		t.Errorf("grpo %s hangs", strings.Join(args, " "))
	}
	return code(t, err), out.String()
}

// bytesOf maps every path below dir to what is there. Links are not followed.
func bytesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		out[name] = e.Type().String()
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			out[name] = string(data)
			return err
		}
		return nil
	})
	expect.OK(t, err)
	return out
}

// changes lists the paths at which a and b differ.
func changes(a, b map[string]string) []string {
	var out []string
	for name, text := range a {
		if now, ok := b[name]; !ok || now != text {
			out = append(out, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	expect.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	expect.OK(t, os.WriteFile(name, []byte(text), 0o644))
}

// folders makes one folder of each kind below a new one.
func folders(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, tinySFT, root, "tiny.yaml")
	run := func(args ...string) {
		t.Helper()
		if code, out := in(t, root, args...); code != 0 {
			t.Fatalf("grpo %s: exit code %d\n%s", strings.Join(args, " "), code, out)
		}
	}
	run(append([]string{"train", "--out", "run"}, small...)...)
	run("sft", "-c", "tiny.yaml", "--out", "sft", "-q")
	run(append([]string{"sweep", "lr", "--values", "1e-3", "--seeds", "1", "--out", "sweep"}, small...)...)
	write(t, `{"format": 1, "hash": "00000000", "name": "assignment", "title": "", "argv": [], "parts": [{"name": "lr", "question": ""}]}`, root, "study", "study.json")
	expect.OK(t, os.CopyFS(filepath.Join(root, "study", "lr"), os.DirFS(filepath.Join(root, "sweep"))))
	write(t, "my notes", root, "foreign", "notes.txt")
	write(t, "mine: true", root, "foreign", "config.yaml")
	write(t, "my figures", root, "foreign", "results.md")
	write(t, "my problems", root, "foreign", "train.jsonl")
	write(t, "# mine\nname: lr\naxes: [{key: lr, values: [1e-3]}]\n", root, "request", "sweep.yaml")
	write(t, "# mine\nname: smoke\n", root, "lone", "config.yaml")
	return root
}

// TestFolderOfAnotherKind gives every command that writes a folder every folder
// that is not its own: it is refused before a byte is written. Without GRPO_LONG,
// which CI sets, each gets a third of the folders.
func TestFolderOfAnotherKind(t *testing.T) {
	root := folders(t)
	all := []string{"run", "sft", "sweep", "study", "foreign", "request", "lone"}
	results := all[:4] // figures may go among other files
	train := append([]string{"train"}, small...)
	sweep := append([]string{"sweep", "lr", "--values", "1e-3", "--seeds", "1"}, small...)
	with := func(args []string, more ...string) []string { return append(slices.Clone(args), more...) }
	for i, tt := range []struct {
		name string
		args []string // behind them comes the folder
		own  string
		to   []string
	}{
		{"train", with(train, "--out"), "run", all},
		{"train another", with(train, "--lr", "0.5", "--out"), "", all},
		{"train with a profile", with(train, "--lr", "0.5", "--profile", "heap", "--out"), "", all},
		{"train on the lone configuration", []string{"train", "-c", "lone/config.yaml", "--out"}, "", []string{"lone"}},
		{"sft", []string{"sft", "-c", "tiny.yaml", "-q", "--out"}, "sft", all},
		{"sft another", []string{"sft", "-c", "tiny.yaml", "-q", "--seed", "2", "--out"}, "", all},
		{"sft that fails", []string{"sft", "-c", "tiny.yaml", "-q", "--set", "stages.0.accept_sampled_min=0.9", "--out"}, "", all},
		{"sweep", with(sweep, "--out"), "sweep", all},
		{"prepare", with(sweep, "--prepare", "--out"), "sweep", all},
		{"prepare another", with(sweep, "--set", "group_size=4", "--prepare", "--out"), "", all},
		{"ablate", with([]string{"ablate", "baseline", "--seeds", "1"}, with(small, "--out")...), "", all},
		{"assignment", with([]string{"assignment", "--seeds", "1", "--values", "1e-3"}, with(small, "--out")...), "", all},
		{"task", []string{"task", "--index", "0", "--sweep"}, "sweep", []string{"run", "sft", "study", "foreign", "request", "lone"}},
		{"report of a run", []string{"report", "run", "--out"}, "run", results},
		{"report of a sweep", []string{"report", "sweep", "--out"}, "sweep", results},
		{"report of a study", []string{"report", "study", "--out"}, "study", results},
		{"explain", []string{"explain", "clip", "--out"}, "", results},
		{"bench", []string{"bench", "scaling", "--threads", "1", "--out"}, "", results},
		{"data", []string{"data", "generate", "--out"}, "", append([]string{"foreign"}, results...)},
	} {
		for j, dir := range tt.to {
			if dir == tt.own || (i+j)%3 != 0 && os.Getenv("GRPO_LONG") == "" {
				continue
			}
			t.Run(tt.name+" into "+dir, func(t *testing.T) {
				before := bytesOf(t, root)
				code, out := in(t, root, append(slices.Clone(tt.args), dir)...)
				if diff := changes(before, bytesOf(t, root)); len(diff) > 0 {
					t.Errorf("written: %q", diff)
				}
				if code != exitUsage || !strings.Contains(out, dir) {
					t.Errorf("exit code %d, want %d and the folder's name:\n%s", code, exitUsage, out)
				}
			})
		}
	}
}

// TestOwnFolderAgain: the same command in its own folder changes nothing that it
// made, and empty folders are taken, links to them too.
func TestOwnFolderAgain(t *testing.T) {
	root := folders(t)
	for dir, args := range map[string][]string{
		"run":   append([]string{"train", "--out", "run"}, small...),
		"sft":   {"sft", "-c", "tiny.yaml", "--out", "sft"},
		"sweep": append([]string{"sweep", "lr", "--values", "1e-3", "--seeds", "1", "--out", "sweep"}, small...),
	} {
		before := bytesOf(t, filepath.Join(root, dir))
		if code, out := in(t, root, args...); code != 0 {
			t.Errorf("%s: exit code %d\n%s", dir, code, out)
		}
		if diff := changes(before, bytesOf(t, filepath.Join(root, dir))); len(diff) > 0 {
			t.Errorf("%s: changed: %q", dir, diff)
		}
	}
	write(t, "", root, "kept", ".gitkeep")
	expect.OK(t, os.Symlink("kept", filepath.Join(root, "link")))
	for _, args := range [][]string{
		append([]string{"train", "--out", "link"}, small...), {"report", "link"}, {"status", "link"}, {"compare", "link"}, {"eval", "link"}, {"train", "--resume", "link", "-q"},
	} {
		if code, out := in(t, root, args...); code != 0 {
			t.Errorf("grpo %q: exit code %d\n%s", args, code, out)
		}
	}
}

// traps are what may be in the place of a file, each with how it is made. They
// lead to the file or folder outside, or hang or never end for who opens them.
var traps = map[string]func(outside, path string) error{
	"link":      os.Symlink,
	"hard link": os.Link,
	"pipe":      func(_, path string) error { return syscall.Mkfifo(path, 0o644) },
	"zeros":     func(_, path string) error { return os.Symlink("/dev/zero", path) },
	"folder":    func(_, path string) error { return os.Mkdir(path, 0o755) },
}

// TestTraps puts traps in the place of every file of a run's and of a sweep's
// folder. Commands end, name the file where they need it, and change nothing
// outside the folder.
func TestTraps(t *testing.T) {
	made := folders(t)
	// With GRPO_LONG every file is replaced by a link and a pipe, and those that are
	// read or appended to by every trap. Without it the metrics of a run by every
	// trap, for two commands, and the latter by links, for every other command.
	anyTrap := []string{"metrics.jsonl", "result.json", "manifest.json", "run.log", "task.log", ".claims"}
	again := append([]string{"train", "--out", "run"}, small...)
	readers := [][]string{{"status", "run"}, {"report", "run"}, {"compare", "run"}, {"samples", "run"}, {"eval", "run"}, {"eval", "run", "--which", "best"}}
	resume := [][]string{{"train", "--resume", "run", "-q"}, again}
	sweeps := [][]string{{"status", "sweep"}, {"report", "sweep"}, {"compare", "sweep"},
		append([]string{"sweep", "lr", "--values", "1e-3", "--seeds", "1", "--out", "sweep"}, small...), {"task", "--sweep", "sweep", "--index", "0"}}
	runs, err := os.ReadDir(filepath.Join(made, "sweep", "runs"))
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	one := "sweep/runs/" + runs[0].Name()
	for k, tt := range []struct {
		file     string
		commands [][]string
		named    string // the first words of commands that must fail and name the file ("best": of eval --which best)
	}{
		{"run/config.yaml", append(readers, resume...), "status report compare samples eval best train"},
		{"run/metrics.jsonl", append(readers, resume...), "status report compare samples train"},
		{"run/eval.jsonl", append(readers, resume...), "status report compare samples train"},
		{"run/samples.jsonl", append(readers, resume...), "status report compare samples train"},
		{"run/meta.json", append(readers, resume...), "status report compare samples"},
		{"run/status.json", append(readers, resume...), "status report compare samples"},
		{"run/result.json", append(readers, resume...), "status report compare samples train"},
		{"run/run.log", append(readers, resume...), "train"},
		{"run/task.log", append(readers, resume...), ""},
		{"run/.claims", append(readers, resume...), "train"},
		{"run/checkpoint", append(readers, resume...), "status report compare samples eval best train"},
		{"run/checkpoint/seal.json", append(readers, resume...), "status report compare samples"},
		{"run/checkpoint/last.safetensors", append(readers, resume...), "eval"},
		{"run/checkpoint/best.safetensors", append(readers, resume...), "best"},
		{"run/validation_reward.png", append(readers, resume...), ""},
		{"run/results.md", append(readers, resume...), ""},
		{"sweep/manifest.json", sweeps, "status report compare sweep task"},
		{"sweep/sweep.yaml", sweeps, ""},
		{"sweep/.claims", sweeps, "sweep"},
		{"sweep/runs", sweeps, "status sweep task"},
		{one, sweeps, "status sweep task"},
		{one + "/.claims", sweeps, "sweep task"},
		{one + "/task.log", sweeps, "sweep"},
		{one + "/metrics.jsonl", sweeps, "status sweep task"},
		{one + "/checkpoint", sweeps, "status sweep task"},
		{"sweep/results.json", sweeps, ""},
	} {
		for trap, make := range traps {
			commands := tt.commands
			switch known := slices.Contains(anyTrap, filepath.Base(tt.file)); {
			case os.Getenv("GRPO_LONG") != "": // as in CI
				if !known && !slices.Contains([]string{"link", "pipe"}, trap) {
					continue
				}
			case !known || trap != "link" && tt.file != "run/metrics.jsonl":
				continue
			case trap != "link":
				commands = [][]string{readers[1], resume[0]}
			case tt.file != "run/metrics.jsonl":
				commands = nil
				for i := k % 2; i < len(tt.commands); i += 2 {
					commands = append(commands, tt.commands[i])
				}
			}
			t.Run(strings.ReplaceAll(tt.file, "/", ":")+" is a "+trap, func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				outside := filepath.Join(t.TempDir(), "precious")
				isDir := filepath.Ext(tt.file) == "" || strings.HasSuffix(tt.file, runs[0].Name())
				isDir = isDir || filepath.Base(tt.file) == ".claims"
				switch {
				case isDir && (trap == "hard link" || trap == "folder"):
					t.Skip("there is none of a folder")
				case isDir:
					write(t, "precious\n", outside, "run.log")
					write(t, "precious\n", outside, "task.log")
				default:
					write(t, "precious", outside)
				}
				before := bytesOf(t, filepath.Dir(outside))
				for _, c := range commands {
					// Each command meets the folder unfinished and with the trap.
					expect.OK(t, os.RemoveAll(root))
					top, _, _ := strings.Cut(tt.file, "/")
					expect.OK(t, os.CopyFS(filepath.Join(root, top), os.DirFS(filepath.Join(made, top))))
					path := filepath.Join(root, filepath.FromSlash(tt.file))
					expect.OK(t, os.Remove(filepath.Join(root, map[string]string{"run": "run", "sweep": one}[top], "result.json")))
					expect.OK(t, os.RemoveAll(path))
					expect.OK(t, make(outside, path))
					code, out := in(t, root, c...)
					if diff := changes(before, bytesOf(t, filepath.Dir(outside))); len(diff) > 0 {
						t.Fatalf("grpo %s: changed outside the folder: %q\n%s", strings.Join(c, " "), diff, out)
					}
					if trap == "hard link" {
						continue // to read one is no harm
					}
					word := c[0]
					if slices.Contains(c, "best") {
						word = "best"
					}
					fails := code != 0 || c[0] == "status" && c[1] == "sweep" || strings.HasSuffix(tt.file, "task.log")
					if slices.Contains(strings.Fields(tt.named), word) && (!fails || !strings.Contains(out, filepath.Base(tt.file))) {
						t.Errorf("grpo %s: exit code %d, want a failure that names the file\n%s", strings.Join(c, " "), code, out)
					}
					if strings.Contains(out, "panic") || strings.Contains(out, "precious") {
						t.Errorf("grpo %s: a panic, or what lies outside is shown:\n%s", strings.Join(c, " "), out)
					}
				}
			})
		}
	}
}
