package rl

import "math"

// Stats are sums over tokens and sequences, from which the metrics of a step are
// taken. They add up over micro-batches ([Stats.Add]), so a metric of a step
// does not depend on how the step was split.
type Stats struct {
	Sequences int // with at least one token
	Tokens    int
	// ClipUnits counts what can be clipped: tokens, or sequences where the ratio
	// is one for a sequence. It is 0 on-policy and for losses without a clip.
	ClipUnits int
	// ClippedLow and ClippedHigh count the units that lost their gradient at the
	// lower and at the upper bound, ClippedDual those at the dual clip (which are
	// none of the former). (verl's cispo counts all ratios outside its band.)
	ClippedLow, ClippedHigh, ClippedDual int
	// Ratio is the sum of the ratios in use over the OffPolicy tokens; LogRatio
	// and K3 are the sums of log r and of r - 1 - log r, r the token's own ratio.
	OffPolicy           int
	Ratio, LogRatio, K3 float64
	// RefKL is the sum of the KL term over KLTokens tokens.
	RefKL    float64
	KLTokens int
	// Entropy is the sum over EntropyTokens tokens, where entropies were given.
	Entropy       float64
	EntropyTokens int
	// Phi is the sum of VESPO's phi over PhiSequences sequences.
	Phi          float64
	PhiSequences int
	// DroppedTokens counts what the off-policy mask left out.
	DroppedTokens int

	// Extremes, meaningless while ClipUnits is 0.
	clipLowMin, clipHighMax float64
}

// Add adds the sums of another micro-batch; start from the zero value.
func (s *Stats) Add(o Stats) {
	if o.ClipUnits > 0 {
		if s.ClipUnits == 0 {
			s.clipLowMin, s.clipHighMax = o.clipLowMin, o.clipHighMax
		}
		s.clipLowMin = min(s.clipLowMin, o.clipLowMin)
		s.clipHighMax = max(s.clipHighMax, o.clipHighMax)
	}
	s.Sequences += o.Sequences
	s.Tokens += o.Tokens
	s.ClipUnits += o.ClipUnits
	s.ClippedLow += o.ClippedLow
	s.ClippedHigh += o.ClippedHigh
	s.ClippedDual += o.ClippedDual
	s.OffPolicy += o.OffPolicy
	s.Ratio += o.Ratio
	s.LogRatio += o.LogRatio
	s.K3 += o.K3
	s.RefKL += o.RefKL
	s.KLTokens += o.KLTokens
	s.Entropy += o.Entropy
	s.EntropyTokens += o.EntropyTokens
	s.Phi += o.Phi
	s.PhiSequences += o.PhiSequences
	s.DroppedTokens += o.DroppedTokens
}

// The metrics below are nil where they have no meaning: show "n/a", not 0.

// ClipFraction is the share of units that lost their gradient to the clip; nil
// on-policy and for losses without a clip. (CS336 clip fraction, TRL
// clip_ratio/region_mean, verl pg_clipfrac.)
func (s Stats) ClipFraction() *float64 { return ratioOf(s.ClippedLow+s.ClippedHigh, s.ClipUnits) }

// ClipFractionLow is the share clipped at the lower bound (TRL clip_ratio/low_mean).
func (s Stats) ClipFractionLow() *float64 { return ratioOf(s.ClippedLow, s.ClipUnits) }

// ClipFractionHigh is the share clipped at the upper bound (TRL clip_ratio/high_mean).
func (s Stats) ClipFractionHigh() *float64 { return ratioOf(s.ClippedHigh, s.ClipUnits) }

// ClipFractionDual is the share held by the dual clip (verl pg_clipfrac_lower).
func (s Stats) ClipFractionDual() *float64 { return ratioOf(s.ClippedDual, s.ClipUnits) }

// ClipFractionLowMin is the smallest share clipped low in any sequence (TRL
// clip_ratio/low_min).
func (s Stats) ClipFractionLowMin() *float64 { return only(s.clipLowMin, s.ClipUnits) }

// ClipFractionHighMax is the largest share clipped high in any sequence (TRL
// clip_ratio/high_max).
func (s Stats) ClipFractionHighMax() *float64 { return only(s.clipHighMax, s.ClipUnits) }

// MeanRatio is the mean importance ratio over tokens; nil on-policy.
func (s Stats) MeanRatio() *float64 { return meanOf(s.Ratio, s.OffPolicy) }

// ApproxKL is the k3 estimate of KL(old || policy), the mean of r - 1 - log r
// over tokens; nil on-policy.
func (s Stats) ApproxKL() *float64 { return meanOf(s.K3, s.OffPolicy) }

// PPOKL is the k1 estimate of KL(old || policy), the mean of -log r (verl
// ppo_kl); nil on-policy.
func (s Stats) PPOKL() *float64 { return meanOf(-s.LogRatio, s.OffPolicy) }

// MeanRefKL is the mean KL term to the reference over tokens; nil without one.
func (s Stats) MeanRefKL() *float64 { return meanOf(s.RefKL, s.KLTokens) }

// MeanEntropy is the mean entropy over tokens in nats; nil without entropies.
func (s Stats) MeanEntropy() *float64 { return meanOf(s.Entropy, s.EntropyTokens) }

// MeanPhi is the mean of VESPO's phi over sequences; nil for other losses.
func (s Stats) MeanPhi() *float64 { return meanOf(s.Phi, s.PhiSequences) }

func meanOf(sum float64, n int) *float64 { return only(sum/float64(n), n) }

func ratioOf(k, n int) *float64 { return meanOf(float64(k), n) }

// only returns v, or nil if it is of nothing.
func only(v float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	return &v
}

// addRatio counts the ratio of a token: own is the log of its own, used the
// ratio in the loss, which shared says is the whole sequence's.
func (s *Stats) addRatio(own, used float64, shared bool) {
	s.OffPolicy++
	s.Ratio += used
	s.LogRatio += own
	r := used
	if shared {
		r = math.Exp(own)
	}
	s.K3 += r - 1 - own
}

// clipCount counts the units of one sequence and those that were clipped.
type clipCount struct{ units, low, high, dual int }

func (c *clipCount) add(t term) {
	c.units++
	if t.low {
		c.low++
	}
	if t.high {
		c.high++
	}
	if t.dual {
		c.dual++
	}
}

// addClips adds one sequence's clipCount, of at least one unit.
func (s *Stats) addClips(c clipCount) {
	low, high := float64(c.low)/float64(c.units), float64(c.high)/float64(c.units)
	if s.ClipUnits == 0 {
		s.clipLowMin, s.clipHighMax = low, high
	}
	s.clipLowMin = min(s.clipLowMin, low)
	s.clipHighMax = max(s.clipHighMax, high)
	s.ClipUnits += c.units
	s.ClippedLow += c.low
	s.ClippedHigh += c.high
	s.ClippedDual += c.dual
}
