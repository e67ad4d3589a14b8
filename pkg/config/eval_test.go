package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/stats"
)

// before is the YAML that the first release wrote for c: without the later keys of the section
// eval; it evaluated with the rollout's sampling settings.
func before(t *testing.T, c Config) string {
	t.Helper()
	var lines []string
	section := ""
	for line := range strings.Lines(string(Marshal(c))) {
		if !strings.HasPrefix(line, " ") {
			section = line
		}
		key, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		if section != "eval:\n" || !slices.Contains([]string{"temperature", "top_p", "top_k", "min_tokens", "max_tokens"}, key) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestEvaluationSettingsAreSeparate: training settings do not affect evaluation settings.
func TestEvaluationSettingsAreSeparate(t *testing.T) {
	r := loadSet(t, "sampling_temperature=1.3 sampling_top_p=0.9 sampling_top_k=5 sampling_min_tokens=4")
	if want := Resolve(Default()).Eval; !reflect.DeepEqual(r.Config.Eval, want) {
		t.Errorf("evaluation %+v, want %+v", r.Config.Eval, want)
	}
	if r.Config.Eval.MaxTokens != 64 || r.Origin("eval.max_tokens").From != "rollout.sampling_max_tokens" {
		t.Errorf("longest evaluation %d, %s", r.Config.Eval.MaxTokens, r.Origin("eval.max_tokens"))
	}
}

// TestFirstReleaseEvaluation: in a configuration of the first release, evaluations use the
// rollout's sampling settings. It is read like that, with the hash in its folder's name, and
// differs from the current meaning of the same settings.
func TestFirstReleaseEvaluation(t *testing.T) {
	for _, test := range []struct {
		name string
		set  string
		same bool   // the settings mean the same now
		hash string // by the first release
	}{
		{"default", "", true, "38acda8e"},
		{"short", "sampling_max_tokens=28", true, ""},
		{"warm", "sampling_temperature=1.3", false, "aee1439a"},
		{"nucleus", "sampling_top_p=0.9", false, ""},
		{"top k", "sampling_top_k=5", false, ""},
		{"not empty", "sampling_min_tokens=4", false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := loadSet(t, test.set)
			old, err := LoadText("config.yaml", []byte(before(t, now.Config)))
			expect.OK(t, err)
			r, e := old.Config.Rollout, old.Config.Eval
			if e.Temperature != r.SamplingTemperature || e.TopP != r.SamplingTopP || e.TopK != r.SamplingTopK ||
				e.MinTokens != r.SamplingMinTokens || e.MaxTokens != r.SamplingMaxTokens {
				t.Errorf("evaluation %+v of the rollout %+v", e, r)
			}
			if h := Hash(old.Config); test.hash != "" && h != test.hash {
				t.Errorf("hash %s, the first release had %s", h, test.hash)
			}
			if same := Hash(old.Config) == Hash(now.Config); same != test.same {
				t.Errorf("hash %s, now %s", Hash(old.Config), Hash(now.Config))
			}
			if same := len(Diff(old.Config, now.Config)) == 0; same != test.same {
				t.Errorf("differences %v", Diff(old.Config, now.Config))
			}
		})
	}
}

// TestFirstReleaseFile reads a file that the first release wrote: `grpo train -c
// smoke --set sampling_temperature=1.3`, whose folder has the hash in its meta.json.
func TestFirstReleaseFile(t *testing.T) {
	path := "testdata/first-release.yaml"
	r, err := Load(LoadOptions{Path: path})
	expect.OK(t, err)
	if e := r.Config.Eval; Hash(r.Config) != "02262d06" || e.Temperature != 1.3 || e.MaxTokens != 64 {
		t.Errorf("hash %s, evaluation %+v", Hash(r.Config), e)
	}
	if o := r.Origin("eval.temperature").String(); o != path+": line 29, the same as rollout.sampling_temperature" {
		t.Errorf("origin %s", o)
	}
	// Further --set flags change training alone.
	if r, err = Load(LoadOptions{Path: path, Set: []string{"sampling_temperature=0.7"}}); err != nil || r.Config.Eval.Temperature != 1.3 {
		t.Errorf("evaluated at %v, %v", r.Config.Eval.Temperature, err)
	}
	if r, err = Load(LoadOptions{Path: path, Set: []string{"eval.temperature=1"}}); err != nil || r.Config.Eval.Temperature != 1 {
		t.Errorf("evaluated at %v, %v", r.Config.Eval.Temperature, err)
	}
}

// TestOnlyOneSplit: a command that reads one split needs its file alone, and the completions of a checkpoint are then
// longer than TinyLM's, unless a source says how long. A run is not affected.
func TestOnlyOneSplit(t *testing.T) {
	checkpoint := func(string, string) (Checkpoint, error) {
		return Checkpoint{File: "m.gguf", HiddenSize: 64, NumLayers: 2, EvalTokens: 256}, nil
	}
	for _, c := range []struct {
		only, set string
		tokens    int
		err       string
	}{
		{"val", "data.source=gsm8k val_file=v", 64, ""},
		{"val", "data.source=gsm8k test_file=v", 0, "data.val_file"},
		{"test", "data.source=gsm8k test_file=v", 64, ""},
		{"train", "data.source=gsm8k val_file=v", 0, "data.train_file"},
		{NoSplit, "data.source=svamp", 64, ""},
		{"", "data.source=gsm8k val_file=v", 0, "data.train_file"},
		{"val", "init=m.gguf", 256, ""},
		{"val", "init=m.gguf eval.max_tokens=64", 64, ""},
		{"val", "init=m.gguf sampling_max_tokens=32", 32, ""},
		{"", "init=m.gguf", 64, ""},
	} {
		r, err := Load(LoadOptions{Only: c.only, Set: strings.Fields(c.set), Checkpoint: checkpoint})
		switch {
		case c.err != "":
			expect.Error(t, err, c.err)
		case err != nil:
			t.Errorf("%q %s: %v", c.only, c.set, err)
		case r.Config.Eval.MaxTokens != c.tokens:
			t.Errorf("%q %s: eval.max_tokens %d, want %d", c.only, c.set, r.Config.Eval.MaxTokens, c.tokens)
		}
	}
}

// TestValSizeOfReaders: a command that only reads takes the number of validation problems that its user asks for,
// unless the number of the last evaluation is asked for as strongly.
func TestValSizeOfReaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	expect.OK(t, os.WriteFile(file, []byte("data: {val_size: 16}\neval: {final_size: 64}\n"), 0o600))
	for _, c := range []struct {
		only, set, env string
		want           int
	}{
		{"val", "", "", 64},
		{"val", "val_size=8", "", 0},
		{"val", "val_size=128", "", 0},
		{"val", "", "GRPO_DATA_VAL_SIZE=8", 0},
		{"val", "val_size=8 final_size=32", "", 32},
		{"", "val_size=8", "", 64},
	} {
		o := LoadOptions{Path: file, Only: c.only, Set: strings.Fields(c.set)}
		if c.env != "" {
			o.Env = []string{c.env}
		}
		r, err := Load(o)
		expect.OK(t, err)
		if got := r.Config.Eval.FinalSize; got != c.want {
			t.Errorf("%+v: eval.final_size %d", c, got)
		}
	}
}

// The k of pass@k and maj@k follow from the number of completions, or are those up to it that were chosen.
func TestKs(t *testing.T) {
	for _, tt := range []struct {
		chosen []int
		n      int
		want   []int
	}{
		{nil, 1, nil}, {nil, 2, []int{1, 2}}, {nil, 6, []int{1, 2, 4, 6}}, {nil, 8, []int{1, 2, 4, 8}},
		{[]int{1, 5, 9}, 6, []int{1, 5}}, {[]int{5}, 2, nil}, {[]int{1}, 1, nil},
	} {
		e := Eval{PassAt: tt.chosen, MajorityAt: tt.chosen}
		if p, m := e.PassKs(tt.n), e.MajorityKs(tt.n); !slices.Equal(p, tt.want) || !slices.Equal(m, tt.want) {
			t.Errorf("%v of %d: %v and %v, want %v", tt.chosen, tt.n, p, m, tt.want)
		}
	}
	if e := (Eval{}); e.MajorityKs(stats.MaxChoose+1) != nil || len(e.PassKs(stats.MaxChoose+1)) != 11 {
		t.Error("more completions than a majority is computed from")
	}
	_, err := Load(LoadOptions{Set: []string{"eval.samples=4", "eval.pass_at=[1, x]"}})
	expect.Error(t, err, "eval.pass_at", "element 2 must be an integer")
}
