package report

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func resolved(t *testing.T, set ...string) string {
	t.Helper()
	r, err := config.Load(config.LoadOptions{Set: set})
	expect.OK(t, err)
	return string(config.Marshal(r.Config))
}

func TestMethods(t *testing.T) {
	run := reporttest.SynthRun(t, 1, 200)
	run.Meta = &rundir.Meta{Version: "1.2.3", OS: "linux", Arch: "amd64", Kernel: "avx2", Threads: 1, ConfigHash: "0123abcd"}
	for name, tt := range map[string]struct {
		set  []string
		want string // parts in this order, joined by bars
		not  string
	}{
		"default": {
			want: "TinyLM, a GRU language model with 2 layers of width 64 (62,820 trained parameters), initialized with the embedded base model and trained in float32. " +
				"|Training took 200 steps. Each step sampled 8 completions for each of 32 prompts at temperature 1, with at most 64 tokens. The reward was the function answer. " +
				"Advantages were the rewards minus the mean of their group, divided by the group's sample standard deviation plus 1e-6." +
				"|There was no KL penalty|constant learning rate 0.001, betas 0.9 and 0.95, epsilon 1e-8, weight decay 0) with the global gradient norm clipped at 1; each step made 1 update." +
				"|on 1,024 held-out validation problems before training, after every 10 steps|All other settings had their defaults. The run had seed 1. " +
				"The runs were made with grpo 1.2.3 (linux/amd64, avx2, 1 thread a run). Hash of the configuration: 0123abcd.",
		},
		"many": {
			set: []string{
				"loss_type=grpo_clip", "epsilon_high=0.28", "train_batch_size=64", "beta=0.04", "lr_scheduler=cosine", "warmup_steps=5", "use_std_normalization=false",
				"reward.functions=[answer, format]", "reward_weights=[1, 0.5]", "length_normalization=constant", "normalize_constant=100", "max_grad_norm=0", "entropy_coef=0.01",
				"output.keep=best", "eval.greedy=false",
			},
			want: "The reward was the weighted sum of answer (weight 1) and format (weight 0.5). Advantages were the rewards minus the mean of their group. " +
				"The policy loss was grpo_clip, with the importance ratio clipped to 1 - 0.2 and 1 + 0.28; token losses were summed over all tokens and divided by 100. " +
				"A KL penalty to the initial policy with the coefficient 0.04 and the estimator k3 was added to the loss. " +
				"The optimizer was AdamW (learning rate 0.001 with cosine decay to 0, warm-up of 5 updates,| without gradient clipping; each step made 4 updates." +
				"|Other settings that differ from the defaults: algorithm.entropy_coef = 0.01.",
			not: "greedy",
		},
		"formulas": {
			set: []string{"loss_type=grpo_clip", "loss_expr=-A*logp + 0.1*(logp - ref)**2", "advantage_expr=r - mean"},
			want: "The advantages of a group were r - mean. The policy loss of a token was -A*logp + 0.1*(logp - ref)**2; token losses were averaged" +
				"|All other settings had their defaults",
			not: "KL penalty",
		},
		"lists what has no sentence": {
			set: []string{"algorithm.type=ppo", "gae_lambda=0.9"}, not: "Advantages were",
			want: "Other settings that differ from the defaults: algorithm.type = ppo, |algorithm.gae_lambda = 0.9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := *run
			r.Config = []byte(resolved(t, tt.set...))
			got, err := RunMethods([]*rundir.Run{&r})
			expect.OK(t, err)
			inOrder(t, got, strings.Split(tt.want, "|")...)
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("%q is in %s", tt.not, got)
			}
		})
	}
	broken := *run
	broken.Config = []byte("no_such_key: 1\nseed: 1\n")
	expect.Error(t, expect.Err(RunMethods([]*rundir.Run{&broken})), "no_such_key")
}

func TestMethodsOfASweep(t *testing.T) {
	sw := reporttest.RateSweep(4)
	sw.Manifest.Base, sw.Manifest.Varied = resolved(t), []string{"train.learning_rate"}
	got, err := SweepMethods(sw)
	expect.OK(t, err)
	inOrder(t, got, "(constant learning rate, betas", "arms differed in train.learning_rate (", "Each arm was trained with the seeds 1, 2, 3 and 4 (", "runs in all")
	sw = reporttest.TunedSweep(4)
	sw.Manifest.Base, sw.Manifest.Looks = resolved(t), []sweepdir.Look{{Seeds: 2, Choice: true}, {Seeds: 4, Level: .05}}
	for i := range sw.Runs {
		if s := &sw.Runs[i]; s.Seed > 2 && (s.Arm == 0 || s.Arm == 3) {
			s.State, s.Run = sweepdir.Stopped, nil
		}
	}
	got, err = SweepMethods(sw)
	expect.OK(t, err)
	inOrder(t, got, "The arms were trained with the seeds 1, 2, 3 and 4, not every arm with all of them (12 runs in all)",
		"chosen on the first 2 and compared on the others")
	sw = reporttest.ClipSweep(1)
	sw.Manifest.Base, sw.Manifest.Varied = resolved(t), []string{"algorithm.loss_type", "algorithm.cliprange"}
	sw.Manifest.Arms[0].Set = []sweepdir.Override{{Key: "algorithm.cliprange", Value: "0.1"}}
	got, err = SweepMethods(sw)
	expect.OK(t, err)
	inOrder(t, got, "Token losses were averaged", "arms were "+sw.Manifest.Arms[0].Name+" (algorithm.cliprange = 0.1); ", "once, with seed 1 (")
	if strings.Contains(got, "policy loss was") || strings.Contains(got, "Advantages were") {
		t.Errorf("a setting that differs by arm is stated for all: %s", got)
	}
}
