package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// long marks tests that the race detector (-short) leaves out: plans and estimates have one
// goroutine, and in tests of real processes it would see the launcher alone, which the tests
// with played processes show it too.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short")
	}
}

// invalid checks that an error is one of the configuration with these words.
func invalid(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, want := range words {
		if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant a configuration error with %s", what, err, want)
		}
	}
}

// planOf plans a request without a name of its own.
func planOf(t testing.TB, text string, opts PlanOptions) *Plan {
	t.Helper()
	p, err := NewPlan(parsed(t, text), opts)
	expect.OK(t, err)
	return p
}

// parsed is a request from YAML without a name and a source of its own.
func parsed(t testing.TB, text string) Request {
	t.Helper()
	req, err := ParseRequest("x.yaml", []byte("name: test\n"+text))
	expect.OK(t, err)
	return req
}

func TestNewPlan(t *testing.T) {
	req, err := AxesRequest([]AxisRequest{{Key: "lr", Values: []string{"1e-5", "3e-5", "1e-4"}}})
	expect.OK(t, err)
	p, err := NewPlan(req, PlanOptions{
		Command: "sweep", Path: "smoke", Env: []string{"GRPO_ROLLOUT_GROUP_SIZE=4", "GRPO_SEED=9"},
		Set: []string{"group_size=16"}, Flags: []config.Flag{{Key: "train.n_grpo_steps", Name: "--steps", Value: "3"}},
		Seeds: []uint64{5, 2}, Argv: []string{"grpo", "sweep", "lr"},
	})
	expect.OK(t, err)
	m := p.Manifest
	expect.OK(t, m.Check())
	if m.Command != "sweep" || m.Name != "lr" || m.Title != "Learning rate" || !strings.HasSuffix(m.Question, "?") || m.Reference != "" {
		t.Errorf("heads %q %q %q %q %q", m.Command, m.Name, m.Title, m.Question, m.Reference)
	}
	if want := []sweepdir.Axis{{Key: "train.learning_rate", Label: "learning rate", Short: "lr", Values: []string{"1e-5", "3e-5", "0.0001"}, Written: []string{"1e-5", "3e-5", "1e-4"}, Log: true}}; !reflect.DeepEqual(m.Axes, want) {
		t.Errorf("axes %+v", m.Axes)
	}
	if want := (sweepdir.Arm{Name: "lr=3e-5", Label: "learning rate 3e-5", Set: []sweepdir.Override{{Key: "train.learning_rate", Value: "3e-5"}}, Point: []string{"3e-5"}}); !reflect.DeepEqual(m.Arms[1], want) {
		t.Errorf("arm %+v", m.Arms[1])
	}
	if !slices.Equal(m.Varied, []string{"train.learning_rate"}) || !slices.Equal(m.Seeds, []uint64{5, 2}) || !slices.Equal(m.Argv, []string{"grpo", "sweep", "lr"}) {
		t.Errorf("varied %v, seeds %v, argv %v", m.Varied, m.Seeds, m.Argv)
	}
	fixed := map[string]string{}
	for _, o := range m.Fixed {
		fixed[o.Key] = o.Value
	}
	if fixed["train.n_grpo_steps"] != "3" || fixed["rollout.group_size"] != "16" || fixed["algorithm.length_normalization"] != "masked_mean" || fixed["train.learning_rate"] != "" {
		t.Errorf("fixed %v", fixed)
	}
	var order []string
	for i, e := range m.Runs {
		order = append(order, fmt.Sprintf("%d:%d", e.Seed, e.Arm))
		cfg, err := frozen(e)
		expect.OK(t, err)
		rate := []float64{1e-5, 3e-5, 1e-4}[e.Arm]
		if cfg.Seed != e.Seed || cfg.Train.LearningRate != rate || cfg.Rollout.GroupSize != 16 || cfg.Train.NGRPOSteps != 3 || cfg.Data.ValSize != 128 || cfg.Name != m.Arms[e.Arm].Name {
			t.Errorf("run %d is %+v", i, cfg)
		}
		if want := fmt.Sprintf("runs/%s_seed-%d-%s", strings.ReplaceAll(m.Arms[e.Arm].Name, "=", "-"), e.Seed, e.Hash); e.Dir != want {
			t.Errorf("run %d is in %s, want %s", i, e.Dir, want)
		}
	}
	if got := strings.Join(order, " "); got != "5:0 5:1 5:2 2:0 2:1 2:2" {
		t.Errorf("order %s", got)
	}
	if base, err := config.Load(config.LoadOptions{Path: writeFile(t, m.Base)}); err != nil || base.Config.Rollout.GroupSize != 16 || base.Config.Train.LearningRate != 1e-3 {
		t.Errorf("base %v", err)
	}
}

// TestBaseOfAnAxis: a base whose value of a swept key is invalid does not matter, as no run has it.
func TestBaseOfAnAxis(t *testing.T) {
	req := parsed(t, "axes: [{key: model.init, values: [base, random]}]")
	opts := PlanOptions{Path: writeFile(t, "model: {init: ./none.gguf}"), Seeds: []uint64{1}}
	p, err := NewPlan(req, opts)
	if err != nil || len(p.Manifest.Runs) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	// Another invalid value is the user's mistake.
	opts.Set = []string{"group_size=-1"}
	_, err = NewPlan(req, opts)
	invalid(t, "another key", err, "rollout.group_size (-1, --set group_size)")
}

// TestReplacedConfiguration: -c takes the place of an ablation's own configuration, which may define what
// its arms name.
func TestReplacedConfiguration(t *testing.T) {
	req, err := LoadRequest("reward-model")
	expect.OK(t, err)
	_, err = NewPlan(req, PlanOptions{Path: "smoke", Seeds: []uint64{1}})
	invalid(t, "-c smoke", err, "to keep it, put this before: -c learned-reward")
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	expect.OK(t, os.WriteFile(file, []byte(text), 0o666))
	return file
}

// TestPlanPrecedence: defaults < base file < environment < the request's set <
// --set < flags < the arm's own set. Each layer sets what the layers above leave
// alone, and all that they don't.
func TestPlanPrecedence(t *testing.T) {
	base := writeFile(t, "train: {learning_rate: 2, max_grad_norm: 2, adam_eps: 2, weight_decay: 2}\nalgorithm: {advantage_eps: 2}\nrollout: {group_size: 2}\n")
	p := planOf(t, `
set: {group_size: 4, advantage_eps: 4, adam_eps: 4, weight_decay: 4}
arms: [{name: a, set: {weight_decay: 7}}]
`, PlanOptions{
		Path:  base,
		Env:   []string{"GRPO_TRAIN_MAX_GRAD_NORM=3", "GRPO_ROLLOUT_GROUP_SIZE=1", "GRPO_ALGORITHM_ADVANTAGE_EPS=3", "GRPO_TRAIN_ADAM_EPS=3", "GRPO_TRAIN_WEIGHT_DECAY=3"},
		Set:   []string{"algorithm.advantage_eps=5", "adam_eps=5"},
		Flags: []config.Flag{{Key: "train.adam_eps", Name: "--eps", Value: "6"}},
	})
	c, err := frozen(p.Manifest.Runs[0])
	expect.OK(t, err)
	got := []float64{c.Train.AdamBetas[0], c.Train.LearningRate, c.Train.MaxGradNorm, float64(c.Rollout.GroupSize), c.Algorithm.AdvantageEps, c.Train.AdamEps, c.Train.WeightDecay}
	if want := []float64{0.9, 2, 3, 4, 5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(p.Manifest.Seeds); n != DefaultSeeds {
		t.Errorf("%d seeds", n)
	}
}

// TestPlanCross: arms times axes, the last axis fastest, each arm with its point.
func TestPlanCross(t *testing.T) {
	p := planOf(t, `
arms:
  - {name: raw, label: raw rewards, set: {loss_type: no_baseline}, control: true}
  - {name: base, set: {loss_type: reinforce_with_baseline}}
axes:
  - {key: lr, values: [1e-3, 1e-2]}
  - {key: group_size, label: group, values: [4, 8]}
reference: base,lr=0.001,group_size=8
seeds: [3]
`, PlanOptions{})
	var names []string
	for _, a := range p.Manifest.Arms {
		names = append(names, a.Name)
		if a.Control != strings.HasPrefix(a.Name, "raw") || len(a.Point) != 2 || len(a.Set) != 3 {
			t.Errorf("%+v", a)
		}
	}
	if want := "raw,lr=0.001,group_size=4 raw,lr=0.001,group_size=8 raw,lr=0.01,group_size=4 raw,lr=0.01,group_size=8 " +
		"base,lr=0.001,group_size=4 base,lr=0.001,group_size=8 base,lr=0.01,group_size=4 base,lr=0.01,group_size=8"; strings.Join(names, " ") != want {
		t.Errorf("%v", names)
	}
	if l := p.Manifest.Arms[1].Label; l != "raw rewards, learning rate 0.001, group 8" {
		t.Errorf("label %q", l)
	}
	if v := p.Manifest.Varied; !slices.Equal(v, []string{"algorithm.loss_type", "rollout.group_size", "train.learning_rate"}) {
		t.Errorf("varied %v", v)
	}
}

// TestPlanProblems: every mistake is reported before anything is written, and names
// what is wrong where.
func TestPlanProblems(t *testing.T) {
	long(t)
	tests := []struct {
		name, text string
		opts       PlanOptions
		want       []string
	}{
		{"unknown key in set", "set: {grup_size: 4}\narms: [{name: a}]", PlanOptions{}, []string{`x.yaml: line 2: set: unknown key "grup_size" (did you mean "rollout.group_size"?)`}},
		{"unknown key in an arm", "arms: [{name: a, set: {lrr: 4}}]", PlanOptions{}, []string{`x.yaml: line 2: arm "a": unknown key "lrr"`}},
		{"unknown key in fixed", "axes: [{key: lr, values: [1]}]\nfixed: [lrr]", PlanOptions{}, []string{`fixed: unknown key "lrr"`}},
		{"no number", "axes: [{key: lr, values: [fast, 1]}]", PlanOptions{}, []string{`x.yaml: line 2: arm "lr=fast": train.learning_rate must be a number, not fast`}},
		{"seed in an arm", "arms: [{name: a, set: {seed: 1}}]", PlanOptions{}, []string{`arm "a": seed can't be set here`}},
		{"seed in set", "set: {seed: 1}\narms: [{name: a}]", PlanOptions{}, []string{"set: seed can't be set here"}},
		{"--set seed", "arms: [{name: a}]", PlanOptions{Set: []string{"seed=3"}}, []string{"--set seed sets the seed, of which a sweep has several (use --seeds)"}},
		{"seeds twice", "arms: [{name: a}]", PlanOptions{Seeds: []uint64{1, 1}}, []string{"seed 1 appears twice"}},
		{"key twice in an arm", "arms: [{name: a, set: {lr: 1, train.learning_rate: 2}}]", PlanOptions{}, []string{`arm "a": the key train.learning_rate is set twice`}},
		{"key twice in set", "set: {lr: 1, learning_rate: 2}\narms: [{name: a}]", PlanOptions{}, []string{"set: the key train.learning_rate is set twice"}},
		{"axis twice", "axes: [{key: lr, values: [1]}, {key: learning_rate, values: [2]}]", PlanOptions{}, []string{"two axes are of the key train.learning_rate"}},
		{"arm sets an axis", "arms: [{name: a, set: {lr: 1}}]\naxes: [{key: lr, values: [1]}]", PlanOptions{}, []string{`arm "a" sets train.learning_rate, which is an axis`}},
		{"the user sets an axis", "axes: [{key: lr, values: [1, 2]}]", PlanOptions{Flags: []config.Flag{{Key: "train.learning_rate", Name: "--lr", Value: "1"}}}, []string{"--lr sets train.learning_rate, which the arms of this sweep vary"}},
		{"the user sets what an arm sets", "arms: [{name: a}, {name: b, set: {cliprange: 0.1}}]", PlanOptions{Set: []string{"epsilon=0.3"}}, []string{"--set epsilon sets algorithm.cliprange, which the arms of this sweep vary"}},
		{"base with a bad value", "set: {lr: -1}\narms: [{name: a}]", PlanOptions{}, []string{"train.learning_rate (-1, x.yaml: line 2) must be at least 0"}},
		{"same arms", "arms: [{name: a, set: {lr: 1e-3}}, {name: b}]", PlanOptions{}, []string{`the arms "a" and "b" have the same configuration`}},
		{"same but for a label", "axes: [{key: name, values: [a, b]}]", PlanOptions{}, []string{`the arms "name=a" and "name=b" have the same configuration`}},
		{"invalid arms, all reported", "arms: [{name: a, set: {group_size: 7}}, {name: b, set: {epsilon_high: 0.3}}]", PlanOptions{},
			[]string{`arm "a"`, "rollout.group_size (7, ", "multiple", `arm "b"`, "algorithm.epsilon_high (0.3, ", "has no effect"}},
		{"arm against --set", "arms: [{name: a, set: {use_std_normalization: false}}]", PlanOptions{Set: []string{"scale_rewards=group"}}, []string{`arm "a"`, "use_std_normalization (false, x.yaml: line 2: arm \"a\") contradicts algorithm.scale_rewards"}},
		{"arms evaluated in different ways", "axes: [{key: eval.temperature, values: [1, 1.3]}]", PlanOptions{},
			[]string{`the arms "temperature=1" and "temperature=1.3" differ in eval.temperature (1 and 1.3): arms are compared by their evaluations`}},
		{"arms evaluated on different problems", "axes: [{key: val_size, values: [100, 200]}]", PlanOptions{}, []string{`differ in data.val_size (100 and 200)`}},
		{"a length of evaluation that one arm sets", "arms: [{name: a, set: {eval.max_tokens: 32}}, {name: b}]", PlanOptions{}, []string{`differ in eval.max_tokens (32 and 64)`}},
		{"a clip without a loss that clips", "axes: [{key: cliprange, values: [0.1, 0.3]}]", PlanOptions{},
			[]string{`x.yaml: line 2: arm "cliprange=0.1": algorithm.cliprange (0.1) has no effect, because of algorithm.loss_type ("reinforce_with_baseline") (it is for grpo_clip`, `arm "cliprange=0.3": `}},
		{"a clip on-policy", "set: {loss_type: grpo_clip}\naxes: [{key: cliprange, values: [0.1, 0.3]}]", PlanOptions{},
			[]string{`algorithm.cliprange (0.1) has no effect, because of train.train_batch_size (256)`, "set a smaller train_batch_size, or epochs_per_rollout_batch to 2 or more"}},
		{"a setting without effect next to one that has", "arms: [{name: a, set: {lr: 3e-4, normalize_constant: 9}}, {name: b}]", PlanOptions{}, []string{`arm "a": algorithm.normalize_constant (9) has no effect`}},
		{"losses on-policy", "axes: [{key: loss_type, values: [grpo_clip, grpo_no_clip]}]", PlanOptions{},
			[]string{`the arms "loss_type=grpo_clip" and "loss_type=grpo_no_clip" have the same configuration: they differ in algorithm.loss_type: grpo_clip, now grpo_no_clip, which has no effect here`}},
		{"two names of one thing", "arms: [{name: a, set: {scale_rewards: group}}, {name: b, set: {normalizer: group_std}}]", PlanOptions{}, []string{`the arms "a" and "b" have the same configuration`}},
		{"no such reference", "arms: [{name: grpo}]\nreference: grp", PlanOptions{}, []string{`reference: there is no arm "grp" (did you mean "grpo"?); there are grpo`}},
		{"fixed that is varied", "arms: [{name: a, set: {lr: 1}}, {name: b}]\nfixed: [lr]", PlanOptions{}, []string{`fixed: train.learning_rate is not fixed: arm "a" sets it`}},
		{"best over an unknown key", "arms: [{name: a, set: {weight_decay: 0.1}}, {name: b}]\naxes: [{key: lr, values: [1e-3, 3e-3]}]\nbest_over: lrr\n", PlanOptions{}, []string{`best_over: unknown key "lrr"`}},
		{"best over no axis", "arms: [{name: a, set: {weight_decay: 0.1}}, {name: b}]\naxes: [{key: lr, values: [1e-3, 3e-3]}]\nbest_over: group_size\n", PlanOptions{}, []string{"rollout.group_size is no axis of this sweep"}},
		{"best over the only axis", "axes: [{key: lr, values: [1e-3, 3e-3]}]\nbest_over: lr\n", PlanOptions{}, []string{"nothing is left to compare"}},
		{"too many runs with fresh seeds", "arms: [{name: a}, {name: b, set: {beta: 1}}]\naxes: [{key: lr, values: [1, 2]}]\nbest_over: lr\nseeds: 2000",
			PlanOptions{}, []string{"16000 runs with the fresh seeds", "a sweep has at most 10000"}},
		{"too many runs", "axes: [{key: lr, values: [1, 2]}]\nseeds: 10000", PlanOptions{}, []string{"a sweep has at most 10000"}},
	}
	for _, test := range tests {
		_, err := NewPlan(parsed(t, test.text), test.opts)
		invalid(t, test.name, err, test.want...)
	}
}

// TestOneLengthOfEvaluation: arms that sample to different lengths are evaluated to
// the largest of them; a note reports it.
func TestOneLengthOfEvaluation(t *testing.T) {
	long(t)
	text := "axes: [{key: sampling_max_tokens, values: [32, 48]}]"
	p := planOf(t, text, PlanOptions{})
	for _, e := range p.Manifest.Runs {
		if cfg, err := frozen(e); err != nil || cfg.Eval.MaxTokens != 48 {
			t.Errorf("run %d is evaluated to %d tokens, %v", e.Index, cfg.Eval.MaxTokens, err)
		}
	}
	if len(p.Manifest.Notes) != 1 || !strings.Contains(p.Manifest.Notes[0], "at most 48 tokens") {
		t.Errorf("notes %q", p.Manifest.Notes)
	}
	if p = planOf(t, text, PlanOptions{Set: []string{"eval.max_tokens=40"}}); len(p.Manifest.Notes) > 0 {
		t.Errorf("notes %q", p.Manifest.Notes)
	}
	if cfg, err := frozen(p.Manifest.Runs[0]); err != nil || cfg.Eval.MaxTokens != 40 {
		t.Errorf("evaluated to %d tokens, %v", cfg.Eval.MaxTokens, err)
	}
}

// TestFixedThatFollows: a key that differs only because it follows from another
// is varied and therefore not fixed.
func TestFixedThatFollows(t *testing.T) {
	p := planOf(t, "axes: [{key: loss_type, values: [grpo, dapo]}]\nfixed: [length_normalization, lr]", PlanOptions{})
	if !slices.Equal(p.Manifest.Varied, []string{"algorithm.length_normalization", "algorithm.loss_type"}) {
		t.Errorf("varied %v", p.Manifest.Varied)
	}
	if want := []sweepdir.Override{{Key: "train.learning_rate", Value: "0.001"}}; !reflect.DeepEqual(p.Manifest.Fixed, want) {
		t.Errorf("fixed %v", p.Manifest.Fixed)
	}
}

// TestFixedSchedule: the learning-rate schedule of a sweep is among its fixed keys,
// unless it is varied or there is none.
func TestFixedSchedule(t *testing.T) {
	long(t)
	plan := func(key string, values []string, set ...string) *Plan {
		t.Helper()
		req, err := AxesRequest([]AxisRequest{{Key: key, Values: values}})
		expect.OK(t, err)
		p, err := NewPlan(req, PlanOptions{Set: set})
		expect.OK(t, err)
		return p
	}
	for _, test := range []struct {
		p    *Plan
		want []string
	}{
		{plan("lr", []string{"1e-3", "3e-3"}), nil},
		{plan("lr", []string{"1e-3", "3e-3"}, "lr_scheduler=cosine", "warmup_steps=5"),
			[]string{"train.lr_scheduler=cosine", "train.warmup_steps=5"}},
		{plan("lr_scheduler", []string{"constant", "linear"}, "warmup_steps=5"), []string{"train.warmup_steps=5"}},
	} {
		var got []string
		for _, o := range test.p.Manifest.Fixed {
			if strings.HasSuffix(o.Key, "lr_scheduler") || strings.HasSuffix(o.Key, "warmup_steps") {
				got = append(got, o.Key+"="+o.Value)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: fixed %q, want %q", test.p.Manifest.Name, got, test.want)
		}
	}
	isKey := func(o sweepdir.Override, key string) bool { return o.Key == key }
	keys := []string{"train.epochs_per_rollout_batch", "train.train_batch_size", "rollout.rollout_batch_size", "rollout.group_size", "train.n_grpo_steps"}
	fixed := plan("lr", []string{"1e-3"}, "algorithm.type=dpo", "group_size=4").Manifest.Fixed
	if want := append(slices.Clone(keys), "algorithm.dpo.loss_type", "algorithm.dpo.beta", "rollout.resample_every_n_steps"); !slices.EqualFunc(fixed, want, isKey) {
		t.Errorf("dpo: fixed %v, want %q", fixed, want)
	}
	fixed = plan("algorithm.type", []string{"grpo", "dpo"}).Manifest.Fixed
	if want := append([]string{"train.learning_rate"}, keys...); !slices.EqualFunc(fixed, want, isKey) {
		t.Errorf("grpo and dpo: fixed %v, want %q", fixed, want)
	}
	p := plan("lr_scheduler_type", []string{"constant", "linear", "cosine"})
	if a := p.Manifest.Arms[1]; a.Name != "lr_scheduler=linear" || a.Label != "learning rate schedule linear" {
		t.Errorf("arm %q, label %q", a.Name, a.Label)
	}
}

// TestRequestRepeats: `grpo ablate sweep.yaml` makes the same runs again, in any
// environment that sets nothing else, whatever the base was made of. Values that
// followed from others follow again: normalize_constant is the arm's token limit.
func TestRequestRepeats(t *testing.T) {
	long(t)
	type repeat struct {
		name, text string // without text: the ablation of this name
		opts       PlanOptions
	}
	tests := []repeat{
		{"an arm that others follow", "arms: [{name: a, set: {sampling_max_tokens: 32, reward.functions: [answer, format], reward_weights: [1, 2]}}, {name: \"b: c\", label: \"yes\", control: true, set: {loss_type: dapo}}]\nseeds: [4, 2]\nnotes: ['a: b', '# c']\ntitle: 'on'", PlanOptions{}},
		{"a base of everything", "config: dapo\nset: {group_size: 4}\naxes: [{key: cliprange, values: [0.1, 0.2]}]\nfixed: [lr]\nseeds: 2", PlanOptions{Env: []string{"GRPO_TRAIN_ADAM_EPS=1e-9"}, Set: []string{"data.annotations=strip"}, Flags: []config.Flag{{Key: "train.learning_rate", Name: "--lr", Value: "3e-4"}}}},
		{"the documented defaults", "config: default\naxes: [{key: lr, values: [1e-3, 3e-3]}]", PlanOptions{}},
		{"reward functions of the base", "set: {reward.functions: [answer, brevity], reward_weights: [1, 0.5]}\naxes: [{key: lr, values: [1e-3, 3e-3]}]", PlanOptions{Path: "../../examples/rewards/brevity.yaml"}},
		{"a base with booleans and strings", "set: {eval.greedy: false, model.init: ./1e3, length_normalization: '', use_std_normalization: true}\naxes: [{key: reward.functions, values: [[answer], [format]]}]", PlanOptions{}},
	}
	for _, name := range AblationNames() {
		tests = append(tests, repeat{name: name})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var req Request
			var err error
			if test.text != "" {
				req = parsed(t, test.text)
			} else if req, err = LoadRequest(test.name); err != nil {
				t.Fatal(err)
			}
			first, err := NewPlan(req, test.opts)
			expect.OK(t, err)
			req, err = ParseRequest("sweep.yaml", first.Request)
			if err != nil {
				t.Fatalf("%v in\n%s", err, first.Request)
			}
			second, err := NewPlan(req, PlanOptions{Argv: []string{"grpo", "ablate", "sweep.yaml"}})
			if err != nil {
				t.Fatalf("%v in\n%s", err, first.Request)
			}
			a, b := first.Manifest, second.Manifest
			b.Argv, b.Command, b.Base = a.Argv, a.Command, a.Base
			if !reflect.DeepEqual(a, b) {
				t.Errorf("first\n%+v\nthen\n%+v", a, b)
			}
			if string(first.Request) != string(second.Request) {
				t.Errorf("first\n%s\nthen\n%s", first.Request, second.Request)
			}
		})
	}
}

// TestPlanIsFinite: a plan of drawn arms, axes and seeds is valid, and every arm
// has every seed.
func TestPlanIsFinite(t *testing.T) {
	long(t)
	rapid.Check(t, func(t *rapid.T) {
		var req Request
		req.Name = "drawn"
		for _, l := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"masked_mean", "masked_normalize", "token-mean", "seq-mean-token-sum"}), 1, 4, rapid.ID).Draw(t, "arms") {
			req.Arms = append(req.Arms, ArmRequest{Name: l, Set: []Setting{{Key: "length_normalization", Value: l}}})
		}
		if v := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1e-4", "0.001", "1", "3e-3"}), 0, 3, rapid.ID).Draw(t, "lr"); len(v) > 0 {
			req.Axes = append(req.Axes, AxisRequest{Key: "lr", Values: v})
		}
		if v := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"2", "4", "8"}), 0, 3, rapid.ID).Draw(t, "group"); len(v) > 0 {
			req.Axes = append(req.Axes, AxisRequest{Key: "group_size", Values: v})
		}
		seeds := rapid.SliceOfNDistinct(rapid.Uint64(), 1, 4, rapid.ID).Draw(t, "seeds")
		p, err := NewPlan(req, PlanOptions{Seeds: seeds})
		expect.OK(t, err)
		m := p.Manifest
		expect.OK(t, m.Check())
		arms := len(req.Arms)
		for _, a := range req.Axes {
			arms *= len(a.Values)
		}
		if len(m.Arms) != arms || len(m.Runs) != arms*len(seeds) {
			t.Fatalf("%d arms, %d runs", len(m.Arms), len(m.Runs))
		}
		hashes := map[string]bool{}
		for i, e := range m.Runs {
			if e.Seed != seeds[i/arms] || e.Arm != i%arms {
				t.Fatalf("run %d has seed %d and arm %d", i, e.Seed, e.Arm)
			}
			hashes[e.Hash] = true
		}
		if len(hashes) != len(m.Runs) {
			t.Fatal("two runs have one hash")
		}
	})
}

// TestArmOverPreset: what a preset or a request sets gives way to the settings of an arm that it contradicts, with a
// note; what the user sets does not. The sweep.yaml repeats the same runs.
func TestArmOverPreset(t *testing.T) {
	long(t)
	const axis = "axes: [{key: loss_type, values: [grpo_clip, gspo]}]"
	off := PlanOptions{Path: "a5-2026", Set: []string{"train_batch_size=8"}, Seeds: []uint64{1}}
	p := planOf(t, axis, off)
	want := []string{"masked_mean token", "seq-mean-token-mean sequence"}
	for i, e := range p.Manifest.Runs {
		c, err := frozen(e)
		expect.OK(t, err)
		a := c.Algorithm
		if got := fmt.Sprint(a.LengthNormalization, " ", a.ImportanceSamplingLevel); got != want[i] {
			t.Errorf("%s: %s, want %s", c.Name, got, want[i])
		}
	}
	note := strings.Join(p.Manifest.Notes, " ")
	if len(p.Notes) != 1 || !strings.Contains(note, `"loss type gspo" does not have algorithm.length_normalization masked_mean (a5-2026 `) {
		t.Errorf("notes %q", p.Manifest.Notes)
	}
	req, err := ParseRequest("sweep.yaml", p.Request)
	expect.OK(t, err)
	again, err := NewPlan(req, PlanOptions{})
	expect.OK(t, err)
	if again.Manifest.Hash != p.Manifest.Hash {
		t.Error("sweep.yaml is another sweep")
	}
	off.Set = append(off.Set, "length_normalization=masked_mean")
	_, err = NewPlan(parsed(t, axis), off)
	invalid(t, "the user's own", err, "--set length_normalization) contradicts algorithm.loss_type")
	// Sizes stay an error: their defaults would change the arms in secret.
	_, err = NewPlan(parsed(t, "axes: [{key: group_size, values: [8, 3]}]"), PlanOptions{Path: "a5-2026"})
	invalid(t, "sizes", err, "must be a multiple of")
}

// TestChoiceSeeds: tuned arms may be chosen on fewer seeds than they are compared on. The sweep.yaml repeats that.
func TestChoiceSeeds(t *testing.T) {
	long(t)
	const tuned = "arms: [{name: a, set: {group_size: 4}}, {name: b, set: {group_size: 8}}]\n" +
		"axes: [{key: lr, values: [1e-3, 3e-3]}]\nbest_over: lr\nchoice_seeds: 2\n"
	for _, tt := range []struct{ asked, seeds []uint64 }{
		{nil, []uint64{1, 2, 3, 4, 5, 6}},
		{[]uint64{7, 5, 9}, []uint64{7, 5, 8, 9, 10}},
		{[]uint64{4}, []uint64{4, 5}}, // no more than there are
		{[]uint64{1, 2}, []uint64{1, 2, 3, 4}},
	} {
		p := planOf(t, tuned, PlanOptions{Seeds: tt.asked})
		m := p.Manifest
		if !slices.Equal(m.Seeds, tt.seeds) || m.ChosenOn() != min(2, len(tt.seeds)/2) {
			t.Errorf("%v: seeds %v, %d of them for the choice", tt.asked, m.Seeds, m.ChosenOn())
		}
		req, err := ParseRequest("sweep.yaml", p.Request)
		expect.OK(t, err)
		again, err := NewPlan(req, PlanOptions{})
		expect.OK(t, err)
		if !reflect.DeepEqual(again.Manifest.Looks, m.Looks) || again.Manifest.Hash != m.Hash {
			t.Errorf("%v: again %v, %+v, want %+v", tt.asked, again.Manifest.Seeds, again.Manifest.Looks, m.Looks)
		}
	}
}

// TestListOfTexts: blank elements of a list, such as a blank line that ends completions, and those with commas,
// brackets or quotes reach the run, and the sweep.yaml repeats them.
func TestListOfTexts(t *testing.T) {
	p := planOf(t, `arms: [{name: a, set: {data.stop: ["\n\n", "b\t", c, "d, [e]", '"f"', "g: h"]}}, {name: b, set: {data.stop: []}}]`, PlanOptions{Seeds: []uint64{1}})
	for range 2 {
		c, err := frozen(p.Manifest.Runs[0])
		expect.OK(t, err)
		if got := fmt.Sprintf("%q", c.Data.Stop); got != `["\n\n" "b\t" "c" "d, [e]" "\"f\"" "g: h"]` {
			t.Errorf("the arm stops at %s", got)
		}
		req, err := ParseRequest("sweep.yaml", p.Request)
		expect.OK(t, err)
		p, err = NewPlan(req, PlanOptions{})
		expect.OK(t, err)
	}
}
