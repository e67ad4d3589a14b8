package rl

// Stats are sums over tokens and sequences for the metrics of a step. They add up over
// micro-batches ([Stats.Add]), so the metrics do not depend on how the step was split.
type Stats struct {
	Sequences int // with at least one token
	Tokens    int
	// ClipUnits counts the units that can be clipped: tokens, or sequences if the
	// tokens of a sequence share one ratio. It is 0 on-policy and for losses without a
	// clip.
	ClipUnits int
	// ClippedLow and ClippedHigh count the units that lost their gradient at the
	// lower and at the upper bound, ClippedDual those at the dual clip, which are not
	// among the former. (verl's cispo counts all ratios outside its band; here those of tokens with an advantage.)
	ClippedLow, ClippedHigh, ClippedDual int
	// Means over tokens: of the ratio in use, of -log r and of r - 1 - log r, where r
	// is the token's own ratio (off-policy only); of the KL term; of the entropy.
	ratio, ppoKL, k3, refKL, entropy mean
	phi                              mean // VESPO's phi over sequences

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
	s.ratio.join(o.ratio)
	s.ppoKL.join(o.ppoKL)
	s.k3.join(o.k3)
	s.refKL.join(o.refKL)
	s.entropy.join(o.entropy)
	s.phi.join(o.phi)
}

// mean is a sum of n values.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.join(mean{v, 1}) }

func (m *mean) join(o mean) {
	m.sum += o.sum
	m.n += o.n
}

func (m mean) value() *float64 { return only(m.sum/float64(m.n), m.n) }

// The metrics below are nil if they are undefined: show "n/a", not 0.

// ClipFraction is the share of units that lost their gradient to the clip; nil
// on-policy and for losses without a clip. (CS336 clip fraction, TRL
// clip_ratio/region_mean, verl pg_clipfrac.)
func (s Stats) ClipFraction() *float64 { return ratioOf(s.ClippedLow+s.ClippedHigh, s.ClipUnits) }

// ClipFractionLow is the share clipped at the lower bound (TRL clip_ratio/low_mean).
func (s Stats) ClipFractionLow() *float64 { return ratioOf(s.ClippedLow, s.ClipUnits) }

// ClipFractionHigh is the share clipped at the upper bound (TRL clip_ratio/high_mean).
func (s Stats) ClipFractionHigh() *float64 { return ratioOf(s.ClippedHigh, s.ClipUnits) }

// ClipFractionDual is the share at the dual clip (verl pg_clipfrac_lower).
func (s Stats) ClipFractionDual() *float64 { return ratioOf(s.ClippedDual, s.ClipUnits) }

// ClipFractionLowMin is the smallest share clipped low in any sequence (TRL
// clip_ratio/low_min).
func (s Stats) ClipFractionLowMin() *float64 { return only(s.clipLowMin, s.ClipUnits) }

// ClipFractionHighMax is the largest share clipped high in any sequence (TRL
// clip_ratio/high_max).
func (s Stats) ClipFractionHighMax() *float64 { return only(s.clipHighMax, s.ClipUnits) }

// MeanRatio is the mean importance ratio over tokens; nil on-policy.
func (s Stats) MeanRatio() *float64 { return s.ratio.value() }

// ApproxKL is the k3 estimate of KL(old || policy), the mean of r - 1 - log r
// over tokens; nil on-policy.
func (s Stats) ApproxKL() *float64 { return s.k3.value() }

// PPOKL is the k1 estimate of KL(old || policy), the mean of -log r (verl
// ppo_kl); nil on-policy.
func (s Stats) PPOKL() *float64 { return s.ppoKL.value() }

// MeanRefKL is the mean KL term to the reference over tokens; nil without one.
func (s Stats) MeanRefKL() *float64 { return s.refKL.value() }

// MeanEntropy is the mean entropy over tokens in nats; nil without entropies.
func (s Stats) MeanEntropy() *float64 { return s.entropy.value() }

// MeanPhi is the mean of VESPO's phi over sequences; nil for other losses.
func (s Stats) MeanPhi() *float64 { return s.phi.value() }

func ratioOf(k, n int) *float64 { return only(float64(k)/float64(n), n) }

// only returns v, or nil if it is a statistic of no values.
func only(v float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	return &v
}

// Unclipped is what off-policy statistics count of a sequence of tokens with one advantage, which is 0: nothing of it is
// clipped. It is for sequences that an update leaves out.
func (c LossConfig) Unclipped(tokens int) (Stats, error) {
	p, err := c.plan()
	if err != nil || !p.clips() {
		return Stats{}, err
	}
	if p.clipsWhole() {
		tokens = 1
	}
	return Stats{ClipUnits: tokens}, nil
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
	n := float64(c.units)
	s.Add(Stats{
		ClipUnits: c.units, ClippedLow: c.low, ClippedHigh: c.high, ClippedDual: c.dual,
		clipLowMin: float64(c.low) / n, clipHighMax: float64(c.high) / n,
	})
}
