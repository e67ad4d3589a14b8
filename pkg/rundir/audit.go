package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/config"
)

// Files in the folder of an audit, besides [PassAtKPlot]. AuditFile and the files made from it can be made again from
// the others.
const (
	AuditFile       = "audit.json"
	AuditTable      = "audit.md"
	AuditPage       = "audit.html"
	AuditDrawsFile  = "draws.jsonl" // lines of [AuditDraw]
	AuditDriftFile  = "drift.jsonl" // lines of [AuditDrift]
	AuditPlaceboDir = "placebo"     // a sweep
)

// AuditDraw is a line of draws.jsonl: what one policy answered when it completed each of some problems several times.
type AuditDraw struct {
	Weights  string `json:"weights"`  // the policy's: a SHA-256, in two parts if some of them are frozen
	Settings string `json:"settings"` // SHA-256 of the problems, their prompts, and how completions are sampled
	Seed     uint64 `json:"seed"`     // of the random numbers, with Draw
	Draw     int    `json:"draw"`
	From     int    `json:"from"` // index of the first problem
	Counts   Counts `json:"counts"`
	// Votes has for each problem how many completions gave the right answer, and then how many gave each other answer,
	// the most frequent first. The other completions have no answer.
	Votes [][]int `json:"votes"`
}

// Samples is the number of completions of a problem.
func (d *AuditDraw) Samples() int { return d.Counts.N / max(1, len(d.Votes)) }

// Check returns an error for votes that contradict each other or the counts.
func (d *AuditDraw) Check() error {
	n, right, voted := d.Samples(), 0, 0
	for i, votes := range d.Votes {
		sum := 0
		for _, v := range votes {
			sum += v
			if v < 0 {
				return fmt.Errorf("problem %d: %d votes", d.From+i, v)
			}
		}
		if len(votes) == 0 || sum > n {
			return fmt.Errorf("problem %d: %d votes of %d completions", d.From+i, sum, n)
		}
		right, voted = right+votes[0], voted+sum
	}
	c := d.Counts
	formatted := c.FormattedRight + c.FormattedWrong
	if d.From < 0 || n < 1 || c.N != n*len(d.Votes) || right != c.CorrectNum || voted != formatted {
		return fmt.Errorf("%d completions of %d problems, %d right and %d with an answer by their votes, contradict "+
			"the counts", c.N, len(d.Votes), right, voted)
	}
	return nil
}

// Append adds the problems that follow.
func (d *AuditDraw) Append(more AuditDraw) {
	d.Counts, d.Votes = d.Counts.Plus(more.Counts), append(d.Votes, more.Votes...)
}

// Plus are the counts of two sets of completions together.
func (c Counts) Plus(d Counts) Counts {
	sum := Counts{
		N: c.N + d.N, CorrectNum: c.CorrectNum + d.CorrectNum, ErrorNum: c.ErrorNum + d.ErrorNum,
		FormattedRight: c.FormattedRight + d.FormattedRight, FormattedWrong: c.FormattedWrong + d.FormattedWrong,
		Unformatted: c.Unformatted + d.Unformatted, Truncated: c.Truncated + d.Truncated,
	}
	// mean is that of two means, of m and n completions; nil without any, or if one of them is unknown.
	mean := func(x, y *float64, m, n int) *float64 {
		if m+n == 0 || m > 0 && x == nil || n > 0 && y == nil {
			return nil
		}
		total := 0.0
		if m > 0 {
			total += float64(*x * float64(m))
		}
		if n > 0 {
			total += float64(*y * float64(n))
		}
		total /= float64(m + n)
		return &total
	}
	n := float64(max(1, sum.N))
	sum.AnswerReward = float64(sum.CorrectNum) / n
	sum.FormatReward = float64(sum.FormattedRight+sum.FormattedWrong) / n
	if l := mean(&c.Length, &d.Length, c.N, d.N); l != nil {
		sum.Length = *l
	}
	if c.Score != nil || d.Score != nil {
		sum.Score = mean(c.Score, d.Score, c.N, d.N)
	}
	sum.LengthRight = mean(c.LengthRight, d.LengthRight, c.CorrectNum, d.CorrectNum)
	sum.LengthWrong = mean(c.LengthWrong, d.LengthWrong, c.ErrorNum, d.ErrorNum)
	return sum
}

// AuditDrift is a line of drift.jsonl: how far a trained policy is from the initial one, on one sampled completion of
// each of some problems.
type AuditDrift struct {
	Weights  string `json:"weights"`
	Base     string `json:"base"` // the weights of the initial policy
	Settings string `json:"settings"`
	Seed     uint64 `json:"seed"`
	// Of each problem's completion: its tokens, and the sums over them of log p - log p of the initial policy and of
	// both entropies, in nats.
	Tokens      []int     `json:"tokens"`
	LogRatio    []float64 `json:"log_ratio"`
	Entropy     []float64 `json:"entropy"`
	BaseEntropy []float64 `json:"base_entropy"`
	// Changed is the share of the weights that differ by more than [WeightChanged], and Distance the norm of the
	// difference over the norm of the initial weights; null where the trained weights are adapters.
	Changed  *float64 `json:"changed"`
	Distance *float64 `json:"distance"`
}

// WeightChanged is the smallest difference of a weight that counts as a change.
const WeightChanged = 1e-5

// Check returns an error for lists of different lengths.
func (d *AuditDrift) Check() error {
	n := len(d.Tokens)
	if n == 0 || len(d.LogRatio) != n || len(d.Entropy) != n || len(d.BaseEntropy) != n {
		return fmt.Errorf("%d, %d, %d and %d numbers for as many completions", n, len(d.LogRatio), len(d.Entropy),
			len(d.BaseEntropy))
	}
	for i, tokens := range d.Tokens {
		if tokens < 1 {
			return fmt.Errorf("completion %d has %d tokens", i, tokens)
		}
	}
	return nil
}

// AuditLogs are the lines of an audit's folder. The folder is made with the first new line.
type AuditLogs struct {
	Draws  []AuditDraw
	Drifts []AuditDrift

	dir           string
	release       func() error // nil: no line was added
	draws, drifts *Log
}

// ReadAudit reads the lines in the folder of an audit, of which there may be none. A partial last line is left out.
// Another folder with files is an error.
func ReadAudit(dir string) (*AuditLogs, error) {
	l := &AuditLogs{dir: dir}
	err := Allow(dir, KindOther, l.isAudit)
	if err == nil {
		l.Draws, err = auditLines(dir, AuditDrawsFile, (*AuditDraw).Check)
	}
	if err == nil {
		l.Drifts, err = auditLines(dir, AuditDriftFile, (*AuditDrift).Check)
	}
	return l, err
}

// isAudit returns an error unless the folder is an audit's.
func (l *AuditLogs) isAudit() error {
	for _, name := range []string{AuditFile, AuditDrawsFile, AuditPlaceboDir} {
		if _, err := os.Lstat(filepath.Join(l.dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %s has other files, and no audit; give another --out", config.ErrConfig, l.dir)
}

func auditLines[T any](dir, name string, check func(*T) error) ([]T, error) {
	path := filepath.Join(dir, name)
	data, err := regular.Read(path, regular.MaxLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lines []T
	if err == nil {
		lines, err = decodeLines[T](path, data)
	}
	for i := range lines {
		if bad := check(&lines[i]); bad != nil && err == nil {
			err = fmt.Errorf("read %s: line %d: %w", path, i+1, bad)
		}
	}
	return lines, err
}

// open takes the folder and opens the files for more lines.
func (l *AuditLogs) open() (err error) {
	if l.release != nil {
		return nil
	}
	if l.release, err = Claim(l.dir, KindOther, l.isAudit); err != nil {
		return err
	}
	if l.draws, err = openWhole(filepath.Join(l.dir, AuditDrawsFile)); err == nil {
		l.drifts, err = openWhole(filepath.Join(l.dir, AuditDriftFile))
	}
	return err
}

// openWhole is [OpenLog], which cuts a partial last line.
func openWhole(path string) (*Log, error) {
	log, err := OpenLog(path)
	if err != nil || !log.partial {
		return log, err
	}
	data, err := regular.Read(path, regular.MaxLog)
	if err == nil {
		err = log.TruncateTo(int64(bytes.LastIndexByte(data, '\n') + 1))
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// Draw adds a line to draws.jsonl.
func (l *AuditLogs) Draw(d AuditDraw) error {
	err := l.open()
	if err == nil {
		err = l.draws.Append(d)
	}
	l.Draws = append(l.Draws, d)
	return err
}

// Drift adds a line to drift.jsonl.
func (l *AuditLogs) Drift(d AuditDrift) error {
	err := l.open()
	if err == nil {
		err = l.drifts.Append(d)
	}
	l.Drifts = append(l.Drifts, d)
	return err
}

// Close closes the files and releases the folder.
func (l *AuditLogs) Close() error {
	var errs []error
	for _, log := range []*Log{l.draws, l.drifts} {
		if log != nil {
			errs = append(errs, log.Close())
		}
	}
	if l.release != nil {
		errs = append(errs, l.release())
	}
	l.draws, l.drifts, l.release = nil, nil, nil
	return errors.Join(errs...)
}
