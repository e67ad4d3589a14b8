package train

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// state is the part of a checkpoint that is neither weights nor moments.
type state struct {
	Step    int `json:"step"` // steps made
	Updates int `json:"updates"`
	// Checkpoints are written between steps, so these two are 0; other values are another format.
	Epoch      int `json:"epoch"`
	MicroBatch int `json:"micro_batch"`
	// Seed keys every random stream, together with purpose, step, prompt, sample
	// and token. Drawn is the data cursor: the problems drawn so far.
	Seed    uint64  `json:"seed"`
	Drawn   int     `json:"drawn"`
	Inputs  inputs  `json:"inputs"`
	Elapsed float64 `json:"elapsed_s"` // of earlier processes

	// The adaptive entropy coefficient, and its value for the next update.
	EntropyCoef  float64 `json:"entropy_coef"`
	EntropyApply float64 `json:"entropy_apply"`

	Initial rundir.Eval  `json:"initial"`
	Final   rundir.Eval  `json:"final"`
	Best    rundir.Eval  `json:"best"`
	Unseen  *rundir.Eval `json:"unseen"`
	Test    *rundir.Eval `json:"test"`
	// Sets are the evaluations on the sets of files, in the order of eval.sets.
	Sets []rundir.SetResult `json:"sets,omitempty"`

	Signal      int `json:"signal"` // number of informative groups
	Groups      int `json:"groups"`
	Right       int `json:"right"` // number of correct training completions
	Completions int `json:"completions"`
	// WithoutPairs counts the steps of dpo that made no update.
	WithoutPairs int `json:"steps_without_pairs,omitempty"`
	Checks       int `json:"checks"` // number of passed checks

	DivergedAt     *int   `json:"diverged_at"`
	DivergedReason string `json:"diverged_reason"`
	Stopped        bool   `json:"stopped"` // numbers are no longer finite: no next step

	Moves []string `json:"moves,omitempty"` // device changes
	// Logs are the JSONL files, by name, as of this checkpoint: later lines are cut so that none is
	// written twice, and earlier lines must be unchanged.
	Logs map[string]rundir.Prefix `json:"logs"`
}

// count adds the outcomes of a rollout.
func (s *state) count(r *rollout) {
	s.Groups += r.groups()
	s.Signal += r.groups() - r.zeroAdvantage
	s.Completions += len(r.completions)
	for _, v := range r.verdicts {
		if v.Right {
			s.Right++
		}
	}
}

// inputs are hashes of the files that a run reads: a file can change between an interruption and
// the continuation.
type inputs struct {
	Problems string `json:"problems"`          // every split except the supervised one, and the text of chats
	Init     string `json:"init"`              // the initial weights
	Teacher  string `json:"teacher,omitempty"` // empty without
	// Network and TeacherNetwork are the networks and tokenizers of Llama and Qwen checkpoints, see
	// [networkHash]. Checkpoints of earlier versions lack them.
	Network        string `json:"network,omitempty"`
	TeacherNetwork string `json:"teacher_network,omitempty"`
	// Rewards are the files that the commands of reward functions name, by path; nil without.
	Rewards map[string]string `json:"rewards,omitempty"`
	// Fields is the hash of the other fields of the training problems, which custom reward functions
	// can read; empty without.
	Fields string `json:"fields,omitempty"`
	Pairs  string `json:"pairs,omitempty"` // the tokens of the preference pairs; empty without
}

// differ describes the inputs that have changed.
func (in inputs) differ(now inputs) []string {
	in.Network, in.TeacherNetwork = cmp.Or(in.Network, now.Network), cmp.Or(in.TeacherNetwork, now.TeacherNetwork)
	var out []string
	for _, i := range []struct{ then, now, what string }{
		{in.Problems, now.Problems, "the problems or the prompts (data.*)"},
		{in.Init, now.Init, "the initial weights (model.init)"},
		{in.Network, now.Network, "the network's settings, its end tokens (newer versions know more of them: see " +
			"\"grpo data show\") or its tokenizer (model.init)"},
		{in.Teacher, now.Teacher, "the teacher's weights (algorithm.teacher)"},
		{in.TeacherNetwork, now.TeacherNetwork, "the teacher's settings or tokenizer (algorithm.teacher)"},
		{in.Fields, now.Fields, "the other fields of the problems (data.*)"},
		{in.Pairs, now.Pairs, "the preference pairs (algorithm.dpo.pairs_file, eval_pairs_file)"},
	} {
		if i.then != i.now {
			out = append(out, i.what)
		}
	}
	return append(out, differentFiles(in.Rewards, now.Rewards)...)
}

// SameInputs returns an error unless a run of this configuration on the CPU would have the kernel, the
// problems and the initial weights that meta names: a configuration's hash does not cover the contents
// of the files that it names. The teacher is not compared, because meta does not name its weights.
func SameInputs(c config.Config, meta *rundir.Meta) error {
	m, err := policy.Of(c)
	if err != nil {
		return err
	}
	if k := m.Kernel(); !kernel.SameBits(meta.Kernel, k) {
		return fmt.Errorf("it was made with kernel %s, this is %s", meta.Kernel, k)
	}
	changed, err := changedInputs(c, meta)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("the files that its configuration names had other contents: %s", strings.Join(changed, ", "))
	}
	return nil
}

// hashProblems is the SHA-256 of all problems that a run trains or is evaluated on, and of the text
// around them if it comes from files (a chat template, worked examples). Each string is
// hashed after its length, so different lists never give the same bytes.
func hashProblems(p *dataset.Splits, t gsm8k.Template) string {
	h := sha256.New()
	write := func(s string) {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
		io.WriteString(h, s)
	}
	splits := [][]gsm8k.Problem{p.Train}
	for _, s := range p.Evaluated() {
		splits = append(splits, s.Problems)
	}
	for _, split := range splits {
		io.WriteString(h, strconv.Itoa(len(split))+"\n")
		for _, x := range split {
			for _, s := range []string{x.ID, x.Question, x.Answer, x.Gold} {
				write(s)
			}
		}
	}
	if t.Name == "chat" {
		write(t.Prefix)
		write(t.Suffix)
	}
	return hex.EncodeToString(h.Sum(nil))
}
