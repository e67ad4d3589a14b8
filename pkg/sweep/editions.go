package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// An edition is the experiments of one year's handout of Stanford CS336, assignment 5, as data.
type edition struct {
	name, title string
	config      string    // base of all parts; empty = the defaults
	set         []Setting // over the base
	steps       string    // over config, not over another base; empty = the steps of config
	rates       []string  // learning rates of TinyLM
	parts       []part    // in the order of the handout; the first sweeps the rates
	more        []part    // with [Assignment.All]; none means that parts are all there is
	moreTitle   string
}

// part is a question of an edition. All parts but the first are embedded ablations.
type part struct {
	name, question string
	ablation       string // its name, if it is not the part's
	ofCheckpoint   *part  // in place of this part, if the model is a checkpoint of Llama's or Qwen's kind
	shared         bool   // all arms have the rate of the first part, even if each arm is tuned
	slower         bool   // each arm is tuned from a tenth of the lowest rate on
}

var editions = []edition{
	{
		name: "2025", title: "Four GRPO experiments: CS336, assignment 5, section 8",
		rates: []string{"1e-4", "3e-4", "1e-3", "1e-2"}, // slow, good, best, and one at which training collapses
		parts: []part{
			{name: "lr", question: "Learning rate: which ends with the best validation answer reward, " +
				"and at which does training diverge?"},
			{name: "baseline", question: "Baselining: does reinforce_with_baseline end with a better " +
				"validation answer reward than no_baseline?"},
			{name: "lengthnorm", question: "Length normalization: masked_mean or masked_normalize, " +
				"by validation answer reward and by gradient norm?"},
			{name: "stdnorm", question: "Group standard deviation: does use_std_normalization " +
				"improve the validation answer reward?"},
		},
		moreTitle: "Seven GRPO experiments: CS336 (2025), assignment 5, section 8",
		more: []part{
			{name: "offpolicy", question: "Off-policy: do several epochs and smaller train batches per rollout batch " +
				"improve the validation answer reward?"},
			{name: "clip", question: "Clipping, off-policy: grpo_clip or no clip, by validation answer reward and stability?"},
			promptPart(false),
		},
	},
	{
		name: "2026", title: "Four GRPO experiments: CS336 (2026), assignment 5",
		config: "a5-2026",
		// As in the ablations variants and offpolicy-loss, so that parts share runs.
		steps: "75", // there are many runs
		set:   []Setting{{Key: "eval.every_n_steps", Value: "25"}, {Key: "train.stop_on_divergence", Value: "true"}},
		rates: []string{"3e-4", "1e-3", "3e-3"}, // slow, best, and one that is too high
		parts: []part{
			{name: "lr", question: "Standard GRPO: which learning rate ends with the best validation answer reward, " +
				"and what do a lower and a higher one do?"},
			promptPart(true),
			{name: "variants", question: "On-policy variants: does GRPO with a constant length normalization, Dr. GRPO, RFT or " +
				"MaxRL end with a better validation answer reward than standard GRPO?"},
			{name: "offpolicy-loss", slower: true, question: "Off-policy, in 32 updates: how close do no ratio, no clip, " +
				"a clip and a clip at the sequence level (GSPO) come to on-policy GRPO?"},
		},
	},
}

// promptPart compares prompts, with shared at one learning rate.
func promptPart(shared bool) part {
	return part{name: "prompt", shared: shared, question: "Prompt: the question alone (plain, which has the text of " +
		"question_only) or r1_zero, by validation answer reward?", ofCheckpoint: &part{
		name: "prompt", ablation: "prompts", shared: shared, question: "Prompt: question_only, r1_zero or worked examples, " +
			"by validation answer reward?"}}
}

// Editions are the names of the editions, the first of which is the default.
func Editions() (out []string) {
	for _, e := range editions {
		out = append(out, e.name)
	}
	return out
}

// TunesArms says whether an edition takes each arm at its own learning rate unless it is asked not to.
func TunesArms(name string) bool { return name == "2026" }

// findEdition returns an edition; empty means the first.
func findEdition(name string) (edition, error) {
	i := slices.IndexFunc(editions, func(e edition) bool { return e.name == cmp.Or(name, editions[0].name) })
	if i < 0 {
		return edition{}, configError("plan the assignment", fmt.Sprintf("there is no edition %s: there are %s",
			textutil.Quote(name), strings.Join(Editions(), ", ")))
	}
	return editions[i], nil
}

// over adds the base of the edition to the request of a part, which may set the same keys itself.
func (e edition) over(req Request) Request {
	req.Config = cmp.Or(req.Config, e.config)
	req.Set = slices.Clone(req.Set)
	for _, s := range e.set {
		if !slices.ContainsFunc(req.Set, func(had Setting) bool { return had.Key == s.Key }) {
			req.Set = append(req.Set, s)
		}
	}
	return req
}

// entry is the part in the manifest of a study.
func (p part) entry() sweepdir.Part { return sweepdir.Part{Name: p.name, Question: p.question} }

// slowerRates are positive learning rates and a tenth of each, without the highest, at which the arms of a slower part
// only collapse. first is the lowest in the notation of plans.
func slowerRates(rates []string) (out []string, first string) {
	var values []float64
	for _, text := range rates {
		v, _ := strconv.ParseFloat(text, 64)
		values = append(values, v, inDecimals(v/10))
	}
	slices.Sort(values)
	values = slices.Compact(values)
	for _, v := range values[:max(1, len(values)-1)] {
		out = append(out, textutil.Exponent(strconv.FormatFloat(v, 'e', -1, 64)))
	}
	return out, textutil.Number(values[0])
}
