package supervised

import (
	"encoding/binary"
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
	tasks "grpo/pkg/task"
)

// corpus returns the examples of a stage.
func (s *sft) corpus(i int) ([]gsm8k.Example, error) {
	return s.draw(i, s.problems.SFT, s.cfg.Stages[i].Examples)
}

// draw makes up to n examples of a stage's form from problems.
func (s *sft) draw(i int, problems []gsm8k.Problem, n int) (c []gsm8k.Example, err error) {
	st, d := s.cfg.Stages[i], s.cfg.Data
	seed := s.cfg.Seed<<8 + uint64(i)
	opts := gsm8k.CorpusOptions{
		Weights:  [3]float64{d.WeightAdd, d.WeightSub, d.WeightMul},
		MaxChars: config.Default().Rollout.SamplingMaxTokens,
	}
	t, own := d.Builtin(), tasks.CorpusOptions{MaxChars: s.cfg.EvalTokens, Answers: s.cfg.Answers()}
	switch {
	case t != nil && st.Corpus == "capability":
		c = t.CapabilityCorpus(problems, n, seed, own)
	case t != nil && st.Corpus == "preference":
		c = t.PreferenceCorpus(problems, n, seed, own)
	case st.Corpus == "capability":
		c = gsm8k.CapabilityCorpus(problems, n, seed, opts)
	case st.Corpus == "preference":
		c = gsm8k.PreferenceCorpus(problems, n, seed, opts)
	case st.Corpus == "answers":
		c = gsm8k.AnswerCorpus(problems, s.cfg.Answers())
		c = c[:min(len(c), n)]
	default:
		return nil, fmt.Errorf("stage %q: corpus %q is unknown", st.Name, st.Corpus)
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("stage %q: corpus %q has no examples: data.source %q does not have the "+
			"problems it needs",
			st.Name, st.Corpus, d.Source)
	}
	return c, nil
}

// validationCorpus returns the examples of a stage's validation loss, at most as many as there are problems.
func (s *sft) validationCorpus(i int) ([]gsm8k.Example, error) {
	problems := slices.Clone(s.val)
	if s.cfg.Data.Generated() { // answers of files are in this form already
		for k := range problems {
			problems[k].Answer = gsm8k.AnnotationMode(s.cfg.Data.Annotations).Apply(problems[k].Answer)
		}
	}
	return s.draw(i, problems, len(problems))
}

// sftRow is one example: the tokens before the first that is in the loss, the T tokens
// from there on, and the weight of each of these.
type sftRow struct {
	prompt  []int     // at least one
	tokens  []int     // (T)
	weights []float64 // (T)
}

// tokenize returns an example's tokens. If the prompt has no weight, it is the row's prompt,
// which a batch may share; otherwise its tokens are predicted too, from the start token
// on, or without one from the second token on, as in every language model. What a chat template writes
// before an answer is a part of the completion. A completion that ended gets the token end.
func tokenize(tok model.Tokenizer, t gsm8k.Template, e gsm8k.Example, end int, promptWeight float64) sftRow {
	ids := policy.EncodePrompts(tok, t, []gsm8k.Problem{{Question: e.Question}})[0]
	first := len(ids)
	if promptWeight > 0 {
		first = max(1, len(tok.Start()))
	}
	weights := slices.Repeat([]float64{promptWeight}, len(ids)-first)
	ids = append(ids, tok.EncodeAfter(ids, t.Answer, e.Completion)...)
	if e.Ended {
		ids = append(ids, end)
	}
	for len(weights) < len(ids)-first {
		weights = append(weights, 1)
	}
	return sftRow{ids[:first], ids[first:], weights}
}

// checkContext returns an error if an example to train on, one of the validation loss, or a prompt of the
// evaluations with its completion is longer than the model's context.
func (s *sft) checkContext() error {
	limit, tok := s.model.Context, s.model.Tokenizer
	for _, set := range []dataset.Set{{Name: rundir.SplitVal, Problems: s.val},
		{Name: rundir.SplitUnseen, Problems: s.problems.Unseen}} {
		if err := infer.CheckContext(s.model, s.template,
			infer.PromptSet{Set: set, MaxTokens: s.cfg.EvalTokens, Key: "eval_tokens"}); err != nil {
			return err
		}
	}
	for i := range s.cfg.Stages {
		if limit == 0 {
			break
		}
		if length := s.cfg.Stages[i].MaxLength; length > 0 && length <= limit {
			continue // longer ones are cut
		}
		corpus, err := s.corpus(i)
		if err == nil && s.cfg.Stages[i].EarlyStoppingPatience > 0 {
			var validation []gsm8k.Example
			validation, err = s.validationCorpus(i)
			corpus = append(corpus, validation...)
		}
		if err != nil {
			return err
		}
		for _, e := range corpus {
			r := tokenize(tok, s.template, e, s.end, 0)
			if n := len(r.prompt) + len(r.tokens); n > limit {
				return config.Invalid(fmt.Errorf("stage %q: the prompt and answer of %q have %d tokens, more than the "+
					"model's context of %d: remove this problem", s.cfg.Stages[i].Name, textutil.Cut(e.Question, 60), n, limit))
			}
		}
	}
	return nil
}

// sftBatch is a batch of rows, with equal prompts once. weights is ragged: one row for each of the
// batch's, one number for each of its tokens.
func sftBatch(rows []sftRow) (batch *model.Batch, weights [][]float64) {
	batch = &model.Batch{}
	at := promptPlaces{}
	for _, r := range rows {
		batch.Rows = append(batch.Rows, model.Row{Prompt: at.place(batch, r.prompt), Tokens: r.tokens})
		weights = append(weights, r.weights)
	}
	return batch, weights
}

// promptPlaces are the places of prompts in a batch that has each once, by promptKey.
type promptPlaces map[string]int

// place is the place of a prompt in the batch, which gets it if it is new.
func (at promptPlaces) place(b *model.Batch, prompt []int) int {
	key := promptKey(prompt)
	i, known := at[key]
	if !known {
		i = len(b.Prompts)
		at[key] = i
		b.Prompts = append(b.Prompts, prompt)
	}
	return i
}

// promptKey identifies a prompt.
func promptKey(prompt []int) string {
	var b []byte
	for _, id := range prompt {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return string(b)
}

// packs returns what the batches of a stage are drawn from: its examples, each by itself or, with
// packing, in packs of whole examples. It counts the examples that max_length cuts or drops; kind is
// what an error calls them.
func (s *sft) packs(i int, kind string, corpus []gsm8k.Example, rec *StageRecord) ([][]sftRow, error) {
	c := s.cfg.Stages[i]
	var rows []sftRow
	for _, e := range corpus {
		row := tokenize(s.model.Tokenizer, s.template, e, s.end, c.PromptLossWeight)
		if c.MaxLength > 0 && row.length() > c.MaxLength {
			var left bool
			if row, left = row.cut(c.MaxLength); !left {
				rec.Dropped++
				continue
			}
			rec.Cut++
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("stage %q: no %s example has a token of the loss within max_length (%d tokens): raise it",
			c.Name, kind, c.MaxLength)
	}
	if c.Packing {
		return pack(rows, c.MaxLength), nil
	}
	out := make([][]sftRow, len(rows))
	for k := range rows {
		out[k] = rows[k : k+1]
	}
	return out, nil
}

// noteCut says how many of a number of examples of a stage max_length cuts or drops.
func (s *sft) noteCut(i int, kind string, examples int, rec *StageRecord) {
	if c := s.cfg.Stages[i]; rec.Cut+rec.Dropped > 0 {
		s.opts.Note(fmt.Sprintf("stage %q: of %d %s examples, %d are cut at max_length (%d tokens) and %d dropped, "+
			"which have no token of the loss before it", c.Name, examples, kind, rec.Cut, c.MaxLength, rec.Dropped))
	}
}

// stageOrder is the order in which a stage draws from its packs.
func (s *sft) stageOrder(i, packs int) rng.Epochs {
	return rng.Epochs{Stream: rng.New(s.cfg.Seed, rng.Shuffle), Place: uint32(i), N: packs}
}

// looked returns how many of a batch's rows, of n different ones, and how many of the steps an estimate of the memory
// looks at: enough for the largest batch, few enough for any setting. The rest of a batch are the same rows again.
func looked(batch, n, steps int) (rows, most int) {
	const draws = 1 << 22
	rows = min(batch, n)
	return rows, min(steps, max(1, draws/rows))
}

// repeated is the size of a batch with this many times the completions, of the same prompts.
func repeated(b model.BatchSize, times float64) model.BatchSize {
	b.Completions, b.Tokens = times*b.Completions, times*b.Tokens
	return b
}

// larger is the batch with more tokens, a if they have as many.
func larger(a, b model.BatchSize) model.BatchSize {
	if b.PromptTokens+b.Tokens > a.PromptTokens+a.Tokens {
		return b
	}
	return a
}

// batches finds the largest batches of a stage: those with the most tokens of all that it will draw.
func (s *sft) batches(i int) (out budget.StageBatches, err error) {
	c := s.cfg.Stages[i]
	corpus, err := s.corpus(i)
	if err != nil {
		return out, err
	}
	packs, err := s.packs(i, "training", corpus, new(StageRecord))
	if err != nil {
		return out, err
	}
	lengths, order := make([]int, len(packs)), s.stageOrder(i, len(packs))
	for k, p := range packs {
		for _, r := range p {
			lengths[k] += r.length()
		}
		out.Tokens += lengths[k]
	}
	out.Examples = len(corpus)
	var most []sftRow
	rows, steps := looked(c.BatchSize, len(packs), c.Steps)
	for step, largest := 0, 0; step < steps; step++ {
		tokens := 0
		for k := range rows {
			tokens += lengths[order.At(step*c.BatchSize+k)]
		}
		if tokens <= largest {
			continue
		}
		most, largest = nil, tokens
		for k := range rows {
			most = append(most, packs[order.At(step*c.BatchSize+k)]...)
		}
	}
	batch, _ := sftBatch(most)
	out.Learn = repeated(batch.Size(), float64(c.BatchSize)/float64(rows))
	if c.EarlyStoppingPatience == 0 {
		return out, nil
	}
	if corpus, err = s.validationCorpus(i); err != nil {
		return out, err
	}
	if packs, err = s.packs(i, "validation", corpus, new(StageRecord)); err != nil {
		return out, err
	}
	for rows := range slices.Chunk(slices.Concat(packs...), c.BatchSize) {
		batch, _ := sftBatch(rows)
		out.Score = larger(out.Score, batch.Size())
	}
	return out, nil
}

func (r sftRow) length() int { return len(r.prompt) + len(r.tokens) }

// cut returns a row's first n tokens, and whether any of them is in the loss.
func (r sftRow) cut(n int) (sftRow, bool) {
	keep := min(max(0, n-len(r.prompt)), len(r.tokens))
	r.tokens, r.weights = r.tokens[:keep], r.weights[:keep]
	return r, slices.ContainsFunc(r.weights, func(w float64) bool { return w > 0 })
}

// pack puts rows into packs of at most size tokens: the longest first, each into the fullest pack
// that has room (best-fit decreasing). No row may be longer than size.
func pack(rows []sftRow, size int) [][]sftRow {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b sftRow) int { return b.length() - a.length() })
	var packs [][]sftRow
	withRoom := make([][]int, size+1) // the packs by the number of tokens that are free
	for _, r := range sorted {
		free := r.length()
		for free < size && len(withRoom[free]) == 0 {
			free++
		}
		at := len(packs)
		if last := len(withRoom[free]) - 1; last >= 0 {
			at, withRoom[free] = withRoom[free][last], withRoom[free][:last]
		} else {
			packs = append(packs, nil)
			free = size
		}
		packs[at] = append(packs[at], r)
		withRoom[free-r.length()] = append(withRoom[free-r.length()], at)
	}
	return packs
}
