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
// comparisons of two settings with the best rate of the first part, on fresh seeds:
// the runs that won the choice of the rate have been lucky, which would favor them in
// every comparison. Until the rate is known, the comparisons are planned with the first
// rate as a placeholder. Or each comparison is crossed with all rates, to compare its
// settings each at its own best rate.

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

// NewStudy plans the assignment. Unless PerArm, its comparisons are
// placeholders until a rate is chosen; mistakes in them are reported here.
func NewStudy(ask Assignment) (*Study, error) {
	if len(ask.Rates) == 0 {
		ask.Rates = []string{"1e-4", "3e-4", "1e-3", "1e-2"} // slow, good, best, and one at which training collapses
	}
	s := &Study{ask: ask, Manifest: sweepdir.Study{
		Format: sweepdir.FormatVersion, Name: "assignment",
		Title: "Four GRPO experiments: CS336, assignment 5, section 8",
		Argv:  append([]string{}, ask.Options.Argv...), Parts: slices.Clone(assignmentParts),
	}}
	if ask.All {
		s.Manifest.Title = "Seven GRPO experiments: CS336 (2025), assignment 5, section 8"
		s.Manifest.Parts = append(s.Manifest.Parts, moreParts...)
	}
	req, err := AxesRequest([]AxisRequest{{Key: RateKey, Values: ask.Rates, From: "--values"}})
	if err != nil {
		return nil, err
	}
	lr, err := s.plan("sweep", req)
	if err != nil {
		return nil, err
	}
	s.Parts = []*Plan{lr}
	s.rates = lr.Manifest.Axes[0]
	for _, part := range s.Manifest.Parts[1:] {
		plan, err := s.comparison(part.Name, s.rates.Values[0])
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", part.Name, err)
		}
		s.Parts = append(s.Parts, plan)
	}
	s.identify()
	return s, nil
}

func (s *Study) plan(command string, req Request, flags ...config.Flag) (*Plan, error) {
	return s.planOn(s.ask.Options.Seeds, command, req, flags...)
}

// planOn is [Study.plan] with other seeds.
func (s *Study) planOn(seeds []uint64, command string, req Request, flags ...config.Flag) (*Plan, error) {
	opts := s.ask.Options
	opts.Command, opts.Flags, opts.Seeds = command, slices.Concat(opts.Flags, flags), seeds
	return NewPlan(req, opts)
}

// identify sets the study's hash: that of the runs of all parts, with the rate of
// the placeholders, so that it is known before a rate is chosen.
func (s *Study) identify() {
	h := sha256.New()
	for i, part := range s.Manifest.Parts {
		fmt.Fprintln(h, part.Name, s.Parts[i].Manifest.Identity())
	}
	s.Manifest.Hash = hex.EncodeToString(h.Sum(nil))[:8]
	s.Manifest.Asked = []sweepdir.Override{
		{Key: "values", Value: strings.Join(s.rates.Values, ", ")},
		{Key: "seeds", Value: joinSeeds(s.Parts[0].Manifest.Seeds, ", ")},
		{Key: "lr-per-arm", Value: fmt.Sprint(s.ask.PerArm)},
		{Key: "all", Value: fmt.Sprint(s.ask.All)},
		{Key: "reuse-choice", Value: fmt.Sprint(s.ask.Options.ReuseChoice)},
	}
}

// comparison plans one of the embedded ablations for the study.
func (s *Study) comparison(name, rate string) (*Plan, error) {
	req, err := LoadRequest(name)
	if err != nil {
		return nil, err
	}
	if req, err = s.scaledBatches(req); err != nil {
		return nil, err
	}
	if s.ask.PerArm {
		return s.plan("ablate", crossedWithRates(req, s.ask.Rates, s.rates.Values[0]))
	}
	flag := config.Flag{Key: RateKey, Name: "the rate of part lr", Value: rate}
	plan, err := s.plan("ablate", req, flag) // on the seeds of the choice
	if err != nil {
		return nil, err
	}
	req.Notes = append(req.Notes, s.rateCaveat(plan.Manifest, rate))
	if s.ask.Options.ReuseChoice {
		return s.plan("ablate", req, flag)
	}
	return s.planOn(FreshSeeds(s.Parts[0].Manifest.Seeds), "ablate", req, flag)
}

// FreshSeeds are as many seeds as these, none of which is among them: the ones after the largest.
func FreshSeeds(seeds []uint64) []uint64 {
	out := make([]uint64, len(seeds))
	for i := range out {
		out[i] = slices.Max(seeds) + uint64(i) + 1
	}
	return out
}

// scaledBatches scales the train batches of an ablation, which are for the default rollout batch, to that of
// the study.
func (s *Study) scaledBatches(req Request) (Request, error) {
	first, err := frozen(s.Parts[0].Manifest.Runs[0])
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

// crossedWithRates is an ablation at all rates, each arm to be compared at its own best.
func crossedWithRates(req Request, rates []string, first string) Request {
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

// rateCaveat is the caveat about a rate that was chosen with one of the arms: the one
// with the same run as the first part in m, the comparison on the seeds of the choice.
func (s *Study) rateCaveat(m sweepdir.Manifest, rate string) string {
	made := map[string]bool{}
	for _, e := range s.Parts[0].Manifest.Runs {
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
	how := fmt.Sprintf("on the seeds %s, which none of these runs has", joinSeeds(m.Seeds, ", "))
	if s.ask.Options.ReuseChoice {
		how = "on the same seeds (--reuse-choice): if that arm's runs are those that won the choice, the comparison is " +
			"biased in their favor"
	}
	return fmt.Sprintf("The learning rate, %s, was chosen by validation reward in part lr, %s, %s "+
		"(grpo assignment --lr-per-arm takes each arm at its own best)", s.rates.Shown(rate), whose, how)
}
