package rl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// To add a loss: write its formula with its gradient and call it from policyTerm (term.go); give it
// a name, a row in lossTable and a row in recipes (here); add a case to testdata/reference.py. The
// configuration and its checks read these tables. Tests fail until the case and a line in
// docs/algorithms.md exist. An option of its own is a field of [LossParams] with a bit of [Uses], and
// a line in configs/default.yaml.

// LossType names the policy loss of one token. A is the advantage (or the raw
// reward), r the importance ratio.
type LossType string

const (
	NoBaseline            LossType = "no_baseline"             // -A logp, A the raw reward (CS336)
	ReinforceWithBaseline LossType = "reinforce_with_baseline" // -A logp (CS336)
	GRPOClip              LossType = "grpo_clip"               // -min(r A, clip(r) A) (CS336, TRL, verl, OpenRLHF)
	GRPONoClip            LossType = "grpo_no_clip"            // -r A (CS336 "GRPO-No-Clip")
	CISPO                 LossType = "cispo"                   // -sg(min(r, epsilon_high)) A logp (TRL)
	CISPOBand             LossType = "cispo_band"              // -sg(clip(r)) A logp (verl's cispo)
	SAPO                  LossType = "sapo"                    // -gate(r) A (TRL, verl)
	VESPO                 LossType = "vespo"                   // -phi(w) A logp (TRL)
	GeoMean               LossType = "geo_mean"                // -geometric mean of the clipped ratios A (verl, GMPO)
)

// Uses is a set of options of [LossConfig] that a loss uses.
type Uses uint

// Options that not every loss has.
const (
	UsesEpsilon     Uses = 1 << iota // Epsilon, the lower bound of the ratio (with UsesEpsilonHigh: of a clip)
	UsesEpsilonHigh                  // EpsilonHigh, the upper bound; only losses with one report clip fractions
	UsesDelta                        // Delta
	UsesDualClip                     // DualClip
	UsesLevel                        // Level: the loss has an importance ratio of tokens or of sequences
	UsesSAPO                         // SAPOTempPos, SAPOTempNeg
	UsesVESPO                        // VESPOKPos, VESPOLambdaPos, VESPOKNeg, VESPOLambdaNeg
)

// usesNames are the bits of [Uses] in tags of the configuration's keys: needs:"loss.sapo".
var usesNames = map[string]Uses{
	"epsilon": UsesEpsilon, "epsilon_high": UsesEpsilonHigh, "delta": UsesDelta, "dual_clip": UsesDualClip,
	"level": UsesLevel, "sapo": UsesSAPO, "vespo": UsesVESPO,
}

// LossParams are the options of single losses, all positive; 0 means the default. The tags make them keys of the
// section algorithm of the configuration (see the package comment of pkg/config).
type LossParams struct {
	// SAPO's temperatures for positive and negative advantages.
	SAPOTempPos float64 `yaml:"sapo_temperature_pos" neutral:"1" in:"positive" needs:"loss.sapo ratio"`
	SAPOTempNeg float64 `yaml:"sapo_temperature_neg" neutral:"1.05" in:"positive" needs:"loss.sapo ratio"`
	// Shape of VESPO's weight for positive and negative advantages.
	VESPOKPos      float64 `yaml:"vespo_k_pos" neutral:"2" in:"positive" needs:"loss.vespo ratio"`
	VESPOLambdaPos float64 `yaml:"vespo_lambda_pos" neutral:"3" in:"positive" needs:"loss.vespo ratio"`
	VESPOKNeg      float64 `yaml:"vespo_k_neg" neutral:"3" in:"positive" needs:"loss.vespo ratio"`
	VESPOLambdaNeg float64 `yaml:"vespo_lambda_neg" neutral:"2" in:"positive" needs:"loss.vespo ratio"`
}

// withDefaults replaces zeros.
func (p LossParams) withDefaults() LossParams {
	return LossParams{
		SAPOTempPos: cmp.Or(p.SAPOTempPos, 1), SAPOTempNeg: cmp.Or(p.SAPOTempNeg, 1.05),
		VESPOKPos: cmp.Or(p.VESPOKPos, 2), VESPOLambdaPos: cmp.Or(p.VESPOLambdaPos, 3),
		VESPOKNeg: cmp.Or(p.VESPOKNeg, 3), VESPOLambdaNeg: cmp.Or(p.VESPOLambdaNeg, 2),
	}
}

// check returns an error unless all are positive.
func (p LossParams) check() error {
	for _, x := range [...]float64{
		p.SAPOTempPos, p.SAPOTempNeg, p.VESPOKPos, p.VESPOLambdaPos, p.VESPOKNeg, p.VESPOLambdaNeg,
	} {
		if !positive(x) {
			return fmt.Errorf("a parameter of the loss is %v; it must be finite and above 0 (0 = its default): %+v", x, p)
		}
	}
	return nil
}

// optionTable lists names with the set of options that each uses.
type optionTable[N ~string, U ~uint] []struct {
	name N
	uses U
}

// with lists the names that use all of these options.
func (t optionTable[N, U]) with(u U) []string {
	var out []string
	for _, row := range t {
		if row.uses&u == u {
			out = append(out, string(row.name))
		}
	}
	return out
}

// of returns what a name uses; false for an unknown one.
func (t optionTable[N, U]) of(name N) (U, bool) {
	for _, row := range t {
		if row.name == name {
			return row.uses, true
		}
	}
	return 0, false
}

// lossTable lists the losses and their options. The formulas are in term.go.
var lossTable = optionTable[LossType, Uses]{
	{NoBaseline, 0},
	{ReinforceWithBaseline, 0},
	{GRPOClip, UsesEpsilon | UsesEpsilonHigh | UsesDelta | UsesDualClip | UsesLevel},
	{GRPONoClip, UsesLevel},
	{CISPO, UsesEpsilonHigh | UsesLevel},
	{CISPOBand, UsesEpsilon | UsesEpsilonHigh | UsesLevel},
	{SAPO, UsesSAPO | UsesLevel},
	{VESPO, UsesVESPO},
	{GeoMean, UsesEpsilon | UsesEpsilonHigh},
}

// LossTypes lists the known loss types.
func LossTypes() []string { return lossTable.with(0) }

// LossesWith lists the loss types that have an option, by its name in usesNames; none for an unknown one.
func LossesWith(option string) []string {
	if u, ok := usesNames[option]; ok {
		return lossTable.with(u)
	}
	return nil
}

// Source is the origin of a recipe.
type Source string

// Sources of recipes.
const (
	CS336 Source = "CS336"
	TRL   Source = "TRL"
	Verl  Source = "verl"
)

// Recipe is the meaning of a source's name: a loss with the aggregation, level and constants that
// the source combines it with.
type Recipe struct {
	// Name is the value of algorithm.loss_type; "" if another source has the name or other keys
	// express the recipe.
	Name   string
	Source Source
	// SourceName is the source's own name, if it is not Name.
	SourceName string

	Loss        LossType
	Aggregation Aggregation // the default
	// Tied means that the name implies this aggregation.
	Tied bool
	// Level is the only level that the name allows; "" allows all, token by default.
	Level ImportanceLevel
	// NormalizeConstant is Z; 0 is the maximum length of a completion.
	NormalizeConstant float64
	DualClip          float64 // the default
	EntropyOverAll    bool    // see [LossConfig]
}

var recipes = []Recipe{
	{Name: "no_baseline", Source: CS336, Loss: NoBaseline, Aggregation: MaskedMeanSeq},
	{Name: "reinforce_with_baseline", Source: CS336, Loss: ReinforceWithBaseline, Aggregation: MaskedMeanSeq},
	{Name: "grpo_clip", Source: CS336, Loss: GRPOClip, Aggregation: MaskedMeanSeq},
	{Name: "grpo_no_clip", Source: CS336, Loss: GRPONoClip, Aggregation: MaskedMeanSeq},

	{Name: "grpo", Source: TRL, Loss: GRPOClip, Aggregation: MaskedMeanSeq, Tied: true},
	{Name: "bnpo", Source: TRL, Loss: GRPOClip, Aggregation: TokenMean, Tied: true},
	{Name: "dr_grpo", Source: TRL, Loss: GRPOClip, Aggregation: MaskedNormalizeSeq, Tied: true},
	{Name: "dapo", Source: TRL, Loss: GRPOClip, Aggregation: TokenMean, Tied: true, EntropyOverAll: true},
	{Name: "cispo", Source: TRL, Loss: CISPO, Aggregation: TokenMean, EntropyOverAll: true},
	{Name: "sapo", Source: TRL, Loss: SAPO, Aggregation: MaskedMeanSeq},
	{Name: "luspo", Source: TRL, Loss: GRPOClip, Aggregation: MaskedNormalizeSeq, Tied: true, Level: SequenceLevel,
		NormalizeConstant: 1},
	{Name: "vespo", Source: TRL, Loss: VESPO, Aggregation: TokenMean, EntropyOverAll: true},

	{Name: "vanilla", Source: Verl, Loss: GRPOClip, Aggregation: TokenMean, DualClip: 3},
	{Name: "gpg", Source: Verl, Loss: ReinforceWithBaseline, Aggregation: TokenMean},
	{Name: "gspo", Source: Verl, Loss: GRPOClip, Aggregation: SeqMeanTokenMean, Tied: true, Level: SequenceLevel},
	{Name: "geo_mean", Source: Verl, Loss: GeoMean, Aggregation: MaskedMeanSeq},
	{Name: "cispo_band", Source: Verl, SourceName: "cispo", Loss: CISPOBand, Aggregation: TokenMean},
	// TRL's sapo with another aggregation
	{Source: Verl, SourceName: "sapo", Loss: SAPO, Aggregation: SeqMeanTokenMean, Tied: true},
}

// RecipeNames lists the names of the recipes, the assignment's first.
func RecipeNames() []string {
	var out []string
	for _, r := range recipes {
		if r.Name != "" {
			out = append(out, r.Name)
		}
	}
	return out
}

// RecipeNamed returns the recipe of a name; the zero value for an unknown one.
func RecipeNamed(name string) Recipe {
	for _, r := range recipes {
		if name != "" && r.Name == name {
			return r
		}
	}
	return Recipe{}
}

// sourceName is the source's own name of the recipe.
func (r Recipe) sourceName() string { return cmp.Or(r.SourceName, r.Name) }

// namesOf lists a source's own names.
func namesOf(s Source) []string {
	var out []string
	for _, r := range recipes {
		if r.Source == s {
			out = append(out, r.sourceName())
		}
	}
	return out
}

// recipeOf returns the recipe of a source's own name.
func recipeOf(s Source, name string) (Recipe, bool) {
	for _, r := range recipes {
		if r.Source == s && r.sourceName() == name {
			return r, true
		}
	}
	return Recipe{}, false
}

func names[S ~string](s ...S) []string {
	out := make([]string, len(s))
	for i, v := range s {
		out[i] = string(v)
	}
	return out
}

func unknown(what, got string, known []string) error {
	slices.Sort(known)
	return fmt.Errorf("unknown %s %q (known: %s)", what, got, strings.Join(known, ", "))
}

// checkName returns an error unless name is one of the known ones.
func checkName[S ~string](what string, name S, known []S) error {
	if slices.Contains(known, name) {
		return nil
	}
	return unknown(what, string(name), names(known...))
}
