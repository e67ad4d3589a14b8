package supervised

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
)

// Every row is in one pack, no pack is over its size, and no two packs would fit into one.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 20).Draw(t, "size")
		var rows []sftRow
		for i, n := range rapid.SliceOfN(rapid.IntRange(2, size), 1, 30).Draw(t, "lengths") {
			rows = append(rows, sftRow{prompt: []int{i}, tokens: make([]int, n-1)})
		}
		var seen []int
		var lengths []int
		for _, p := range pack(rows, size) {
			n := 0
			for _, r := range p {
				n += r.length()
				seen = append(seen, r.prompt[0])
			}
			if n > size {
				t.Fatalf("a pack of %d tokens, the size is %d", n, size)
			}
			lengths = append(lengths, n)
		}
		slices.Sort(seen)
		for i := range rows {
			if len(seen) != len(rows) || seen[i] != i {
				t.Fatalf("%d rows, the packs have %v", len(rows), seen)
			}
		}
		slices.Sort(lengths)
		if len(lengths) > 1 && lengths[0]+lengths[1] <= size {
			t.Fatalf("packs of %d and %d tokens fit into one of %d", lengths[0], lengths[1], size)
		}
	})
}

// Examples in a pack do not see each other: the loss is the mean over the tokens of each example by
// itself.
func TestPackedExamplesAreSeparate(t *testing.T) {
	pool := kernel.NewPool(1)
	defer pool.Close()
	p, err := decoder.Open(decodertest.Folder(t), false, pool)
	expect.OK(t, err)
	learner, err := p.NewLearner(1, false)
	expect.OK(t, err)
	defer learner.Close()
	var rows []sftRow
	for _, text := range []string{"ab", "abcd", "b"} {
		ids := p.Encode(text + text)
		rows = append(rows, sftRow{ids[:1], ids[1:], slices.Repeat([]float64{1}, len(ids)-1)})
	}
	loss := func(rows []sftRow) float64 {
		batch, weights := sftBatch(rows)
		v, err := learner.Accumulate(batch, tokenLoss(rl.NLL, weights))
		expect.OK(t, err)
		return v
	}
	var sum, tokens float64
	for _, r := range rows {
		sum += loss([]sftRow{r}) * float64(len(r.tokens))
		tokens += float64(len(r.tokens))
	}
	if got := loss(pack(rows, 100)[0]); math.Abs(got-sum/tokens) > 1e-12 {
		t.Errorf("loss %v in a pack, %v one by one", got, sum/tokens)
	}
}

// A stage ends when the validation loss rises, with the weights of the lowest, with packing too.
func TestSFTStopsEarly(t *testing.T) {
	long(t)
	cfg := decoderSFT(t, "stages.0.steps=60", "stages.0.every_n_steps=2", "stages.0.learning_rate=3e-2",
		"stages.0.final_lr_ratio=1", "stages.0.early_stopping_patience=2", "stages.0.packing=true",
		"stages.0.max_length=200", "stages.0.batch_size=2")
	run := func(cfg config.SFT, threads int) (*SFTRecord, *sftLines) {
		lines := &sftLines{}
		rec, err := RunSFT(context.Background(), cfg, sftOptions(t.TempDir(), threads, lines))
		expect.OK(t, err)
		return rec, lines
	}
	rec, lines := run(cfg, 2)
	st := rec.Stages[0]
	if !st.StoppedEarly || st.BestStep == 0 || st.BestStep >= st.Steps || st.Validation.Step != st.BestStep {
		t.Fatalf("%+v", st)
	}
	for _, l := range lines.steps {
		if l.ValidationLoss != nil && *l.ValidationLoss < *st.ValidationLoss {
			t.Errorf("step %d has the validation loss %v, the stage returned to %v", l.Step, *l.ValidationLoss, *st.ValidationLoss)
		}
	}
	cfg.Stages[0].Steps = st.BestStep
	if short, _ := run(cfg, 1); short.Weights != rec.Weights {
		t.Errorf("a run of %d steps ends with the weights %v, the stopped one with %v", st.BestStep, short.Weights, rec.Weights)
	}
}

// The validation loss is of the answers to all validation problems, in the form that the stage trains on. What is longer than the model's context is
// found before the run, in the prompts of its last evaluation too.
func TestSFTValidationExamples(t *testing.T) {
	long(t)
	cfg := config.Resolve(decoderSFT(t, "stages.0.early_stopping_patience=1", "stages.0.examples=2", "stages.0.batch_size=2"))
	problems, template := problemsOf(t, cfg)
	s := &sft{problems: problems, template: template, val: problems.Val}
	s.cfg, s.model = cfg, modelOf(t, cfg.Model, cfg.LoRA)
	for name, examples := range map[string]func() ([]gsm8k.Example, error){
		"training":   func() ([]gsm8k.Example, error) { return s.corpus(0) },
		"validation": func() ([]gsm8k.Example, error) { return s.validationCorpus(0) },
	} {
		corpus, err := examples()
		expect.OK(t, err)
		if want := map[string]int{"training": 2, "validation": 4}[name]; len(corpus) != want {
			t.Errorf("%s: %d examples, want %d", name, len(corpus), want)
		}
		for _, e := range corpus {
			if strings.Contains(e.Completion, "<<") {
				t.Fatalf("%s: %q has annotations", name, e.Completion)
			}
		}
	}
	expect.OK(t, s.checkContext())
	long := strings.Repeat("word ", 200)
	for what, q := range map[string]*string{"val": &s.val[0].Question, "unseen": &problems.Unseen[0].Question, "word": &problems.SFT[0].Question} {
		was := *q
		*q = long
		expect.Error(t, s.checkContext(), `"`+what)
		*q = was
	}
	s.val[0].Answer = long + s.val[0].Answer
	expect.Error(t, s.checkContext(), `the prompt and answer of "`)
}

// problemsOf are the problems and the prompt template of a configuration.
func problemsOf(t *testing.T, c config.SFT) (*dataset.Splits, gsm8k.Template) {
	t.Helper()
	problems, err := dataset.Load(c.Data, c.Answers())
	expect.OK(t, err)
	template, err := modelOf(t, c.Model, c.LoRA).Template(c.Data)
	expect.OK(t, err)
	return problems, template
}

type sftLines struct {
	steps []SFTStep
	notes []string
}

func sftOptions(dir string, threads int, o *sftLines) Options[SFTStep] {
	return Options[SFTStep]{Dir: dir, Threads: threads,
		Step: func(s SFTStep, _ int) { o.steps = append(o.steps, s) },
		Note: func(text string) { o.notes = append(o.notes, text) }}
}

// max_length cuts examples and drops those whose completion it leaves out.
func TestSFTMaxLength(t *testing.T) {
	long(t)
	prompts := decoderSFT(t)
	longest := 0
	row := func(cfg config.SFT) *StageRecord {
		rec, err := RunSFT(context.Background(), cfg, sftOptions(t.TempDir(), 1, &sftLines{}))
		expect.OK(t, err)
		return &rec.Stages[0]
	}
	problems, template := problemsOf(t, prompts)
	for _, n := range policy.PromptLengths(modelOf(t, prompts.Model, prompts.LoRA).Tokenizer, template, problems.SFT[:12]) {
		longest = max(longest, n)
	}
	cfg := decoderSFT(t, "stages.0.steps=1")
	cfg.Stages[0].MaxLength = longest
	if got := row(cfg); got.Cut == 0 || got.Dropped == 0 || got.Cut+got.Dropped > 12 {
		t.Errorf("max_length %d: %d cut and %d dropped", longest, got.Cut, got.Dropped)
	}
	cfg.Stages[0].MaxLength = 4
	if _, err := RunSFT(context.Background(), cfg, sftOptions(t.TempDir(), 1, &sftLines{})); err == nil {
		t.Error("a stage without an example that has a token of the loss runs")
	}
}

// The largest batch of a stage is the one with the most tokens of all its steps, with prompts once.
func TestLargestBatch(t *testing.T) {
	m, err := policy.Resolve(config.Model{Init: decodertest.Folder(t), Device: "cpu"}, config.LoRA{})
	expect.OK(t, err)
	s := &sft{problems: &dataset.Splits{}}
	for _, text := range []string{"a", "bb", "ccc", "dddd", "eeeee"} {
		s.problems.SFT = append(s.problems.SFT, gsm8k.Problem{Question: text, Answer: text + "\n#### 1"})
	}
	s.model, s.cfg.Seed, s.val = m, 3, s.problems.SFT[:2]
	s.cfg.Stages = []config.Stage{{Corpus: "answers", Examples: 5, Steps: 4, BatchSize: 2, EarlyStoppingPatience: 1}}
	got, err := s.batches(0)
	expect.OK(t, err)
	corpus, err := s.corpus(0)
	expect.OK(t, err)
	packs, err := s.packs(0, "training", corpus, new(StageRecord))
	expect.OK(t, err)
	order, most, total := s.stageOrder(0, len(packs)), 0.0, 0
	for step := range 4 {
		batch, _ := sftBatch(slices.Concat(packs[order.At(2*step)], packs[order.At(2*step+1)]))
		size := batch.Size()
		most = max(most, size.PromptTokens+size.Tokens)
	}
	for _, p := range packs {
		total += p[0].length()
	}
	if got.Learn.PromptTokens+got.Learn.Tokens != most || got.Learn.Completions != 2 || got.Examples != 5 || got.Tokens != total {
		t.Errorf("%+v, want %v tokens, and %d of all examples", got, most, total)
	}
	if got.Score.Completions != 2 {
		t.Errorf("validation loss: %+v", got.Score)
	}
}
