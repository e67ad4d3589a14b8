package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// The assignment is a study of several sweeps (see editions.go): the learning rate first,
// then comparisons with the best rate of the first part, on fresh seeds:
// the runs that won the choice of the rate have been lucky, which would favor them in
// every comparison. Until the rate is known, the comparisons are planned with the first
// rate as a placeholder. Or each comparison is crossed with all rates, to compare its
// settings each at its own best rate.

// Assignment asks for the experiments of Stanford CS336's assignment 5.
type Assignment struct {
	Edition string      // year of the handout, of [Editions]; empty means the first
	Rates   []string    // of the first part; none means the edition's
	PerArm  bool        // cross the comparisons with all rates (see [TunesArms])
	All     bool        // add the off-policy, clipping and prompt experiments of 2025
	Options PlanOptions // of every part, without Command
}

// NewStudy plans the assignment. Unless PerArm, its comparisons are
// placeholders until a rate is chosen; mistakes in them are reported here.
func NewStudy(ask Assignment) (*Study, error) {
	e, err := findEdition(ask.Edition)
	if err != nil {
		return nil, err
	}
	if ask.All && len(e.more) == 0 {
		return nil, configError("plan the assignment", fmt.Sprintf(
			"--all adds experiments of the edition 2025; %s has all of its experiments in any case", e.name))
	}
	rates := AxisRequest{Key: analysis.RateKey, Values: ask.Rates, From: "--values"}
	if len(ask.Rates) == 0 {
		rates = tinyRates(e.rates)
	}
	if ask.Options.Path == "" && e.steps != "" {
		e.set = append(slices.Clone(e.set), Setting{Key: "train.n_grpo_steps", Value: e.steps})
	}
	s := &Study{ask: ask, edition: e, parts: slices.Clone(e.parts), Manifest: sweepdir.Study{
		Format: sweepdir.FormatVersion, Name: "assignment", Title: e.title,
		Argv: append([]string{}, ask.Options.Argv...),
	}}
	if ask.All {
		s.Manifest.Title, s.parts = e.moreTitle, append(s.parts, e.more...)
	}
	req, err := AxesRequest([]AxisRequest{rates})
	if err != nil {
		return nil, err
	}
	lr, err := s.plan("sweep", e.over(req))
	if err != nil {
		return nil, err
	}
	s.Parts = []*Plan{lr}
	s.rates = lr.Manifest.Axes[0]
	if rates.OfDefault {
		s.ask.Rates = nil
		for _, v := range s.rates.Values {
			s.ask.Rates = append(s.ask.Rates, s.rates.Shown(v))
		}
	}
	s.Manifest.Parts = []sweepdir.Part{s.parts[0].entry()}
	_, m, err := frozenModel(lr.Manifest.Runs[0])
	isCheckpoint := err == nil && m.IsDecoder() // another error is reported when the model is opened
	for i, p := range s.parts[1:] {
		if isCheckpoint && p.ofCheckpoint != nil {
			p = *p.ofCheckpoint
			s.parts[i+1] = p
		}
		s.Manifest.Parts = append(s.Manifest.Parts, p.entry())
		plan, err := s.comparison(p, s.rates.Values[0])
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", p.name, err)
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
	if s.edition.name != editions[0].name { // folders of the first have no such line
		s.Manifest.Asked = []sweepdir.Override{{Key: "edition", Value: s.edition.name}}
	}
	s.Manifest.Asked = append(s.Manifest.Asked, []sweepdir.Override{
		{Key: "values", Value: strings.Join(s.rates.Values, ", ")},
		{Key: "seeds", Value: joinSeeds(s.Parts[0].Manifest.Seeds, ", ")},
		{Key: "lr-per-arm", Value: fmt.Sprint(s.ask.PerArm)},
		{Key: "all", Value: fmt.Sprint(s.ask.All)},
		{Key: "reuse-choice", Value: fmt.Sprint(s.ask.Options.ReuseChoice)},
	}...)
}

// comparison plans the ablation of a part for the study.
func (s *Study) comparison(p part, rate string) (*Plan, error) {
	req, err := LoadRequest(cmp.Or(p.ablation, p.name))
	if err != nil {
		return nil, err
	}
	req = withoutRates(s.edition.over(req))
	if s.tunes(p) {
		rates, first := s.ask.Rates, s.rates.Values[0]
		if p.slower {
			rates, first = slowerRates(s.rates.Values)
		}
		return s.plan("ablate", crossedWithRates(req, rates, first))
	}
	req.ChoiceSeeds = 0
	flag := config.Flag{Key: analysis.RateKey, Name: "the rate of part lr", Value: rate}
	plan, err := s.plan("ablate", req, flag) // on the seeds of the choice
	if err != nil {
		return nil, err
	}
	req.Notes = append(req.Notes, s.rateCaveat(plan.Manifest, rate))
	if s.ask.Options.ReuseChoice {
		return s.plan("ablate", req, flag)
	}
	chosenOn := s.Parts[0].Manifest.Seeds
	return s.planOn(freshSeeds(chosenOn, len(chosenOn)), "ablate", req, flag)
}

// tunes says whether a part takes each arm at its own learning rate.
func (s *Study) tunes(p part) bool { return s.ask.PerArm && !p.shared }

// freshSeeds are the n seeds after the largest of these.
func freshSeeds(seeds []uint64, n int) []uint64 { return seedsAfter(slices.Max(seeds), n) }

// isRate says whether a name is that of the learning rate.
func isRate(name string) bool {
	k, err := config.FindKey(name)
	return err == nil && k.Path == analysis.RateKey
}

// withoutRates is an ablation without its own learning rates: the study has others.
func withoutRates(req Request) Request {
	if !isRate(req.BestOver) {
		return req
	}
	req.BestOver = ""
	req.Axes = slices.DeleteFunc(slices.Clone(req.Axes), func(a AxisRequest) bool { return isRate(a.Key) })
	req.Reference, _, _ = strings.Cut(req.Reference, ","+shortName(analysis.RateKey)+"=")
	return req
}

// crossedWithRates is an ablation at these rates, each arm to be compared at its own best.
func crossedWithRates(req Request, rates []string, first string) Request {
	req.Axes = append(slices.Clone(req.Axes), AxisRequest{Key: analysis.RateKey, Values: rates, From: "--values"})
	req.BestOver = analysis.RateKey
	req.Title += ", each arm with its own learning rate"
	if req.Reference != "" {
		req.Reference += "," + shortName(analysis.RateKey) + "=" + first
	}
	req.Fixed = slices.DeleteFunc(slices.Clone(req.Fixed), isRate)
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
	text := fmt.Sprintf("The learning rate, %s, was chosen by validation reward in part lr, %s, %s",
		s.rates.Shown(rate), whose, how)
	if s.ask.PerArm {
		return text
	}
	return text + " (grpo assignment --lr-per-arm takes each arm at its own best)"
}
