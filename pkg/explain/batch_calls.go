package explain

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
)

// Call is a call of one of the assignment's functions: what it returns, and where the results in the file differ.
type Call struct {
	Function string      `json:"function"`
	Expected []CallValue `json:"expected"` // computed here
	// Differences has an entry for each of the file's results that differs.
	Differences []Difference `json:"differences"`

	settings string
	check    Check
}

// CallValue is a result of a call: a number, or a tensor.
type CallValue struct {
	Name  string    `json:"name"`
	Shape []int     `json:"shape"` // none for a number
	Data  []float64 `json:"data"`  // row-major; NaN is null
}

// callFields are the arguments of all functions, under the names of the assignment of 2025 and of 2026, and
// their results. An argument that a function does not use is ignored, as the assignment's functions do.
type callFields struct {
	Function string `json:"function"`

	PolicyLogProbs tensor `json:"policy_log_probs"` // (B, T)
	OldLogProbs    tensor `json:"old_log_probs"`    // (B, T)
	ResponseMask   tensor `json:"response_mask"`    // (B, T)
	RawRewards     tensor `json:"raw_rewards"`      // (B) or (B, 1)
	Advantages     tensor `json:"advantages"`       // (B) or (B, 1); the result of compute_group_normalized_rewards
	Either         tensor `json:"raw_rewards_or_advantages"`
	Tensor         tensor `json:"tensor"`
	Mask           tensor `json:"mask"`
	PerToken       tensor `json:"per_token_policy_gradient_loss"`
	Logits         tensor `json:"logits"`

	LossType      string   `json:"loss_type"`
	Cliprange     *float64 `json:"cliprange"`
	Dim           *float64 `json:"dim"` // missing: all of them
	Steps         int      `json:"gradient_accumulation_steps"`
	GroupSize     int      `json:"group_size"`
	Eps           *float64 `json:"advantage_eps"`
	NormalizeStd  *bool    `json:"normalize_by_std"`
	UseStd        *bool    `json:"use_std_normalization"`
	Normalization string   `json:"length_normalization"` // masked_mean or masked_normalize, of the micro-batch step

	// The constant has a name for each function.
	NormalizeConstant       *float64 `json:"normalize_constant"`
	ConstantNormalizer      *float64 `json:"constant_normalizer"`
	ConstantNormalizeFactor *float64 `json:"constant_normalize_factor"`
	NormalizationConstant   *float64 `json:"normalization_constant"`

	// 2026.
	Reweighting       string `json:"importance_reweighting_method"` // none, noclip, grpo, gspo
	Baseline          string `json:"baseline"`                      // mean, none
	Normalizer        string `json:"advantage_normalizer"`          // std, none, mean
	LossNormalization string `json:"loss_normalization"`            // sequence, constant

	// Results.
	Result     returned `json:"result"`
	Loss       returned `json:"loss"`
	Grad       returned `json:"policy_log_probs_grad"`
	Normalized returned `json:"normalized_rewards"` // 2025's name of the advantages
}

// callDefaults are the functions' default arguments.
var callDefaults = callFields{
	Steps: 1, Reweighting: "none", Baseline: "mean", Normalizer: "std", LossNormalization: "sequence",
}

// callFunctions are the functions that a call can name.
var callFunctions = map[string]func(callFields, path) (callResult, error){
	"compute_group_normalized_rewards":   callFields.groupNormalized,
	"compute_naive_policy_gradient_loss": callFields.naiveLoss,
	"compute_grpo_clip_loss":             callFields.clipLoss,
	"compute_policy_gradient_loss":       callFields.policyLoss,
	"masked_mean":                        callFields.maskedMean,
	"masked_normalize":                   callFields.maskedNormalize,
	"aggregate_loss_across_microbatch":   callFields.aggregate,
	"compute_entropy":                    callFields.entropy,
	"sft_microbatch_train_step":          callFields.sftStep,
	"grpo_microbatch_train_step":         callFields.grpoStep,
	"grpo_train_step":                    callFields.trainStep,
}

// CallFunctions lists the assignment's functions that a file can call.
func CallFunctions() []string { return slices.Sorted(maps.Keys(callFunctions)) }

// callResult is what a function returns.
type callResult struct {
	settings []string
	values   []callValue
}

// callValue is a right result with the one in the file.
type callValue struct {
	name     string
	shape    []int // not nil, for JSON
	want     []float64
	got      returned
	mistakes []mistake
}

// called computes the calls of a file; false if it has none, and is in another format.
func called(f File, subject string) (b Batch, ok bool, err error) {
	if f.offset(path("").field("calls")) == 0 {
		return b, false, nil
	}
	defer f.wrap(subject, &err)
	var file struct {
		Calls []callFields `json:"calls"`
	}
	if err := f.decode(&file, defaulted(callDefaults)); err != nil {
		return b, true, err
	}
	if len(file.Calls) == 0 {
		return b, true, errors.New(`no calls: the list "calls" is empty`)
	}
	calls, err := readCases("calls", file.Calls, callFields.compute)
	b = newBatch(f, "call", calls, func(c Call) Check { return c.check }, callTable)
	b.calls = make([]string, len(calls))
	for i, c := range calls {
		b.calls[i] = c.Function
	}
	return b, true, err
}

// compute runs the function and compares the results.
func (in callFields) compute(at path) (c Call, err error) {
	c = Call{Function: strings.TrimPrefix(in.Function, "run_"), Differences: []Difference{}} // run_: the adapters
	function, ok := callFunctions[c.Function]
	if !ok {
		return c, at.field("function").choice(in.Function, CallFunctions()...)
	}
	r, err := function(in, at)
	if err != nil {
		return c, err
	}
	c.settings = strings.Join(slices.DeleteFunc(r.settings, func(s string) bool { return s == "" }), ", ")
	for _, v := range r.values {
		c.Expected = append(c.Expected, CallValue{v.name, v.shape, v.want})
		v.compare(&c.check)
	}
	c.Differences = append(c.Differences, c.check.Differences...)
	return c, nil
}

// compare adds the comparison of a result in the file with the right one.
func (v callValue) compare(to *Check) {
	if v.got.x == nil {
		return
	}
	if !sameShape(v.got.shape, v.shape) {
		to.Values++
		to.Wrong++
		to.Differences = append(to.Differences, Difference{
			Name: v.name, Want: math.NaN(), Got: math.NaN(), Wrong: 1, Values: 1,
			Shapes: fmt.Sprintf("expected shape %s, got %s", shapeText(v.shape), shapeText(v.got.shape)),
		})
		return
	}
	before := len(to.Differences)
	to.add(v.name, v.got.x, v.want, v.shape...)
	if len(to.Differences) > before {
		to.Differences[before].Hint = hintOf(v.got.x, v.want, v.mistakes)
	}
}

// sameShape reports whether two shapes are equal, sides of 1 apart.
func sameShape(a, b []int) bool {
	long := func(shape []int) []int {
		return slices.DeleteFunc(slices.Clone(shape), func(side int) bool { return side == 1 })
	}
	return slices.Equal(long(a), long(b))
}

// shapeText is a shape as PyTorch writes it: (2, 10), (8,) or ().
func shapeText(shape []int) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	return "(" + each(shape, ", ", strconv.Itoa) + ")"
}

// callTable has a row for each call.
func callTable(calls []Call, checks []Check) caseTable {
	t := caseTable{columns: "lllrl", checks: checks}
	t.rows = [][]string{{"call", "function", "settings", "value", "|gradient|"}}
	for i, c := range calls {
		row := []string{strconv.Itoa(i), c.Function, c.settings, "", ""}
		for _, v := range c.Expected {
			switch {
			case v.Name == gradName:
				row[4] = digits(norm(v.Data), 6)
			case len(v.Data) == 1:
				row[3] = digits(v.Data[0], 6)
			default:
				row[3] = shapeText(v.Shape)
			}
		}
		t.rows = append(t.rows, row)
	}
	t.notes = []string{"value is the number that the function returns, or the shape of its tensor. |gradient| is the " +
		"norm of the gradient with respect to policy_log_probs: of the loss, or of the sum of a loss per token (over " +
		"response_mask, if the call has it). --json prints all numbers."}
	if slices.ContainsFunc(checks, func(c Check) bool { return c.Wrong > 0 }) {
		t.notes = append(t.notes, "Below, expected is computed here, and got is in your file.")
	}
	return t
}

func norm(x []float64) float64 {
	squares := 0.0
	for _, v := range x {
		squares += v * v
	}
	return math.Sqrt(squares)
}

// constant is the divisor of a sum, whichever of its names the call has, or otherwise a default.
func (in callFields) constant(at path, otherwise float64) (float64, error) {
	z := cmp.Or(in.NormalizeConstant, in.ConstantNormalizer, in.ConstantNormalizeFactor, in.NormalizationConstant,
		&otherwise)
	if *z == 0 || math.IsNaN(*z) {
		return 0, at.errorf("the constant that divides is %v; it must be a number other than 0", *z)
	}
	return *z, nil
}

// setting is "name value", for the table.
func setting(name string, value float64) string {
	return textutil.Printable(name, 0) + " " + short(value)
}

//go:embed examples
var exampleFiles embed.FS

// The forms of an example, and the editions of the assignment that have one.
var (
	ExampleForms = []string{"json", "torch"}
	Editions     = []string{"2025", "2026"}
)

// Example is a file of calls to start from (json), or a Python script that calls a student's functions and prints
// such a file (torch), for an edition of the assignment.
func Example(form, edition string) (string, error) {
	if !slices.Contains(ExampleForms, form) {
		return "", fmt.Errorf("unknown form of an example %q (known: %s)", form, strings.Join(ExampleForms, ", "))
	}
	if !slices.Contains(Editions, edition) {
		return "", fmt.Errorf("unknown edition %q (known: %s)", edition, strings.Join(Editions, ", "))
	}
	names := []string{edition + ".json"}
	if form == "torch" {
		names = []string{"head.py", edition + ".py"}
	}
	var text strings.Builder
	for _, name := range names {
		part, err := exampleFiles.ReadFile("examples/" + name)
		if err != nil {
			return "", fmt.Errorf("read an example: %w", err)
		}
		text.Write(part)
	}
	return strings.ReplaceAll(text.String(), "EDITION", edition), nil
}
