package sweep

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/configs"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/train"
)

// TestAblations: every shipped ablation resolves from the defaults and from the
// documented default file, has a question and fixed keys, and has
// the arms that its name promises.
func TestAblations(t *testing.T) {
	long(t)
	want := map[string]string{
		"advnorm":             "local global hybrid",
		"aggregation":         "masked_mean masked_normalize token-mean seq-mean-token-sum",
		"baseline":            "no_baseline reinforce_with_baseline",
		"baseline-lengthnorm": "loss_type=no_baseline,length_normalization=masked_mean loss_type=no_baseline,length_normalization=masked_normalize loss_type=reinforce_with_baseline,length_normalization=masked_mean loss_type=reinforce_with_baseline,length_normalization=masked_normalize",
		"clip":                "symmetric clip-higher none",
		"kl":                  "k3 k3-corrected k2 k1 k1-corrected k1-reward k3-reward",
		"lengthnorm":          "masked_mean masked_normalize",
		"losstype":            "grpo bnpo dr_grpo luspo cispo sapo vespo",
		"offpolicy":           "epochs_per_rollout_batch=1,train_batch_size=256 epochs_per_rollout_batch=1,train_batch_size=64 epochs_per_rollout_batch=2,train_batch_size=256 epochs_per_rollout_batch=2,train_batch_size=64 epochs_per_rollout_batch=4,train_batch_size=256 epochs_per_rollout_batch=4,train_batch_size=64",
		"online-offline":      "grpo,lr=0.0001 grpo,lr=0.0003 grpo,lr=0.001 grpo,lr=0.003 rft,lr=0.0001 rft,lr=0.0003 rft,lr=0.001 rft,lr=0.003 dpo,lr=0.0001 dpo,lr=0.0003 dpo,lr=0.001 dpo,lr=0.003 online_dpo,lr=0.0001 online_dpo,lr=0.0003 online_dpo,lr=0.001 online_dpo,lr=0.003",
		"offpolicy-loss":      "on-policy,lr=3e-5 on-policy,lr=0.0001 on-policy,lr=0.0003 on-policy,lr=0.001 naive,lr=3e-5 naive,lr=0.0001 naive,lr=0.0003 naive,lr=0.001 noclip,lr=3e-5 noclip,lr=0.0001 noclip,lr=0.0003 noclip,lr=0.001 clip,lr=3e-5 clip,lr=0.0001 clip,lr=0.0003 clip,lr=0.001 gspo,lr=3e-5 gspo,lr=0.0001 gspo,lr=0.0003 gspo,lr=0.001",
		"overlong":            "none filtering soft_overlong",
		"prompt":              "plain r1_zero",
		"prompts":             "question_only r1_zero few_shot",
		"reward":              "answer format random",
		"reward-model":        "true learned mixed",
		"variants":            "grpo,lr=0.0003 grpo,lr=0.001 grpo,lr=0.003 grpo_constant,lr=0.0003 grpo_constant,lr=0.001 grpo_constant,lr=0.003 dr_grpo,lr=0.0003 dr_grpo,lr=0.001 dr_grpo,lr=0.003 rft,lr=0.0003 rft,lr=0.001 rft,lr=0.003 maxrl,lr=0.0003 maxrl,lr=0.001 maxrl,lr=0.003",
		"verifier":            "exact both-10 both-20 both-30 both-40 both-50 positives-20 positives-40 negatives-20 negatives-40",
		"verifier-correction": "none backward forward exact",
		"stdnorm":             "use_std_normalization=true use_std_normalization=false",
	}
	controls := map[string]string{"prompt": "r1_zero", "reward": "format random", "verifier": "both-50"}
	names := AblationNames()
	if len(names) != len(want) {
		t.Errorf("%v", names)
	}
	for _, name := range names {
		req, err := LoadRequest(name)
		expect.OK(t, err)
		for _, base := range []string{"", "default", "smoke"} {
			set := []string{}
			if base == "smoke" { // 128 completions, where the arms name 256
				set = append(set, "rollout_batch_size=256")
			}
			o := PlanOptions{Path: base, Set: set}
			if name == "reward-model" && base != "" { // its own configuration has its reward function
				o.Path, o.Over = req.Config, []string{base}
			}
			p, err := NewPlan(req, o)
			if err != nil {
				t.Errorf("%s on %q: %v", name, base, err)
				continue
			}
			m := p.Manifest
			var arms, control []string
			for _, a := range m.Arms {
				arms = append(arms, a.Name)
				if a.Control {
					control = append(control, a.Name)
				}
			}
			if got := strings.Join(arms, " "); got != want[name] {
				t.Errorf("%s has the arms %s", name, got)
			}
			if got := strings.Join(control, " "); got != controls[name] {
				t.Errorf("%s has the controls %q", name, got)
			}
			if m.Name != name || m.Title == "" || m.Reference == "" || len(m.Fixed) < 4 || len(m.Notes) == 0 || len(m.Seeds)-m.ChosenOn() != DefaultSeeds {
				t.Errorf("%s: name %q, title %q, reference %q, %d fixed, %d notes, %d seeds", name, m.Name, m.Title, m.Reference, len(m.Fixed), len(m.Notes), len(m.Seeds))
			}
			if len(m.Fixed) != len(req.Fixed) {
				t.Errorf("%s lists the fixed keys %v, and fixes %v (varied: %v)", name, req.Fixed, m.Fixed, m.Varied)
			}
		}
	}
	for _, a := range Ablations() {
		if n := len(strings.Fields(want[a.Name])); a.Arms != n || a.Question == "" {
			t.Errorf("%+v, want %d arms", a, n)
		}
	}
}

// TestAblationComments: the commands in the comments of the shipped files name
// the file's own ablation, and resolve.
func TestAblationComments(t *testing.T) {
	long(t)
	command := regexp.MustCompile(`(?m)^#   grpo ablate (.*)$`)
	for _, name := range AblationNames() {
		text, err := configs.FS.ReadFile("ablations/" + name + ".yaml")
		expect.OK(t, err)
		commands := command.FindAllStringSubmatch(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no example", name)
		}
		for _, c := range commands {
			words := strings.Fields(c[1])
			req, err := LoadRequest(words[0])
			if err != nil || words[0] != name {
				t.Errorf("%s: %s: %v", name, c[0], err)
			}
			opts := PlanOptions{}
			if slices.Contains(words, "--model") {
				continue // a checkpoint that is not here
			}
			for i := 1; i+1 < len(words); i += 2 {
				switch words[i] {
				case "--set":
					opts.Set = append(opts.Set, words[i+1])
				case "--lr":
					opts.Flags = append(opts.Flags, config.Flag{Key: "train.learning_rate", Name: "--lr", Value: words[i+1]})
				case "--seeds":
					if opts.Seeds, err = ParseSeeds(words[i+1]); err != nil {
						t.Errorf("%s: %s: %v", name, c[0], err)
					}
				default:
					t.Errorf("%s: %s: unknown word %q", name, c[0], words[i])
				}
			}
			if _, err := NewPlan(req, opts); err != nil {
				t.Errorf("%s: %s: %v", name, c[0], err)
			}
		}
		for _, mention := range regexp.MustCompile(`(?:grpo ablate|[Aa]blation) "?([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(append(AblationNames(), "show"), mention[1]) {
				t.Errorf("%s mentions the ablation %q, which does not exist", name, mention[1])
			}
		}
	}
}

// TestAblationsTrain: every arm of every ablation makes a step. Arms with the same experiment make
// it once. Without GRPO_LONG, which CI sets, batches are small, one learning rate stands for all, and offpolicy and
// offpolicy-loss are left out, which vary the batches.
func TestAblationsTrain(t *testing.T) {
	long(t)
	tiny := []string{"n_grpo_steps=1", "val_size=16", "test_size=0", "unseen_size=0", "eval.greedy=false", "save_samples=0"}
	made := map[string]bool{}
	for _, name := range AblationNames() {
		req, err := LoadRequest(name)
		expect.OK(t, err)
		if name == "reward-model" { // reads a reward model: a script trains with one
			continue
		}
		set, steps := tiny, 1
		if name == "online-offline" { // the first step samples from the initial policy in any case
			set, steps = append(set, "n_grpo_steps=2"), 2
		}
		if os.Getenv("GRPO_LONG") == "" {
			if strings.HasPrefix(name, "offpolicy") {
				continue
			}
			set = append(slices.Clone(set), "rollout_batch_size=32", "train_batch_size=16")
		}
		p, err := NewPlan(req, PlanOptions{Set: set, Seeds: []uint64{1}})
		expect.OK(t, err)
		runs := p.Manifest.Runs
		for _, e := range runs {
			cfg, err := frozen(e)
			expect.OK(t, err)
			experiment := config.Experiment(cfg)
			if os.Getenv("GRPO_LONG") == "" {
				experiment.Train.LearningRate = 1
			}
			id := config.Hash(experiment)
			if made[id] {
				continue
			}
			made[id] = true
			t.Run(name+"/"+p.Manifest.Arms[e.Arm].Name, func(t *testing.T) {
				t.Parallel()
				res, err := train.Run(context.Background(), cfg, train.Options{Dir: t.TempDir(), Now: time.Now, Observer: &prober{now: time.Now, stop: func() {}}})
				expect.OK(t, err)
				updates := steps * cfg.Train.EpochsPerRolloutBatch * cfg.Rollout.RolloutBatchSize / cfg.Train.TrainBatchSize
				if res.Steps != steps || res.Updates != updates || res.DivergedAt != nil {
					t.Errorf("%d steps, %d updates (want %d), diverged at %v", res.Steps, res.Updates, updates, res.DivergedAt)
				}
			})
		}
	}
}
