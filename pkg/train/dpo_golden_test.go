package train

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
)

// goldenDPO is a batch of TRL's DPOTrainer: pairs, what it computed from them, and its gradients.
type goldenDPO struct {
	Params struct {
		Losses         []string `json:"loss_type"`
		Beta           float64
		LabelSmoothing float64   `json:"label_smoothing"`
		Divergence     string    `json:"f_divergence_type"`
		MaxLength      int       `json:"max_length"`
		Weights        []float64 `json:"loss_weights"` // missing = all 1
	}
	Policy, Ref string // folders
	Pairs       []struct {
		Prompt   []int `json:"prompt_ids"`
		Chosen   []int `json:"chosen_ids"`
		Rejected []int `json:"rejected_ids"`
	}
	// Log-probabilities: one row for each pair, one number for each token that is left.
	PolicyChosen   [][]float64 `json:"policy_chosen_logps"`
	PolicyRejected [][]float64 `json:"policy_rejected_logps"`
	RefChosen      [][]float64 `json:"ref_chosen_logps"`
	RefRejected    [][]float64 `json:"ref_rejected_logps"`
	Loss           float64
	Losses         []float64 // of each pair, as the rewards
	Chosen         []float64 `json:"rewards_chosen"`
	Rejected       []float64 `json:"rewards_rejected"`
	Metrics        map[string]float64
	GradNorm       float64 `json:"grad_norm"`
	Grads          decodertest.Gradients
}

// readGoldenDPO reads the batches, with completions truncated as TRL does and folders as paths to decoders.
func readGoldenDPO(t *testing.T) []goldenDPO {
	t.Helper()
	root := golden.Path(t, "golden", "trl2")
	var file struct{ Cases []goldenDPO }
	golden.ReadJSON(t, filepath.Join(root, "dpo_model.json"), &file, "accuracies", "margins")
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	policies := map[string]string{}
	for i := range file.Cases {
		c := &file.Cases[i]
		for _, name := range []*string{&c.Policy, &c.Ref} {
			if policies[*name] == "" {
				policies[*name] = decodertest.WithTokenizer(t, filepath.Join(root, *name), 100)
			}
			*name = policies[*name]
		}
		for k := range c.Pairs {
			p := &c.Pairs[k]
			if most := c.Params.MaxLength - len(p.Prompt); c.Params.MaxLength > 0 {
				p.Chosen, p.Rejected = p.Chosen[:min(len(p.Chosen), most)], p.Rejected[:min(len(p.Rejected), most)]
			}
		}
	}
	return file.Cases
}

// openDecoder opens the decoder in a folder.
func openDecoder(t *testing.T, dir string, pool *kernel.Pool) *decoder.Policy {
	t.Helper()
	p, err := decoder.Open(dir, false, pool)
	expect.OK(t, err)
	return p
}

// scorerOf is a scorer of p at the temperature of pairs.
func scorerOf(t *testing.T, p *decoder.Policy) model.Scorer {
	t.Helper()
	s, err := p.NewScorer(pairTemperature)
	expect.OK(t, err)
	return s
}

// Log-probabilities, losses, rewards and gradients of a decoder are those of TRL's DPOTrainer. The
// prompt is computed once for the two completions of a pair.
func TestGoldenDPO(t *testing.T) {
	long(t)
	pool := kernel.NewPool(2)
	defer pool.Close()
	near := func(t *testing.T, what string, got, want []float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-4*max(1, math.Abs(b)) }) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for i, c := range readGoldenDPO(t) {
		t.Run(fmt.Sprintf("%d %s", i, c.Params.Losses[0]), func(t *testing.T) {
			batch := &model.Batch{}
			for k, p := range c.Pairs {
				batch.Prompts = append(batch.Prompts, p.Prompt)
				batch.Rows = append(batch.Rows, model.Row{Prompt: k, Tokens: p.Chosen}, model.Row{Prompt: k, Tokens: p.Rejected})
			}
			logps := func(what string, m *model.TokenMatrix, chosen, rejected [][]float64) {
				for row := range batch.Rows {
					want := [][][]float64{chosen, rejected}[row%2][row/2]
					near(t, fmt.Sprintf("%s log-probabilities of row %d", what, row), m.LogProbs[row*m.T:row*m.T+len(batch.Rows[row].Tokens)], want)
				}
			}
			scorer := scorerOf(t, openDecoder(t, c.Ref, pool))
			defer scorer.Close()
			ref, err := scorer.Score(batch)
			expect.OK(t, err)
			logps("reference", ref, c.RefChosen, c.RefRejected)
			learner, err := openDecoder(t, c.Policy, pool).NewLearner(pairTemperature, false)
			expect.OK(t, err)
			defer learner.Close()
			var losses []rl.PreferenceLoss
			for _, name := range c.Params.Losses {
				losses = append(losses, rl.PreferenceLoss(name))
			}
			loss, err := learner.Accumulate(batch, func(m *model.TokenMatrix) (float64, error) {
				logps("policy", m, c.PolicyChosen, c.PolicyRejected)
				r, err := rl.Preference(rl.PreferenceConfig{
					Losses: losses, Weights: c.Params.Weights, Beta: c.Params.Beta, LabelSmoothing: c.Params.LabelSmoothing, Divergence: c.Params.Divergence, LDAlpha: 1,
				}, rl.PreferenceBatch{Shape: rl.Shape{B: m.B, T: m.T}, LogProbs: m.LogProbs, RefLogProbs: ref.LogProbs, Mask: m.Mask})
				copy(m.DLogProbs, r.Grad)
				if len(losses) == 1 { // the losses of pairs are those of one kind
					near(t, "losses", r.Losses, c.Losses)
				}
				near(t, "rewards", append(r.RewardsChosen, r.RewardsRejected...), append(c.Chosen, c.Rejected...))
				return r.Loss, err
			})
			expect.OK(t, err)
			near(t, "loss", []float64{loss}, []float64{c.Loss})
			c.Grads.Check(t, learner.Grads(), c.GradNorm)
		})
	}
}

// An update of a run on pairs of a file has the loss, the metrics and the gradients of TRL's
// DPOTrainer, whole and in micro-batches of one pair.
func TestGoldenDPOUpdate(t *testing.T) {
	long(t)
	pool := kernel.NewPool(2)
	defer pool.Close()
	for i, c := range readGoldenDPO(t) {
		for _, micro := range []int{0, 1} {
			t.Run(fmt.Sprint(i, " micro ", micro), func(t *testing.T) {
				run := &trainer{cfg: config.Default(), microTokens: micro}
				d := &run.cfg.Algorithm.DPO
				run.cfg.Algorithm.Type, run.cfg.Train.MaxGradNorm = "dpo", 0
				d.LossType, d.LossWeights, d.Beta = c.Params.Losses, c.Params.Weights, c.Params.Beta
				d.LabelSmoothing, d.FDivergenceType = c.Params.LabelSmoothing, c.Params.Divergence
				var pairs filePairs
				for _, p := range c.Pairs {
					pairs.list = append(pairs.list, policy.Pair{Prompt: p.Prompt, Chosen: p.Chosen, Rejected: p.Rejected})
				}
				r := pairs.rollout(span(0, len(pairs.list)))
				run.cfg.Train.TrainBatchSize = len(r.completions)
				var err error
				r.reference, err = run.logProbs(scorerOf(t, openDecoder(t, c.Ref, pool)), r, run.pairParts(r, r.pairs), "scoring")
				expect.OK(t, err)
				policy := openDecoder(t, c.Policy, pool)
				run.learner, err = policy.NewLearner(pairTemperature, false)
				expect.OK(t, err)
				run.Params, run.scorers.policy = policy.Params(), scorerOf(t, policy)
				run.opt = model.NewAdamW(run.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8})
				run.opt.Pool = pool
				s := new(updateStats)
				expect.OK(t, run.updateOnce(r, 0, false, s))
				got := s.pairs.metrics()
				got["loss"], c.Metrics["loss"] = s.loss, c.Loss
				for name, v := range got {
					if want, ok := c.Metrics[name]; !ok || math.Abs(v-want) > 1e-4*max(1, math.Abs(want)) {
						t.Errorf("%s is %v, want %v", name, v, want)
					}
				}
				c.Grads.Check(t, run.learner.Grads(), c.GradNorm)
			})
		}
	}
}
