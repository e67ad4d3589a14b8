package train

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strconv"
	"strings"

	"grpo/internal/cores"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/inputfiles"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/reward"
	"grpo/pkg/rundir"
)

// This file hashes the inputs of a run, and compares them with those of a checkpoint, a finished run or another
// run of a sweep: see package inputfiles.

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

// hash fills in the hashes of a run's inputs, except the teacher's.
func (in *inputs) hash(c config.Config, d *trainData, p model.Policy) (err error) {
	in.Problems, in.Pairs = hashProblems(d.problems, d.template), d.hashPairs()
	in.Init, in.Network = policy.InitHash(p), policy.NetworkHash(p)
	if len(c.Reward.Custom) > 0 {
		in.Fields = hashFields(d.problems.Train)
	}
	in.Rewards, err = rewardFiles(c.Reward)
	return err
}

// pathsOf are the files that a run reads, except those of its reward functions ([rewardFiles]).
func pathsOf(c config.Config) []string {
	out := append(inputfiles.DataPaths(c.Data), policy.Files(c.Model.Init, c.Model.AdapterBase)...)
	for _, s := range c.Eval.SetFiles() {
		out = append(out, s.Path)
	}
	if c.Algorithm.Type == "dpo" {
		out = append(out, c.Algorithm.DPO.PairsFile, c.Algorithm.DPO.EvalPairsFile)
	}
	return append(out, policy.Files(c.Algorithm.Teacher, "")...)
}

// rewardFiles returns the SHA-256 of the files that the commands of a configuration name and of its
// reward models; nil if there are none.
func rewardFiles(r config.Reward) (map[string]string, error) {
	var out map[string]string
	for _, c := range r.Custom {
		files, err := reward.HashFiles(c.Command)
		if c.Model != "" {
			files, err = policy.HashRewardModel(c.Model)
		}
		if err != nil {
			return nil, config.Invalid(err)
		}
		if out == nil && len(files) > 0 {
			out = map[string]string{}
		}
		maps.Copy(out, files)
	}
	return out, nil
}

// hashFields is the SHA-256 of the other fields of problems; "" if they have none.
func hashFields(problems []gsm8k.Problem) string {
	h, some := sha256.New(), false
	for _, p := range problems {
		fmt.Fprintln(h, p.Fields) // a line of JSON
		some = some || p.Fields != ""
	}
	if !some {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
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
	if len(t.Examples) > 0 || t.Name == "chat" {
		write(t.Prefix)
		write(t.Suffix)
	}
	return hex.EncodeToString(h.Sum(nil))
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

// differentFiles describes the files of reward functions that have changed.
func differentFiles(then, now map[string]string) (out []string) {
	changed, gone := inputfiles.Compare(then, now)
	for _, path := range changed {
		out = append(out, path+", a file of a reward function")
	}
	for _, path := range gone {
		out = append(out, path+", a file of a reward function, which is not there")
	}
	return out
}

// ChangedFiles compares the files that a run was made with, as meta has them, with those of now. A folder of
// an earlier version, which does not record them, is compared by what it has.
func ChangedFiles(f inputfiles.Hashes, c config.Config, meta *rundir.Meta) (changed, gone []string, err error) {
	if meta == nil {
		return nil, nil, nil
	}
	now, err := f.Sums(pathsOf(c))
	if err != nil {
		return nil, nil, err
	}
	if meta.InputFiles == nil && now != nil && c.Model.Device == "cpu" {
		changed, err = changedInputs(c, meta)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		return changed, nil, err
	}
	if meta.InputFiles == nil {
		return nil, nil, nil
	}
	changed, gone = inputfiles.Compare(meta.InputFiles, now)
	return changed, gone, nil
}

// changedInputs describes the inputs in which a run of this configuration would differ from the hashes in
// meta. It leaves out the teacher and the problems' other fields, which meta does not have.
func changedInputs(c config.Config, meta *rundir.Meta) ([]string, error) {
	m, err := policy.Of(c)
	if err != nil {
		return nil, err
	}
	var d trainData
	if d.problems, err = dataset.Of(c); err != nil {
		return nil, err
	}
	if d.template, err = m.Template(c.Data); err != nil {
		return nil, err
	}
	if err := d.readPairs(m, c); err != nil {
		return nil, err
	}
	n, err := m.Open(c.Seed, cores.Threads(), 0, nil)
	defer n.Close()
	if err != nil {
		return nil, err
	}
	var now inputs
	if err := now.hash(c, &d, n.Policy); err != nil {
		return nil, err
	}
	return inputs{
		Problems: cmp.Or(meta.ProblemsHash, now.Problems), // the first version has none
		Init:     meta.InitHash, Network: meta.NetworkHash, Rewards: meta.RewardFiles,
		Fields: now.Fields, Pairs: meta.PairsHash,
	}.differ(now), nil
}

// SameInputs returns an error unless a run of this configuration on the CPU would have the kernel and the
// inputs that meta names: a configuration's hash does not cover the contents of the files that it names.
func SameInputs(c config.Config, meta *rundir.Meta) error {
	m, err := policy.Of(c)
	if err != nil {
		return err
	}
	if k := m.Kernel(); !kernel.SameBits(meta.Kernel, k) {
		return fmt.Errorf("it was made with kernel %s, this is %s", meta.Kernel, k)
	}
	changed, err := changedInputs(c, meta)
	if err == nil && len(changed) == 0 {
		changed, _, err = ChangedFiles(inputfiles.Hashes{}, c, meta)
	}
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("the files that its configuration names had other contents: %s", strings.Join(changed, ", "))
	}
	return nil
}

// SameRewards returns an error unless the files of reward functions, which commands name or reward models
// consist of, are those that a finished run was made with. One that is not there any more can't be compared.
func SameRewards(cfg config.Config, meta *rundir.Meta) error {
	if len(cfg.Reward.Custom) == 0 || meta == nil {
		return nil
	}
	now, err := rewardFiles(cfg.Reward)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	then := maps.Clone(meta.RewardFiles)
	maps.DeleteFunc(then, func(path, _ string) bool { return now[path] == "" })
	if changed := differentFiles(then, now); len(changed) > 0 {
		return madeWithOther(changed[:1])
	}
	return nil
}

// sameFiles returns an error unless the files that a finished run was made with have the same contents
// now. One that is not there any more can't be compared: that is a note.
func (t *trainer) sameFiles(meta *rundir.Meta) error {
	if err := SameRewards(t.cfg, meta); err != nil {
		return err
	}
	changed, gone, err := ChangedFiles(inputfiles.Hashes{}, t.cfg, meta)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return madeWithOther(changed)
	}
	inputfiles.NoteGone(t.opts.Observer.Note, gone)
	return nil
}

// madeWithOther is the error about a finished run whose files have changed.
func madeWithOther(changed []string) error {
	return fmt.Errorf("%w: the run is done, but it was made with other contents of %s (restore that, or "+
		"start over in a new folder with --fresh)", config.ErrConfig, strings.Join(changed, ", "))
}

// Others are the files that other runs of a sweep were made with.
type Others struct {
	Run  string // for errors
	Meta *rundir.Meta
	Arm  bool // it is of the same arm: it reads the same files
}

// sameAs returns an error if a run of the same sweep was made with other contents of the files that this
// run reads: the two could not be compared.
func (t *trainer) sameAs(o Others) error {
	then, now := maps.Clone(o.Meta.InputFiles), maps.Clone(t.files)
	if then == nil || now == nil {
		then, now = map[string]string{}, map[string]string{}
	}
	maps.Copy(then, o.Meta.RewardFiles)
	maps.Copy(now, t.inputs.Rewards)
	if !o.Arm { // another arm may read other files
		maps.DeleteFunc(then, func(path, _ string) bool { return now[path] == "" })
		maps.DeleteFunc(now, func(path, _ string) bool { return then[path] == "" })
	}
	if changed, gone := inputfiles.Compare(then, now); len(changed)+len(gone) > 0 {
		return fmt.Errorf("%w: the sweep's run %s was made with other contents of %s, and its runs would not be "+
			"comparable (restore that, or start over in a new folder with --fresh)",
			config.ErrConfig, o.Run, append(changed, gone...)[0])
	}
	return nil
}
