package train

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"grpo/internal/golden"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
)

// An update of a run on pairs of a file has the loss, the metrics and the gradients of TRL's
// DPOTrainer, whole and in micro-batches of one pair.
func TestGoldenDPOUpdate(t *testing.T) {
	var file struct {
		Cases []struct {
			Params struct {
				LossType        []string `json:"loss_type"`
				Beta            float64
				FDivergenceType string `json:"f_divergence_type"`
				MaxLength       int    `json:"max_length"`
			}
			Policy, Ref string
			Pairs       []struct {
				Prompt   []int `json:"prompt_ids"`
				Chosen   []int `json:"chosen_ids"`
				Rejected []int `json:"rejected_ids"`
			}
			Loss     float64
			Metrics  map[string]float64
			GradNorm float64 `json:"grad_norm"`
			Grads    goldenGradients
		}
	}
	root := golden.Path(t, "golden", "trl2")
	golden.ReadJSON(t, filepath.Join(root, "dpo_model.json"), &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	pool := kernel.NewPool(2)
	defer pool.Close()
	for i, c := range file.Cases {
		for _, micro := range []int{0, 1} {
			t.Run(fmt.Sprint(i, " micro ", micro), func(t *testing.T) {
				open := func(name string) (*decoder.Policy, model.Scorer) {
					p, err := decoder.Open(withTokenizer(t, filepath.Join(root, name), 100), false, pool)
					if err != nil {
						t.Fatal(err)
					}
					s, err := p.NewScorer(pairTemperature)
					if err != nil {
						t.Fatal(err)
					}
					return p, s
				}
				run := &trainer{cfg: config.Default(), microTokens: micro}
				d := &run.cfg.Algorithm.DPO
				run.cfg.Algorithm.Type, run.cfg.Train.MaxGradNorm = "dpo", 0
				d.LossType, d.Beta, d.FDivergenceType = c.Params.LossType, c.Params.Beta, c.Params.FDivergenceType
				var pairs filePairs
				for _, p := range c.Pairs {
					cut := func(ids []int) []int { // TRL truncates
						if most := c.Params.MaxLength - len(p.Prompt); c.Params.MaxLength > 0 {
							ids = ids[:min(len(ids), most)]
						}
						return ids
					}
					pairs.list = append(pairs.list, pairTokens{prompt: p.Prompt, chosen: cut(p.Chosen), rejected: cut(p.Rejected)})
				}
				r, rows := pairs.rollout(span(0, len(pairs.list)))
				_, reference := open(c.Ref)
				x, err := run.scoreRows(reference, r, rows)
				if err != nil {
					t.Fatal(err)
				}
				r.reference = x.LogProbs
				policy, scorer := open(c.Policy)
				if run.learner, err = policy.NewLearner(pairTemperature, false); err != nil {
					t.Fatal(err)
				}
				run.params, run.scorers.policy = policy.Params(), scorer
				run.opt = model.NewAdamW(run.params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8})
				run.opt.Pool = pool
				s := new(updateStats)
				if err := run.updateOnPairs(r, rows, false, s); err != nil {
					t.Fatal(err)
				}
				got := s.pairs.metrics()
				got["loss"], c.Metrics["loss"] = s.loss, c.Loss
				for name, v := range got {
					if want, ok := c.Metrics[name]; !ok || math.Abs(v-want) > 1e-4*max(1, math.Abs(want)) {
						t.Errorf("%s is %v, want %v", name, v, want)
					}
				}
				c.Grads.check(t, run.learner.Grads(), c.GradNorm)
			})
		}
	}
}
