package cmd

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/bench"
	"grpo/pkg/config"
	"grpo/pkg/explain"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/train"
)

// parse returns the options of a command line, with which nothing is run.
func parse(args ...string) (options any, err error) {
	s := &State{
		Args: append([]string{"grpo"}, args...), In: strings.NewReader(""), Out: io.Discard, Err: io.Discard,
		Now: time.Now, Host: func() (string, error) { return "host", nil },
		RunF: func(o any) error { options = o; return nil },
	}
	err = newRoot(s).ExecuteContext(context.Background())
	return options, err
}

// given keeps the configuration sources of the command line.
func given(o config.LoadOptions) config.LoadOptions {
	return config.LoadOptions{Path: o.Path, Set: o.Set, Flags: o.Flags}
}

func givenPlan(o sweep.PlanOptions) sweep.PlanOptions {
	o.Env, o.Argv = nil, nil
	return o
}

// comparable drops from options what is the same for every command line, and what
// is only an intermediate form.
func comparable(options any) any {
	switch o := options.(type) {
	case *trainOptions:
		o.load = given(o.load)
	case *evalOptions:
		o.load = given(o.load)
	case *generateOptions:
		o.load = given(o.load)
	case *recordOptions:
		o.load = given(o.load)
	case *configShowOptions:
		o.load = given(o.load)
	case *dataGenerateOptions:
		o.load = given(o.load)
	case *dataShowOptions:
		o.load = given(o.load)
	case *sweepOptions:
		o.plan, o.config, o.seeds = givenPlan(o.plan), configFlags{}, ""
	case *assignmentOptions:
		o.ask.Options, o.config, o.seeds = givenPlan(o.ask.Options), configFlags{}, ""
	}
	return options
}

var defaultStep = train.BenchOptions{
	Prompts: 32, Group: 8, PromptLen: 64, ResponseLen: 24, Hidden: 64, Layers: 2, Steps: 20, Device: "cpu", Precision: "float32", Seed: 1,
}

// ofGRPO are the options of `grpo bench step`, which has a flag for the algorithm.
func ofGRPO(o train.BenchOptions) train.BenchOptions {
	o.Algorithm = "grpo"
	return o
}

func TestOptions(t *testing.T) {
	key := func(key, flag, value string) config.Flag { return config.Flag{Key: key, Name: flag, Value: value} }
	lr := sweep.DefaultRates()
	lr.Key = "lr"
	big := defaultStep
	big.Hidden, big.Threads, big.Device = 128, 1, "cuda"
	for _, tt := range []struct {
		args string
		want any
	}{
		{"train", &trainOptions{command: "train"}},
		{"train -c smoke --lr 3e-4 --seed 2 --set a=1 --set b=2,3 --out d --fresh --json -q --threads 2 --profile cpu", &trainOptions{command: "train",
			load: config.LoadOptions{Path: "smoke", Set: []string{"a=1", "b=2,3"}, Flags: []config.Flag{
				key("seed", "--seed", "2"), key("train.learning_rate", "--lr", "3e-4")}},
			out: outFlags{dir: "d", fresh: true, json: true, quiet: true, threads: 2}, profile: profileFlag{"cpu"}}},
		{"train --skip-bad --stop-on-divergence=false --steps 7", &trainOptions{command: "train", load: config.LoadOptions{Flags: []config.Flag{
			key("train.n_grpo_steps", "--steps", "7"), key("data.skip_bad", "--skip-bad", "true"),
			key("train.stop_on_divergence", "--stop-on-divergence", "false")}}}},
		{"dpo", &trainOptions{command: "dpo", load: config.LoadOptions{Path: "dpo"}}},
		{"dpo -c my.yaml --online=3", &trainOptions{command: "dpo", load: config.LoadOptions{Path: "my.yaml", Flags: []config.Flag{
			key("rollout.resample_every_n_steps", "--online", "3")}}}},
		{"dpo --pairs p --eval-pairs h --beta 0.2 --loss-type ipo,sft", &trainOptions{command: "dpo", load: config.LoadOptions{Path: "dpo", Flags: []config.Flag{
			key("algorithm.dpo.pairs_file", "--pairs", "p"), key("algorithm.dpo.eval_pairs_file", "--eval-pairs", "h"),
			key("algorithm.dpo.beta", "--beta", "0.2"), key("algorithm.dpo.loss_type", "--loss-type", "ipo,sft"),
			key("rollout.resample_every_n_steps", "--pairs", "1")}}}},
		{"train --resume r --device cuda --threads 1", &trainOptions{command: "train", resume: "r", out: outFlags{threads: 1},
			load: config.LoadOptions{Flags: []config.Flag{key("model.device", "--device", "cuda")}}}},
		{"generate --prompt Hi --model m.gguf -n 2 --temperature 0.5 --raw", &generateOptions{
			load: config.LoadOptions{Flags: []config.Flag{key("model.init", "--model", "m.gguf")}},
			GenerateOptions: infer.GenerateOptions{Prompts: []string{"Hi"}, Raw: true, N: 2, Seed: 1,
				Sampling: model.Sampling{Temperature: 0.5, TopP: 1, MaxTokens: 64}},
		}},
		{"eval r --which best --split test --samples 3 --seed 5 --config my.yaml --json", &evalOptions{
			checkpoint: "r", which: "best", whichGiven: true, split: "test", samples: 3, json: true,
			load: config.LoadOptions{Path: "my.yaml", Flags: []config.Flag{key("seed", "--seed", "5")}}}},
		{"sft --set stages.1.steps=6 --out d --seed 2", &recordOptions{out: outFlags{dir: "d"}, load: config.LoadOptions{
			Set: []string{"stages.1.steps=6"}, Flags: []config.Flag{key("seed", "--seed", "2")}}}},
		{"sweep lr", &sweepOptions{axes: []sweep.AxisRequest{lr}, plan: sweep.PlanOptions{Command: "sweep"}}},
		{"sweep group_size --values 4,8 --axis lr=1e-3,3e-3 --seeds 1,7 --lr 1e-4 --fresh --fail-fast --jobs 2 --dry-run", &sweepOptions{
			axes: []sweep.AxisRequest{{Key: "group_size", From: "--values", Values: []string{"4", "8"}},
				{Key: "lr", From: "--axis lr", Values: []string{"1e-3", "3e-3"}}},
			sweepFlags: sweepFlags{out: outFlags{fresh: true}, failFast: true, jobs: 2, dryRun: true},
			plan: sweep.PlanOptions{Command: "sweep", Fresh: true, Seeds: []uint64{1, 7},
				Flags: []config.Flag{key("train.learning_rate", "--lr", "1e-4")}}}},
		{"ablate baseline --seeds 2 --prepare -c smoke --keep-going", &sweepOptions{ablation: "baseline", prepare: true,
			sweepFlags: sweepFlags{keepGoing: true},
			plan:       sweep.PlanOptions{Command: "ablate", Path: "smoke", Seeds: []uint64{1, 2}}}},
		{"sweep lr --launcher slurm --wait --partition p --directive -x --directive -y", &sweepOptions{
			axes:       []sweep.AxisRequest{lr},
			sweepFlags: sweepFlags{launcher: launcherFlags{given: []string{"--partition", "--directive", "--wait"}, wait: true}},
			plan: sweep.PlanOptions{Command: "sweep", Flags: []config.Flag{
				key("launcher.type", "--launcher", "slurm"), key("launcher.partition", "--partition", "p"),
				{Key: "launcher.directives", Name: "--directive", Lines: []string{"-x", "-y"}}}}}},
		{"cancel d --json", &cancelOptions{"d", true}},
		{"assignment --values 1e-3,3e-3 --lr-per-arm --seeds 3 --steps 9 -q", &assignmentOptions{
			sweepFlags: sweepFlags{out: outFlags{quiet: true}},
			ask: sweep.Assignment{Edition: "2025", Rates: []string{"1e-3", "3e-3"}, PerArm: true, Options: sweep.PlanOptions{
				Command: "assignment", Seeds: []uint64{1, 2, 3}, Flags: []config.Flag{key("train.n_grpo_steps", "--steps", "9")}}}}},
		{"task --sweep s --index 3 --threads 2 --supervised", &taskOptions{sweep: "s", index: 3, threads: 2, supervised: true}},
		{"report a b --out c --title T", &reportOptions{dirs: []string{"a", "b"}, kind: rundir.KindRun, out: "c", title: "T"}},
		{"config show --origin --lr 1 -c smoke", &configShowOptions{origin: true, load: config.LoadOptions{
			Path: "smoke", Flags: []config.Flag{key("train.learning_rate", "--lr", "1")}}}},
		{"config check --sft f.yaml", &configCheckOptions{file: "f.yaml", sft: true}},
		{"bench step", &benchStepOptions{BenchOptions: ofGRPO(defaultStep)}},
		{"bench step --hidden 128 --threads 1 --device cuda --json --profile heap", &benchStepOptions{BenchOptions: ofGRPO(big), json: true, profile: profileFlag{"heap"}}},
		{"bench kernels --repeats 3 --sample 1ms", &benchKernelsOptions{Options: bench.Options{Repeats: 3, Sample: time.Millisecond}}},
		{"data generate --out p --set data.val_size=2 -c smoke", &dataGenerateOptions{out: "p", load: config.LoadOptions{
			Path: "smoke", Set: []string{"data.val_size=2"}}}},
		{"data show --split val -n 3 --tokens --model m", &dataShowOptions{split: "val", n: 3, tokens: true,
			load: config.LoadOptions{Flags: []config.Flag{key("model.init", "--model", "m")}}}},
		{"data stats f --skip-bad --annotations strip --json", &dataStatsOptions{file: "f", json: true,
			read:   gsm8k.ReadOptions{SkipBad: true, Annotations: gsm8k.StripAnnotations},
			answer: gsm8k.AnswerOptions{Kind: gsm8k.KindNumber, Extract: "auto"}}},
		{"explain lengthnorm --masks 10,11 --masks 01 --ratio 2", &explainOptions[explain.LengthNormOptions]{
			numbers: explain.LengthNormOptions{Lengths: []int{4, 7}, Masks: [][]bool{{true, false}, {true, true}, {false, true}},
				Advantages: []float64{2}, Ratio: 2}}},
		{"explain advantages --group 1,0 --group 0,0 --nearly 1,0.9 --eps 0 --out f --json",
			&explainOptions[explain.AdvantageOptions]{json: true, out: "f", numbers: explain.AdvantageOptions{
				Prompts: []explain.Prompt{{Name: "prompt 0", Rewards: []float64{1, 0}}, {Name: "prompt 1", Rewards: []float64{0, 0}}},
				Nearly:  []float64{1, 0.9}}}},
		{"explain verdict --arm a=1,2 --arm b=0,1 --weight 0 --looks 2,4 --stopped c", &explainOptions[explain.VerdictOptions]{
			numbers: explain.VerdictOptions{Arms: []explain.VerdictArm{{Name: "a", Values: []float64{1, 2}}, {Name: "b", Values: []float64{0, 1}}},
				Margin: 0.02, Looks: []int{2, 4}, Stopped: []string{"c"}}}},
		{"explain verdict --batch f", &batchOptions{file: "f"}},
		{"explain loss --example=torch --edition 2026", &batchOptions{example: "torch", edition: "2026"}},
		{"explain advantages --example", &batchOptions{eps: explain.TRLEps, example: "json", edition: "2025"}},
		{"explain clip --logp -1 --epsilon-high 0.3,0.4 --out c.png", &explainOptions[explain.ClipOptions]{out: "c.png",
			numbers: explain.ClipOptions{OldLogProb: -3.9, LogProb: -1, Epsilon: 0.2, EpsilonHigh: []float64{0.3, 0.4}, Advantage: 1, DualClip: 3}}},
		{"explain aggregation --lengths 3,5 --constant 8", &explainOptions[explain.AggregationOptions]{
			numbers: explain.AggregationOptions{Lengths: []int{3, 5}, Constant: 8}}},
		{"explain overlong --lengths 1,2 --eos yes,no --rewards 1,0 --max-length 2 --aggregation token-sum",
			&explainOptions[explain.OverlongOptions]{numbers: explain.OverlongOptions{Lengths: []int{1, 2}, EOS: []bool{true, false},
				Rewards: []float64{1, 0}, MaxLength: 2, Aggregation: "token-sum"}}},
		{"explain passk --n 8 --correct 2 --k 1,8", &explainOptions[explain.PassKOptions]{
			numbers: explain.PassKOptions{N: 8, Correct: 2, K: []int{1, 8}}}},
		{"explain walkthrough --rewards 1,0 --logp -1,-2 --logp -3 --old-logp -1 --old-logp -2,-3 --no-std",
			&explainOptions[explain.WalkthroughOptions]{numbers: explain.WalkthroughOptions{Rewards: []float64{1, 0},
				LogProbs: [][]float64{{-1, -2}, {-3}}, OldLogProbs: [][]float64{{-1}, {-2, -3}}, Eps: 1e-6, Epsilon: 0.2,
				Aggregation: explain.DefaultWalkthrough().Aggregation}}},
		{"explain dpo --chosen -1,-2 --chosen -3 --loss-type ipo,sft --loss-weights 1,0.5 --beta 0.5 --out f", &explainOptions[explain.DPOOptions]{
			out: "f", numbers: explain.DPOOptions{Chosen: [][]float64{{-1, -2}, {-3}}, RefChosen: explain.DefaultDPO().RefChosen,
				Rejected: explain.DefaultDPO().Rejected, RefRejected: explain.DefaultDPO().RefRejected,
				Config: rl.PreferenceConfig{Losses: []rl.PreferenceLoss{"ipo", "sft"}, Weights: []float64{1, 0.5}, Beta: 0.5,
					AlphaCoef: 0.5, LDAlpha: 1, Divergence: "reverse_kl"}}}},
		{"explain reward-model --chosen 1,2 --rejected 0,3 --margin 0,1", &explainOptions[explain.RewardModelOptions]{
			numbers: explain.RewardModelOptions{Chosen: []float64{1, 2}, Rejected: []float64{0, 3}, Margins: []float64{0, 1}, Centering: 0.01}}},
		{"bench scaling --out d", &benchScalingOptions{BenchOptions: defaultStep, out: "d"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			got, err := parse(strings.Fields(tt.args)...)
			expect.OK(t, err)
			if got = comparable(got); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("options %+v\nwant    %+v", got, tt.want)
			}
		})
	}
}

// --fresh takes a folder next to that of --out, however it is written.
func TestFresh(t *testing.T) {
	dir := t.TempDir()
	for _, out := range []string{dir, dir + "/"} {
		f := outFlags{dir: out, fresh: true}
		if got, err := f.resolve("train", "0123abcd"); err != nil || got != dir+"-2" {
			t.Errorf("--out %s: %s, %v", out, got, err)
		}
	}
}

// Wrong flags and arguments are usage errors, with exit code 2 and a pointer to the
// help, not errors of the configuration; no command is run.
func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"train surplus":                            "takes no argument",
		"train --threads -1":                       "--threads -1: want a whole number of 0 to 1024",
		"train --group_size 4":                     "it is a key: --set group_size=VALUE",
		"train --values 3":                         `a flag of "grpo assignment", "grpo sweep"`,
		"bench kernels --repeats 0":                "--repeats 0: want",
		"train --seeds 3":                          `did you mean "--seed"? --seeds is a flag of "grpo ablate", "grpo assignment", "grpo sweep"`,
		"train --learning-rate 3":                  `did you mean "--lr"?`,
		"train --output_dir x":                     `did you mean "--out"?`,
		"train --bf16":                             "did you mean --set model.precision=VALUE?",
		"evaluate":                                 `did you mean "eval"?`,
		"plot":                                     `did you mean "report"?`,
		"explain nosuch":                           `"grpo explain" lists them`,
		"sweep lr -values 1,2":                     `unknown flag: -values (did you mean "--values"?)`,
		"sweep lr --learning_rate 3":               "the learning rates are --values",
		"explain advantages --rewards":             `did you mean "--group"?`,
		"explain walkthrough --rewards":            "--rewards needs a value: numbers such as 0.5,1",
		"schema nosuch":                            `"grpo schema" lists them`,
		"completion tcsh":                          "there are bash, fish, powershell, zsh",
		"pull nosuch":                              "there are data, model",
		"generate --prompt a --temperature nan":    "--temperature NaN: give 0",
		"generate --prompt a --temperature 1e-320": "--temperature 1e-320: give 0",
		"generate --prompt a --temperature 1 --top-p nan": "--top-p NaN must be above 0",
		"train --lrr 3":                           `did you mean "--lr"?`,
		"train --resume r --lr 3":                 "--lr can't be combined with --resume",
		"train --fresh=perhaps":                   "want true or false",
		"eval a b":                                "one argument too many",
		"eval --split valid":                      `did you mean "val"?`,
		"eval r --which first":                    "there are last, best",
		"sweep lr --seeds 0":                      "0 seeds",
		"assignment --lr 3":                       "the learning rates are --values",
		"status":                                  "give the folder of a run",
		"report a b":                              "several runs need --out",
		"compare a --top 0":                       "1 or more",
		"config show --origin --docs":             "exclude each other",
		"bench step --prompts many":               "want a whole number",
		"bench kernels --sample long":             "want a time such as 20ms",
		"bench scaling --profile cpu":             `a flag of`,
		"help nonsense":                           "there is no help on",
		"generate":                                "needs --prompt TEXT or --prompts FILE",
		"generate --prompt a -n 2":                "set --temperature above 0",
		"generate --prompt a --top-p 0":           "must be above 0 and at most 1",
		"data stats":                              "give one file of problems",
		"explain advantages --batch f --nearly 1": "leave out --nearly",
		"explain walkthrough --logp one":          `"one" is not a number`,
		"explain walkthrough --no-std=perhaps":    "--no-std",
	} {
		t.Run(args, func(t *testing.T) {
			options, err := parse(strings.Fields(args)...)
			var usage *usageError
			if !errors.As(err, &usage) || errors.Is(err, config.ErrConfig) || exitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want a usage error with %q", err, want)
			}
			if options != nil {
				t.Errorf("the command was run with %+v", options)
			}
		})
	}
}

// printedBy is what a command line prints.
func printedBy(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	s := &State{
		Args: append([]string{"grpo"}, args...), Out: &out, Err: io.Discard,
		Now: time.Now, Host: func() (string, error) { return "host", nil },
	}
	expect.OK(t, newRoot(s).ExecuteContext(t.Context()))
	return out.String()
}

// Keys, values, names and formats are completed where they are valid.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"data ": "stats", "report --format ": "svg", "train -c ": "smoke", "train --set roll": "rollout.group_size=",
		"train --set use_std_normalization=": "use_std_normalization=true", "sweep loss_type --values gr": "grpo_clip",
		"sweep --axis loss_type=": "loss_type=grpo_clip", "sweep lr --values ": "", "sft --set ": "", "sft --set loss_type=": "",
		"reward-model --set ": "",
	} {
		names, _, _ := strings.Cut(printedBy(t, append([]string{"__complete"}, strings.Split(args, " ")...)...), "\n:")
		if want == "" && strings.ContainsAny(names, "rg") || !strings.Contains(names, want) {
			t.Errorf("%s: completed as %q, want %q", args, names, want)
		}
	}
}

// Help names a type or the choices for every flag with a value, and every example is
// a valid command line.
func TestHelp(t *testing.T) {
	for command, wants := range map[string][]string{
		"train": {"--lr float", "--seed uint", "--steps int", "--device cpu|cuda|auto", "--set KEY=VALUE", "--out folder", "--threads int"},
		"eval":  {"--split val|test|unseen|train", "--which last|best"}, "compare": {"--sort-by column"},
	} {
		text := printedBy(t, command, "--help")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("help of %s lacks %q", command, want)
			}
		}
		_, examples, _ := strings.Cut(text, "Examples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		for line := range strings.Lines(examples) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
			for _, sign := range []string{" >", " &&"} {
				line, _, _ = strings.Cut(line, sign)
			}
			if args, ok := strings.CutPrefix(line, "grpo "); ok {
				if _, err := parse(slices.Collect(strings.FieldsSeq(args))...); err != nil {
					t.Errorf("example %q: %v", line, err)
				}
			}
		}
	}
}
