package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/task"
)

func newData(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Generate problems; describe problem files; show prompts; make preference pairs",
		Example: `  grpo data generate --out problems
  grpo data stats problems/val.jsonl
  grpo data show -c smollm2 --model SmolLM2-135M-Instruct.Q4_1.gguf
  grpo data pairs --out pairs.jsonl`,
	}
	c.AddCommand(newDataGenerate(s), newDataStats(s), newDataShow(s), newDataPairs(s))
	return c
}

// dataGenerateOptions are the inputs of `grpo data generate`.
type dataGenerateOptions struct {
	load config.LoadOptions
	task string
	n    int // training problems, and no other split; 0 = all splits
	out  string
}

func newDataGenerate(s *State) *cobra.Command {
	o := &dataGenerateOptions{}
	var cf configFlags
	c := &cobra.Command{
		Use:   "generate",
		Short: "Write the generated problems as JSONL in GSM8K format, one file per split",
		Long: `Generate writes the generated problems as JSONL in GSM8K format, one file per
split. The same configuration gives the same files. An existing file with other
content is not overwritten.

--task takes the problems of a built-in task. Reading its files takes the data.answer
of the task: text for sort, reverse and copy, countdown for countdown.`,
		Example: `  grpo data generate --out problems
  grpo data generate --task countdown -n 100
  grpo data generate --task sort --set difficulty=6 --out sorting
  grpo data generate --out sums --set data.weight_sub=0 --set data.weight_mul=0 \
    --set data.val_size=200 --set data.test_size=200 --set data.unseen_size=100`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.load = cf.options(cmd, s)
			return run(cmd, s, o, generateProblems)
		},
	}
	cf.add(c, config.Names(), nil)
	c.Flags().StringVar(&o.task, "task", "", "built-in task: `"+strings.Join(task.Names(), "|")+"`")
	countVar(c.Flags(), &o.n, "n", 0, 0, maxCount, "number of training problems, and no other split (0 = all splits)")
	c.Flags().StringVar(&o.out, "out", "problems",
		"`folder` for sft.jsonl, train.jsonl, val.jsonl, test.jsonl and unseen.jsonl")
	return c
}

func generateProblems(_ context.Context, s *State, o *dataGenerateOptions) error {
	if o.task != "" {
		t, err := task.Find(o.task)
		if err != nil {
			return config.Invalid(fmt.Errorf("--task: %w", err))
		}
		o.load.Set = append(o.load.Set, "data.source="+task.Prefix+t.Name)
	}
	if o.n > 0 {
		o.load.Set = append(o.load.Set, fmt.Sprintf("data.train_size=%d", o.n), "data.val_size=1", "data.test_size=0",
			"data.unseen_size=0")
	}
	r, err := config.Load(o.load)
	if err != nil {
		return err
	}
	if !r.Config.Data.Generated() {
		return fmt.Errorf("%w: data.source is %q: only the problems of \"generated\" and of tasks can be generated",
			config.ErrConfig, r.Config.Data.Source)
	}
	p, err := dataset.Load(r.Config.Data, r.Config.Answers())
	if err != nil {
		return err
	}
	var files []problemFile
	for _, f := range []struct {
		name     string
		problems []gsm8k.Problem
	}{{"sft", p.SFT}, {"train", p.Train}, {"val", p.Val}, {"test", p.Test}, {"unseen", p.Unseen}} {
		if len(f.problems) == 0 || o.n > 0 && f.name != "train" {
			continue
		}
		var b bytes.Buffer
		if err := gsm8k.WriteJSONL(&b, f.problems); err != nil {
			return err
		}
		files = append(files, problemFile{filepath.Join(o.out, f.name+".jsonl"), len(f.problems), b.Bytes()})
	}
	return writeProblems(s, o.out, files)
}

// problemFile is an output file of `grpo data generate`.
type problemFile struct {
	path string
	n    int
	data []byte
}

// writeProblems writes the files unless one of them exists with other content, which
// may be the user's data.
func writeProblems(s *State, dir string, files []problemFile) error {
	if err := report.MakeFolder(dir, ""); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	for _, f := range files {
		switch old, err := regular.Read(f.path, int64(len(f.data))); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || !bytes.Equal(old, f.data):
			return fmt.Errorf("%w: write problems: %s exists with other content; remove it, or use another --out",
				config.ErrConfig, f.path)
		}
	}
	for _, f := range files {
		if err := rundir.WriteFileAtomic(f.path, f.data); err != nil {
			return err
		}
		if _, err := textutil.Fprintf(s.Out, "%s\t%d problems\n", f.path, f.n); err != nil {
			return err
		}
	}
	return nil
}

// dataStatsOptions are the inputs of `grpo data stats`.
type dataStatsOptions struct {
	file   string
	read   gsm8k.ReadOptions
	answer gsm8k.AnswerOptions
	fields map[string]string
	json   bool
}

func newDataStats(s *State) *cobra.Command {
	o := &dataStatsOptions{}
	c := &cobra.Command{
		Use:   "stats FILE",
		Short: "Describe a problem file: counts, lengths, answers, majority-answer baseline",
		Example: `  grpo data stats problems/val.jsonl
  grpo data stats gsm8k/test.jsonl --json
  grpo data stats broken.jsonl --skip-bad
  grpo data stats my.csv --fields question=input,answer=target
  grpo data stats boolq.jsonl --answer text
  grpo data stats math.jsonl --answer math --extract boxed --fields question=problem,answer=solution`,
		Args: takes("one file of problems", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			o.read.Fields = gsm8k.Fields{Question: o.fields["question"], Answer: o.fields["answer"],
				Solution: o.fields["solution"]}
			for name := range o.fields {
				if name != "question" && name != "answer" && name != "solution" {
					return usagef(cmd, "--fields: %s is not question, answer or solution, as in --fields "+
						"question=input,answer=target", textutil.Quote(name))
				}
			}
			var err error
			if o.read.Answers, err = gsm8k.NewAnswers(o.answer); err != nil {
				return usagef(cmd, "%v", err)
			}
			return run(cmd, s, o, describeProblems)
		},
	}
	c.Flags().BoolVar(&o.read.SkipBad, "skip-bad", false, "skip and count invalid lines")
	c.Flags().StringToStringVar(&o.fields, "fields", nil,
		"names of the fields with the question, the answer and the solution, as in `question=input,answer=target`")
	addAnswerFlags(c, &o.answer)
	c.Flags().StringVar((*string)(&o.read.Annotations), "annotations", "keep",
		"annotations in worked answers: `keep|strip|equation`")
	addJSON(c, &o.json)
	return c
}

// addAnswerFlags adds the flags for what answers are.
func addAnswerFlags(c *cobra.Command, o *gsm8k.AnswerOptions) {
	f := c.Flags()
	f.StringVar((*string)(&o.Kind), "answer", string(gsm8k.KindNumber), "`kind` of the answers: "+
		strings.Join(gsm8k.Kinds(), ", ")+" (data.answer)")
	f.BoolVar(&o.IgnoreCase, "ignore-case", false, "a text is right in upper and lower case (data.ignore_case)")
	f.StringVar(&o.Extract, "extract", "auto", "`place` of the answer in a completion: "+
		strings.Join(gsm8k.Extractions(), ", ")+" or pattern:PATTERN (reward.extract)")
	complete(c, "answer", gsm8k.Kinds, cobra.ShellCompDirectiveNoFileComp)
	complete(c, "extract", gsm8k.Extractions, cobra.ShellCompDirectiveNoFileComp)
}

// statsOutput is what --json prints.
type statsOutput struct {
	File    string `json:"file"`
	Skipped int    `json:"skipped"`
	gsm8k.Stats
}

func describeProblems(_ context.Context, s *State, o *dataStatsOptions) error {
	problems, skipped, err := gsm8k.ReadFile(o.file, o.read)
	if err != nil {
		return config.Invalid(err)
	}
	st := o.read.Answers.ComputeStats(problems, policy.KnownCharacter)
	if o.json {
		return printJSON(s.Out, statsOutput{o.file, skipped.Skipped, st})
	}
	return writeStats(s, skipped, st)
}

func writeStats(s *State, read gsm8k.ReadReport, st gsm8k.Stats) error {
	w := newTable(s.Out)
	textutil.Fprintf(w, "problems\t%d\n", st.Problems)
	if read.Skipped > 0 {
		textutil.Fprintf(w, "invalid lines skipped\t%d (first: %s)\n", read.Skipped, read.FirstBad)
	}
	for _, t := range st.Types {
		if t.Type != "" {
			textutil.Fprintf(w, "  of type %s\t%d\n", t.Type, t.Count)
		}
	}
	textutil.Fprintf(w, "duplicate questions\t%d\n", st.DuplicateQuestions)
	for _, l := range []struct {
		name string
		l    gsm8k.Lengths
	}{{"question length", st.QuestionLength}, {"answer length", st.AnswerLength}} {
		textutil.Fprintf(w, "%s\tmin %d, median %g, mean %.1f, max %d characters\n",
			l.name, l.l.Min, l.l.Median, l.l.Mean, l.l.Max)
	}
	textutil.Fprintf(w, "distinct answers\t%d\n", st.DistinctAnswers)
	if st.WithoutAnswer > 0 {
		textutil.Fprintf(w, "without a worked answer\t%d\n", st.WithoutAnswer)
	}
	var common []string
	for _, a := range st.TopAnswers {
		common = append(common, fmt.Sprintf("%s (%d)", a.Answer, a.Count))
	}
	textutil.Fprintf(w, "most common answers\t%s\n", strings.Join(common, ", "))
	if st.MajorityAnswer != "" {
		textutil.Fprintf(w, "majority-answer baseline\t%.4f (always answering %s)\n",
			st.MajorityBaseline, st.MajorityAnswer)
	}
	textutil.Fprintf(w, "problems outside the vocabulary\t%d\n", st.OutOfVocabularyProblems)
	for _, c := range st.OutOfVocabulary {
		textutil.Fprintf(w, "  %s %s\t%d\n", c.Code, c.Char, c.Count)
	}
	return w.Flush()
}
