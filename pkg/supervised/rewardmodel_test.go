package supervised

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/preference"
	"grpo/pkg/reward"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// pairsFile writes the pairs of some groups of the embedded model.
func pairsFile(t *testing.T, groups int) string {
	t.Helper()
	pairs, _, err := infer.MakePairs(t.Context(), infer.PairOptions{Split: "train", Groups: groups,
		Options: infer.Options{Config: mustLoad(t, config.LoadOptions{}), Threads: 2, Note: func(string) {}},
		Pairs:   rl.PairOptions{Rule: rl.PairRightWrong}})
	expect.OK(t, err)
	return writePairs(t, pairs)
}

func writePairs(t *testing.T, pairs []preference.Pair) string {
	t.Helper()
	var b bytes.Buffer
	expect.OK(t, preference.Write(&b, pairs))
	return writeText(t, "pairs.jsonl", b.String())
}

func rewardModelConfig(t *testing.T, set ...string) config.RewardModel {
	t.Helper()
	l, err := config.LoadRewardModel(config.LoadOptions{Set: set, Checkpoint: policy.FindCheckpoint})
	expect.OK(t, err)
	return l.Config
}

// rewardWatch keeps the steps and notes of a reward model's training.
type rewardWatch struct {
	steps []RewardModelStep
	notes []string
}

func rewardOptions(dir string, threads int, w *rewardWatch) Options[RewardModelStep] {
	return Options[RewardModelStep]{Dir: dir, Threads: threads,
		Step: func(s RewardModelStep, _ int) { w.steps = append(w.steps, s) },
		Note: func(text string) { w.notes = append(w.notes, text) }}
}

func trainReward(t *testing.T, cfg config.RewardModel, dir string, threads int) (*RewardModelRecord, *rewardWatch) {
	t.Helper()
	w := &rewardWatch{}
	rec, err := RunRewardModel(context.Background(), cfg, rewardOptions(dir, threads, w))
	expect.OK(t, err)
	return rec, w
}

// A reward model learns the verifier's preferences, with the same bits on any number of threads and
// the same update for any size of its parts; it starts with rewards of 0. The same command shows the
// record again, and refuses other pairs.
func TestRewardModel(t *testing.T) {
	long(t)
	file := pairsFile(t, 80)
	cfg := rewardModelConfig(t, "pairs="+file, "eval_share=0.25", "every_n_steps=4", "batch_size=12", "learning_rate=5e-3")
	dir := t.TempDir()
	rec, w := trainReward(t, cfg, dir, 2)
	if math.Abs(rec.Initial.Loss-math.Ln2) > 1e-12 || rec.Initial.MaxReward != 0 || !(rec.Eval.Accuracy > 0.7) || !(rec.Eval.Loss < 0.6) ||
		!(rec.Calibration.Brier < 0.2) || len(w.steps) != rec.Steps || w.steps[3].Eval == nil || w.steps[4].Eval != nil {
		t.Errorf("%+v, held out %+v", rec, *rec.Eval)
	}
	if again, _ := trainReward(t, cfg, t.TempDir(), 1); again.Weights != rec.Weights || *again.Eval != *rec.Eval {
		t.Errorf("on one thread %+v, on two %+v", again, rec)
	}
	_, parts := trainReward(t, rewardModelConfig(t, "pairs="+file, "eval_share=0.25", "batch_size=12", "learning_rate=5e-3", "micro_batch_tokens=150"), t.TempDir(), 1)
	if a, b := w.steps[1], parts.steps[1]; math.Abs(a.Loss-b.Loss) > 1e-6 || math.Abs(a.GradNorm-b.GradNorm) > 1e-5*a.GradNorm {
		t.Errorf("in parts %+v, otherwise %+v", b, a)
	}
	shown, w := trainReward(t, cfg, dir, 1)
	if shown.Weights != rec.Weights || len(w.steps) != 0 || !strings.Contains(w.notes[0], "is done") {
		t.Errorf("shown again: %+v, %v", shown, w.notes)
	}
	data := slurp(t, file)
	put(t, file, append(data, '\n'))
	_, err := RunRewardModel(context.Background(), cfg, rewardOptions(dir, 0, w))
	expect.Error(t, err, "trained on other contents of "+file)
	put(t, file, data)
	weights := slurp(t, filepath.Join(dir, rundir.ModelFile))
	weights[2000] ^= 1
	put(t, filepath.Join(dir, rundir.ModelFile), weights)
	if _, err = RunRewardModel(context.Background(), cfg, rewardOptions(dir, 0, w)); err == nil {
		t.Error("a damaged model is shown as done")
	}
}

// No prompt is held out and trained on, and pairs of a second file that share prompts are noted.
func TestHeldOutPrompts(t *testing.T) {
	file := pairsFile(t, 40)
	read := func(set ...string) *rewardTrainer {
		w := &rewardWatch{}
		c := rewardModelConfig(t, append(set, "pairs="+file)...)
		r := &rewardTrainer{}
		r.cfg, r.model, r.opts = c, modelOf(t, c.Model, config.LoRA{}), rewardOptions("", 1, w)
		expect.OK(t, r.readPairs())
		if (len(w.notes) > 0) != (r.rec.SharedPrompts > 0) {
			t.Errorf("notes %v for %d prompts in both files", w.notes, r.rec.SharedPrompts)
		}
		return r
	}
	r := read("eval_share=0.3")
	if n := sharedPrompts(r.pairs, r.eval); n > 0 || len(r.eval) < 5 || len(r.pairs) < 2*len(r.eval)-5 {
		t.Errorf("%d prompts in both of %d and %d pairs", n, len(r.pairs), len(r.eval))
	}
	if r := read("eval_share=0.99"); len(r.pairs) == 0 {
		t.Error("all prompts are held out")
	}
	if r := read("eval_share=0"); len(r.eval) > 0 {
		t.Errorf("%d pairs are held out", len(r.eval))
	}
	if r := read("eval_pairs=" + file); r.rec.SharedPrompts == 0 {
		t.Error("no prompt is in both of two equal files")
	}
}

func TestRewardModelMistakes(t *testing.T) {
	pair := func(prompt string, margin *float64) preference.Pair {
		return preference.Pair{Prompt: preference.Text{Plain: prompt}, Chosen: preference.Text{Plain: "2"}, Rejected: preference.Text{Plain: "3"}, Margin: margin}
	}
	half := 0.5
	for says, c := range map[string]struct {
		pairs []preference.Pair
		set   string
	}{
		`the pair "line 2" has no "margin"`: {[]preference.Pair{pair("a", &half), pair("b", nil)}, "use_margin=true"},
		"2 pairs in 4 epochs are 8 updates": {[]preference.Pair{pair("a", nil), pair("b", nil)}, "warmup_steps=9 eval_share=0"},
		"all pairs are of one prompt":       {[]preference.Pair{pair("a", nil), pair("a", nil)}, "eval_share=0.5"},
		"outside the model's vocabulary":    {[]preference.Pair{pair("雪", nil)}, "seed=2"},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		cfg := rewardModelConfig(t, append(strings.Fields(c.set), "pairs="+writePairs(t, c.pairs), "epochs=4", "batch_size=1")...)
		_, err := RunRewardModel(context.Background(), cfg, rewardOptions(dir, 0, &rewardWatch{}))
		expect.Error(t, err, says)
		if _, err := os.Stat(filepath.Join(dir, rundir.RecordFile)); err == nil {
			t.Errorf("%s: there is a record", says)
		}
	}
}

// learnedOf opens a reward model as a reward function.
func learnedOf(t *testing.T, dir, onError string) reward.Function {
	t.Helper()
	f, err := infer.OpenLearned(config.CustomReward{Name: "learned", Model: dir, OnError: onError}, 2)
	expect.OK(t, err)
	t.Cleanup(f.Close)
	return f
}

// The reward of a completion does not depend on the others, and is that of its pair in training.
func TestLearnedReward(t *testing.T) {
	for name, model := range map[string]string{"TinyLM": "base", "decoder": decodertest.Folder(t)} {
		t.Run(name, func(t *testing.T) {
			file := pairsFile(t, 12)
			dir := t.TempDir()
			rec, _ := trainReward(t, rewardModelConfig(t, "pairs="+file, "model.init="+model, "learning_rate=1e-2", "batch_size=4"), dir, 2)
			pairs, _, err := preference.ReadFile(file, false)
			expect.OK(t, err)
			f := learnedOf(t, dir, "fail")
			var batch reward.Batch
			for _, p := range pairs {
				batch.Completions = append(batch.Completions,
					reward.Completion{Prompt: p.Prompt.Plain, Completion: p.Chosen.Plain, Ended: !p.ChosenTruncated},
					reward.Completion{Prompt: p.Prompt.Plain, Completion: p.Rejected.Plain, Ended: !p.RejectedTruncated})
			}
			all, err := f.Score(batch)
			expect.OK(t, err)
			least, most := math.Inf(1), math.Inf(-1)
			for i, c := range batch.Completions {
				one, err := f.Score(reward.Batch{Completions: []reward.Completion{c}})
				if err != nil || one.Rewards[0] != all.Rewards[i] {
					t.Fatalf("completion %d alone has %v (%v), with others %v", i, one.Rewards, err, all.Rewards[i])
				}
				least, most = min(least, one.Rewards[0]), max(most, one.Rewards[0])
			}
			// The held-out pairs are among these.
			if e := rec.Eval; e.MinReward < least || e.MaxReward > most || least == most {
				t.Errorf("rewards from %v to %v, held out from %v to %v", least, most, e.MinReward, e.MaxReward)
			}
			cut := batch.Completions[0]
			cut.Ended = false
			if x, err := f.Score(reward.Batch{Completions: []reward.Completion{cut}}); err != nil || x.Rewards[0] == all.Rewards[0] {
				t.Errorf("a truncated completion has the reward of one that ended, %v (%v)", x.Rewards, err)
			}
		})
	}
}

// A completion that the reward model has no tokens or no context for is an error, or without a reward.
func TestLearnedRewardOfBadText(t *testing.T) {
	long(t)
	dir := t.TempDir()
	trainReward(t, rewardModelConfig(t, "pairs="+pairsFile(t, 4)), dir, 1)
	chat := t.TempDir()
	trainReward(t, rewardModelConfig(t, "pairs="+pairsFile(t, 4), "model.init="+decodertest.Folder(t)), chat, 1)
	for model, text := range map[string]string{dir: "雪", chat: strings.Repeat("x", 600)} {
		batch := reward.Batch{Step: 3, Completions: []reward.Completion{{Prompt: "q\n", Completion: "1", Ended: true},
			{Prompt: "q\n", Completion: text, Ended: true}}}
		expect.Error(t, expect.Err(learnedOf(t, model, "fail").Score(batch)), "reward learned: step 3: ")
		if x, err := learnedOf(t, model, "null").Score(batch); err != nil || math.IsNaN(x.Rewards[0]) || !math.IsNaN(x.Rewards[1]) {
			t.Errorf("%v, %v", x.Rewards, err)
		}
	}
	for path, says := range map[string]string{t.TempDir(): "neither model nor model.safetensors", decodertest.Folder(t): "it is a language model",
		filepath.Join(t.TempDir(), "none"): "no such file"} {
		expect.Error(t, expect.Err(infer.OpenLearned(config.CustomReward{Name: "learned", Model: path}, 1)), says)
	}
	// A reward model is no policy.
	for _, init := range []string{filepath.Join(dir, rundir.ModelFile), filepath.Join(chat, rundir.ModelFolder)} {
		pool := kernel.NewPool(1)
		defer pool.Close()
		expect.Error(t, expect.Err(policy.Open(init, pool)), "it is a reward model")
	}
}

// A run with a reward model continues with the same bits, and only with the same weights.
func TestRunWithLearnedReward(t *testing.T) {
	long(t)
	dir := t.TempDir()
	trainReward(t, rewardModelConfig(t, "pairs="+pairsFile(t, 20)), dir, 1)
	c := mustLoad(t, config.LoadOptions{Path: "smoke", Set: []string{"n_grpo_steps=3",
		"output.checkpoint_every_n_steps=1"}})
	var f config.CustomReward
	f.SetDefaults()
	f.Name, f.Model = "mine", dir
	c.Reward.Functions, c.Reward.RewardWeights = []string{"mine"}, []float64{1}
	c.Reward.Custom = []config.CustomReward{f}
	want := mustRun(t, c, t.TempDir())
	if len(want.Meta.RewardFiles) != 1 {
		t.Errorf("files %v", want.Meta.RewardFiles)
	}
	stopped := filepath.Join(t.TempDir(), "run")
	if err := runUntil(t, c, stopped, 2); !errors.Is(err, rundir.ErrInterrupted) {
		t.Fatal(err)
	}
	weights := slurp(t, filepath.Join(dir, rundir.ModelFile))
	other := t.TempDir()
	trainReward(t, rewardModelConfig(t, "pairs="+pairsFile(t, 20), "seed=2"), other, 1)
	put(t, filepath.Join(dir, rundir.ModelFile), slurp(t, filepath.Join(other, rundir.ModelFile)))
	expect.Error(t, runUntil(t, c, stopped, 0), "a file of a reward function")
	put(t, filepath.Join(dir, rundir.ModelFile), weights)
	if got := mustRun(t, c, stopped); got.Result.WeightsSHA256 != want.Result.WeightsSHA256 {
		t.Errorf("continued: weights %s, want %s", got.Result.WeightsSHA256, want.Result.WeightsSHA256)
	}
}

// Transformers loads a reward model of a decoder and computes its rewards. It needs a Python with
// transformers: GRPO_TEST_PYTHON=python go test -run PythonLoadsRewardModel ./pkg/supervised
func TestPythonLoadsRewardModel(t *testing.T) {
	python := os.Getenv("GRPO_TEST_PYTHON")
	if python == "" {
		t.Skip("set GRPO_TEST_PYTHON to a Python with transformers to run this")
	}
	file := pairsFile(t, 12)
	model := decodertest.Folder(t)
	if path := os.Getenv("GRPO_SMOLLM2"); path != "" {
		model = path
	}
	dir := t.TempDir()
	trainReward(t, rewardModelConfig(t, "pairs="+file, "model.init="+model, "learning_rate=1e-3", "batch_size=4"), dir, 2)
	pairs, _, err := modelOf(t, config.Model{Init: model}, config.LoRA{}).ReadPairs(file, "pairs", false)
	expect.OK(t, err)
	var rows [][]int
	var completions []reward.Completion
	texts, _, err := preference.ReadFile(file, false)
	expect.OK(t, err)
	for i, p := range pairs {
		rows = append(rows, append(append([]int{}, p.Prompt...), p.Chosen...))
		completions = append(completions, reward.Completion{Prompt: texts[i].Prompt.Plain, Completion: texts[i].Chosen.Plain, Ended: !texts[i].ChosenTruncated})
	}
	given, err := json.Marshal(rows)
	expect.OK(t, err)
	ids := filepath.Join(t.TempDir(), "ids.json")
	put(t, ids, given)
	cmd := exec.Command(python, filepath.Join("testdata", "load_reward_model.py"), filepath.Join(dir, rundir.ModelFolder), ids)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	var got struct {
		Rewards []float64
		Class   string
	}
	expect.OK(t, errors.Join(err, json.Unmarshal(text, &got)))
	want, err := learnedOf(t, dir, "fail").Score(reward.Batch{Completions: completions})
	if err != nil || !strings.HasSuffix(got.Class, "ForSequenceClassification") {
		t.Fatalf("%v, class %s", err, got.Class)
	}
	for i, x := range got.Rewards {
		if math.Abs(x-want.Rewards[i]) > 1e-4*max(1, math.Abs(x)) {
			t.Errorf("reward %d is %v, transformers' %v", i, want.Rewards[i], x)
		}
	}
}

// Metrics are those that TRL's RewardTrainer logs.
func TestGoldenRewardMetrics(t *testing.T) {
	type batch struct {
		Chosen   []float64 `json:"rewards_chosen"`
		Rejected []float64 `json:"rewards_rejected"`
		Loss     float64
		Metrics  map[string]float64
	}
	var file struct{ Losses, Model []batch }
	golden.ReadJSON(t, filepath.Join(golden.Path(t, "golden", "trl2"), "reward.json"), &file, "center_rewards_coefficient", "grad_chosen",
		"grad_rejected", "loss_f64", "margin", "grad_norm", "grads", "model", "input_ids_chosen", "input_ids_rejected")
	if len(file.Losses) == 0 || len(file.Model) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range append(file.Losses, file.Model...) {
		data, err := json.Marshal(rewardMetrics(c.Loss, c.Chosen, c.Rejected))
		got := map[string]float64{}
		expect.OK(t, errors.Join(err, json.Unmarshal(data, &got)))
		for name, want := range c.Metrics {
			if x, ok := got[name]; !ok || math.Abs(x-want) > 1e-5*max(1, math.Abs(want)) {
				t.Errorf("%s is %v, want %v", name, x, want)
			}
		}
	}
}

// A checkpoint has a learning rate of its own, unless it is set.
func TestRewardModelRate(t *testing.T) {
	model := "model.init=" + decodertest.Folder(t)
	for want, set := range map[float64][]string{1e-3: {}, 1e-4: {model}, 2e-5: {model, "learning_rate=2e-5"}} {
		if got := rewardModelConfig(t, append(set, "pairs=x")...).LearningRate; got != want {
			t.Errorf("%v: learning rate %v, want %v", set, got, want)
		}
	}
}
