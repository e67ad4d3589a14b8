package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Answers to the question whether a candidate replaces the incumbent.
const (
	Keep      = "keep"
	Discard   = "discard"
	Undecided = "undecided"
)

// Trial is a candidate (a) against an incumbent (b).
type Trial struct {
	Answer string `json:"answer"` // keep, discard or undecided
	Reason string `json:"reason"`
	Try    int    `json:"try"`   // the number of this comparison among those with this incumbent, from 1
	Tries  int    `json:"tries"` // so far
	// Level is the probability of keeping a candidate by chance in this try; those of all tries add up to 5%.
	Level float64 `json:"level"`
	// AtLeast and AtMost bound the true difference: with the probability 1 - Level, and with 95%.
	AtLeast     float64 `json:"at_least"`
	AtMost      float64 `json:"at_most"`
	NonInferior bool    `json:"non_inferior"`
	Ledger      string  `json:"ledger"` // the file with the tries
	Pairs       string  `json:"pairs"`  // SHA-256 of the runs that were compared
	Test
}

// LedgerFile is in the folder of an incumbent: a [LedgerLine] for each comparison with it.
const LedgerFile = "gate.jsonl"

// LedgerLine is one try.
type LedgerLine struct {
	Arm       string `json:"arm"` // the incumbent's, of a sweep
	Try       int    `json:"try"`
	Pairs     string `json:"pairs"`
	Candidate string `json:"candidate"`
	Answer    string `json:"answer"` // the first one: another --margin may give another
}

// Decide tests the candidate against the incumbent and answers; the file of tries is then up to date.
//
// The answer is keep if the difference is positive with the probability 1 - Level, or with nonInferior
// above -margin. It is discard if with 95% a gain is below margin, or with nonInferior there is none; or
// if a run of the candidate diverged, one without a pair too.
//
// The same pairs of runs are one try, however often they are asked about. If another process has the
// incumbent's folder, the error is a [*rundir.LockedError].
func Decide(candidate, incumbent analysis.Side, margin float64, nonInferior bool) (*Trial, error) {
	for _, side := range []analysis.Side{candidate, incumbent} {
		for _, s := range side.Fresh().Runs {
			if !s.Finished() {
				return nil, fmt.Errorf("the run of %s with seed %d is %s: all runs must be finished, because choosing "+
					"the moment would choose the answer", side.Name, s.Seed, cmp.Or(s.State, "not finished"))
			}
		}
	}
	test, err := NewTest(candidate, incumbent, margin)
	if err != nil {
		return nil, err
	}
	t := &Trial{Test: *test, NonInferior: nonInferior}
	t.Pairs = t.pairsHash()
	return t, t.enter(func() {
		t.Level = stats.TryLevel(t.Try)
		c := t.Final()
		t.AtLeast, _ = c.Ends(t.Level)
		_, t.AtMost = c.Ends(stats.Alpha)
		t.AtLeast, t.AtMost = max(t.AtLeast, -1), min(t.AtMost, 1)
		t.answer()
	})
}

// answer sets Answer and Reason.
func (t *Trial) answer() {
	points := func(v float64) string { return analysis.InPercent.Bare(v) + " points" }
	difference := fmt.Sprintf("difference %s, %s", points(t.Comparison.Mean), textutil.Count(len(t.Seeds), "seed"))
	level := textutil.Exponent(strconv.FormatFloat(t.Level, 'g', 2, 64))
	atLeast := fmt.Sprintf("at least %s at the level %s of try %d", points(t.AtLeast), level, t.Try)
	atMost := fmt.Sprintf("at most %s (95%%)", points(t.AtMost))
	diverged := 0 // also without a pair
	for _, s := range t.A.Runs {
		if s.State == rundir.StateDiverged {
			diverged++
		}
	}
	enough, tooLittle := t.AtLeast > 0, t.AtMost < t.Margin
	if t.NonInferior {
		enough, tooLittle = t.AtLeast > -t.Margin, t.AtMost < 0
	}
	switch {
	case diverged > 0:
		t.Answer = Discard
		t.Reason = fmt.Sprintf("%d of the candidate's %s diverged", diverged, textutil.Count(len(t.A.Runs), "run"))
	case t.Identical():
		t.Answer, t.Reason = Discard, "the candidate's runs are the incumbent's, to the bit"
	case enough && t.NonInferior:
		t.Answer = Keep
		t.Reason = fmt.Sprintf("not worse by %s: %s, %s", marginText(t.Margin), difference, atLeast)
	case enough:
		t.Answer, t.Reason = Keep, fmt.Sprintf("better: %s, %s", difference, atLeast)
	case t.AtMost < 0:
		t.Answer, t.Reason = Discard, fmt.Sprintf("worse: %s, %s", difference, atMost)
	case tooLittle:
		t.Answer = Discard
		t.Reason = fmt.Sprintf("not better by %s: %s, %s", marginText(t.Margin), difference, atMost)
	default:
		t.Answer = Undecided
		open := "better nor to gain"
		if t.NonInferior {
			open = "worse nor to lose"
		}
		t.Reason = fmt.Sprintf("neither shown to be %s less than %s: %s, %s, %s", open, marginText(t.Margin), difference, atLeast,
			atMost)
	}
}

// pairsHash identifies the runs of the pairs: more seeds are another comparison, and so are runs that
// were made again with other results.
func (t *Trial) pairsHash() string {
	h := sha256.New()
	for i := range t.Analysis.Arms {
		for _, s := range t.Analysis.Arms[i].Runs {
			fmt.Fprintf(h, "%d %d %q %v\n", i, s.Seed, s.Run.Result.WeightsSHA256, s.Run.Result.Final.Sampled.AnswerReward)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// ledger is a file of tries, and the arm whose tries count.
type ledger struct{ file, arm string }

// ledgers are where tries with this incumbent are: in the folder of its sweep, or for runs outside of
// sweeps in their own. New lines go to the first, which is that of the lowest seed.
func (t *Trial) ledgers() []ledger {
	if t.B.Arm != "" {
		return []ledger{{filepath.Join(t.B.Folders[0], LedgerFile), t.B.Arm}}
	}
	runs := slices.Clone(t.B.Runs)
	slices.SortFunc(runs, func(x, y sweepdir.RunState) int { return cmp.Compare(x.Seed, y.Seed) })
	var out []ledger
	arms := sweepdir.Arms{}
	for _, s := range runs {
		l := ledger{filepath.Join(s.Run.Dir, LedgerFile), ""}
		if arm := textutil.Printable(arms.Of(s.Run.Dir), 0); arm != "" {
			l = ledger{filepath.Join(s.Run.Dir, "..", "..", LedgerFile), arm}
		}
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// enter takes the number of the try from the ledger, calls decide, and adds a line if the try is new.
// The folder of the ledger is locked meanwhile, so that two processes have two numbers.
func (t *Trial) enter(decide func()) (err error) {
	files := t.ledgers()
	t.Ledger = filepath.ToSlash(files[0].file)
	lock, err := rundir.Lock(filepath.Dir(files[0].file))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	var tries []LedgerLine
	var text []byte // of the first file
	for i, file := range files {
		data, lines, err := readLedger(file.file)
		if err != nil {
			return err
		}
		if i == 0 {
			text = data
		}
		for _, l := range lines {
			if l.Arm == file.arm && !slices.ContainsFunc(tries, func(m LedgerLine) bool { return m.Pairs == l.Pairs }) {
				tries = append(tries, l)
			}
		}
	}
	t.Tries = len(tries)
	if i := slices.IndexFunc(tries, func(l LedgerLine) bool { return l.Pairs == t.Pairs }); i >= 0 {
		t.Try = tries[i].Try
		decide()
		return nil
	}
	t.Tries++
	t.Try = t.Tries
	decide()
	line, err := rundir.Marshal(LedgerLine{files[0].arm, t.Try, t.Pairs, t.A.Name, t.Answer})
	if err != nil {
		return err
	}
	return rundir.WriteFileAtomic(files[0].file, append(append(text, line...), '\n'))
}

// readLedger reads the tries of a file; a missing one has none. A damaged one is an error, because a
// count that began again would void the guarantee.
func readLedger(file string) (data []byte, lines []LedgerLine, err error) {
	data, err = regular.Read(file, regular.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for i, text := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		var l LedgerLine
		err := rundir.Unmarshal(text, &l)
		if err == nil && (l.Try < 1 || len(l.Pairs) != 2*sha256.Size) {
			err = errors.New("it has no try, or no hash of pairs")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: line %d: %w (restore the file; without it earlier tries are not counted)",
				file, i+1, err)
		}
		lines = append(lines, l)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return data, lines, nil
}
