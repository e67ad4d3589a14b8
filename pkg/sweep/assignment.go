package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// The assignment is a study of four sweeps: the learning rate first, then three
// comparisons of two settings with the best rate of the first part. Until it is
// known, they are planned with the first rate as a placeholder. Or each comparison
// is crossed with all rates, to compare its settings each at its own best rate.

// RateKey is the key that the first part of the assignment sweeps.
const RateKey = "train.learning_rate"

// Assignment asks for the four experiments of section 8 of Stanford CS336's
// assignment 5.
type Assignment struct {
	Rates   []string    // of the first part; none means four for TinyLM
	PerArm  bool        // cross each comparison with all rates
	All     bool        // add the handout's off-policy, clipping and prompt experiments
	Options PlanOptions // of every part, without Command
}

// AssignmentPlan is the assignment with everything resolved and nothing written.
type AssignmentPlan struct {
	Study sweepdir.Study
	Parts []*Plan // as Study.Parts

	ask   Assignment
	rates []string // as the manifest writes them
}

// assignmentParts are the parts with their questions; the first is the sweep,
// the others are embedded ablations.
var assignmentParts = []sweepdir.Part{
	{Name: "lr", Question: "Learning rate: which ends with the best validation answer reward, " +
		"and at which does training diverge?"},
	{Name: "baseline", Question: "Baselining: does reinforce_with_baseline end with a better " +
		"validation answer reward than no_baseline?"},
	{Name: "lengthnorm", Question: "Length normalization: masked_mean or masked_normalize, " +
		"by validation answer reward and by gradient norm?"},
	{Name: "stdnorm", Question: "Group standard deviation: does use_std_normalization " +
		"improve the validation answer reward?"},
}

// moreParts are the handout's other experiments, also embedded ablations.
var moreParts = []sweepdir.Part{
	{Name: "offpolicy", Question: "Off-policy: do several epochs and smaller train batches per rollout batch " +
		"improve the validation answer reward?"},
	{Name: "clip", Question: "Clipping, off-policy: grpo_clip or no clip, by validation answer reward and stability?"},
	{Name: "prompt", Question: "Prompt: the question alone (plain, which has the text of question_only) or r1_zero, " +
		"by validation answer reward?"},
}

// NewAssignment plans the assignment. Unless PerArm, its comparisons are
// placeholders until a rate is chosen; mistakes in them are reported here.
func NewAssignment(ask Assignment) (*AssignmentPlan, error) {
	if len(ask.Rates) == 0 {
		ask.Rates = []string{"1e-4", "3e-4", "1e-3", "1e-2"} // slow, good, best, and one at which training collapses
	}
	p := &AssignmentPlan{ask: ask, Study: sweepdir.Study{
		Format: sweepdir.FormatVersion, Name: "assignment",
		Title: "Four GRPO experiments: CS336, assignment 5, section 8",
		Argv:  append([]string{}, ask.Options.Argv...), Parts: slices.Clone(assignmentParts),
	}}
	if ask.All {
		p.Study.Title = "Seven GRPO experiments: CS336 (2025), assignment 5, section 8"
		p.Study.Parts = append(p.Study.Parts, moreParts...)
	}
	req, err := AxesRequest([]AxisRequest{{Key: RateKey, Values: ask.Rates, From: "--values"}})
	if err != nil {
		return nil, err
	}
	lr, err := p.plan("sweep", req)
	if err != nil {
		return nil, err
	}
	p.Parts = []*Plan{lr}
	p.rates = lr.Manifest.Axes[0].Values
	for _, part := range p.Study.Parts[1:] {
		plan, err := p.comparison(part.Name, p.rates[0])
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", part.Name, err)
		}
		p.Parts = append(p.Parts, plan)
	}
	p.identify()
	return p, nil
}

func (p *AssignmentPlan) plan(command string, req Request, flags ...config.Flag) (*Plan, error) {
	opts := p.ask.Options
	opts.Command, opts.Flags = command, slices.Concat(opts.Flags, flags)
	return NewPlan(req, opts)
}

// identify sets the study's hash: that of the runs of all parts, with the rate of
// the placeholders, so that it is known before a rate is chosen.
func (p *AssignmentPlan) identify() {
	h := sha256.New()
	for i, part := range p.Study.Parts {
		fmt.Fprintln(h, part.Name, p.Parts[i].Manifest.Identity())
	}
	p.Study.Hash = hex.EncodeToString(h.Sum(nil))[:8]
	p.Study.Asked = []sweepdir.Override{
		{Key: "values", Value: strings.Join(p.rates, ", ")},
		{Key: "seeds", Value: joinSeeds(p.Parts[0].Manifest.Seeds, ", ")},
		{Key: "lr-per-arm", Value: fmt.Sprint(p.ask.PerArm)},
		{Key: "all", Value: fmt.Sprint(p.ask.All)},
	}
}

// waits says whether the comparisons are placeholders.
func (p *AssignmentPlan) waits() bool { return !p.ask.PerArm && len(p.Study.Parts[1].Set) == 0 }

// choose plans the comparisons with a rate; why ends the sentence "learning rate R:
// ...". With PerArm there is nothing to choose.
func (p *AssignmentPlan) choose(rate, why string) error {
	if p.ask.PerArm {
		return nil
	}
	for i := 1; i < len(p.Parts); i++ {
		part := &p.Study.Parts[i]
		plan, err := p.comparison(part.Name, rate)
		if err != nil {
			return fmt.Errorf("part %s: %w", part.Name, err)
		}
		p.Parts[i] = plan
		part.Chosen = fmt.Sprintf("learning rate %s: %s", p.shownRate(rate), why)
		part.Set = []sweepdir.Override{{Key: RateKey, Value: rate}}
	}
	return nil
}

// adopt plans the comparisons with the rate of an existing study.
func (p *AssignmentPlan) adopt(old sweepdir.Study) error {
	for _, part := range old.Parts[1:] {
		for _, o := range part.Set {
			if o.Key == RateKey {
				_, why, _ := strings.Cut(part.Chosen, ": ")
				return p.choose(o.Value, why)
			}
		}
	}
	return nil
}

// Copied marks the runs of each part that will be copied from an earlier part.
func (p *AssignmentPlan) Copied() [][]bool {
	seen := map[string]bool{}
	var out [][]bool
	for _, plan := range p.Parts {
		marks := make([]bool, len(plan.Manifest.Runs))
		for i, e := range plan.Manifest.Runs { // no two have the same hash
			marks[i], seen[e.Hash] = seen[e.Hash], true
		}
		out = append(out, marks)
	}
	return out
}

// comparison plans one of the embedded ablations for the study.
func (p *AssignmentPlan) comparison(name, rate string) (*Plan, error) {
	req, err := LoadRequest(name)
	if err != nil {
		return nil, err
	}
	if req, err = p.fitted(req); err != nil {
		return nil, err
	}
	if p.ask.PerArm {
		return p.plan("ablate", tuned(req, p.ask.Rates, p.rates[0]))
	}
	flag := config.Flag{Key: RateKey, Name: "the rate of part lr", Value: rate}
	plan, err := p.plan("ablate", req, flag)
	if err != nil {
		return nil, err
	}
	req.Notes = append(req.Notes, p.tunedFor(plan.Manifest, rate))
	return p.plan("ablate", req, flag)
}

// fitted scales the train batches of an ablation, which are for the default rollout batch, to that of
// the study.
func (p *AssignmentPlan) fitted(req Request) (Request, error) {
	first, err := frozen(p.Parts[0].Manifest.Runs[0])
	if err != nil {
		return req, err
	}
	usual, now := config.Default().Rollout.RolloutBatchSize, first.Rollout.RolloutBatchSize
	req.Axes = slices.Clone(req.Axes)
	for i, a := range req.Axes {
		if a.Key != "train_batch_size" || now == usual {
			continue
		}
		req.Axes[i].Values = nil
		for _, v := range a.Values {
			n, err := strconv.Atoi(v)
			if err != nil {
				return req, configError("read sweep", fmt.Sprintf("%s %s: %v", a.Key, v, err))
			}
			scaled := strconv.Itoa(n * now / usual)
			req.Axes[i].Values = append(req.Axes[i].Values, scaled)
			if rest, ok := strings.CutSuffix(req.Reference, a.Key+"="+v); ok {
				req.Reference = rest + a.Key + "=" + scaled
			}
		}
	}
	return req, nil
}

// tuned crosses an ablation with the rates, each arm to be compared at its own
// best.
func tuned(req Request, rates []string, first string) Request {
	req.Axes = append(slices.Clone(req.Axes), AxisRequest{Key: RateKey, Values: rates, From: "--values"})
	req.BestOver = RateKey
	req.Title += ", each arm with its own learning rate"
	if req.Reference != "" {
		req.Reference += "," + shortName(RateKey) + "=" + first
	}
	req.Fixed = slices.DeleteFunc(slices.Clone(req.Fixed), func(name string) bool {
		k, err := config.FindKey(name)
		return err == nil && k.Path == RateKey
	})
	return req
}

// tunedFor is the caveat about a rate that was chosen with one of the arms: the one
// with the same run as the first part.
func (p *AssignmentPlan) tunedFor(m sweepdir.Manifest, rate string) string {
	made := map[string]bool{}
	for _, e := range p.Parts[0].Manifest.Runs {
		made[e.Hash] = true
	}
	whose, others := "with a setting that is none of these arms", "other"
	if len(m.Arms) > 2 {
		others = "others"
	}
	for i, arm := range m.Arms {
		if made[m.Runs[i].Hash] { // the first seed's runs come first, arm by arm
			whose = fmt.Sprintf("with the arm %q, and not tuned for the %s", arm.Label, others)
		}
	}
	return fmt.Sprintf("The learning rate, %s, was chosen by validation reward in part lr, %s "+
		"(grpo assignment --lr-per-arm takes each arm at its own best)", p.shownRate(rate), whose)
}

// shownRate is a learning rate as the first part, which sweeps it, shows it.
func (p *AssignmentPlan) shownRate(rate string) string {
	return p.Parts[0].Manifest.Axes[0].Shown(rate)
}
