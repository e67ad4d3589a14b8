package train

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// ofPairs is a short run of dpo. A pairs file has three pairs, so a step of four repeats one.
func ofPairs(t testing.TB, set ...string) config.Config {
	return small(append([]string{"algorithm.type=dpo", "eval.greedy=false", "n_grpo_steps=4", "eval.every_n_steps=2",
		"output.checkpoint_every_n_steps=1"}, set...)...)
}

const threePairs = `{"prompt":"7 + 5 = ?\n","chosen":"<<7+5=12>>12\n#### 12","rejected":"<<7+5=11>>11\n#### 11","margin":1}
{"prompt":"3 + 1 = ?\n","chosen":"#### 4","rejected":"#### 41"}
{"prompt":"9 - 4 = ?\n","chosen":"#### 5","rejected":"13 13 13 13","rejected_truncated":true}
`

func pairsIn(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	put(t, path, []byte(text))
	return path
}

// A run that is interrupted and continued on another number of threads has the same bits, with pairs
// of rollouts and of a file, and with an earlier policy that samples.
func TestDPOResumesExactly(t *testing.T) {
	long(t)
	file := pairsIn(t, threePairs)
	for name, set := range map[string][]string{
		"online":  {"train_batch_size=24", "gradient_accumulation_steps=2"},
		"offline": {"resample_every_n_steps=0", "pairs=best_worst", "num_iterations=2"},
		"renewed": {"resample_every_n_steps=3", "sampling_temperature=0.8"},
		"file":    {"pairs_file=" + file, "eval_pairs_file=" + file, "rollout_batch_size=8", "group_size=2", "algorithm.dpo.loss_type=ipo"},
		"wpo":     {"use_weighting=true", "micro_batch_tokens=200", "sampling_temperature=1.2", "eval_pairs_file=" + file},
		"aot":     {"algorithm.dpo.loss_type=aot,sft", "micro_batch_tokens=200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := ofPairs(t, set...)
			want, _ := resumesExactly(t, cfg, 2)
			for _, m := range want.Metrics {
				p := m.Preference
				if p["pairs"] < 1 || p["rewards/margins"] != p["rewards/chosen"]-p["rewards/rejected"] && !close(p["rewards/margins"], p["rewards/chosen"]-p["rewards/rejected"], 1e-6) {
					t.Errorf("step %d: %v", m.Step, p)
				}
			}
		})
	}
}

// Before the first update the policy is the reference: rewards and margins are 0, and the loss is
// log 2. The log-probabilities of sampler, learner and reference agree to the bit.
func TestDPOBegins(t *testing.T) {
	long(t)
	run := mustRun(t, ofPairs(t, "n_grpo_steps=1"), t.TempDir(), 2)
	m := run.Metrics[0]
	if !close(m.Loss, 0.6931471805599453, 1e-15) || m.Preference["rewards/chosen"] != 0 || m.Preference["rewards/accuracies"] != 0 || *m.SamplerDiff != 0 {
		t.Errorf("loss %v, %v, difference of the sampler %v", m.Loss, m.Preference, *m.SamplerDiff)
	}
	if m.ClipFraction != nil || m.Reward.Mean == 0 || m.Preference["groups_without_pair"] != m.FracRewardZeroStd*6 {
		t.Errorf("%+v", m)
	}
}

// Micro-batches change memory, not the result.
func TestDPOGradientAccumulationIsInvariant(t *testing.T) {
	long(t)
	for _, loss := range []string{"sigmoid use_weighting=true", "sigmoid,sft", "aot_unpaired"} {
		first := func(set ...string) rundir.Metrics {
			return mustRun(t, ofPairs(t, append(set, strings.Fields("n_grpo_steps=2 rollout_batch_size=24 algorithm.dpo.loss_type="+loss)...)...), t.TempDir(), 1).Metrics[1]
		}
		want := first()
		for _, set := range []string{"gradient_accumulation_steps=3", "micro_batch_tokens=1"} {
			if m := first(set); !close(m.Loss, want.Loss, 1e-4) || !close(m.GradNorm, want.GradNorm, 1e-3) || m.Preference["pairs"] != want.Preference["pairs"] {
				t.Errorf("%s, %s: loss %v, norm %v; whole: %v, %v", loss, set, m.Loss, m.GradNorm, want.Loss, want.GradNorm)
			}
		}
	}
}

// Without a right completion there is no pair: the steps make no update, and metrics and the result
// say so.
func TestDPOWithoutPairs(t *testing.T) {
	long(t)
	cfg := ofPairs(t, "model.init=random", "sampling_max_tokens=3")
	run := mustRun(t, cfg, t.TempDir(), 1)
	if m := run.Metrics[3]; m.Updates != 0 || m.Preference["pairs"] != 0 || m.Preference["groups_without_pair"] != 6 || m.Loss == m.Loss {
		t.Errorf("%+v", m)
	}
	if w := strings.Join(run.Result.Warnings, "; "); !strings.Contains(w, "4 of 4 steps had no pair (algorithm.dpo.pairs right_wrong) and made no update") {
		t.Errorf("warnings %s", w)
	}
}

// Completions that only a random reward tells apart are no pair.
func TestDPOLeavesOutIdenticalPairs(t *testing.T) {
	long(t)
	m := mustRun(t, ofPairs(t, "functions=random", "sampling_top_k=1", "n_grpo_steps=1"), t.TempDir(), 1).Metrics[0]
	if m.Preference["pairs"] != 0 || m.Preference["identical_pairs"] == 0 || m.Updates != 0 {
		t.Errorf("%v", m.Preference)
	}
}

// The cached log-probabilities of the reference are used as they are, and refused if they are damaged
// or of another run.
func TestDPOReferenceFile(t *testing.T) {
	long(t)
	cfg := ofPairs(t, "pairs_file="+pairsIn(t, threePairs), "rollout_batch_size=4", "group_size=2")
	dir := interrupted(t, cfg, 2)
	path := filepath.Join(dir, rundir.CheckpointDir, referenceFile)
	own := slurp(t, path)
	for _, tt := range []struct {
		name, want string
		harm       func()
	}{
		{"other weights", "has log-probabilities of other weights or other pairs than this run's (remove the file", func() {
			rewrite(t, path, func(m map[string]string) { m[referenceKey] = "0" })
		}},
		{"damaged", "remove the file", func() {
			bad := append([]byte(nil), own...)
			bad[len(bad)-1] ^= 1
			put(t, path, bad)
		}},
	} {
		tt.harm()
		expect.Error(t, errorOf(cfg, dir), tt.want)
	}
	expect.OK(t, os.Remove(path))
	sameBits(t, mustRun(t, cfg, dir, 1), uninterrupted(t, cfg))
	if string(slurp(t, path)) != string(own) {
		t.Error("computed again, the file has other bytes")
	}
}

// A changed file of pairs is found before a run continues.
func TestDPORefusesOtherPairs(t *testing.T) {
	long(t)
	file := pairsIn(t, threePairs)
	cfg := ofPairs(t, "pairs_file="+file, "rollout_batch_size=4", "group_size=2")
	dir := interrupted(t, cfg, 2)
	put(t, file, []byte(strings.Replace(threePairs, "41", "42", 1)))
	expect.Error(t, errorOf(cfg, dir), file+": restore them")
}

// The reference of adapters is their base, in the cache and in rollouts; a file's pairs and the same
// pairs of a checkpoint give the same bits for any number of threads.
func TestDPOOfAdapters(t *testing.T) {
	long(t)
	for name, set := range map[string][]string{
		"rollouts": {"pairs=best_worst", "resample_every_n_steps=0"},
		"file":     {"pairs_file=" + pairsIn(t, threePairs), "eval_pairs_file=" + pairsIn(t, threePairs)},
	} {
		for _, rank := range []string{"0", "2"} {
			t.Run(fmt.Sprint(name, rank), func(t *testing.T) {
				set := append(set, "algorithm.type=dpo", "train.lora.rank="+rank, "output.checkpoint_every_n_steps=1", "sampling_temperature=0.7")
				cfg := tinyDecoder(t, set...)
				want, _ := resumesExactly(t, cfg, 1)
				if m := want.Metrics[0]; m.Preference["pairs"] > 0 && !close(m.Loss, 0.6931471805599453, 1e-12) {
					t.Errorf("the first loss is %v", m.Loss)
				}
			})
		}
	}
}

// Every loss trains: numbers are finite, and the weights move.
func TestDPOLosses(t *testing.T) {
	long(t)
	for _, loss := range rl.PreferenceLosses() {
		set := []string{"algorithm.dpo.loss_type=" + loss, "n_grpo_steps=2", "rollout_batch_size=24", "data.val_size=8", "data.test_size=0", "data.unseen_size=0"}
		if loss == "exo_pair" {
			set = append(set, "label_smoothing=0.01")
		}
		run := mustRun(t, ofPairs(t, set...), t.TempDir(), 1)
		if m := run.Metrics[1]; run.Result.Status != rundir.StateDone || m.GradNorm == 0 || !model.IsFinite(m.Loss) || m.Preference["rewards/chosen"] == 0 {
			t.Errorf("%s: %+v", loss, m)
		}
	}
}

// The sum of squared probabilities of each token, from two temperatures, is that of all tokens'
// probabilities, one at a time.
func TestSumOfSquares(t *testing.T) {
	cfg := ofPairs(t, "use_weighting=true", "pairs_file="+pairsIn(t, threePairs))
	run := &trainer{cfg: cfg, model: modelOf(t, cfg.Model, config.LoRA{}), opts: options("", &watch{}, 1)}
	defer run.close()
	expect.OK(t, run.data.readPairs(modelOf(t, cfg.Model, config.LoRA{}), cfg))
	run.data.problems = &dataset.Splits{}
	expect.OK(t, run.build())
	scorer, err := run.Policy.NewScorer(1)
	expect.OK(t, err)
	defer scorer.Close()
	r := run.data.pairs.rollout([]int{0})
	r.reference = make([]float64, r.shape.Len())
	parts := run.pairParts(r, r.pairs)
	logProbs, err := run.logProbs(scorer, r, parts, "scoring")
	expect.OK(t, err)
	half, err := run.halfLogProbs(r, parts)
	expect.OK(t, err)
	got := r.preferenceBatch(r.pairs, r.shape.T, logProbs, half).LogSumSq[2] // of the third token of the chosen completion
	var sum float64
	pair := run.data.pairs.list[0]
	for id := range tokenizer.VocabSize {
		tokens := append(slices.Clone(pair.Chosen[:2]), id)
		m, err := scorer.Score(&model.Batch{Prompts: [][]int{pair.Prompt}, Rows: []model.Row{{Tokens: tokens}}})
		expect.OK(t, err)
		sum += math.Exp(2 * m.LogProbs[2])
	}
	if !close(got, math.Log(sum), 1e-5) {
		t.Errorf("log of the sum of squares %v, want %v", got, math.Log(sum))
	}
}
