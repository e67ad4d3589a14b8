// Package rundir defines a run's folder: the names of its files, the lines of its JSONL files, and
// atomic writing. Training writes through it; reports read through it.
//
//	config.yaml meta.json                 resolved configuration; version, revision, host, argv, times
//	run.log metrics.jsonl eval.jsonl samples.jsonl
//	checkpoint/                           safetensors + state, and seal.json
//	metrics.csv events.out.tfevents.0.grpo   for other programs: derived from the JSONL files
//	status.json result.json               result.json is written last: its presence means done
//	report.html *.png                     of a run outside of a sweep
//
// Everything that a report shows has a checksum, so a changed byte on the disk is found:
// result.json and status.json include their own, result.json also those of config.yaml and the
// JSONL files, and seal.json those of an unfinished run. meta.json and run.log have none: no result
// or report uses them, and people may edit them.
package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ConfigKey is the metadata of a checkpoint with the text of its configuration.
const ConfigKey = "grpo.config"

// ErrInterrupted reports a run that stopped because its context ended. The same
// command continues it.
var ErrInterrupted = errors.New("interrupted")

// ErrNothingSaved is ErrInterrupted before the first checkpoint.
var ErrNothingSaved = fmt.Errorf("%w before anything could be saved", ErrInterrupted)

// Names of the files in a run's folder.
const (
	ConfigFile    = "config.yaml"
	MetaFile      = "meta.json"
	LogFile       = "run.log"
	MetricsFile   = "metrics.jsonl"
	EvalFile      = "eval.jsonl"
	SamplesFile   = "samples.jsonl"
	CheckpointDir = "checkpoint"
	StatusFile    = "status.json"
	ResultFile    = "result.json"
	TableFile     = "metrics.csv" // what metrics.jsonl and eval.jsonl hold, as a table
	// EventsFile is for TensorBoard. The name is fixed, so that a continued run replaces the file.
	// TensorBoard looks for ".tfevents.".
	EventsFile     = "events.out.tfevents.0.grpo"
	ValidationPlot = "validation_reward.png"
	TrainingPlot   = "training.png"
	// LearnedPlot is of runs with a reward model.
	LearnedPlot = "learned_vs_true_reward.png"
	// PassAtKPlot is of runs that sample a problem several times.
	PassAtKPlot = "pass_at_k.png"
)

// Names in [CheckpointDir]: the newest checkpoint and the best weights, which are a file, or the folder of a Llama
// or Qwen network.
const (
	LastFile   = "last.safetensors"
	BestFile   = "best.safetensors"
	BestFolder = "best"
)

// Names in the folder of supervised training or of a reward model, beside [ConfigFile]. The weights are ModelFile,
// or ModelFolder for a reward model that is a Llama or Qwen network.
const (
	ModelFile   = "model.safetensors"
	ModelFolder = "model"
	RecordFile  = "record.json"
)

// CheckpointIn is the path of the "last" or "best" checkpoint in a run's folder: a file, or for the
// best of a Llama or Qwen network a folder.
func CheckpointIn(run, which string) string {
	path := filepath.Join(run, CheckpointDir, which)
	if info, err := os.Lstat(path); which == BestFolder && err == nil && info.IsDir() {
		return path
	}
	return path + ".safetensors"
}

// Splits, as written in [Eval] and [Sample].
const (
	SplitTrain  = "train"
	SplitVal    = "val"
	SplitUnseen = "unseen" // facts that no stage of training saw
	SplitTest   = "test"
	// SplitFinal are the validation problems of the last evaluation where these are more, or are
	// sampled more often, than those of the curve (eval.final_size, eval.final_samples).
	SplitFinal = "val_final"
)

// Decoding modes, as written in [Sample].
const (
	DecodingSampled = "sampled"
	DecodingGreedy  = "greedy"
)

// States of a run, as written in [Status]; a [Result] is done or diverged.
const (
	StateRunning     = "running"
	StateDone        = "done"
	StateDiverged    = "diverged"
	StateInterrupted = "interrupted"
	StateFailed      = "failed"
)

// Stat is a mean and a sample standard deviation.
type Stat struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
}

// Metrics is one line of metrics.jsonl: one step (one rollout batch). Pointers are null where the
// value does not exist (the mean length of correct completions if there is none; the clip fraction
// on-policy).
type Metrics struct {
	Step    int `json:"step"`    // 1-based
	Updates int `json:"updates"` // optimizer updates made so far

	Loss         float64  `json:"loss"`          // mean over the step's updates
	GradNorm     float64  `json:"grad_norm"`     // before clipping, mean over updates
	Entropy      float64  `json:"entropy"`       // mean over the tokens of the loss, nats; null if there are none
	ClipFraction *float64 `json:"clip_fraction"` // null on-policy
	LearningRate float64  `json:"learning_rate"` // of the step's last update

	// Null (and left out) if not applicable: RatioMean and ApproxKL (k3, to the policy at sampling)
	// on-policy, ReferenceKL without a reference policy in the loss, EntropyCoef unless it adapts,
	// ValueLoss without a critic.
	RatioMean   *float64 `json:"ratio_mean,omitempty"`
	ApproxKL    *float64 `json:"approx_kl,omitempty"`
	ReferenceKL *float64 `json:"reference_kl,omitempty"`
	EntropyCoef *float64 `json:"entropy_coef,omitempty"`
	ValueLoss   *float64 `json:"value_loss,omitempty"`
	// SamplingRounds is above 1 if dynamic sampling needed more rounds.
	SamplingRounds int `json:"sampling_rounds,omitempty"`

	Reward       Stat            `json:"reward"`        // weighted sum, as trained on
	AnswerReward float64         `json:"answer_reward"` // mean, whatever the training reward
	FormatReward float64         `json:"format_reward"`
	Rewards      map[string]Stat `json:"rewards"` // each configured function by name
	// Columns are the numbers that custom reward functions log, by function and column: "judge.words".
	Columns map[string]Stat `json:"columns,omitempty"`

	// Preference, of dpo alone, has the number of pairs and means over them, under TRL's names:
	// "pairs", "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
	// "logps/chosen", "logps/rejected" (nats per completion); also "groups_without_pair" and
	// "identical_pairs", which are not trained on. With pairs of a file there is no rollout: the
	// rewards of the verifier are null.
	Preference map[string]float64 `json:"preference,omitempty"`

	// Noise, with reward.noise alone, has the verifier's verdicts before and after its errors:
	// "true_answer_reward" and "noisy_answer_reward" are means, "false_positives" and "false_negatives"
	// numbers of completions, "frac_true_reward_zero_std" is the share of zero-variance groups without
	// errors.
	Noise map[string]float64 `json:"noise,omitempty"`

	FracRewardZeroStd float64  `json:"frac_reward_zero_std"` // share of zero-variance groups, of Reward
	Length            float64  `json:"completion_length"`
	LengthRight       *float64 `json:"completion_length_right"`
	LengthWrong       *float64 `json:"completion_length_wrong"`
	FracTruncated     float64  `json:"frac_truncated"`
	// KeptMass is the mean over tokens of the probability, over the whole vocabulary, of those that could
	// be sampled at its place: 1 minus the probability that top-p, top-k and the minimum length cut off.
	// It is absent if they cut nothing off, and where a GPU chooses the tokens.
	KeptMass *float64 `json:"kept_mass,omitempty"`
	// SamplerDiff is the largest |log-prob of the sampler - log-prob of the learner| of the tokens in
	// the first update of the step, in nats: 0 on the CPU; null if all completions were skipped.
	SamplerDiff *float64 `json:"sampler_logprob_max_diff"`

	// Comparisons of runs bit by bit leave out Time.
	Time Timing `json:"time"`
}

// Timing holds seconds by phase and throughput.
type Timing struct {
	RolloutS   float64 `json:"rollout_s"`
	RewardS    float64 `json:"reward_s"` // and advantages, reference model and teacher
	UpdateS    float64 `json:"update_s"`
	EvalS      float64 `json:"eval_s"`
	TokensPerS float64 `json:"tokens_per_s"` // sampled completion tokens over rollout and update time
	ElapsedS   float64 `json:"elapsed_s"`
}

// Counts are the outcomes of decoding a split: of N completions. CorrectNum + ErrorNum and FormattedRight +
// FormattedWrong + Unformatted both equal N.
type Counts struct {
	N              int     `json:"n"`
	CorrectNum     int     `json:"correct_num"`
	ErrorNum       int     `json:"error_num"`
	FormattedRight int     `json:"formatted_right"`
	FormattedWrong int     `json:"formatted_wrong"`
	Unformatted    int     `json:"unformatted"`
	Truncated      int     `json:"truncated"`
	AnswerReward   float64 `json:"answer_reward"` // CorrectNum / N
	// Score is the mean value of eval.reward, whose values of 1 are right; absent without.
	Score        *float64 `json:"score,omitempty"`
	FormatReward float64  `json:"format_reward"`
	Length       float64  `json:"completion_length"`
	// LengthRight and LengthWrong are null when there is no such completion.
	LengthRight *float64 `json:"completion_length_right"`
	LengthWrong *float64 `json:"completion_length_wrong"`
}

// Better reports whether more completions are right than in other counts, or as many with a higher score.
func (c Counts) Better(d Counts) bool {
	if c.AnswerReward == d.AnswerReward && c.Score != nil && d.Score != nil {
		return *c.Score > *d.Score
	}
	return c.AnswerReward > d.AnswerReward
}

// Eval is one line of eval.jsonl: one split after one step.
type Eval struct {
	Step    int     `json:"step"`  // 0 = before training
	Split   string  `json:"split"` // "val", "unseen" (facts no stage saw), "test", or another set's name
	Sampled Counts  `json:"sampled"`
	Greedy  *Counts `json:"greedy"` // null when greedy decoding is off
	// MajorityAnswer is the most frequent gold answer of the split, MajorityBaseline the accuracy
	// of always giving it. The answer is empty where there is no such baseline: with eval.reward, for
	// open prompts and for answers that are expressions.
	MajorityAnswer   string  `json:"majority_answer"`
	MajorityBaseline float64 `json:"majority_baseline"`
	// Samples is the number of sampled completions of each problem; 0 means 1. Greedy has one.
	Samples int `json:"samples,omitempty"`
	// Right has right or wrong of each sampled completion of the validation and test problems: a
	// string for each sample of a problem, in hex. Problem i is bit 3 - i%4 of digit i/4, counted from
	// the least significant one; the last digit is padded with 0. RightGreedy is the same of greedy decoding, with
	// one string. Earlier versions have none.
	Right       []string `json:"right,omitempty"`
	RightGreedy []string `json:"right_greedy,omitempty"`
	// PassAt and MajorityAt are pass@k and maj@k for rising k, where problems have several samples; an
	// evaluation that was interrupted and earlier versions have none.
	PassAt     []AtK `json:"pass_at,omitempty"`
	MajorityAt []AtK `json:"majority_at,omitempty"`
	// Preference are the metrics of held-out pairs as in [Metrics], with their "loss"; of the
	// validation split of a dpo run that has such pairs.
	Preference map[string]float64 `json:"preference,omitempty"`
}

// AtK is pass@k or maj@k: the mean over the problems of an evaluation, with its 95% interval.
type AtK struct {
	K    int     `json:"k"`
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
}

// Sample is one line of samples.jsonl.
type Sample struct {
	Step         int     `json:"step"`
	Split        string  `json:"split"` // "train" or an evaluation split
	Decoding     string  `json:"decoding"`
	Problem      string  `json:"problem"` // its ID
	Prompt       string  `json:"prompt"`
	Completion   string  `json:"completion"`
	Gold         string  `json:"gold"`
	Ended        bool    `json:"ended"` // by <eos>, not by the token limit
	Reward       float64 `json:"reward"`
	AnswerReward float64 `json:"answer_reward"`
	FormatReward float64 `json:"format_reward"`
	// Length is the number of tokens; 0 in files of earlier versions, which do not have it.
	Length int `json:"completion_length,omitempty"`
	// Columns are what custom reward functions log about a training completion, by function and
	// column: numbers and strings.
	Columns map[string]any `json:"columns,omitempty"`
}

// Right reports whether the answer is right.
func (s Sample) Right() bool { return s.AnswerReward > 0 }

// Why says why the answer is wrong: "cut" (the limit of tokens ended the completion), "format" (it
// has no answer in the format) or "answer" (the answer is another); empty if it is right.
func (s Sample) Why() string {
	switch {
	case s.Right():
		return ""
	case !s.Ended:
		return "cut"
	case s.FormatReward == 0:
		return "format"
	}
	return "answer"
}

// Meta is meta.json: how the run was made. The results do not depend on it.
type Meta struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"go_version"`
	Host      string `json:"host"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel"` // arithmetic kernel, e.g. "avx2"
	Threads   int    `json:"threads"`
	// Device is the GPU and its precision, absent on the CPU. Moves are the changes of device on
	// continuing.
	Device     string   `json:"device,omitempty"`
	Moves      []string `json:"moves,omitempty"`
	Argv       []string `json:"argv"`
	Started    string   `json:"started"`             // RFC 3339; of the last process that trained
	ElapsedS   float64  `json:"elapsed_s,omitempty"` // seconds of training before Started, if the run was continued
	ConfigHash string   `json:"config_hash"`
	// InitHash is the SHA-256 of the initial weights, ProblemsHash of the problems of all splits.
	// Runs of the first version have no ProblemsHash.
	InitHash string `json:"init_hash"`
	// NetworkHash is the SHA-256 of a Llama or Qwen network's settings, end tokens and tokenizer.
	NetworkHash  string `json:"network_hash,omitempty"`
	ProblemsHash string `json:"problems_hash,omitempty"`
	// RewardFiles has the SHA-256 of the files that the commands of custom reward functions name, by
	// path.
	RewardFiles map[string]string `json:"reward_files,omitempty"`
	// PairsHash is the SHA-256 of the tokens of the preference pairs that are read from files.
	PairsHash string `json:"pairs_hash,omitempty"`
	// InputFiles has the SHA-256 of the files that the run read, except those in RewardFiles, by path:
	// models, problems, worked examples, pairs, the teacher. Earlier versions have none.
	InputFiles map[string]string `json:"input_files,omitempty"`
}

// Status is status.json: the current state of the run, rewritten as it progresses.
type Status struct {
	State   string  `json:"state"` // "running", "done", "diverged", "interrupted", "failed"
	Step    int     `json:"step"`
	Steps   int     `json:"steps"`
	PID     int     `json:"pid"`
	Updated string  `json:"updated"` // RFC 3339
	Reward  float64 `json:"validation_reward"`
	Error   string  `json:"error,omitempty"`
}

// SetResult is a run's evaluations on a set of problems that is read from a file.
type SetResult struct {
	Name    string `json:"name"`    // the split of its evaluations
	Initial Eval   `json:"initial"` // before training
	Final   Eval   `json:"final"`   // after the last step
}

// Result is result.json, written last.
type Result struct {
	Status string `json:"status"` // "done" or "diverged"
	// DivergedAt is the step at which the run diverged, with the reason.
	DivergedAt     *int   `json:"diverged_at"`
	DivergedReason string `json:"diverged_reason,omitempty"`
	// Warnings explain why a run did not learn; empty if it did.
	Warnings []string `json:"warnings"`

	Name         string  `json:"name"`
	Seed         uint64  `json:"seed"`
	LearningRate float64 `json:"learning_rate"`
	Steps        int     `json:"steps"`
	Updates      int     `json:"updates"`
	Parameters   int     `json:"parameters"`

	// Initial and Final are the validation before training and after the last step, over the same
	// problems: those of [SplitFinal] where they are evaluated, else those of [SplitVal].
	Initial  Eval  `json:"initial"`
	Final    Eval  `json:"final"`
	BestStep int   `json:"best_step"` // best sampled validation reward
	Best     Eval  `json:"best"`
	Unseen   *Eval `json:"unseen"` // facts that no stage saw, after the last step
	Test     *Eval `json:"test"`   // once, after the last step
	// Sets are the other sets of problems (eval.sets), in the configuration's order.
	Sets []SetResult `json:"sets,omitempty"`

	WeightsSHA256 string  `json:"weights_sha256"`
	WallS         float64 `json:"wall_s"`

	// Checks counts the invariant checks that passed during the run.
	Checks int `json:"checks,omitempty"`
	// Files has the SHA-256 of config.yaml and of the JSONL files when the result was written.
	// Results of earlier versions have none.
	Files map[string]string `json:"files,omitempty"`
	// The checksum of the result itself comes last: see [Result.MarshalJSON].
}
