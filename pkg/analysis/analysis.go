package analysis

import "grpo/pkg/sweepdir"

// Figure is one quantity of an arm over its seeds. Everything that is not
// there is NaN, which JSON writes as null.
type Summary struct {
	// Values holds a value for each seed of the manifest, in its order.
	Values []float64 `json:"values"`
	N      int       `json:"n"` // finite values
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"` // sample standard deviation, over seeds
	// Lo and Hi bound the mean at Level (95%) by Student's t, see [stats.StudentT], cut
	// to the range of the quantity; NaN for N < 2.
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// ArmResult is an arm of a sweep with its figures.
type ArmResult struct {
	Arm  sweepdir.Arm        `json:"arm"`
	Runs []sweepdir.RunState `json:"-"` // in the order of the seeds
	// Done, Diverged, Failed and Left count the runs by how they stand; Left is
	// what has not ended.
	Done     int `json:"done"`
	Diverged int `json:"diverged"`
	Failed   int `json:"failed"`
	Left     int `json:"left"`
	// Status says the same in words: "done", "diverged (4 of 4 seeds, steps 20 to 40)".
	Status string `json:"status"`
	// DivergedAt holds the step at which each seed's run diverged, null where it
	// did not.
	DivergedAt []*int `json:"diverged_at"`
	// Problems is the size of the validation set; 0 while unknown.
	Problems int `json:"problems"`
	// Steps is the number of steps that a run of the arm makes; 0 while unknown.
	Steps int `json:"steps"`

	summaries []Summary // of the metrics, see of
	Majority  float64   // the majority-answer baseline on the arm's validation problems
}

// Name is what the arm is called in words.
func (r ArmResult) Name() string {
	if r.Arm.Label != "" {
		return r.Arm.Label
	}
	return r.Arm.Name
}

// Kinds of comparisons.
const (
	// KindPair is one arm against another.
	KindPair = "pair"
	// KindInteraction is a difference of differences in a grid of two keys with
	// two values each: A and B are no arms, but say in words which differences.
	KindInteraction = "interaction"
)

// Comparison is the paired difference A - B of one figure over the seeds that
// both arms have. The planned comparison fixes the order of A and B, and every
// sentence, table and figure keeps it: a signed difference is always A - B.
type Comparison struct {
	Kind   string    `json:"kind"`
	A      string    `json:"a"` // arm names
	B      string    `json:"b"`
	Metric string    `json:"metric"` // "final", "completion_length", ...: the JSON name of the figure
	Diffs  []float64 `json:"differences"`
	N      int       `json:"n"`
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"`
	Lo     float64   `json:"lo"`
	Hi     float64   `json:"hi"`
	P      float64   `json:"p"` // two-sided
	// PHolm is P after Holm's adjustment over its family: for the final reward,
	// the comparisons that were planned, or all pairs of arms where the data chose
	// the arm that the others are compared with; all comparisons of all other
	// metrics together are the second family; the interaction stands alone.
	PHolm float64 `json:"p_adjusted"`
	// Separable says that the difference is told apart from 0 at the 5% level
	// after the adjustment.
	Separable bool `json:"separable"`
	// SeedsNeeded estimates the seeds for which a difference of this size would
	// be told apart with a power of 80%; 1001 means more than 1000. It is 0 where
	// the difference is separable already, where no number can be estimated, and
	// for metrics other than the final reward.
	SeedsNeeded int `json:"seeds_needed"`

	// Text is the sentence of package report; empty in an analysis.
	Text string `json:"text"`

	Resolution float64 // the unit in which the figure is counted
	Family     int     // size of the family over which P was adjusted
	ArmA, ArmB int     // indexes of the arms; -1 for an interaction
	Reversed   bool    // the order of A and B is not that of the plan
}

// Analysis is what a report says about a sweep; tables, figures and the HTML
// page all draw from it.
type Analysis struct {
	Sweep *sweepdir.Sweep `json:"-"`
	Arms  []ArmResult     `json:"arms"` // in the manifest's order
	// Best indexes the arm of the best mean final validation reward among those
	// that are no control and did not diverge; -1 where there is none.
	Best int `json:"best"`
	// BestBadge is what tables call that arm: "best" only where it beats every
	// other arm that has a result, otherwise what can be said of its mean. It is
	// empty where there is nothing to compare, or where an arm that diverged or is
	// a control ends higher.
	BestBadge   string       `json:"-"`
	Comparisons []Comparison `json:"comparisons"`
	// Base and Majority are the base level and the majority-answer baseline; NaN
	// where the arms differ in it.
	Base     float64 `json:"base"`
	Majority float64 `json:"majority"`
	// MajorityAnswer is the commonest gold answer of the validation set; empty
	// where the arms differ in it.
	MajorityAnswer string `json:"majority_answer"`
}
