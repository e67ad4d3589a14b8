package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// RewardModelLog is the log in a reward model's folder.
const RewardModelLog = "reward-model.jsonl"

// RewardModelRecord describes the result of `grpo reward-model`. It has no times, so the same
// configuration and pairs give the same record.
type RewardModelRecord struct {
	Name       string `json:"name"`
	ConfigHash string `json:"config_hash"`
	Kernel     string `json:"kernel"`
	Device     string `json:"device,omitempty"` // the GPU and its precision; empty on the CPU
	Init       string `json:"init_sha256"`      // of the weights it starts from
	Parameters int    `json:"parameters"`
	// PairsSHA256 and EvalPairsSHA256 are of the files; the second is empty if the held-out pairs are
	// from the first.
	PairsSHA256     string `json:"pairs_sha256"`
	EvalPairsSHA256 string `json:"eval_pairs_sha256,omitempty"`
	Pairs           int    `json:"pairs"`      // trained on
	EvalPairs       int    `json:"eval_pairs"` // held out
	Skipped         int    `json:"skipped"`    // lines of both files
	SharedPrompts   int    `json:"shared_prompts"`
	Steps           int    `json:"steps"`
	// Train is the mean of the last 20 steps. Initial and Eval are of the held-out pairs before and
	// after; null without.
	Train       RewardMetrics   `json:"train"`
	Initial     *RewardMetrics  `json:"initial"`
	Eval        *RewardMetrics  `json:"eval"`
	Calibration *rl.Calibration `json:"calibration"` // of the held-out pairs
	Model       string          `json:"model"`       // the file or folder with the weights
	Weights     string          `json:"weights_sha256"`
	// InputFiles has the SHA-256 of the files that the run read, by path. Earlier versions have none.
	InputFiles map[string]string `json:"input_files,omitempty"`
}

// RewardMetrics are means over pairs, by TRL's names.
type RewardMetrics struct {
	Loss       float64 `json:"loss"`
	Accuracy   float64 `json:"accuracy"` // share of pairs whose chosen completion has the higher reward
	Margin     float64 `json:"margin"`   // reward of chosen minus that of rejected
	MeanReward float64 `json:"mean_reward"`
	MinReward  float64 `json:"min_reward"`
	MaxReward  float64 `json:"max_reward"`
}

// RewardModelStep is one line of reward-model.jsonl.
type RewardModelStep struct {
	Step int `json:"step"`
	RewardMetrics
	GradNorm     float64        `json:"grad_norm"` // before clipping
	LearningRate float64        `json:"learning_rate"`
	Eval         *RewardMetrics `json:"eval"` // of the held-out pairs; null between evaluations
}

// RewardModelObserver gets the events of `grpo reward-model`.
type RewardModelObserver interface {
	RewardModelStep(s RewardModelStep, steps int)
	Note(string)
}

// RewardModelOptions are what training a reward model needs besides its configuration.
type RewardModelOptions struct {
	Dir      string // the model's folder
	Threads  int    // of the CPU; 0 = GOMAXPROCS
	Observer RewardModelObserver
	Memory   budget.MemoryCheck // nil = no check
	Progress model.Progress
}

// rewardTrainer trains one reward model.
type rewardTrainer struct {
	cfg         config.RewardModel
	opts        RewardModelOptions
	train, eval []policy.Pair
	steps       int
	rec         RewardModelRecord
	folder      *policy.Folder // nil for a TinyLM
	model       *policy.Model
	policy.Network
	critic model.Critic
	hold   *rundir.Hold
	log    *rundir.Log
}

// RunRewardModel trains a reward model on the pairs of cfg and writes it, its record and its log into
// opts.Dir.
func RunRewardModel(ctx context.Context, cfg config.RewardModel, opts RewardModelOptions) (*RewardModelRecord, error) {
	opts.Threads = cmp.Or(opts.Threads, runtime.GOMAXPROCS(0))
	t := &rewardTrainer{cfg: config.Resolve(cfg), opts: opts}
	if rec, err := t.finished(); rec != nil || err != nil {
		return rec, err
	}
	if err := t.hashPairs(); err != nil {
		return nil, err
	}
	var err error
	if t.rec.InputFiles, err = (Files{}).sums(t.paths()); err != nil {
		return nil, err
	}
	if t.model, err = policy.Resolve(t.cfg.Model, config.LoRA{}); err != nil {
		return nil, err
	}
	if err := t.readPairs(); err != nil {
		return nil, err
	}
	if err := opts.Memory.Pass(budget.RewardModel(t.model, t.cfg, t.train, t.eval, opts.Threads)); err != nil {
		return nil, err
	}
	defer func() {
		if t.critic != nil {
			_ = t.critic.Close() // frees memory only
		}
		t.Network.Close()
	}()
	if err := t.build(); err != nil {
		return nil, err
	}
	if t.hold, err = rundir.Acquire(opts.Dir, rundir.KindReward, t.sameRequest); err != nil {
		return nil, err
	}
	defer t.hold.Release()
	return t.run(ctx)
}

// build makes the network.
func (t *rewardTrainer) build() (err error) {
	c := t.cfg
	if t.folder, err = t.model.Folder(true); err != nil {
		return err
	}
	work := t.model.Size.Forward(c.BatchSize*len(t.train[0].Prompt), c.BatchSize).Update().Nominal
	if t.Network, err = t.model.Open(c.Seed, t.opts.Threads, work, t.opts.Progress); err != nil {
		return err
	}
	t.rec.Init = policy.InitHash(t.Policy)
	t.critic, err = policy.NewRewardModel(t.Policy, adamW(c.AdamBetas, c.AdamEps, c.WeightDecay), c.GradientCheckpointing)
	return err
}

func (t *rewardTrainer) run(ctx context.Context) (rec *RewardModelRecord, err error) {
	if t.log, err = startLog(t.opts.Dir, RewardModelLog, config.Marshal(t.cfg)); err != nil {
		return nil, err
	}
	defer func() {
		if cerr := t.log.Close(); err == nil {
			err = cerr
		}
	}()
	for _, note := range t.Device.Notes {
		t.opts.Observer.Note(note)
	}
	rec = &t.rec
	rec.Name, rec.ConfigHash, rec.Kernel, rec.Device = t.cfg.Name, config.Hash(t.cfg), t.model.Kernel(), t.Device.String()
	rec.Parameters, rec.Pairs, rec.EvalPairs, rec.Steps = t.critic.State().Params.Count(), len(t.train), len(t.eval), t.steps
	if rec.Initial, _, err = t.evaluate(); err != nil {
		return nil, err
	}
	if err := t.loop(ctx); err != nil {
		return nil, err
	}
	if err := t.hold.Check(); err != nil {
		return nil, err
	}
	t.opts.Progress.Do("writing the weights")
	if err := t.save(); err != nil {
		return nil, err
	}
	return rec, rundir.WriteJSON(t.path(rundir.RecordFile), rec)
}

// loop makes the updates.
func (t *rewardTrainer) loop(ctx context.Context) (err error) {
	c := t.cfg
	rates := config.Stage{LearningRate: c.LearningRate, WarmupSteps: c.WarmupSteps, Steps: t.steps, FinalLRRatio: c.FinalLRRatio}
	order := order{stream: rng.New(c.Seed, rng.Shuffle), n: len(t.train)}
	var recent []RewardMetrics
	for step := 1; step <= t.steps; step++ {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: step %d of %d; the same command starts from the beginning", ErrNothingSaved, step, t.steps)
		}
		batch := make([]policy.Pair, c.BatchSize)
		for k := range batch {
			batch[k] = t.train[order.at((step-1)*c.BatchSize+k)]
		}
		line := RewardModelStep{Step: step, LearningRate: schedule(rates, step)}
		if line.RewardMetrics, err = t.accumulate(batch); err != nil {
			return err
		}
		if line.GradNorm, err = t.critic.Step(line.LearningRate, c.MaxGradNorm); err != nil {
			return err
		}
		if notFinite(line.Loss) || notFinite(line.GradNorm) {
			return fmt.Errorf("the reward model diverged at step %d: loss %v, gradient norm %v (lower learning_rate)",
				step, line.Loss, line.GradNorm)
		}
		if recent = append(recent, line.RewardMetrics); len(recent) > 20 {
			recent = recent[1:]
		}
		if step == t.steps || step%c.EveryNSteps == 0 {
			if line.Eval, t.rec.Calibration, err = t.evaluate(); err != nil {
				return err
			}
			t.rec.Eval = line.Eval
		}
		if err := t.hold.Check(); err != nil {
			return err
		}
		if err := t.log.Append(line); err != nil {
			return err
		}
		t.opts.Observer.RewardModelStep(line, t.steps)
	}
	t.rec.Train = meanMetrics(recent)
	return nil
}

func meanMetrics(all []RewardMetrics) (m RewardMetrics) {
	n := float64(len(all))
	m.MinReward, m.MaxReward = math.Inf(1), math.Inf(-1)
	for _, x := range all {
		m.Loss += x.Loss / n
		m.Accuracy += x.Accuracy / n
		m.Margin += x.Margin / n
		m.MeanReward += x.MeanReward / n
		m.MinReward, m.MaxReward = min(m.MinReward, x.MinReward), max(m.MaxReward, x.MaxReward)
	}
	return m
}

// accumulate computes the gradient of a batch of pairs, in parts of limited size.
func (t *rewardTrainer) accumulate(pairs []policy.Pair) (RewardMetrics, error) {
	t.critic.ZeroGrads()
	var chosen, rejected []float64
	var loss float64
	parts := pairParts(pairs, t.microTokens())
	for i, part := range parts {
		t.opts.Progress.Count("update", "micro-batch", i, len(parts))
		batch := rewardBatch(part)
		l, err := t.critic.Accumulate(batch, func(m *model.ValueMatrix) (float64, error) {
			b := t.scores(part, batch, m)
			b.Total = len(pairs)
			out, err := rl.BradleyTerry(b)
			if err != nil {
				return 0, err
			}
			for i := range part {
				m.DValues[lastValue(m, batch, 2*i)], m.DValues[lastValue(m, batch, 2*i+1)] = out.GradChosen[i], out.GradRejected[i]
			}
			chosen, rejected = append(chosen, b.Chosen...), append(rejected, b.Rejected...)
			return out.Loss, nil
		})
		if err != nil {
			return RewardMetrics{}, err
		}
		loss += l
	}
	return rewardMetrics(loss, chosen, rejected), nil
}

// scores are the rewards of a batch of pairs: those of the last values of its rows (see [rewardBatch]).
func (t *rewardTrainer) scores(pairs []policy.Pair, batch *model.Batch, m *model.ValueMatrix) rl.RewardPairs {
	b := rl.RewardPairs{Centering: t.cfg.CenterRewardsCoefficient}
	for i, p := range pairs {
		b.Chosen = append(b.Chosen, m.Values[lastValue(m, batch, 2*i)])
		b.Rejected = append(b.Rejected, m.Values[lastValue(m, batch, 2*i+1)])
		if t.cfg.UseMargin {
			b.Margins = append(b.Margins, p.Margin)
		}
	}
	return b
}

// evaluate measures the model on the held-out pairs; nil without any.
func (t *rewardTrainer) evaluate() (*RewardMetrics, *rl.Calibration, error) {
	if len(t.eval) == 0 {
		return nil, nil, nil
	}
	all := rl.RewardPairs{Centering: t.cfg.CenterRewardsCoefficient}
	parts := pairParts(t.eval, budget.RewardTokens)
	for i, part := range parts {
		t.opts.Progress.Count("evaluating held-out pairs", "batch", i, len(parts))
		batch := rewardBatch(part)
		m, err := t.critic.Values(batch)
		if err != nil {
			return nil, nil, err
		}
		b := t.scores(part, batch, m)
		all.Chosen, all.Rejected, all.Margins = append(all.Chosen, b.Chosen...), append(all.Rejected, b.Rejected...), append(all.Margins, b.Margins...)
	}
	loss, err := rl.BradleyTerry(all)
	if err != nil {
		return nil, nil, err
	}
	calibration, err := rl.Calibrate(all.Chosen, all.Rejected)
	metrics := rewardMetrics(loss.Loss, all.Chosen, all.Rejected)
	return &metrics, &calibration, err
}

func rewardMetrics(loss float64, chosen, rejected []float64) RewardMetrics {
	m := RewardMetrics{Loss: loss, MinReward: math.Inf(1), MaxReward: math.Inf(-1)}
	n := float64(len(chosen))
	for i, c := range chosen {
		r := rejected[i]
		m.Accuracy += one(c > r) / n
		m.Margin += (c - r) / n
		m.MeanReward += (c + r) / (2 * n)
		m.MinReward, m.MaxReward = min(m.MinReward, c, r), max(m.MaxReward, c, r)
	}
	return m
}
