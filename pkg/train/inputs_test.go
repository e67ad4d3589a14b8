package train

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/inputfiles"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// pathsOf has every file that a configuration names, and the files of models' folders that matter.
func TestPathsOfARun(t *testing.T) {
	dir := decodertest.Folder(t)
	put(t, filepath.Join(dir, "README.md"), nil)
	put(t, filepath.Join(dir, "trainer_state.json"), []byte("{}"))
	c := config.Default()
	if paths := slices.DeleteFunc(pathsOf(c), func(s string) bool { return s == "" }); len(paths) > 0 {
		t.Errorf("the default run reads %v", paths)
	}
	c.Data.Source, c.Data.TrainFile, c.Data.ValFile, c.Data.TestFile = "gsm8k", "train", "val", "test"
	c.Data.FewShotFile, c.Eval.Sets, c.Eval.SVAMPFile = "few", []string{"svamp", "more.jsonl"}, "svamp"
	c.Algorithm.Type, c.Algorithm.DPO.PairsFile, c.Algorithm.DPO.EvalPairsFile = "dpo", "pairs", "held"
	c.Model.Init, c.Algorithm.Teacher = dir, "./teacher.safetensors"
	got := strings.Join(pathsOf(c), " ")
	for _, want := range []string{"train", "val", "test", "few", "svamp", "more.jsonl", "pairs", "held", "./teacher.safetensors",
		filepath.Join(dir, "config.json"), filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "model.safetensors")} {
		if !slices.Contains(strings.Fields(got), want) {
			t.Errorf("%s is not among %s", want, got)
		}
	}
	if strings.Contains(got, "README") || strings.Contains(got, "trainer") {
		t.Error(got)
	}
}

// A finished run is compared by the contents of its files, one of an earlier version by the hashes that
// it has, and a file that is gone changes nothing.
func TestFilesChanged(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	problem := `{"question": "What is 1+2?", "answer": "#### 3"}` + "\n"
	put(t, "train.jsonl", []byte(problem))
	put(t, "val.jsonl", []byte(strings.ReplaceAll(problem, "2", "3")))
	c := config.Default()
	c.Data.Source, c.Data.TrainFile, c.Data.ValFile = "gsm8k", "train.jsonl", "val.jsonl"
	files, err := (inputfiles.Hashes{}).Sums(pathsOf(c))
	expect.OK(t, err)
	m := modelOf(t, c.Model, c.Train.LoRA)
	n, err := m.Open(c.Seed, 1, 0, nil)
	expect.OK(t, err)
	defer n.Close()
	problems, err := dataset.Of(c)
	expect.OK(t, err)
	template, err := m.Template(c.Data)
	expect.OK(t, err)
	old := &rundir.Meta{InitHash: policy.InitHash(n.Policy), ProblemsHash: hashProblems(problems, template)}
	check := func(name string, meta *rundir.Meta, wantChanged, wantGone []string) {
		t.Helper()
		changed, gone, err := ChangedFiles(inputfiles.Hashes{}, c, meta)
		if err != nil || !reflect.DeepEqual(changed, wantChanged) || !reflect.DeepEqual(gone, wantGone) {
			t.Errorf("%s: %q, %q, %v", name, changed, gone, err)
		}
	}
	recorded := &rundir.Meta{InputFiles: files}
	check("the same", recorded, nil, nil)
	check("the same, of an earlier version", old, nil, nil)
	put(t, "val.jsonl", []byte(strings.ReplaceAll(problem, "2", "4")))
	check("changed", recorded, []string{"val.jsonl"}, nil)
	check("changed, of an earlier version", old, []string{"the problems or the prompts (data.*)"}, nil)
	expect.OK(t, os.Remove("val.jsonl"))
	check("gone", recorded, nil, []string{"val.jsonl"})
	check("gone, of an earlier version", old, nil, nil)
}
