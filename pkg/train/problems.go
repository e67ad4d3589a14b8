package train

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"grpo/internal/words"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/rng"
)

// Problems are the splits of a run, disjoint by question. SFT is for supervised stages and Train
// for GRPO. Val is for model selection, Test is evaluated once at the end, and Unseen asks for
// operand facts that no training stage saw.
type Problems struct {
	SFT, Train, Val, Test, Unseen []gsm8k.Problem

	Overlap int      // questions of Train that are also in SFT
	Skipped int      // broken lines that were skipped (data.skip_bad)
	Cut     []string // a note for each file that was cut to its first problems
}

// LoadProblems generates or reads the problems that d asks for.
func LoadProblems(d config.Data) (*Problems, error) {
	p := &Problems{}
	if d.Source == "generated" {
		s, err := gsm8k.Generate(gsm8k.GenOptions{
			Seed: d.GeneratorSeed, WeightAdd: d.WeightAdd, WeightSub: d.WeightSub, WeightMul: d.WeightMul,
			ValSize: d.ValSize, TestSize: d.TestSize, UnseenSize: d.UnseenSize, TrainSize: d.TrainSize,
		})
		if err != nil {
			return nil, config.Invalid(err)
		}
		p.SFT, p.Train, p.Val, p.Test, p.Unseen = s.SFT, s.Train, s.Val, s.Test, s.Unseen
		p.Overlap = gsm8k.Overlap(p.SFT, p.Train)
		return p, nil
	}
	opt := gsm8k.ReadOptions{SkipBad: d.SkipBad, Annotations: gsm8k.AnnotationMode(d.Annotations)}
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
		problems, report, err := gsm8k.ReadFile(f.path, opt)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, config.Invalid(fmt.Errorf("%w (data.%s_file)", err, f.split))
		}
		if err != nil {
			return nil, err
		}
		p.Skipped += report.Skipped
		if f.limit > 0 && len(problems) > f.limit {
			p.Cut = append(p.Cut, fmt.Sprintf("%s: using the first %d of %d problems (data.%s_size %d; 0 = all)",
				f.path, f.limit, len(problems), f.split, f.limit))
			problems = problems[:f.limit]
		}
		if len(problems) == 0 {
			return nil, config.Invalid(fmt.Errorf("load problems: %s (data.%s_file) has no problems", f.path, f.split))
		}
		*f.to = problems
	}
	p.SFT, p.Overlap = p.Train, len(p.Train)
	for _, s := range []struct {
		name     string
		problems []gsm8k.Problem
	}{{"validation", p.Val}, {"test", p.Test}} {
		if n := gsm8k.Overlap(p.Train, s.problems); n > 0 {
			return nil, config.Invalid(fmt.Errorf("load problems: %d questions of the %s file are also "+
				"in %s: the metrics would include problems that were trained on; remove them",
				n, s.name, d.TrainFile))
		}
	}
	return p, nil
}

// Split returns an evaluation split by its name in eval.jsonl.
func (p *Problems) Split(name string) ([]gsm8k.Problem, error) {
	splits := map[string][]gsm8k.Problem{"train": p.Train, "val": p.Val, "test": p.Test, "unseen": p.Unseen}
	s, known := splits[name]
	if !known {
		names := []string{"train", "val", "test", "unseen"}
		return nil, config.Invalid(fmt.Errorf("split %q is unknown%s (there are %s)",
			name, words.DidYouMean(name, names), strings.Join(names, ", ")))
	}
	if len(s) == 0 {
		return nil, config.Invalid(fmt.Errorf("split %q is empty in this configuration", name))
	}
	return s, nil
}

// fewShot returns the worked examples before the question of a chat: those of
// data.few_shot_file, or built-in ones.
func fewShot(d config.Data) ([]gsm8k.Turn, error) {
	if d.FewShotFile == "" {
		return gsm8k.Worked(d.FewShot), nil
	}
	turns, err := gsm8k.ReadTurns(d.FewShotFile)
	if err != nil {
		return nil, config.Invalid(fmt.Errorf("%w (data.few_shot_file)", err))
	}
	if d.FewShot > len(turns) {
		return nil, config.Invalid(fmt.Errorf("data.few_shot (%d): %s (data.few_shot_file) has %d worked examples",
			d.FewShot, d.FewShotFile, len(turns)))
	}
	if d.FewShot > 0 {
		turns = turns[:d.FewShot]
	}
	return turns, nil
}

// encodePrompts returns the tokens of each question's prompt under a template, with the
// start tokens. A special token in a question is plain text: it must not end a turn.
func encodePrompts(tok model.Tokenizer, t gsm8k.Template, problems []gsm8k.Problem) [][]int {
	ids := make([][]int, len(problems))
	for i, p := range problems {
		if !t.Complete {
			ids[i] = tok.Start()
		}
		ids[i] = append(ids[i], tok.EncodeAround(t.Parts(p.Question))...)
	}
	return ids
}

// trainData are the problems of a run, the training problems ready for rollouts.
type trainData struct {
	problems *Problems
	template gsm8k.Template
	prompts  [][]int // ragged: the token ids of each training problem's prompt
	order    order   // in which the training problems are drawn
}

// encode fills in prompts and order from the problems and the template.
func (d *trainData) encode(tok model.Tokenizer, seed uint64) {
	d.prompts = encodePrompts(tok, d.template, d.problems.Train)
	d.order = order{stream: rng.New(seed, rng.Order), n: len(d.problems.Train)}
}
