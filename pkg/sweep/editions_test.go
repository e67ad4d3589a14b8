package sweep

import (
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// TestEditions: each part of each edition is an embedded ablation, has a question, and no two have a folder's name. The
// base of an edition is that of its ablations, so that parts and `grpo ablate` share runs.
func TestEditions(t *testing.T) {
	for _, e := range editions {
		var names []string
		for i, p := range slices.Concat(e.parts, e.more) {
			for _, p := range []*part{&p, p.ofCheckpoint} {
				switch {
				case p == nil:
				case !strings.HasSuffix(p.question, "?"):
					t.Errorf("%s: %s asks %q", e.name, p.name, p.question)
				case i > 0:
					name := p.name
					if p.ablation != "" {
						name = p.ablation
					}
					req, err := LoadRequest(name)
					expect.OK(t, err)
					if req.Config != "" && len(e.over(req).Set) != len(req.Set) {
						t.Errorf("%s: %s starts from %v, and the edition from %v", e.name, name, req.Set, e.set)
					}
				}
			}
			if slices.Contains(names, p.name) {
				t.Errorf("%s: two parts %s", e.name, p.name)
			}
			names = append(names, p.name)
		}
	}
}

// TestEdition2026: the variants and the off-policy losses are tuned on two seeds and compared on four others; the prompt
// has the rate of part lr.
func TestEdition2026(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Edition: "2026", PerArm: true})
	expect.OK(t, p.Manifest.Check())
	var names []string
	for _, part := range p.Manifest.Parts {
		names = append(names, part.Name)
	}
	if got := strings.Join(names, " "); got != "lr prompt variants offpolicy-loss" {
		t.Fatal(got)
	}
	seeds := [][]uint64{{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}
	rates := []string{"0.0003 0.001 0.003", "", "0.0003 0.001 0.003", "3e-5 0.0001 0.0003 0.001"}
	for i, plan := range p.Parts {
		m := plan.Manifest
		var values string
		if len(m.Axes) > 0 {
			values = strings.Join(m.Axes[0].Values, " ")
		}
		if !slices.Equal(m.Seeds, seeds[i]) || values != rates[i] {
			t.Errorf("%s: seeds %v, rates %s", m.Name, m.Seeds, values)
		}
	}
	if !p.Waits() || p.firstShared() != 1 || p.About(2) != "part 3 of 4: variants, each arm at 3 learning rates" {
		t.Errorf("waits %v for part %d, %s", p.Waits(), p.firstShared(), p.About(2))
	}
	located, err := p.Located()
	expect.OK(t, err)
	for i, l := range located {
		if l.Waits != (i == 1) || p.PartWaits(i) != (i == 1) {
			t.Errorf("part %d waits %v: only the prompt waits for the rate", i, l.Waits)
		}
	}
	hash := p.Parts[3].Manifest.Hash
	expect.OK(t, p.choose("0.003", "the best"))
	if p.Waits() || p.Parts[3].Manifest.Hash != hash || p.Manifest.Parts[3].Chosen != "" || p.Manifest.Parts[1].Chosen != "learning rate 3e-3: the best" {
		t.Errorf("after the choice: %+v", p.Manifest.Parts)
	}
	for _, m := range p.Parts[1].Manifest.Runs {
		if c, err := frozen(m); err != nil || c.Train.LearningRate != 0.003 || !c.Train.StopOnDivergence || c.Eval.EveryNSteps != 25 {
			t.Errorf("prompt: %+v, %v", c.Train, err)
		}
	}
	// Standard GRPO at 3e-3 is the same runs in three parts, and so is an ablation by name.
	copied := p.Copied()
	if got := []int{count(copied[1]), count(copied[2]), count(copied[3])}; !slices.Equal(got, []int{0, 14, 12}) {
		t.Errorf("copied %v", got)
	}
	for i, name := range []string{"variants", "offpolicy-loss"} {
		req, err := LoadRequest(name)
		expect.OK(t, err)
		alone, err := NewPlan(req, PlanOptions{Set: []string{"n_grpo_steps=75"}})
		expect.OK(t, err)
		if alone.Manifest.Hash != p.Parts[i+2].Manifest.Hash {
			t.Errorf("grpo ablate %s is not the study's part", name)
		}
	}
	if p.Manifest.Asked[0].Value != "2026" || newAssignment(t, Assignment{}).Manifest.Asked[0].Key != "values" {
		t.Error("the edition is not recorded as it should be")
	}
}

// TestEdition2026Shared: as in the handout, all parts have the rate of standard GRPO; train batches are scaled.
func TestEdition2026Shared(t *testing.T) {
	long(t)
	p := newAssignment(t, Assignment{Edition: "2026", Options: PlanOptions{Path: "smoke", Seeds: []uint64{1, 2}}})
	expect.OK(t, p.choose("0.001", "the best"))
	if got := armNames(p.Parts[3]); !slices.Equal(got, []string{"on-policy", "naive", "noclip", "clip", "gspo"}) {
		t.Errorf("arms %v", got)
	}
	for _, e := range p.Parts[3].Manifest.Runs {
		c, err := frozen(e)
		expect.OK(t, err)
		want := 128 / 32 // of 128 completions, 32 updates
		if c.Name == "on-policy" {
			want = 128
		}
		if c.Train.TrainBatchSize != want || c.Train.LearningRate != 1e-3 || c.Seed < 3 {
			t.Errorf("%s, seed %d: batches of %d at %v", c.Name, c.Seed, c.Train.TrainBatchSize, c.Train.LearningRate)
		}
	}
	_, err := NewStudy(Assignment{Edition: "2026", All: true})
	invalid(t, "--all", err, "--all adds experiments of the edition 2025")
	_, err = NewStudy(Assignment{Edition: "2027"})
	invalid(t, "no such edition", err, "there are 2025, 2026")
}
