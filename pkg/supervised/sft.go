package supervised

import (
	"context"
	"fmt"
	"os"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/inputfiles"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// SFTLogFile is the log in a supervised run's folder.
const SFTLogFile = "sft.jsonl"

// SFTRecord describes the result of a recipe of supervised stages. It has no times, so the same
// recipe gives the same record.
type SFTRecord struct {
	Name       string `json:"name"`
	ConfigHash string `json:"config_hash"`
	Kernel     string `json:"kernel"`
	Device     string `json:"device,omitempty"` // the GPU and its precision; empty on the CPU
	Parameters int    `json:"parameters"`
	Questions  int    `json:"questions"`            // the corpora draw from these
	Overlap    int    `json:"overlap_with_rollout"` // of these, GRPO's training prompts
	// Initial is the validation before the first stage, if the weights are not random.
	Initial *rundir.Eval  `json:"initial,omitempty"`
	Stages  []StageRecord `json:"stages"`
	Weights string        `json:"weights_sha256"` // Params.Hash of the result
	// InputFiles has the SHA-256 of the files that the run read, by path. Earlier versions have none.
	InputFiles map[string]string `json:"input_files,omitempty"`
}

// StageRecord is one stage of an SFTRecord.
type StageRecord struct {
	Name         string  `json:"name"`
	Corpus       string  `json:"corpus"`
	Examples     int     `json:"examples"`
	AnswerReward float64 `json:"corpus_answer_reward"` // share of correct completions
	Steps        int     `json:"steps"`
	StoppedEarly bool    `json:"stopped_early"`
	Loss         float64 `json:"loss"` // weighted nats per token, mean of the last 100 steps
	// With early stopping: the step of the weights that the stage returned to, and their loss on the
	// validation problems.
	BestStep       int      `json:"best_step,omitempty"`
	ValidationLoss *float64 `json:"validation_loss,omitempty"`
	// Cut examples were longer than max_length; Dropped ones had no token of the loss left.
	Cut        int         `json:"examples_cut,omitempty"`
	Dropped    int         `json:"examples_dropped,omitempty"`
	Validation rundir.Eval `json:"validation"`
	Unseen     rundir.Eval `json:"unseen"`
}

// SFTStep is one line of sft.jsonl.
type SFTStep struct {
	Stage        string       `json:"stage"`
	Step         int          `json:"step"`
	Loss         float64      `json:"loss"`      // weighted nats per token
	GradNorm     float64      `json:"grad_norm"` // before clipping
	LearningRate float64      `json:"learning_rate"`
	Validation   *rundir.Eval `json:"validation"` // nil between evaluations
	// ValidationLoss is that of an evaluation with early stopping, in weighted nats per token.
	ValidationLoss *float64 `json:"validation_loss,omitempty"`
}

// sft is one supervised run.
type sft struct {
	supervised[config.SFT, SFTStep, SFTRecord]
	problems *dataset.Splits
	val      []gsm8k.Problem // the first eval_size of the validation problems
	template gsm8k.Template
	end      int // the token after an answer
	learner  model.Learner
}

// RunSFT trains through the stages of cfg and writes weights, record and log into opts.Dir. If a
// stage's sampled validation accuracy ends outside the accepted range, that is an error: accuracy
// fluctuates during the second stage, so a recipe checks its result.
func RunSFT(ctx context.Context, cfg config.SFT, opts Options[SFTStep]) (*SFTRecord, error) {
	s := &sft{}
	s.cfg, s.opts, s.kind, s.log, s.load = config.Resolve(cfg), opts, rundir.KindSFT, SFTLogFile, config.LoadSFT
	return s.run(ctx, s)
}

func (s *sft) paths() []string {
	return append(inputfiles.DataPaths(s.cfg.Data), policy.Files(s.cfg.Model.Init, s.cfg.Model.AdapterBase)...)
}

func (s *sft) same(rec *SFTRecord) error {
	if err := s.sameInputs(rec.ConfigHash, rec.InputFiles, s.paths()); err != nil {
		return err
	}
	return hasWeights(s.path(rundir.ModelFile), rec.Weights)
}

func (s *sft) read() (need budget.Memory, err error) {
	c := s.cfg
	if s.problems, err = dataset.Load(c.Data, c.Answers()); err != nil {
		return need, err
	}
	p := s.problems
	if len(p.SFT) == 0 || len(p.Val) == 0 {
		return need, fmt.Errorf("load problems: %d to train on, %d to validate on: a run needs both", len(p.SFT), len(p.Val))
	}
	for _, note := range p.Notes {
		s.opts.Note(note)
	}
	s.val = p.Val[:min(len(p.Val), c.EvalSize)]
	if s.model, err = policy.Resolve(c.Model, c.LoRA); err != nil {
		return need, err
	}
	if s.template, err = s.model.Template(c.Data); err != nil {
		return need, err
	}
	if s.end, err = s.model.Special(c.Data).AnswerEnd(); err != nil {
		return need, config.Invalid(fmt.Errorf("encode the answers for %s (model.init): %w", c.Model.Init, err))
	}
	if err := s.checkContext(); err != nil {
		return need, err
	}
	stages := make([]budget.StageBatches, len(c.Stages))
	for i := range stages {
		if stages[i], err = s.batches(i); err != nil {
			return need, err
		}
	}
	return budget.SFT(s.model, c, s.template, stages, s.val, s.opts.Threads, p.SFT, p.Train, p.Val, p.Test, p.Unseen), nil
}

func (s *sft) build() (err error) {
	var most float64 // operations per step
	for _, st := range s.cfg.Stages {
		tokens := st.BatchSize * config.Default().Rollout.SamplingMaxTokens
		most = max(most, s.model.Size.Forward(tokens, tokens).Update().Nominal)
	}
	if s.Network, err = s.model.Open(s.cfg.Seed, s.opts.Threads, most, s.opts.Progress); err != nil {
		return err
	}
	s.learner, err = s.Policy.NewLearner(1, false)
	return err
}

func (s *sft) close() {
	if s.learner != nil {
		_ = s.learner.Close() // frees memory only
	}
}

func (s *sft) train(ctx context.Context) (*SFTRecord, error) {
	rec := &SFTRecord{
		Name: s.cfg.Name, ConfigHash: config.Hash(s.cfg), Kernel: s.model.Kernel(), Device: s.Device.String(),
		Parameters: s.Params.Count(), Questions: len(s.problems.SFT), Overlap: s.problems.Overlap,
		InputFiles: s.files,
	}
	if s.cfg.Model.Init != "random" {
		initial, err := s.evaluate(rundir.SplitVal, s.val, 0)
		if err != nil {
			return nil, err
		}
		rec.Initial = &initial
	}
	for i := range s.cfg.Stages {
		st, err := s.stage(ctx, i)
		if err != nil {
			return nil, err
		}
		rec.Stages = append(rec.Stages, *st)
	}
	return rec, nil
}

func (s *sft) save(rec *SFTRecord) error {
	if err := s.Params.Pull(); err != nil {
		return err
	}
	rec.Weights = s.Params.Hash()
	c := model.Checkpoint{Params: s.Params, Metadata: map[string]string{rundir.ConfigKey: rec.ConfigHash}}
	return rundir.WriteAtomic(s.path(rundir.ModelFile), func(f *os.File) error { return c.Write(f) })
}

func (s *sft) evaluate(split string, problems []gsm8k.Problem, step int) (rundir.Eval, error) {
	e := infer.Evaluation{Seed: s.cfg.Seed, Template: s.template, Answers: s.cfg.Answers(), Greedy: true,
		Progress: s.opts.Progress, Sampling: model.Sampling{Temperature: 1, TopP: 1, MaxTokens: s.cfg.EvalTokens}}
	sampler := s.Policy.NewSampler()
	defer sampler.Close()
	out, _, err := infer.Evaluate(s.Policy, sampler, e, split, problems, step)
	return out, err
}
