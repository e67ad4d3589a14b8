package supervised

import (
	"context"
	"fmt"
	"math"
	"os"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
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
	// PairsSHA256 and EvalPairsSHA256 are of the files, empty for pipes; the second is empty if the held-out pairs are
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

// rewardTrainer trains one reward model.
type rewardTrainer struct {
	supervised[config.RewardModel, RewardModelStep, RewardModelRecord]
	pairs, eval []policy.Pair // to train on, and held out
	n           int           // steps
	rec         RewardModelRecord
	folder      *policy.Folder // nil for a TinyLM
	critic      model.Critic
}

// RunRewardModel trains a reward model on the pairs of cfg and writes it, its record and its log into
// opts.Dir.
func RunRewardModel(ctx context.Context, cfg config.RewardModel, opts Options[RewardModelStep]) (
	*RewardModelRecord, error) {
	t := &rewardTrainer{}
	t.cfg, t.opts, t.kind, t.log = config.Resolve(cfg), opts, rundir.KindReward, RewardModelLog
	t.load = config.LoadRewardModel
	return t.run(ctx, t)
}

func (t *rewardTrainer) paths() []string {
	return append(policy.Files(t.cfg.Model.Init, t.cfg.Model.AdapterBase), t.cfg.Pairs, t.cfg.EvalPairs)
}

func (t *rewardTrainer) same(rec *RewardModelRecord) error {
	then, paths := rec.InputFiles, t.paths()
	if then == nil { // of an earlier version
		then, paths = map[string]string{t.cfg.Pairs: rec.PairsSHA256}, []string{t.cfg.Pairs, t.cfg.EvalPairs}
		if t.cfg.EvalPairs != "" {
			then[t.cfg.EvalPairs] = rec.EvalPairsSHA256
		}
	}
	if err := t.sameInputs(rec.ConfigHash, then, paths); err != nil {
		return err
	}
	switch {
	case rec.Model == rundir.ModelFile:
		return hasWeights(t.path(rec.Model), rec.Weights)
	case rec.Model == rundir.ModelFolder:
		_, err := policy.VerifyFolder(t.path(rec.Model))
		return err
	}
	return fmt.Errorf("%s names the model %q", t.path(rundir.RecordFile), rec.Model)
}

func (t *rewardTrainer) read() (need budget.Memory, err error) {
	if t.model, err = policy.Resolve(t.cfg.Model, config.LoRA{}); err != nil {
		return need, err
	}
	if err := t.readPairs(); err != nil {
		return need, err
	}
	return budget.RewardModel(t.model, t.cfg, t.pairs, t.eval, t.largest(), largestPart(t.eval, budget.RewardTokens),
		t.opts.Threads), nil
}

func (t *rewardTrainer) build() (err error) {
	c := t.cfg
	if t.folder, err = t.model.Folder(true); err != nil {
		return err
	}
	work := t.model.Size.Forward(c.BatchSize*len(t.pairs[0].Prompt), c.BatchSize).Update().Nominal
	if t.Network, err = t.model.Open(c.Seed, t.opts.Threads, work, t.opts.Progress); err != nil {
		return err
	}
	t.rec.Init = policy.InitHash(t.Policy)
	coefficients := model.NewAdamWOptions(c.AdamBetas, c.AdamEps, c.WeightDecay)
	t.critic, err = policy.NewRewardModel(t.Policy, coefficients, c.GradientCheckpointing)
	return err
}

func (t *rewardTrainer) close() {
	if t.critic != nil {
		_ = t.critic.Close() // frees memory only
	}
}

func (t *rewardTrainer) train(ctx context.Context) (rec *RewardModelRecord, err error) {
	c := t.cfg
	rec = &t.rec
	rec.Name, rec.ConfigHash, rec.Kernel, rec.Device = c.Name, config.Hash(c), t.model.Kernel(), t.Device.String()
	rec.Parameters, rec.Pairs, rec.EvalPairs, rec.Steps = t.critic.State().Params.Count(), len(t.pairs), len(t.eval), t.n
	rec.InputFiles, rec.PairsSHA256, rec.EvalPairsSHA256 = t.files, t.files[c.Pairs], t.files[c.EvalPairs]
	if rec.Initial, _, err = t.evaluate(); err != nil {
		return nil, err
	}
	rates := config.Stage{LearningRate: c.LearningRate, WarmupSteps: c.WarmupSteps, Steps: t.n,
		FinalLRRatio: c.FinalLRRatio}
	order := t.order()
	var recent []RewardMetrics // of the last 20 steps
	err = t.steps(ctx, "", t.n, c.EveryNSteps, func(step int, evaluate bool) (line RewardModelStep, _ bool, err error) {
		batch := t.batch(&order, step, c.BatchSize)
		line = RewardModelStep{Step: step, LearningRate: schedule(rates, step)}
		if line.RewardMetrics, err = t.accumulate(batch); err != nil {
			return line, false, err
		}
		if line.GradNorm, err = t.critic.Step(line.LearningRate, c.MaxGradNorm); err != nil {
			return line, false, err
		}
		if !model.IsFinite(line.Loss) || !model.IsFinite(line.GradNorm) {
			return line, false, fmt.Errorf("the reward model diverged at step %d: loss %v, gradient norm %v "+
				"(lower learning_rate)", step, line.Loss, line.GradNorm)
		}
		if recent = append(recent, line.RewardMetrics); len(recent) > 20 {
			recent = recent[1:]
		}
		if evaluate {
			line.Eval, rec.Calibration, err = t.evaluate()
			rec.Eval = line.Eval
		}
		return line, false, err
	})
	rec.Train = meanMetrics(recent)
	return rec, err
}

func (t *rewardTrainer) save(rec *RewardModelRecord) error {
	params := t.critic.State().Params
	if err := params.Pull(); err != nil {
		return err
	}
	rec.Weights = params.Hash()
	metadata := map[string]string{rundir.ConfigKey: rec.ConfigHash}
	if t.folder == nil {
		rec.Model = rundir.ModelFile
		c := &model.Checkpoint{Params: params, Metadata: metadata}
		return rundir.WriteAtomic(t.path(rundir.ModelFile), func(f *os.File) error { return c.WriteChecksummed(f) })
	}
	rec.Model = rundir.ModelFolder
	return rundir.ReplaceFolder(t.path(rundir.ModelFolder), func(dir string) error {
		return t.folder.Write(dir, params, metadata)
	})
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
				m.DValues[policy.LastValue(m, batch, 2*i)] = out.GradChosen[i]
				m.DValues[policy.LastValue(m, batch, 2*i+1)] = out.GradRejected[i]
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
		b.Chosen = append(b.Chosen, m.Values[policy.LastValue(m, batch, 2*i)])
		b.Rejected = append(b.Rejected, m.Values[policy.LastValue(m, batch, 2*i+1)])
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
		all.Chosen, all.Rejected = append(all.Chosen, b.Chosen...), append(all.Rejected, b.Rejected...)
		all.Margins = append(all.Margins, b.Margins...)
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
		if c > r {
			m.Accuracy += 1 / n
		}
		m.Margin += (c - r) / n
		m.MeanReward += (c + r) / (2 * n)
		m.MinReward, m.MaxReward = min(m.MinReward, c, r), max(m.MaxReward, c, r)
	}
	return m
}
