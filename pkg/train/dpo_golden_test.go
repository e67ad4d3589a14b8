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

// An update on pairs of a file is that of TRL's DPOTrainer: log-probabilities of policy and reference,
// loss, rewards, metrics and gradients, whole and in micro-batches of one pair.
func TestGoldenDPO(t *testing.T) {
	var file struct {
		Cases []struct {
			Params struct {
				LossType        []string `json:"loss_type"`
				Beta            float64
				LabelSmoothing  float64 `json:"label_smoothing"`
				FDivergenceType string  `json:"f_divergence_type"`
				UseWeighting    bool    `json:"use_weighting"`
				LDAlpha         float64 `json:"ld_alpha"`
				MaxLength       int     `json:"max_length"`
			}
			Policy, Ref string
			Pairs       []struct {
				PromptIDs   []int `json:"prompt_ids"`
				ChosenIDs   []int `json:"chosen_ids"`
				RejectedIDs []int `json:"rejected_ids"`
			}
			PolicyChosen   [][]float64 `json:"policy_chosen_logps"`
			PolicyRejected [][]float64 `json:"policy_rejected_logps"`
			RefChosen      [][]float64 `json:"ref_chosen_logps"`
			RefRejected    [][]float64 `json:"ref_rejected_logps"`
			Loss           float64
			Metrics        map[string]float64
			GradNorm       float64 `json:"grad_norm"`
			Grads          map[string]struct {
				Norm float64
				At   [][2]float64
			}
		}
	}
	root := golden.Path(t, "golden", "trl2")
	golden.ReadJSON(t, filepath.Join(root, "dpo_model.json"), &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	near := func(t *testing.T, what string, got, want, tolerance float64) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for i, c := range file.Cases {
		for _, micro := range []int{0, 1} {
			t.Run(fmt.Sprint(i, " micro ", micro), func(t *testing.T) {
				pool := kernel.NewPool(2)
				defer pool.Close()
				run := &trainer{cfg: config.Default(), microTokens: micro}
				d := &run.cfg.Algorithm.DPO
				run.cfg.Algorithm.Type, run.cfg.Train.MaxGradNorm = "dpo", 0
				d.LossType, d.Beta, d.LabelSmoothing = c.Params.LossType, c.Params.Beta, c.Params.LabelSmoothing
				d.FDivergenceType, d.UseWeighting = c.Params.FDivergenceType, c.Params.UseWeighting
				if c.Params.LDAlpha != 0 {
					d.LDAlpha = c.Params.LDAlpha
				}
				pairs := filePairs{end: []int{2}}
				for _, p := range c.Pairs {
					if most := c.Params.MaxLength - len(p.PromptIDs); c.Params.MaxLength > 0 { // TRL truncates
						p.ChosenIDs, p.RejectedIDs = p.ChosenIDs[:min(len(p.ChosenIDs), most)], p.RejectedIDs[:min(len(p.RejectedIDs), most)]
					}
					pairs.list = append(pairs.list, pairTokens{prompt: p.PromptIDs, chosen: p.ChosenIDs, rejected: p.RejectedIDs})
				}
				r, rows := pairs.rollout(span(0, len(pairs.list)))
				score := func(folder string, chosen, rejected [][]float64) (*decoder.Policy, *model.TokenMatrix) {
					p, err := decoder.Open(withTokenizer(t, filepath.Join(root, folder), 100), false, pool)
					if err != nil {
						t.Fatal(err)
					}
					scorer, err := p.NewScorer(pairTemperature)
					if err != nil {
						t.Fatal(err)
					}
					x, err := run.scoreRows(scorer, r, rows)
					if err != nil {
						t.Fatal(err)
					}
					for k := range rows {
						want := [][][]float64{chosen, rejected}[k%2][k/2]
						if n := len(r.completions[k].Tokens); n != len(want) {
							t.Fatalf("row %d has %d tokens, want %d", k, n, len(want))
						}
						for at, lp := range want {
							near(t, fmt.Sprintf("%s, row %d, log-prob %d", folder, k, at), x.LogProbs[k*x.T+at], lp, 1e-4)
						}
					}
					return p, x
				}
				_, ref := score(c.Ref, c.RefChosen, c.RefRejected)
				r.reference = ref.LogProbs
				policy, _ := score(c.Policy, c.PolicyChosen, c.PolicyRejected)
				var err error
				if run.learner, err = policy.NewLearner(pairTemperature, false); err != nil {
					t.Fatal(err)
				}
				run.params = policy.Params()
				run.opt = model.NewAdamW(run.params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8})
				run.opt.Pool = pool
				if run.scorers.policy, err = policy.NewScorer(pairTemperature); err != nil {
					t.Fatal(err)
				}
				s := new(updateStats)
				if err := run.updateOnPairs(r, rows, false, s); err != nil {
					t.Fatal(err)
				}
				near(t, "the loss", s.loss, c.Loss, 1e-4)
				near(t, "the gradient norm", s.norm/c.GradNorm, 1, 1e-4)
				for name, got := range s.pairs.metrics() {
					want, ok := c.Metrics[name]
					if !ok {
						t.Errorf("TRL has no metric %s", name)
					}
					near(t, name, got, want, 1e-4)
				}
				checked := 0
				for _, tensor := range run.learner.Grads().Tensors() {
					want, ok := c.Grads[tensor.Name]
					if !ok {
						continue
					}
					checked++
					largest := 0.0
					for _, at := range want.At {
						largest = max(largest, math.Abs(at[1]))
					}
					for _, at := range want.At {
						near(t, fmt.Sprintf("gradient %v of %s", at[0], tensor.Name), float64(tensor.Data[int(at[0])])/largest, at[1]/largest, 2e-4)
					}
				}
				if checked != len(c.Grads) {
					t.Errorf("%d of %d gradients were compared", checked, len(c.Grads))
				}
			})
		}
	}
}
