package config

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
	"grpo/pkg/gsm8k"
)

// isString reports whether a string is a valid value.
func isString(s string) bool { return yamldoc.Check(reflect.ValueOf(s)) == nil }

// roundTrip checks the result of a load.
func roundTrip(t testing.TB, r *Resolved, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, ErrConfig) || r != nil {
			t.Fatalf("got %v with the error %v", r, err)
		}
		return
	}
	again, err := LoadText("x.yaml", Marshal(r.Config))
	if err != nil {
		t.Fatalf("%v\n%s", err, Marshal(r.Config))
	}
	if !reflect.DeepEqual(again.Config, r.Config) {
		t.Fatalf("reads back as\n%+v\nnot\n%+v\n%s", again.Config, r.Config, Marshal(r.Config))
	}
	if a, b := Hash(r.Config), Hash(again.Config); a != b {
		t.Fatalf("hash %s reads back as %s", a, b)
	}
}

func floats(min, max float64) *rapid.Generator[float64] {
	return rapid.Map(rapid.Float64Range(min, max), func(x float64) float64 { return x + 0 })
}

func positiveFloats(max float64) *rapid.Generator[float64] {
	return floats(math.SmallestNonzeroFloat64, max)
}

// validConfig draws a valid configuration.
func validConfig(t *rapid.T) Config {
	text := rapid.StringMatching(`[\p{L}\p{N}\p{P}\p{S} ]{1,20}`).Filter(isString)
	group := rapid.IntRange(2, 32).Draw(t, "group")
	micro := rapid.IntRange(1, 8).Draw(t, "micro")
	accumulation := rapid.IntRange(1, 4).Draw(t, "accumulation")
	train := micro * accumulation
	rollout := train * group * rapid.IntRange(1, 4).Draw(t, "batches")
	functions := rapid.Permutation(gsm8k.ScoresKind("")).Draw(t, "functions")[:rapid.IntRange(1, 3).Draw(t, "n")]
	c := Config{
		Name: text.Draw(t, "name"),
		Seed: rapid.Uint64().Draw(t, "seed"),
		Data: Data{
			Source: "generated", Answer: "number", SkipBad: rapid.Bool().Draw(t, "skip_bad"),
			Annotations:    rapid.SampledFrom([]string{"keep", "strip", "equation"}).Draw(t, "annotations"),
			PromptTemplate: rapid.SampledFrom([]string{"plain", "question_only", "r1_zero"}).Draw(t, "template"),
			Stop:           stops(rapid.SliceOfN(rapid.StringMatching(`[\p{L}\p{P} \n\t]{1,9}`), 0, 2).Draw(t, "stop")),
			GeneratorSeed:  rapid.Uint64().Draw(t, "generator_seed"),
			WeightAdd:      floats(0, 1e300).Draw(t, "add"), WeightSub: positiveFloats(1).Draw(t, "sub"), WeightMul: floats(0, 1e-300).Draw(t, "mul"),
			ValSize: rapid.IntRange(1, 1<<20).Draw(t, "val"), TestSize: rapid.IntRange(0, 1<<20).Draw(t, "test"),
		},
		Model: Model{HiddenSize: rapid.IntRange(1, 4096).Draw(t, "h"), NumLayers: rapid.IntRange(1, 16).Draw(t, "l"),
			Init: rapid.SampledFrom([]string{"base", "random", "./" + text.Draw(t, "init")}).Draw(t, "kind"), Device: "cuda",
			Precision: rapid.SampledFrom([]string{"float32", "tf32", "bf16"}).Draw(t, "precision")},
		Rollout: Rollout{RolloutBatchSize: rollout, GroupSize: group,
			SamplingTemperature: floats(1e-30, 1e6).Draw(t, "temperature"), SamplingTopP: positiveFloats(1).Draw(t, "top_p"),
			SamplingTopK: rapid.IntRange(0, 100).Draw(t, "top_k"), LogProbs: "full", SamplingMaxTokens: rapid.IntRange(1, 1<<16).Draw(t, "max")},
		Reward: Default().Reward, Algorithm: Default().Algorithm,
		Train: Train{NGRPOSteps: rapid.IntRange(1, 1<<31-1).Draw(t, "steps"), EpochsPerRolloutBatch: rapid.IntRange(1, 9).Draw(t, "epochs"),
			TrainBatchSize: rapid.SampledFrom([]int{0, train}).Draw(t, "train"), GradientAccumulationSteps: accumulation,
			LearningRate: floats(0, math.MaxFloat64).Draw(t, "lr"), LoRA: Default().Train.LoRA,
			AdamBetas: [2]float64{floats(0, 0.999999).Draw(t, "beta1"), floats(0, 0.999999).Draw(t, "beta2")},
			AdamEps:   positiveFloats(1).Draw(t, "adam_eps"), WeightDecay: floats(0, 1).Draw(t, "decay"), MaxGradNorm: floats(0, 10).Draw(t, "norm"),
			LRScheduler: rapid.SampledFrom([]string{"constant", "linear", "cosine"}).Draw(t, "scheduler")},
		Eval: Eval{EveryNSteps: rapid.IntRange(1, 100).Draw(t, "every"), Temperature: floats(1e-30, 9).Draw(t, "eval temperature"),
			TopP: positiveFloats(1).Draw(t, "eval top_p"), TopK: rapid.IntRange(0, 9).Draw(t, "eval top_k"),
			MaxTokens: rapid.IntRange(0, 99).Draw(t, "eval max"), Greedy: rapid.Bool().Draw(t, "greedy"), SaveSamples: rapid.IntRange(0, 9).Draw(t, "save"),
			Sets: rapid.SampledFrom([][]string{{"validation"}, {"validation", "unseen"}, {"a/b.jsonl", "validation"}}).Draw(t, "sets"), SetSize: rapid.IntRange(0, 9).Draw(t, "set size"),
			FinalSize: rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "final size"), FinalSamples: rapid.IntRange(1, 9).Draw(t, "final samples"),
			Samples: 1, PassAt: []int{}, MajorityAt: []int{}},
		Output: Output{CheckpointEveryNSteps: rapid.IntRange(0, 9).Draw(t, "checkpoints"), KeepCheckpoints: rapid.IntRange(1, 9).Draw(t, "keep"),
			CheckpointEveryMinutes: floats(0, 1e6).Draw(t, "minutes"),
			Keep:                   rapid.SampledFrom([]string{"all", "best"}).Draw(t, "kept"),
			TensorBoard:            rapid.Bool().Draw(t, "tensorboard"), Formats: rapid.SampledFrom([][]string{{"png"}, {"svg", "pdf"}}).Draw(t, "formats")},
		Report: Report{Margin: floats(.001, .5).Draw(t, "margin")},
	}
	if rapid.Bool().Draw(t, "files") {
		c.Data.Source, c.Data.TrainFile, c.Data.ValFile = "gsm8k", text.Draw(t, "train_file"), text.Draw(t, "val_file")
	}
	if isPath(c.Model.Init) && rapid.Bool().Draw(t, "lora") {
		c.Train.LoRA = LoRA{Rank: rapid.IntRange(1, 64).Draw(t, "rank"), Alpha: positiveFloats(99).Draw(t, "alpha"),
			Targets:   rapid.Permutation(LoRATargets()).Draw(t, "targets")[:rapid.IntRange(1, 7).Draw(t, "n targets")],
			UseRSLoRA: rapid.Bool().Draw(t, "rslora")}
	}
	if last := c.Eval.FinalSamples; last > 1 {
		c.Eval.Samples = rapid.IntRange(1, last-1).Draw(t, "samples")
		c.Eval.PassAt = rapid.SampledFrom([][]int{{}, {1}, {1, last}}).Draw(t, "pass_at")
		c.Eval.MajorityAt = rapid.SampledFrom([][]int{{}, {last}}).Draw(t, "majority_at")
	}
	c.Train.WarmupSteps = rapid.IntRange(0, int(min(c.Updates()-1, 1<<31-1))).Draw(t, "warmup")
	c.Rollout.SamplingMinTokens = rapid.IntRange(0, c.Rollout.SamplingMaxTokens).Draw(t, "min")
	c.Reward.Functions = functions
	c.Reward.RewardWeights = rapid.SliceOfN(floats(-1e100, 1e100), len(functions), len(functions)).Draw(t, "weights")
	c.Launcher = Default().Launcher // which Marshal leaves out
	drawAlgorithm(t, &c)
	return c
}

// TestMarshalLoadsBack: a resolved configuration repeats the run, bit for bit.
func TestMarshalLoadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := validConfig(t)
		expect.OK(t, Validate(&c))
		r, err := LoadText("x.yaml", Marshal(c))
		if err != nil {
			t.Fatalf("%v\n%s", err, Marshal(c))
		}
		if !reflect.DeepEqual(r.Config, Resolve(c)) {
			t.Fatalf("reads back as\n%+v\nnot\n%+v", r.Config, Resolve(c))
		}
		if err := Validate(&r.Config); err != nil {
			t.Fatalf("valid before it was resolved, but: %v", err)
		}
		if string(Marshal(r.Config)) != string(Marshal(c)) || Hash(r.Config) != Hash(c) || len(Diff(r.Config, c)) > 0 {
			t.Fatal("the canonical form is not stable")
		}
	})
}

// TestStringsLoadBack: every printable string survives as a name, whatever YAML would convert it
// to.
func TestStringsLoadBack(t *testing.T) {
	c := Default()
	for _, s := range []string{
		"null", "~", "true", "No", "y", "on", "1", "1e3", ".5", ".inf", ".", "..", "-", "- a", "a: b", "a #b", "#", "'", `"`,
		`\`, `a\nb`, "[a]", "{a}", "*a", "&a", "!a", "|", ">", "%", "@", "`", "<<", "=", "2025-01-01", "0x1", "1_0", " a", "a ", "é", "日本", "😀",
		"\u00ad", "\ufeff", "...", "---", "a/b.c-d_e",
	} {
		c.Name = s
		if !isString(s) {
			if Validate(&c) == nil {
				t.Errorf("%q is valid, but not a string", s)
			}
			continue
		}
		r, err := LoadText("x.yaml", Marshal(c))
		if err != nil || r.Config.Name != s {
			t.Errorf("%q: got %+v, %v", s, r, err)
		}
	}
}

func TestMarshalSFTLoadsBack(t *testing.T) {
	r, err := LoadSFT(LoadOptions{Path: write(t, twoStages), Set: []string{"stages.1.learning_rate=0.1", "name=my base"}})
	expect.OK(t, err)
	text := Marshal(r.Config)
	path := filepath.Join(t.TempDir(), "config.yaml")
	expect.OK(t, os.WriteFile(path, text, 0o666))
	again, err := LoadSFT(LoadOptions{Path: path})
	if err != nil || !reflect.DeepEqual(again.Config, r.Config) {
		t.Fatalf("reads back as %+v, %v\n%s", again, err, text)
	}
	if !strings.HasPrefix(string(text), "# resolved by grpo; repeat with: grpo sft -c this-file\n") {
		t.Errorf("first line of %s", text)
	}
	other := r.Config
	other.Stages = append(slices.Clone(other.Stages[:1]), other.Stages[1], DefaultStage())
	other.Stages[1].Steps = 3
	diff := Diff(r.Config, other)
	if len(diff) < 2 || diff[0] != "stages.1.steps: 20, now 3" || !slices.Contains(diff, "stages.2.batch_size: absent, now 64") {
		t.Errorf("diff %q", diff)
	}
	if Hash(r.Config) == Hash(other) {
		t.Error("another recipe, the same hash")
	}
}

// TestHash: every key that has an effect on results enters, and no other.
func TestHash(t *testing.T) {
	base := Default()
	hash := Hash(base)
	if len(hash) != 8 || strings.Trim(hash, "0123456789abcdef") != "" {
		t.Errorf("hash %q", hash)
	}
	// The hash of the first version, which names folders on people's disks: a new
	// key enters with a neutral value, and no default changes.
	if hash != "38acda8e" {
		t.Errorf("the default experiment has the hash %s, not 38acda8e as ever", hash)
	}
	if Hash(Resolve(base)) != hash {
		t.Error("resolving changes the hash")
	}
	for i, f := range keysOf(Default()) {
		c := Default()
		expect.OK(t, yamldoc.SetText(keysOf(&c)[i].value, sampleOf(t, f.path)))
		if reflect.DeepEqual(c, base) {
			continue // device has one value only
		}
		if OfLauncher(f.path) {
			if Hash(c) != hash || Diff(base, c) != nil || !bytes.Equal(Marshal(c), Marshal(base)) {
				t.Errorf("changing %s changes the run", f.path)
			}
			continue
		}
		outside := f.path == "name" || strings.HasPrefix(f.path, "output.") || strings.HasPrefix(f.path, "report.") || f.path == "train.gradient_checkpointing"
		if same := Hash(c) == hash; same != outside {
			t.Errorf("changing %s: same hash %v, want %v", f.path, same, outside)
		}
		if diff := Diff(base, c); !slices.ContainsFunc(diff, func(d string) bool { return strings.HasPrefix(d, f.path+": ") }) {
			t.Errorf("changing %s: diff %q", f.path, diff)
		}
	}
}

func TestDiff(t *testing.T) {
	a, b := Default(), Default()
	if got := Diff(a, b); got != nil {
		t.Errorf("equal configurations differ: %q", got)
	}
	b.Train.LearningRate, b.Rollout.RolloutBatchSize = 3e-4, 128
	want := []string{
		"rollout.rollout_batch_size: 256, now 128",
		"train.train_batch_size: 256, now 128",
		"train.learning_rate: 0.001, now 0.0003",
	}
	if got := Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGet(t *testing.T) {
	if _, err := Get(Default(), "grup_size"); err == nil || !errors.Is(err, ErrConfig) ||
		err.Error() != `show config: unknown key "grup_size" (did you mean "rollout.group_size"?)` {
		t.Errorf("got %v", err)
	}
}

// drawAlgorithm gives keys of reward and algorithm random values, one at a time, and reverts those
// that break a rule.
func drawAlgorithm(t *rapid.T, c *Config) {
	values := validValues(&Config{})
	for _, name := range []string{"baseline", "normalizer", "scale_rewards", "importance_sampling_level", "length_normalization"} {
		values["algorithm."+name] = append(values["algorithm."+name], "")
	}
	values["algorithm.dpo.pairs_file"], values["algorithm.dpo.eval_pairs_file"] = []string{"", "pairs.jsonl"}, []string{"", "held.jsonl"}
	values["reward.extract"] = []string{"auto", "boxed", "pattern:^(.*)$"}
	values["algorithm.teacher"] = []string{"", "base", "x.safetensors"}
	values["algorithm.loss_expr"] = []string{"", "-ratio*A", "-min(ratio*A, clip(ratio, 1-eps, 1+eps_high)*A) + 0.1*(logp - ref)**2", "-A*"}
	values["algorithm.advantage_expr"] = []string{"", "r - mean", "\"r"}
	var keys []string
	for _, f := range keysOf(c) {
		if strings.HasPrefix(f.path, "algorithm.") || strings.HasPrefix(f.path, "reward.") && f.value.Kind() != reflect.Slice {
			keys = append(keys, f.path)
		}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 40).Draw(t, "keys") {
		before := *c
		for _, f := range keysOf(c) {
			if f.path != key {
				continue
			}
			switch f.value.Kind() {
			case reflect.String:
				f.value.SetString(rapid.SampledFrom(values[key]).Draw(t, key))
			case reflect.Bool:
				f.value.SetBool(rapid.Bool().Draw(t, key))
			case reflect.Int:
				f.value.SetInt(int64(rapid.IntRange(-1, 70).Draw(t, key)))
			case reflect.Float64:
				f.value.SetFloat(floats(-2, 7).Draw(t, key))
			}
		}
		if Validate(c) != nil {
			*c = before
		}
	}
}

func stops(texts []string) []yamldoc.Text {
	out := []yamldoc.Text{}
	for _, s := range texts {
		out = append(out, yamldoc.Text(s))
	}
	return out
}
