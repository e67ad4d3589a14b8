package train

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
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

// SFTObserver gets the events of a supervised run.
type SFTObserver interface {
	SFTStep(s SFTStep, steps int)
	Note(string)
}

// SFTOptions are what a supervised run needs besides its configuration.
type SFTOptions struct {
	Dir      string // the run's folder
	Threads  int    // of the CPU; 0 = GOMAXPROCS
	Observer SFTObserver
	Memory   budget.MemoryCheck // nil = no check
	Progress model.Progress
}

// sft is one supervised run.
type sft struct {
	cfg      config.SFT
	opts     SFTOptions
	problems *Problems
	val      []gsm8k.Problem // the first eval_size of the validation problems
	template gsm8k.Template
	end      int               // the token after an answer
	files    map[string]string // the SHA-256 of the files that the run reads, by path
	model    *policy.Model
	policy.Network
	learner model.Learner
	hold    *rundir.Hold
	log     *rundir.Log
}

// RunSFT trains through the stages of cfg and writes weights, record and log into opts.Dir. If a
// stage's sampled validation accuracy ends outside the accepted range, that is an error: accuracy
// fluctuates during the second stage, so a recipe checks its result.
func RunSFT(ctx context.Context, cfg config.SFT, opts SFTOptions) (*SFTRecord, error) {
	cfg = config.Resolve(cfg)
	opts.Threads = cmp.Or(opts.Threads, runtime.GOMAXPROCS(0))
	s := &sft{cfg: cfg, opts: opts}
	rec, err := s.finished()
	if rec != nil || err != nil {
		return rec, err
	}
	if s.files, err = (Files{}).sums(s.paths()); err != nil {
		return nil, err
	}
	if s.problems, err = LoadProblems(cfg.Data); err != nil {
		return nil, err
	}
	if len(s.problems.SFT) == 0 || len(s.problems.Val) == 0 {
		return nil, fmt.Errorf("load problems: %d to train on, %d to validate on: a run needs both",
			len(s.problems.SFT), len(s.problems.Val))
	}
	s.val = s.problems.Val[:min(len(s.problems.Val), cfg.EvalSize)]
	if s.model, err = policy.Resolve(cfg.Model, cfg.LoRA); err != nil {
		return nil, err
	}
	if s.template, err = s.model.Template(cfg.Data); err != nil {
		return nil, err
	}
	if s.end, err = s.model.Special(cfg.Data).AnswerEnd(); err != nil {
		return nil, config.Invalid(fmt.Errorf("encode the answers for %s (model.init): %w", cfg.Model.Init, err))
	}
	if err := s.checkContext(); err != nil {
		return nil, err
	}
	p := s.problems
	need := budget.SFT(s.model, cfg, s.template, p.SFT, s.val, opts.Threads, p.SFT, p.Train, p.Val, p.Test, p.Unseen)
	if err := opts.Memory.Pass(need); err != nil {
		return nil, err
	}
	s.Network, err = s.model.Open(cfg.Seed, opts.Threads, s.work(), opts.Progress)
	defer s.Network.Close()
	if err != nil {
		return nil, err
	}
	if s.learner, err = s.Policy.NewLearner(1, false); err != nil {
		return nil, err
	}
	defer s.learner.Close()
	if s.hold, err = rundir.Acquire(opts.Dir, rundir.KindSFT, s.sameRequest); err != nil {
		return nil, err
	}
	defer s.hold.Release()
	return s.run(ctx)
}

// work estimates the operations per step before the policy is made.
func (s *sft) work() (most float64) {
	for _, st := range s.cfg.Stages {
		tokens := st.BatchSize * config.Default().Rollout.SamplingMaxTokens
		most = max(most, s.model.Size.Forward(tokens, tokens).Update().Nominal)
	}
	return most
}

func (s *sft) run(ctx context.Context) (rec *SFTRecord, err error) {
	if s.log, err = startLog(s.opts.Dir, SFTLogFile, config.Marshal(s.cfg)); err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.log.Close(); err == nil {
			err = cerr
		}
	}()
	for _, note := range s.Device.Notes {
		s.opts.Observer.Note(note)
	}
	rec = &SFTRecord{
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
	s.opts.Progress.Do("writing the weights")
	if err := s.Params.Pull(); err != nil {
		return nil, err
	}
	rec.Weights = s.Params.Hash()
	c := model.Checkpoint{Params: s.Params, Metadata: map[string]string{configKey: rec.ConfigHash}}
	data, err := c.Encode()
	if err != nil {
		return nil, err
	}
	if err := s.hold.Check(); err != nil {
		return nil, err
	}
	if err := rundir.WriteFileAtomic(s.path(rundir.ModelFile), data); err != nil {
		return nil, err
	}
	return rec, rundir.WriteJSON(s.path(rundir.RecordFile), rec)
}

// sameRequest returns an error if the folder has a supervised run of another configuration.
func (s *sft) sameRequest() error {
	return sameRequest(s.opts.Dir, s.cfg, config.LoadSFT, SFTLogFile)
}

// finished returns the record of a finished run, or nil. It writes no files.
func (s *sft) finished() (*SFTRecord, error) {
	if err := rundir.Allow(s.opts.Dir, rundir.KindSFT, s.sameRequest); err != nil {
		return nil, err
	}
	return readRecord(s.opts.Dir, s.opts.Observer, func(rec *SFTRecord) error {
		if rec.ConfigHash != config.Hash(s.cfg) {
			return fmt.Errorf("%s is the record of another configuration", s.path(rundir.RecordFile))
		}
		if err := sameRecorded(rec.InputFiles, s.paths(), s.opts.Observer); err != nil {
			return err
		}
		return hasWeights(s.path(rundir.ModelFile), rec.Weights)
	})
}

// paths are the files that the run reads.
func (s *sft) paths() []string {
	return append(dataPaths(s.cfg.Data), policy.Files(s.cfg.Model.Init, s.cfg.Model.AdapterBase)...)
}

func (s *sft) path(name string) string { return filepath.Join(s.opts.Dir, name) }

func (s *sft) evaluate(split string, problems []gsm8k.Problem, step int) (rundir.Eval, error) {
	e := Evaluation{Seed: s.cfg.Seed, Template: s.template, Greedy: true, Progress: s.opts.Progress, Sampling: model.Sampling{
		Temperature: 1, TopP: 1, MaxTokens: s.cfg.EvalTokens}}
	sampler := s.Policy.NewSampler()
	defer sampler.Close()
	out, _, err := Evaluate(s.Policy, sampler, e, split, problems, step)
	return out, err
}
