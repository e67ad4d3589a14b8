package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

// equal compares the JSON of the command line with the reference, names and shapes included.
func equal(t *testing.T, where string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(want) {
			t.Errorf("%s: got %v, want the fields of %v", where, got, want)
			return
		}
		for name := range want {
			equal(t, where+"."+name, g[name], want[name])
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			t.Errorf("%s: got %v, want %d elements", where, got, len(want))
			return
		}
		for i := range want {
			equal(t, fmt.Sprintf("%s[%d]", where, i), g[i], want[i])
		}
	case float64:
		if g, ok := got.(float64); !ok || !near(g, want) {
			t.Errorf("%s: got %v, want %v", where, got, want)
		}
	default:
		t.Errorf("%s: the reference has %v", where, want)
	}
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	expect.OK(t, json.Unmarshal(data, &v))
	return v
}

func TestGoldenLosses(t *testing.T) {
	for _, f := range []struct{ file, list, grad string }{
		{"trl_loss_cases.json", "cases", "grad_per_token_logps"},
		{"verl_cases.json", "policy_losses", "grad_log_prob"},
	} {
		data := reference(t, f.file)
		want := decode(t, data)[f.list].([]any)
		cases, err := losses(File{f.file, data})
		expect.OK(t, err)
		if len(cases) != len(want) {
			t.Fatalf("%s: %d results for %d cases", f.file, len(cases), len(want))
		}
		for i, c := range cases {
			t.Run(fmt.Sprintf("%s/%02d %s", f.file, i, c.Name), func(t *testing.T) {
				w := want[i].(map[string]any)
				equal(t, "case", asJSON(t, c), map[string]any{
					"loss": w["loss"], "grad_per_token_logps": w[f.grad], "metrics": w["metrics"],
				})
				if c.Check.Values == 0 || c.Check.Wrong != 0 {
					t.Errorf("the comparison with the file gives %v", c.Check)
				}
			})
		}
	}
}

func TestGoldenAdvantages(t *testing.T) {
	const file = "trl_advantage_cases.json"
	data := reference(t, file)
	root := decode(t, data)
	want := slices.Concat(root["grpo"].([]any), root["rloo"].([]any))
	cases, err := groupedAdvantages(File{file, data}, TRLEps)
	expect.OK(t, err)
	if len(cases) != len(want) {
		t.Fatalf("%d results for %d cases", len(cases), len(want))
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%02d %s", i, c.Name), func(t *testing.T) {
			equal(t, "case", asJSON(t, c), map[string]any{"advantages": want[i].(map[string]any)["advantages"]})
			if c.Check.Values == 0 || c.Check.Wrong != 0 {
				t.Errorf("the comparison with the file gives %v", c.Check)
			}
		})
	}
}

func TestGoldenRewards(t *testing.T) {
	const file = "drgrpo_grader_cases.json"
	data := golden.File(t, "golden", file)
	want := decode(t, data)["cases"].([]any)
	cases, err := rewards(File{file, data})
	expect.OK(t, err)
	if len(cases) != len(want) {
		t.Fatalf("%d results for %d cases", len(cases), len(want))
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			w := want[i].(map[string]any)
			equal(t, c.Response, asJSON(t, c), map[string]any{
				"format_reward": w["format_reward"], "answer_reward": w["answer_reward"], "reward": w["reward"],
			})
		})
	}
}

// The list "rloo" can be before "grpo": the order of the file is kept.
func TestCasesKeepTheOrderOfTheFile(t *testing.T) {
	cases, err := groupedAdvantages(File{"f", []byte(`{
		"rloo": [{"rewards_per_func": [1, 0], "num_generations": 2}],
		"grpo": [{"rewards_per_func": [1, 0], "num_generations": 2, "scale_rewards": "none"}]}`)}, TRLEps)
	expect.OK(t, err)
	same(t, "rloo", cases[0].Advantages, []float64{1, -1})
	same(t, "grpo", cases[1].Advantages, []float64{0.5, -0.5})
}

// RLOO subtracts beta times the summed k1 estimate from the clipped rewards: worked out by hand on
// two completions.
func TestRLOOWithAPenalty(t *testing.T) {
	const file = `{
		"rloo": [{"rewards_per_func": [[3], [0]], "num_generations": 2, "beta": 0.5, "reward_clip_range": [-1, 1]}],
		"rloo_beta_inputs": {"mask": [[1, 1], [1, 0]],
			"old_per_token_logps": [[-1, -2], [-1, null]], "ref_per_token_logps": [[-1.5, -2.5], [-0.8, null]]}}`
	cases, err := groupedAdvantages(File{"f", []byte(file)}, TRLEps)
	expect.OK(t, err)
	// KL sums 1 and -0.2: rewards 1 - 0.5 = 0.5 and 0 + 0.1 = 0.1.
	same(t, "rewards", cases[0].Rewards, []float64{0.5, 0.1})
	same(t, "advantages", cases[0].Advantages, []float64{0.4, -0.4})
}

// Values where the mask is 0 have no effect.
func TestMaskedTokensOfAFileDoNotLeak(t *testing.T) {
	const file = "trl_loss_cases.json"
	data := reference(t, file)
	want, err := losses(File{file, data})
	expect.OK(t, err)
	root := decode(t, data)
	in := root["inputs"].(map[string]any)
	mask := in["mask"].([]any)
	for _, name := range []string{"per_token_logps", "old_per_token_logps", "ref_per_token_logps", "entropies"} {
		for b, row := range in[name].([]any) {
			for i := range row.([]any) {
				if mask[b].([]any)[i] == 0.0 {
					row.([]any)[i] = nil
				}
			}
		}
	}
	poisoned, err := json.Marshal(root)
	expect.OK(t, err)
	if !strings.Contains(string(poisoned), "null,null") {
		t.Fatal("no value was poisoned")
	}
	got, err := losses(File{file, poisoned})
	expect.OK(t, err)
	for i := range want {
		same(t, want[i].Name, append(slices.Concat(got[i].Grad...), got[i].Loss),
			append(slices.Concat(want[i].Grad...), want[i].Loss))
	}
}

// A wrong expected value is found, and named, each quantity apart.
func TestCheckFindsWhatDiffers(t *testing.T) {
	root := decode(t, reference(t, "trl_loss_cases.json"))
	cases := root["cases"].([]any)[:3]
	cases[0].(map[string]any)["loss"] = 1.0
	row := cases[0].(map[string]any)["grad_per_token_logps"].([]any)[1].([]any)
	row[0], row[2] = 3.0, 4.0
	cases[1].(map[string]any)["metrics"].(map[string]any)["entropy"] = 0.0
	cases[2].(map[string]any)["metrics"] = map[string]any{"no_such_metric": 0.0}
	root["cases"] = cases
	data, err := json.Marshal(root)
	expect.OK(t, err)
	got, err := losses(File{"f", data})
	expect.OK(t, err)
	for i, want := range []string{"differs: loss, gradient", "differs: entropy", "differs: no_such_metric"} {
		if s := got[i].Check.String(); s != want {
			t.Errorf("case %d: %q, want %q", i, s, want)
		}
	}
	d := got[0].Check.Differences
	if d[0].Want != 1 || d[0].Got != got[0].Loss || d[0].Index != "" || d[0].Values != 1 {
		t.Errorf("the loss: %+v", d[0])
	}
	if d[1].Index != "[1][0]" || d[1].Want != 3 || d[1].Got != got[0].Grad[1][0] || d[1].Wrong != 2 {
		t.Errorf("the gradient: %+v", d[1])
	}
	b, err := Losses(File{"f", data})
	expect.OK(t, err)
	textHas(t, textOf(t, b), "expected values for 3 cases, and 3 differ by more than", "case 0, loss: expected 1, got ",
		"case 0, gradient[1][0]: expected 3, got ", "(2 of ", "case 1, entropy: expected 0, got ")
	expect.Error(t, b.Disagreement(), "gradient[1][0]: expected 3")
	c := Check{}
	c.add("a", []float64{math.NaN()}, []float64{1})
	c.add("b", []float64{math.Inf(1), math.NaN()}, []float64{math.Inf(1), math.NaN()})
	if c.Wrong != 1 || c.Differences[0].Name != "a" {
		t.Errorf("check %+v", c)
	}
}
