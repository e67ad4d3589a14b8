package train

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/inputfiles"
	"grpo/pkg/policy"
	"grpo/pkg/reward"
	"grpo/pkg/rundir"
)

// This file compares the files that a run reads with those that it, or another run, was made with: see
// package inputfiles.

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
// meta. The teacher is not compared, because earlier versions did not record its weights.
func changedInputs(c config.Config, meta *rundir.Meta) ([]string, error) {
	problems, err := dataset.Of(c)
	if err != nil {
		return nil, err
	}
	m, err := policy.Of(c)
	if err != nil {
		return nil, err
	}
	template, err := m.Template(c.Data)
	if err != nil {
		return nil, err
	}
	n, err := m.Open(c.Seed, runtime.GOMAXPROCS(0), 0, nil)
	defer n.Close()
	if err != nil {
		return nil, err
	}
	files, err := rewardFiles(c.Reward)
	if err != nil {
		return nil, err
	}
	var d trainData
	if err := d.readPairs(m, c); err != nil {
		return nil, err
	}
	then := inputs{Problems: meta.ProblemsHash, Init: meta.InitHash, Network: meta.NetworkHash, Rewards: meta.RewardFiles,
		Pairs: meta.PairsHash}
	now := inputs{Problems: hashProblems(problems, template), Init: policy.InitHash(n.Policy), Network: policy.NetworkHash(n.Policy),
		Rewards: files, Pairs: d.hashPairs()}
	then.Problems = cmp.Or(then.Problems, now.Problems) // the first version has none
	return then.differ(now), nil
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
		return fmt.Errorf("%w: the sweep's run %s was made with other contents of %s, and its runs would not be comparable "+
			"(restore that, or start over in a new folder with --fresh)", config.ErrConfig, o.Run, append(changed, gone...)[0])
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

// differentFiles describes the files of reward functions that have changed.
func differentFiles(then, now map[string]string) (out []string) {
	all := map[string]string{}
	maps.Copy(all, then)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		switch {
		case then[path] == now[path]:
		case now[path] == "":
			out = append(out, path+", a file of a reward function, which is not there")
		case then[path] == "":
			out = append(out, path+", a file of a reward function, which was not there")
		default:
			out = append(out, path+", a file of a reward function")
		}
	}
	return out
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
