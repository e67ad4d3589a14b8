package rl

import (
	"fmt"
	"math"
	"slices"
)

// Baseline is the value subtracted from a reward.
type Baseline string

const (
	// BaselineNone subtracts nothing.
	BaselineNone Baseline = "none"
	// BaselineGroupMean subtracts the mean of the completion's group (GRPO).
	BaselineGroupMean Baseline = "group_mean"
	// BaselineLeaveOneOut subtracts the mean of the others in the group (RLOO,
	// arXiv:2402.14740); it equals G/(G-1) (r - mean).
	BaselineLeaveOneOut Baseline = "leave_one_out"
	// BaselineBatchMean subtracts the mean of the whole batch.
	BaselineBatchMean Baseline = "batch_mean"
	// BaselineLengthWeighted subtracts sum(length*r)/sum(length) of the group,
	// the variance-optimal baseline of OPO (arXiv:2505.23585).
	BaselineLengthWeighted Baseline = "length_weighted"
	// BaselineGreedy subtracts the reward of the prompt's greedy completion
	// (ReMax, arXiv:2310.10505).
	BaselineGreedy Baseline = "greedy"
)

// Baselines lists the known baselines.
func Baselines() []string { return names(baselines...) }

var baselines = []Baseline{
	BaselineNone, BaselineGroupMean, BaselineLeaveOneOut, BaselineBatchMean, BaselineLengthWeighted, BaselineGreedy,
}

// Normalizer is the divisor of the difference.
type Normalizer string

const (
	// NormalizerNone divides by 1 (Dr. GRPO, arXiv:2503.20783).
	NormalizerNone Normalizer = "none"
	// NormalizerGroupStd divides by the group's sample standard deviation + eps (GRPO).
	NormalizerGroupStd Normalizer = "group_std"
	// NormalizerBatchStd divides by the sample standard deviation of all rewards
	// of the batch + eps; with [BaselineGroupMean] it is the "hybrid" of Lite PPO
	// (arXiv:2508.08221), with [BaselineBatchMean] the "global" form.
	NormalizerBatchStd Normalizer = "batch_std"
	// NormalizerGroupMean divides by the group's mean reward + eps (MaxRL); it
	// is meant for rewards that are never negative.
	NormalizerGroupMean Normalizer = "group_mean"
	// NormalizerWhiten subtracts the mean of the differences over the batch and
	// divides by their sample standard deviation + eps (TRL's RLOO with
	// normalize_advantages).
	NormalizerWhiten Normalizer = "whiten"
	// NormalizerGPG multiplies by N / (number of rewards other than 0), at least
	// 1 in the denominator (GPG, arXiv:2504.02546, as in verl).
	NormalizerGPG Normalizer = "gpg"
)

// Normalizers lists the known normalizers.
func Normalizers() []string { return names(normalizers...) }

var normalizers = []Normalizer{
	NormalizerNone, NormalizerGroupStd, NormalizerBatchStd, NormalizerGroupMean, NormalizerWhiten, NormalizerGPG,
}

// AdvantageOptions are the options of [GroupAdvantages].
type AdvantageOptions struct {
	Baseline   Baseline
	Normalizer Normalizer
	// Eps is added to the standard deviation (or to the group's mean), outside
	// the root. The assignment uses 1e-6, TRL 1e-4, OpenRLHF 1e-9.
	Eps float64
	// Lengths (N) are the completions' numbers of tokens, for
	// BaselineLengthWeighted only.
	Lengths []int
	// GreedyRewards (N / group size) are the rewards of each prompt's greedy
	// completion, for BaselineGreedy only.
	GreedyRewards []float64
}

// AdvantageStats describes the rewards and advantages of one batch.
type AdvantageStats struct {
	Groups int
	// ZeroStdGroups counts groups in which at least two completions were scored and
	// all scored ones got the same reward: their standard deviation is 0.
	ZeroStdGroups int
	// ZeroAdvantageGroups counts groups whose advantages are all 0: they have no learning signal.
	// In a run that cannot learn it equals Groups.
	ZeroAdvantageGroups int
	// FracRewardZeroStd is ZeroStdGroups / Groups. It is counted group by group
	// whatever standard deviation scales the advantages. (TRL, with
	// scale_rewards "batch", tests the batch's deviation instead.)
	FracRewardZeroStd float64
	// RewardMean and RewardStd (sample) are over all scored completions; NaN
	// where undefined.
	RewardMean, RewardStd float64
}

// GroupAdvantages turns the rewards (N) of consecutive groups of groupSize completions into
// advantages (N):
//
//	A_i = (r_i - baseline_i) / scale_i
//
// For the group mean and the group's standard deviation, with n = group size,
//
//	A_i = (r_i - mean) / (std + eps),   std = sqrt(sum_j (r_j - mean)^2 / (n - 1))
//
// If the standard deviation or mean in the scale is exactly 0, the advantages are exactly 0. So are
// those of a group of equal rewards under every baseline computed from the group. A reward of NaN
// means "not scorable": it is ignored by every baseline and scale and has advantage 0. A group with
// a single scored completion has no standard deviation and no leave-one-out baseline; if one of
// these is needed its advantage is 0.
//
// It returns an error for a number of rewards that groupSize does not divide, an infinite reward,
// an unknown option, a missing input, or a groupSize of 1 where two are needed.
//
// Sources: CS336 assignment 5, compute_group_normalized_rewards; TRL GRPOTrainer and RLOOTrainer;
// verl core_algos.py.
func GroupAdvantages(rewards []float64, groupSize int, opt AdvantageOptions) ([]float64, AdvantageStats, error) {
	if err := opt.check(rewards, groupSize); err != nil {
		return nil, AdvantageStats{}, fmt.Errorf("advantages: %w", err)
	}
	batch := momentsOf(rewards)
	st := AdvantageStats{Groups: len(rewards) / groupSize, RewardMean: batch.mean, RewardStd: batch.std}
	adv := make([]float64, len(rewards))
	for g := range st.Groups {
		lo := g * groupSize
		r, a := rewards[lo:lo+groupSize], adv[lo:lo+groupSize]
		m := momentsOf(r)
		if m.std == 0 {
			st.ZeroStdGroups++
		}
		opt.subtract(a, r, g, m, batch)
		switch opt.Normalizer {
		case NormalizerGroupStd:
			divide(a, m.std, opt.Eps)
		case NormalizerBatchStd:
			divide(a, batch.std, opt.Eps)
		case NormalizerGroupMean:
			divide(a, m.mean, opt.Eps)
		}
	}
	switch opt.Normalizer {
	case NormalizerWhiten:
		whiten(adv, rewards, opt.Eps)
	case NormalizerGPG:
		nonzero := 0
		for _, r := range rewards {
			if r != 0 && !math.IsNaN(r) {
				nonzero++
			}
		}
		for i := range adv {
			adv[i] *= float64(len(rewards)) / float64(max(nonzero, 1))
		}
	}
	st.FracRewardZeroStd = float64(st.ZeroStdGroups) / float64(st.Groups)
	for lo := 0; lo < len(adv); lo += groupSize {
		if !slices.ContainsFunc(adv[lo:lo+groupSize], func(a float64) bool { return a != 0 }) {
			st.ZeroAdvantageGroups++
		}
	}
	return adv, st, nil
}

// subtract fills a with r minus the baseline of group g. Unscored completions,
// and those for which the baseline is undefined, get 0.
func (opt AdvantageOptions) subtract(a, r []float64, g int, group, batch moments) {
	base := 0.0
	switch opt.Baseline {
	case BaselineGroupMean:
		base = group.mean
	case BaselineBatchMean:
		base = batch.mean
	case BaselineGreedy:
		base = opt.GreedyRewards[g]
	case BaselineLengthWeighted:
		lo := g * len(r)
		base = weightedMean(r, opt.Lengths[lo:lo+len(r)])
	case BaselineLeaveOneOut:
		// r_i - (sum - r_i)/(n-1) = n/(n-1) (r_i - mean). A single scored
		// completion equals its mean, whatever the factor.
		k := float64(group.n) / float64(max(group.n-1, 1))
		for i, v := range r {
			if a[i] = 0; !math.IsNaN(v) {
				a[i] = k * (v - group.mean)
			}
		}
		return
	}
	for i, v := range r {
		if a[i] = 0; !math.IsNaN(v) && !math.IsNaN(base) {
			a[i] = v - base
		}
	}
}

// divide divides by scale + eps, and gives 0 if the scale is 0 or undefined.
func divide(a []float64, scale, eps float64) {
	if scale == 0 || math.IsNaN(scale) {
		clear(a)
		return
	}
	for i := range a {
		a[i] /= scale + eps
	}
}

// whiten centers and scales the advantages of the scored completions; the others get 0.
func whiten(adv, rewards []float64, eps float64) {
	for i, r := range rewards {
		if math.IsNaN(r) {
			adv[i] = math.NaN()
		}
	}
	m := momentsOf(adv)
	for i, a := range adv {
		if adv[i] = 0; !math.IsNaN(a) {
			adv[i] = a - m.mean
		}
	}
	divide(adv, m.std, eps)
}

func (opt AdvantageOptions) check(rewards []float64, groupSize int) error {
	n := len(rewards)
	if err := checkGroups(rewards, groupSize); err != nil {
		return err
	}
	switch {
	case n == 0:
		return fmt.Errorf("no rewards")
	case !(opt.Eps >= 0) || math.IsInf(opt.Eps, 1):
		return fmt.Errorf("eps is %v; it must be finite and at least 0", opt.Eps)
	case groupSize == 1 && opt.Baseline == BaselineLeaveOneOut:
		return fmt.Errorf("a group of 1 has no other completions to average (use groups of 2 or more)")
	case groupSize == 1 && opt.Normalizer == NormalizerGroupStd:
		return fmt.Errorf("a group of 1 has no standard deviation (use groups of 2 or more, or normalizer %q)",
			NormalizerNone)
	}
	for i, r := range rewards {
		if r < 0 && opt.Normalizer == NormalizerGroupMean {
			return fmt.Errorf("reward %d is %v; normalizer %q divides by the group's mean "+
				"and needs rewards of at least 0", i, r, NormalizerGroupMean)
		}
	}
	if err := checkName("baseline", opt.Baseline, baselines); err != nil {
		return err
	}
	switch groups := n / groupSize; {
	case opt.Baseline == BaselineLengthWeighted && len(opt.Lengths) != n:
		return fmt.Errorf("baseline %q needs the length of each of %d completions, got %d",
			opt.Baseline, n, len(opt.Lengths))
	case opt.Baseline == BaselineGreedy && len(opt.GreedyRewards) != groups:
		return fmt.Errorf("baseline %q needs a greedy reward for each of %d groups, got %d",
			opt.Baseline, groups, len(opt.GreedyRewards))
	}
	return checkName("normalizer", opt.Normalizer, normalizers)
}

// checkGroups checks that groupSize divides the number of rewards and that no reward is infinite.
func checkGroups(rewards []float64, groupSize int) error {
	switch {
	case groupSize < 1:
		return fmt.Errorf("group size %d; it must be at least 1", groupSize)
	case len(rewards)%groupSize != 0:
		return fmt.Errorf("%d rewards cannot be split into groups of %d", len(rewards), groupSize)
	}
	if i := slices.IndexFunc(rewards, func(r float64) bool { return math.IsInf(r, 0) }); i >= 0 {
		return fmt.Errorf("reward %d is %v; rewards are finite, or NaN for a completion that can't be scored",
			i, rewards[i])
	}
	return nil
}

// PassKAdvantages rewards only the best completion of each group, by its margin over the second
// best:
//
//	A_best = (r_best - r_second) [ / (std + eps) ],   all others 0
//
// so that the expected maximum of a group grows. The part in brackets applies with useStd; std is
// the group's sample standard deviation. If two completions share the best reward, the group's
// advantages are all 0. Unscored completions (NaN) are ignored.
//
// Source: arXiv:2503.19595; verl grpo_passk.
func PassKAdvantages(rewards []float64, groupSize int, useStd bool, eps float64) ([]float64, error) {
	opt := AdvantageOptions{Baseline: BaselineNone, Normalizer: NormalizerNone, Eps: eps}
	if err := opt.check(rewards, groupSize); err != nil {
		return nil, fmt.Errorf("pass@k advantages: %w", err)
	}
	if groupSize < 2 {
		return nil, fmt.Errorf("pass@k advantages: a group of 1 has no second best (use groups of 2 or more)")
	}
	adv := make([]float64, len(rewards))
	for lo := 0; lo < len(rewards); lo += groupSize {
		r := rewards[lo : lo+groupSize]
		scored := slices.DeleteFunc(slices.Clone(r), math.IsNaN)
		slices.Sort(scored)
		n := len(scored)
		if n < 2 {
			continue
		}
		best := lo + slices.Index(r, scored[n-1])
		a := adv[best : best+1]
		a[0] = scored[n-1] - scored[n-2]
		if useStd {
			divide(a, momentsOf(r).std, eps)
		}
	}
	return adv, nil
}
