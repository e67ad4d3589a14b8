package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/untrusted"
)

// fuzzLimit is the maximum cost of loading a configuration: resolving goes through viper key by
// key, even for an empty file.
var fuzzLimit = untrusted.Limit{Base: 64 << 20, PerByte: 4 << 10, Time: untrusted.Reader.Time}

// oddYAML are strings that often break YAML readers.
var oddYAML = []string{
	"rollout:\n  group_size: 8.5\n", "seed: &a 1\ndata: {generator_seed: *a}\n", "- 1\n", "a: b: c", "\t", "---\n---\n", "? [a]\n: b\n",
	"name: |\n  a\n", "train: {learning_rate: 1e-3, adam_betas: [0, 0]}\n", "seed: !!int '1'\n", "name: \"\\u2028\"\n", "%YAML 1.1\n---\nseed: 1\n",
	"\"\\e[31m\": 1\n", "name: \"\\e[31m\"\n", "seed: !\"\\e\" 1\n", "<<: {seed: 1}\n", "reward: {functions: [[[[a]]]]}\n", "name: &\u202e x\n",
	"/\n---", "train: {lte:\r,e-earnine,a: 1}", laughs, "stages:\n  - name: a\n",
}

// laughs is the "billion laughs": each alias expands to ten of the previous one.
var laughs = func() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol, lol]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String() + "name: *a12\n"
}()

// noLine are problems without a line: about missing content.
var noLine = []string{"x.yaml: the file is empty", "x.yaml: further problems", "stages must have"}

// yamlBreak is a line break in YAML.
var yamlBreak = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

var lineOfX = regexp.MustCompile(`x\.yaml: line (\d+)`)

// checkProblems checks an error of loading the string x.yaml alone: each problem names a line that
// exists, or that the file is empty.
func checkProblems(t testing.TB, text []byte, err error) {
	t.Helper()
	untrusted.CheckError(t, err)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrConfig) {
		t.Fatalf("not an *Error: %v", err)
	}
	last := 1 + len(yamlBreak.FindAll(text, -1))
	for _, p := range e.Problems {
		lines := lineOfX.FindAllStringSubmatch(p, -1)
		if len(lines) == 0 && !slices.ContainsFunc(noLine, func(start string) bool { return strings.HasPrefix(p, start) }) {
			t.Fatalf("no line in %q", p)
		}
		for _, m := range lines {
			if n, _ := strconv.Atoi(m[1]); n < 1 || n > last {
				t.Fatalf("line %s of %d in %q", m[1], last, p)
			}
		}
	}
}

// FuzzYAML: any file gives a configuration that reads back from its own YAML, or an error that
// names a line, in bounded time and memory; so does grpo sft.
func FuzzYAML(f *testing.F) {
	for _, name := range embedded() {
		src, _ := open(name, embedded())
		f.Add(src.text)
	}
	for i, s := range oddYAML {
		f.Add(fmt.Appendf(nil, "%s# %d\n", s, i))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzLimit.Check(t, len(text), func() {
			r, err := LoadText("x.yaml", text)
			if err != nil {
				checkProblems(t, text, err)
			}
			roundTrip(t, r, err)
			s, err := loadFrom([]*source{{label: "x.yaml", text: text}}, LoadOptions{}, DefaultSFT())
			if err == nil {
				roundTripSFT(t, s)
				return
			}
			if checkProblems(t, text, err); s != nil {
				t.Fatalf("got %v with the error %v", s, err)
			}
		})
	})
}

// roundTripSFT is [roundTrip] for grpo sft.
func roundTripSFT(t testing.TB, s *Loaded[SFT]) {
	t.Helper()
	again, err := loadFrom([]*source{{label: "x.yaml", text: Marshal(s.Config)}}, LoadOptions{}, DefaultSFT())
	if err != nil {
		t.Fatalf("%v\n%s", err, Marshal(s.Config))
	}
	if !reflect.DeepEqual(again.Config, s.Config) || Hash(again.Config) != Hash(s.Config) {
		t.Fatalf("reads back as\n%+v\nnot\n%+v", again.Config, s.Config)
	}
}

// FuzzSet: any arguments of --set, one per line, give a configuration that reads back from its own
// YAML, or an error about them.
func FuzzSet(f *testing.F) {
	for _, s := range []string{
		"lr=1e-3", "train.adam_betas=[0.9, 0.95]", "functions=answer,format", "name=\"'#: -", "seed=18446744073709551615",
		"group_size=0", "=", "a.b.c=d", "lr=-0.0", "weight_add=1e-320", "name=\u2028x", "model.init=.5",
		"\x1b[31m=1", "seed=\x1b[31m", "lr=nan", "lr=\u202enan", "name=\xff", "functions=\x1b[31m", "adam_betas=1,2,3",
		"group_size=4\nrollout_batch_size=16\nseed=2", "seed=1\nseed=2", "loss_type=grpo_clip\nepsilon=0.3\nnum_iterations=2",
		"model.init=\nname=", "reward_weights=" + strings.Repeat("1,", 500) + "1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		set := strings.Split(lines, "\n")
		fuzzLimit.Check(t, len(lines), func() {
			r, err := Load(LoadOptions{Set: set})
			if err != nil {
				checkOverride(t, err, "--set")
			}
			roundTrip(t, r, err)
		})
	})
}

// FuzzEnv is [FuzzSet] for an environment variable; of equal names the last one wins or loses
// consistently.
func FuzzEnv(f *testing.F) {
	for _, s := range [][2]string{
		{"GRPO_SEED", "7"}, {"GRPO_TRAIN_LEARNING_RATE", "1e-3"}, {"GRPO_NO_PROGRESS", "1"}, {"GRPO_\x1b[31m", "1"}, {"GRPO_SEED", "\x1b"},
		{"GRPO_STAGES_0_STEPS", "1"}, {"HOME", "/"}, {"GRPO_", ""}, {"GRPO_NAME", "=\xff"}, {"GRPO_REWARD_FUNCTIONS", "[answer, format]"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		env := []string{name + "=" + value, "GRPO_SEED=3", "GRPO_SEED=4"}
		fuzzLimit.Check(t, len(name)+len(value), func() {
			r, err := Load(LoadOptions{Env: env})
			if err != nil {
				checkOverride(t, err, "GRPO_")
			}
			roundTrip(t, r, err)
			if err == nil && name != "GRPO_SEED" && r.Config.Seed != 4 {
				t.Fatalf("seed %d, want the later of two", r.Config.Seed)
			}
		})
	})
}

// checkOverride checks an error of a source other than the file.
func checkOverride(t testing.TB, err error, from string) {
	t.Helper()
	untrusted.CheckError(t, err)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an *Error: %v", err)
	}
	for _, p := range e.Problems {
		if !strings.Contains(p, from) {
			t.Fatalf("%q does not name its source (%s)", p, from)
		}
	}
}

// TestLargeYAML: the costliest shapes at a sixteenth of the largest accepted size (the full size with
// GRPO_LONG).
func TestLargeYAML(t *testing.T) {
	size := maxFileSize / 16
	if os.Getenv("GRPO_LONG") != "" {
		size = maxFileSize
	}
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, c := range []struct{ name, text string }{
		{"laughs", laughs + repeat("# ")}, {"open lists", repeat("[")}, {"open maps", repeat("{")}, {"dashes", repeat("- ")},
		{"questions", repeat("? ")}, {"colons", repeat(": ")}, {"keys", repeat("a: 1\n")}, {"deeper keys", deeper(1400)},
		{"anchors", repeat("&a ")}, {"aliases", "a: &a 1\nb: [" + repeat("*a,")}, {"tags", repeat("!!a ")}, {"comments", repeat("#\n")},
		{"comments in lists", "a:\n" + repeat("- 1 # x\n")}, {"documents", repeat("---\n")}, {"one word", "seed: " + repeat("a")},
		{"one key", repeat("a") + ": 1"}, {"one list", "reward:\n  functions: [" + repeat("a,") + "a]"}, {"quotes", repeat("'")},
		{"blank lines", repeat("\n")}, {"spaces", repeat(" ")}, {"directives", repeat("%A\n")}, {"blocks", repeat("|\n")},
		{"unknown keys", repeat("grup_size: 1\n")}, {"one text", "name: \"" + repeat("é") + "\\n\"\n"}, {"stages", "stages: [" + repeat("1,") + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			untrusted.Limit{Base: 64 << 20, PerByte: 4 << 10, Time: untrusted.Reader.Time}.Check(t, len(text), func() {
				r, err := LoadText("x.yaml", text)
				if err == nil || r != nil {
					t.Fatalf("accepted as %+v", r)
				}
				checkProblems(t, text, err)
			})
		})
	}
}

// deeper nests n sections by indentation.
func deeper(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}
