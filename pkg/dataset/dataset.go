// Package dataset reads or generates the problems that a configuration names: the splits of a run, and further sets
// to evaluate on.
package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"grpo/internal/suggest"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
	"grpo/pkg/task"
)

// Splits are the problems of a run, disjoint by question. SFT is for supervised stages, and [Of] may leave it
// empty; Train is for GRPO. Val is for model selection, Test is evaluated once at the end, and Unseen asks for
// operand facts that no training stage saw.
type Splits struct {
	SFT, Train, Val, Test, Unseen []gsm8k.Problem

	// Final are the validation problems of the last evaluation if those are more (eval.final_size): Val
	// is their beginning.
	Final []gsm8k.Problem

	Sets []Set // more problems to evaluate on, read from files (eval.sets)

	Overlap int      // questions of Train that are also in SFT
	Notes   []string // on files with broken lines, that were cut to their first problems, or share problems
}

// Set is a set of evaluation problems from a file.
type Set struct {
	Name     string
	Problems []gsm8k.Problem
}

// Of loads the problems that a configuration trains and evaluates on.
func Of(c config.Config) (*Splits, error) {
	p, err := load(c.Data, c.Answers(), c.Eval.FinalSize, false)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(c.Eval.Sets, config.SetUnseen) {
		p.Unseen = nil
	}
	for _, f := range c.Eval.SetFiles() {
		key := "eval.sets"
		if f.Name == config.SetSVAMP {
			key = "eval.svamp_file"
		}
		opt := gsm8k.ReadOptions{SkipBad: c.Data.SkipBad, Answers: c.Answers()}
		problems, err := p.read(f.Path, key, fmt.Sprintf("eval.set_size %d; 0 = all", c.Eval.SetSize), c.Eval.SetSize, opt)
		if err != nil {
			return nil, err
		}
		if err := p.checkOverlap(f.Path, problems, c.Data.TrainFile); err != nil {
			return nil, err
		}
		p.Sets = append(p.Sets, Set{f.Name, problems})
	}
	return p, nil
}

// Evaluated are the problems of all evaluations, by their split in eval.jsonl.
func (p *Splits) Evaluated() []Set {
	sets := append([]Set{
		{rundir.SplitVal, p.Val}, {rundir.SplitTest, p.Test}, {rundir.SplitUnseen, p.Unseen},
	}, p.Sets...)
	if len(p.Final) > 0 {
		sets = append(sets, Set{rundir.SplitFinal, p.Final})
	}
	return sets
}

// Configured are the sets of eval.sets that have problems, as at the last evaluation of a run.
func (p *Splits) Configured() []Set {
	sets := append([]Set{{rundir.SplitVal, p.LastVal()}, {rundir.SplitUnseen, p.Unseen}}, p.Sets...)
	return slices.DeleteFunc(sets, func(s Set) bool { return len(s.Problems) == 0 })
}

// LastVal are the validation problems of the last evaluation.
func (p *Splits) LastVal() []gsm8k.Problem {
	if len(p.Final) > 0 {
		return p.Final
	}
	return p.Val
}

// Load generates or reads the problems that d asks for, with these answers.
func Load(d config.Data, a gsm8k.Answers) (*Splits, error) { return load(d, a, 0, true) }

// load reads final validation problems for the last evaluation; 0 means the same as for the others. Without sft,
// problems for supervised stages are not generated: they take longer than all others.
func load(d config.Data, a gsm8k.Answers, final int, sft bool) (*Splits, error) {
	p, curve := &Splits{}, d.ValSize
	if final > 0 && curve > 0 {
		d.ValSize = max(curve, final)
	}
	if d.Source == "generated" {
		s, err := gsm8k.Generate(gsm8k.GenOptions{
			Seed: d.GeneratorSeed, WeightAdd: d.WeightAdd, WeightSub: d.WeightSub, WeightMul: d.WeightMul,
			ValSize: d.ValSize, TestSize: d.TestSize, UnseenSize: d.UnseenSize, TrainSize: d.TrainSize, WithoutSFT: !sft,
		})
		return p, p.made(s, err, d, curve, final)
	}
	if t := d.Builtin(); t != nil {
		s, err := t.Generate(task.Options{
			Seed: d.GeneratorSeed, Difficulty: d.Difficulty, MinDifficulty: d.Task.MinDifficulty,
			Symbols: d.Task.Symbols, Largest: d.Task.Largest, Operators: d.Task.Operators,
			Arithmetic: gsm8k.GenOptions{WeightAdd: d.WeightAdd, WeightSub: d.WeightSub, WeightMul: d.WeightMul},
			ValSize:    d.ValSize, TestSize: d.TestSize, UnseenSize: d.UnseenSize, TrainSize: d.TrainSize, WithoutSFT: !sft,
		})
		return p, p.made(s, err, d, curve, final)
	}
	opt := gsm8k.ReadOptions{SkipBad: d.SkipBad, Annotations: gsm8k.AnnotationMode(d.Annotations),
		Fields: gsm8k.Fields(d.Fields), Answers: a}
	for _, f := range []struct {
		split, path string
		limit       int
		to          *[]gsm8k.Problem
	}{
		{"train", d.TrainFile, d.TrainSize, &p.Train},
		{"val", d.ValFile, d.ValSize, &p.Val},
		{"test", d.TestFile, d.TestSize, &p.Test},
	} {
		if f.path == "" {
			continue
		}
		var err error
		key := "data." + f.split
		size := fmt.Sprintf("%s_size %d; 0 = all", key, f.limit)
		if f.split == "val" && f.limit > curve {
			size = fmt.Sprintf("eval.final_size %d", final)
		}
		if *f.to, err = p.read(f.path, key+"_file", size, f.limit, opt); err != nil {
			return nil, err
		}
	}
	p.SFT, p.Overlap = p.Train, len(p.Train)
	if n := len(p.Val); n > 0 && final > 0 && (n < final || curve == 0 && n > final) {
		return nil, config.Invalid(fmt.Errorf("load problems: eval.final_size is %d, but %s has %d validation problems "+
			"(0 = as many as data.val_size takes)", final, d.ValFile, n))
	}
	for _, s := range []struct {
		name     string
		problems []gsm8k.Problem
	}{{"the validation file", p.Val}, {"the test file", p.Test}} {
		if err := p.checkOverlap(s.name, s.problems, d.TrainFile); err != nil {
			return nil, err
		}
	}
	if n := gsm8k.Overlap(p.Val, p.Test); n > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d questions of the test file are also in the validation file: on these the "+
			"test problems say nothing more", n))
	}
	p.cutVal(curve)
	return p, nil
}

// checkOverlap returns an error if problems of an evaluation file are trained on.
func (p *Splits) checkOverlap(file string, problems []gsm8k.Problem, train string) error {
	if n := gsm8k.Overlap(p.Train, problems); n > 0 {
		return config.Invalid(fmt.Errorf("load problems: %d questions of %s are also "+
			"in %s: the metrics would include problems that were trained on; remove them",
			n, file, cmp.Or(train, "the training problems")))
	}
	return nil
}

// made takes the problems of a generator, or its error. curve and final are the numbers of validation problems.
func (p *Splits) made(s gsm8k.Splits, err error, d config.Data, curve, final int) error {
	if err != nil {
		if final > curve {
			err = fmt.Errorf("eval.final_size is %d: %w", final, err)
		}
		return config.Invalid(err)
	}
	p.SFT, p.Train, p.Val, p.Test, p.Unseen = s.SFT, s.Train, s.Val, s.Test, s.Unseen
	p.cutVal(curve)
	for i := range p.SFT {
		p.SFT[i].Answer = gsm8k.AnnotationMode(d.Annotations).Apply(p.SFT[i].Answer)
	}
	p.Overlap = gsm8k.Overlap(p.SFT, p.Train)
	return nil
}

// cutVal keeps the first n validation problems for the curve (0 = all), and all for the last evaluation.
func (p *Splits) cutVal(n int) {
	if n > 0 && n < len(p.Val) {
		p.Val, p.Final = p.Val[:n:n], p.Val
	}
}

// read reads the first limit problems (0 = all) of the file that a key names.
func (p *Splits) read(path, key, size string, limit int, opt gsm8k.ReadOptions) ([]gsm8k.Problem, error) {
	problems, report, err := gsm8k.ReadFile(path, opt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, config.Invalid(fmt.Errorf("%w (%s)", err, key))
	}
	if err != nil {
		return nil, config.Invalid(err)
	}
	if report.Skipped > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s: %d of %d problems were skipped (data.skip_bad), the first: %s",
			path, report.Skipped, report.Lines, report.FirstBad))
	}
	if limit > 0 && len(problems) > limit {
		p.Notes = append(p.Notes, fmt.Sprintf("%s: using the first %d of %d problems (%s)",
			path, limit, len(problems), size))
		problems = problems[:limit]
	}
	if len(problems) == 0 {
		return nil, config.Invalid(fmt.Errorf("load problems: %s (%s) has no problems", path, key))
	}
	return problems, nil
}

// Split returns an evaluation split by its name in eval.jsonl.
func (p *Splits) Split(name string) ([]gsm8k.Problem, error) {
	splits := map[string][]gsm8k.Problem{"train": p.Train, "val": p.LastVal(), "test": p.Test, "unseen": p.Unseen}
	s, known := splits[name]
	if !known {
		names := []string{"train", "val", "test", "unseen"}
		return nil, config.Invalid(fmt.Errorf("split %q is unknown%s (there are %s)",
			name, suggest.DidYouMean(name, names), strings.Join(names, ", ")))
	}
	if len(s) == 0 {
		return nil, config.Invalid(fmt.Errorf("split %q is empty in this configuration", name))
	}
	return s, nil
}
