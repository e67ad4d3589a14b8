package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"grpo/configs"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// Request is what a sweep compares. It is the content of sweep.yaml in a sweep's
// folder, of the files in configs/ablations, and of a user's own:
//
//	name: clip                        # of the folder's tables; short
//	title: Clipping                   # above figures and tables
//	question: Does a clip help?       # what the verdict answers
//	config: default                   # the base: a name (grpo config list) or a file; none = the defaults
//	set:                              # keys over the base, as --set takes them
//	  epochs_per_rollout_batch: 4
//	arms:                             # named settings ...
//	  - name: symmetric
//	    label: symmetric clip         # in legends; the name if left out
//	    set: {loss_type: grpo_clip}
//	  - name: none
//	    set: {loss_type: grpo_no_clip}
//	    control: true                 # expected to fail; never proposed as the best
//	axes:                             # ... or keys with values; both together are crossed
//	  - key: lr
//	    label: learning rate
//	    values: [3e-4, 1e-3]
//	reference: symmetric,lr=0.001     # the arm that the others are compared with; none = the best
//	best_over: lr                     # an axis to tune: arms are compared each at its own best value
//	choice_seeds: 2                   # choose the value on 2 seeds; none = on as many as are compared
//	reuse_choice: true                # ... on the seeds of that choice, not on fresh ones: cheaper, and biased
//	fixed: [learning_rate]            # keys that all arms share and that readers need to know
//	notes: [One rate for all arms.]   # caveats that the verdict repeats
//	seeds: 4                          # 1 to 4, or a list: [1, 2, 5], or planned looks: 4..16
type Request struct {
	Name, Title, Question string
	Config                string
	Set                   []Setting
	Arms                  []ArmRequest
	Axes                  []AxisRequest
	Reference, BestOver   string
	Fixed, Notes          []string
	Seeds                 []uint64 // none means [DefaultSeeds] of them
	Looks                 []sweepdir.Look
	ChoiceSeeds           int  // seeds on which the points of BestOver are chosen; 0 = as many as are compared
	ReuseChoice           bool // as [PlanOptions.ReuseChoice]
	OfDefault             bool // values are for the default configuration: see [planner.rescale]
}

// Setting is a key with its value, as --set takes them.
type Setting struct {
	Key, Value string
	From       string // its source ("clip.yaml: line 12"), for messages
}

// ArmRequest is a named setting.
type ArmRequest struct {
	Name, Label string
	Set         []Setting
	Control     bool
}

// AxisRequest is a key with its values.
type AxisRequest struct {
	Key, Label string
	Values     []string
	From       string // its source, for messages
	OfDefault  bool   // as [Request.OfDefault]
}

// DefaultSeeds is the default number of seeds of a sweep: the smallest with which an
// interval over seeds is worth printing.
const DefaultSeeds = 4

// maxRuns bounds a sweep, so that a typo in a count of seeds does not fill the disk.
const maxRuns = 10000

// FirstSeeds returns 1 to n.
func FirstSeeds(n int) []uint64 { return seedsAfter(0, n) }

// seedsAfter returns the n seeds after last.
func seedsAfter(last uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = last + uint64(i) + 1
	}
	return out
}

// ParseSeeds reads the value of --seeds: a count ("4" means 1 to 4) or a list ("1,2,5"
// or "[7]").
func ParseSeeds(text string) ([]uint64, error) {
	fail := func(format string, args ...any) ([]uint64, error) {
		return nil, configError("read seeds", fmt.Sprintf(format, args...))
	}
	trimmed := strings.TrimSpace(text)
	if n, err := strconv.Atoi(trimmed); err == nil {
		if n < 1 || n > maxRuns {
			return fail("%d seeds: want 1 to %d (write [%s] for the one seed %s)", n, maxRuns, trimmed, trimmed)
		}
		return FirstSeeds(n), nil
	}
	inner := trimmed
	if rest, ok := strings.CutPrefix(trimmed, "["); ok {
		if inner, ok = strings.CutSuffix(rest, "]"); !ok {
			return fail("%s: the bracket is not closed", textutil.Quote(text))
		}
	}
	var seeds []uint64
	for i, part := range strings.Split(inner, ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return fail("%s: element %d, %s, is no integer of 0 or more (write 4 for the seeds 1 to 4, "+
				"a list such as 1,2,5, or 4..16 to look at 4, 8 and 16 seeds)", textutil.Quote(text), i+1, textutil.Quote(part))
		}
		seeds = append(seeds, n)
	}
	if err := checkSeeds(seeds); err != nil {
		return fail("%s: %v", textutil.Quote(text), err)
	}
	return seeds, nil
}

func checkSeeds(seeds []uint64) error {
	if len(seeds) == 0 {
		return errors.New("the list is empty")
	}
	for i, s := range seeds {
		if slices.Contains(seeds[:i], s) {
			return fmt.Errorf("seed %d appears twice", s)
		}
	}
	return nil
}

// configError is an error about the user's input.
func configError(doing string, problems ...string) error {
	return &config.Error{Doing: doing, Problems: problems}
}

// problemsOf returns the sentences of an error of package config.
func problemsOf(err error) []string {
	var e *config.Error
	if errors.As(err, &e) {
		return e.Problems
	}
	return []string{err.Error()}
}

// DefaultRates are the learning rates of `grpo sweep lr` without --values: for TinyLM
// from too slow to collapse.
func DefaultRates() AxisRequest {
	return tinyRates([]string{"1e-4", "3e-4", "1e-3", "3e-3", "1e-2"})
}

// tinyRates is an axis of learning rates that are TinyLM's.
func tinyRates(values []string) AxisRequest {
	return AxisRequest{Key: analysis.RateKey, Values: values, OfDefault: true}
}

// fixedOfSweep are the keys that a sweep reports as held fixed, unless an axis varies them.
var fixedOfSweep = []string{
	"train.learning_rate", "algorithm.loss_type", "algorithm.length_normalization",
	"algorithm.use_std_normalization", "train.epochs_per_rollout_batch", "train.train_batch_size",
	"rollout.rollout_batch_size", "rollout.group_size", "train.n_grpo_steps",
}

// AxesRequest is the request of `grpo sweep`. An unknown key is an error.
func AxesRequest(axes []AxisRequest) (Request, error) {
	req := Request{Axes: axes, OfDefault: slices.ContainsFunc(axes, func(a AxisRequest) bool { return a.OfDefault })}
	var names, labels, paths []string
	for _, a := range axes {
		k, err := config.FindKey(a.Key)
		if err != nil {
			return req, configError("read axis", err.Error())
		}
		paths = append(paths, k.Path)
		names, labels = append(names, shortName(k.Path)), append(labels, labelOf(k.Path))
	}
	req.Name = strings.Join(names, "-")
	if len(labels) > 0 {
		title := strings.Join(labels, " and ")
		req.Title = strings.ToUpper(title[:1]) + title[1:]
		req.Question = "Which " + strings.Join(labels, " with which ") + " gives the best validation answer reward?"
	}
	if slices.Equal(paths, []string{"data.difficulty"}) { // a ladder: see [analysis.Analysis.Ladder]
		req.Question = "Up to which difficulty do most seeds converge?"
	}
	for _, f := range fixedOfSweep {
		if !slices.Contains(paths, f) {
			req.Fixed = append(req.Fixed, f)
		}
	}
	return req, nil
}

// ablationFolder of the embedded configurations holds the ablations.
const ablationFolder = "ablations"

// Ablation is an embedded request.
type Ablation struct {
	Name     string `json:"name"`
	Question string `json:"question"`
	Arms     int    `json:"arms"` // with axes, the points of their grid
}

// Ablations lists the embedded ablations, sorted by name.
func Ablations() []Ablation {
	var out []Ablation
	for _, name := range AblationNames() {
		req, err := LoadRequest(name)
		if err != nil {
			panic("sweep: embedded ablations: " + err.Error()) // a test reads them all
		}
		n := max(1, len(req.Arms))
		for _, a := range req.Axes {
			n *= len(a.Values)
		}
		out = append(out, Ablation{Name: name, Question: req.Question, Arms: n})
	}
	return out
}

// AblationNames lists the names of the embedded ablations, sorted.
func AblationNames() []string { return configs.Names(ablationFolder) }

// LoadRequest reads the embedded ablation of that name, or else the file at that
// path; a file that has an ablation's name is found as ./name.
func LoadRequest(nameOrPath string) (Request, error) {
	if slices.Contains(AblationNames(), nameOrPath) {
		text, err := AblationText(nameOrPath)
		if err != nil {
			return Request{}, err
		}
		req, err := ParseRequest(nameOrPath+" (embedded)", text)
		req.OfDefault = true
		for i := range req.Axes {
			req.Axes[i].OfDefault = true
		}
		return req, err
	}
	text, err := requestFile.Read(nameOrPath)
	switch {
	case err == nil:
		return ParseRequest(nameOrPath, text)
	case !errors.Is(err, fs.ErrNotExist):
		return Request{}, configError("read sweep", fmt.Sprintf("%s: %v", nameOrPath, err))
	case configs.IsPath(nameOrPath):
		hint := ""
		if name := configs.NameOf(nameOrPath); slices.Contains(AblationNames(), name) {
			hint = fmt.Sprintf(" (the embedded ablation is named %q)", name)
		}
		return Request{}, configError("read sweep", nameOrPath+": no such file"+hint)
	}
	_, err = AblationText(nameOrPath)
	return Request{}, err
}

// AblationText returns the file of an embedded ablation.
func AblationText(name string) ([]byte, error) {
	names := AblationNames()
	if !slices.Contains(names, name) {
		return nil, configError("read sweep", fmt.Sprintf(
			"no ablation %s%s: there are %s; with grpo ablate the path of a YAML file works too",
			textutil.Quote(name), suggest.DidYouMean(name, names), strings.Join(names, ", ")))
	}
	return configs.FS.ReadFile(path.Join(ablationFolder, name+".yaml"))
}
