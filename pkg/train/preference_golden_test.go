package train

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rl"
)

// goldenGradients are a norm and some entries of a tensor's gradient.
type goldenGradients map[string]struct {
	Norm float64
	At   [][2]float64
}

// check compares gradients with the tolerances of the reference data: the norm of all tensors, and
// single entries relative to the tensor's largest.
func (want goldenGradients) check(t *testing.T, grads *model.Params, norm float64) {
	t.Helper()
	var got float64
	for _, g := range grads.Flat {
		got += float64(g) * float64(g)
	}
	if got = math.Sqrt(got); math.Abs(got-norm) > 1e-4*norm {
		t.Errorf("gradient norm %v, want %v", got, norm)
	}
	found := 0
	for _, tensor := range grads.Tensors() {
		w, ok := want[tensor.Name]
		if !ok {
			continue
		}
		found++
		largest := 0.0
		for _, v := range w.At {
			largest = max(largest, math.Abs(v[1]))
		}
		for _, v := range w.At {
			if got := float64(tensor.Data[int(v[0])]); math.Abs(got-v[1]) > 2e-4*largest {
				t.Errorf("%s at %v: %v, want %v", tensor.Name, v[0], got, v[1])
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d tensors found", found, len(want))
	}
}

// Log-probabilities, losses, rewards and gradients of a decoder are those of TRL's DPOTrainer. The
// prompt is computed once for the two completions of a pair.
func TestGoldenDPO(t *testing.T) {
	var file struct {
		Cases []struct {
			Params struct {
				Losses         []rl.PreferenceLoss `json:"loss_type"`
				Beta           float64
				LabelSmoothing float64 `json:"label_smoothing"`
				Divergence     string  `json:"f_divergence_type"`
				MaxLength      int     `json:"max_length"`
			}
			Policy, Ref string
			Pairs       []struct {
				Prompt   []int `json:"prompt_ids"`
				Chosen   []int `json:"chosen_ids"`
				Rejected []int `json:"rejected_ids"`
			}
			PolicyChosen   [][]float64 `json:"policy_chosen_logps"`
			PolicyRejected [][]float64 `json:"policy_rejected_logps"`
			RefChosen      [][]float64 `json:"ref_chosen_logps"`
			RefRejected    [][]float64 `json:"ref_rejected_logps"`
			Loss           float64
			Losses         []float64
			Chosen         []float64 `json:"rewards_chosen"`
			Rejected       []float64 `json:"rewards_rejected"`
			GradNorm       float64   `json:"grad_norm"`
			Grads          goldenGradients
		}
	}
	root := golden.Path(t, "golden", "trl2")
	golden.ReadJSON(t, filepath.Join(root, "dpo_model.json"), &file)
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	pool := kernel.NewPool(2)
	defer pool.Close()
	open := func(t *testing.T, name string) *decoder.Policy {
		p, err := decoder.Open(withTokenizer(t, filepath.Join(root, name), 100), false, pool)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	near := func(t *testing.T, what string, got, want []float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-4*max(1, math.Abs(b)) }) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for i, c := range file.Cases {
		t.Run(fmt.Sprintf("%d %s", i, c.Params.Losses[0]), func(t *testing.T) {
			batch := &model.Batch{}
			for k, p := range c.Pairs {
				cut := func(ids []int) []int {
					if c.Params.MaxLength > 0 {
						ids = ids[:min(len(ids), c.Params.MaxLength-len(p.Prompt))]
					}
					return ids
				}
				batch.Prompts = append(batch.Prompts, p.Prompt)
				batch.Rows = append(batch.Rows, model.Row{Prompt: k, Tokens: cut(p.Chosen)}, model.Row{Prompt: k, Tokens: cut(p.Rejected)})
			}
			logps := func(what string, m *model.TokenMatrix, chosen, rejected [][]float64) {
				for row := range batch.Rows {
					want := [][][]float64{chosen, rejected}[row%2][row/2]
					near(t, fmt.Sprintf("%s log-probabilities of row %d", what, row), m.LogProbs[row*m.T:row*m.T+len(batch.Rows[row].Tokens)], want)
				}
			}
			scorer, err := open(t, c.Ref).NewScorer(1)
			if err != nil {
				t.Fatal(err)
			}
			defer scorer.Close()
			ref, err := scorer.Score(batch)
			if err != nil {
				t.Fatal(err)
			}
			logps("reference", ref, c.RefChosen, c.RefRejected)
			learner, err := open(t, c.Policy).NewLearner(1, false)
			if err != nil {
				t.Fatal(err)
			}
			defer learner.Close()
			loss, err := learner.Accumulate(batch, func(m *model.TokenMatrix) (float64, error) {
				logps("policy", m, c.PolicyChosen, c.PolicyRejected)
				r, err := rl.Preference(rl.PreferenceConfig{
					Losses: c.Params.Losses, Beta: c.Params.Beta, LabelSmoothing: c.Params.LabelSmoothing, Divergence: c.Params.Divergence, LDAlpha: 1,
				}, rl.PreferenceBatch{Shape: rl.Shape{B: m.B, T: m.T}, LogProbs: m.LogProbs, RefLogProbs: ref.LogProbs, Mask: m.Mask})
				copy(m.DLogProbs, r.Grad)
				near(t, "losses", r.Losses, c.Losses)
				near(t, "rewards", append(r.RewardsChosen, r.RewardsRejected...), append(c.Chosen, c.Rejected...))
				return r.Loss, err
			})
			if err != nil {
				t.Fatal(err)
			}
			near(t, "loss", []float64{loss}, []float64{c.Loss})
			c.Grads.check(t, learner.Grads(), c.GradNorm)
		})
	}
}
