package reward

import (
	"fmt"
	"regexp"
)

// pattern gives 1 to completions in which it matches anywhere, and 0 to the others.
type pattern struct{ re *regexp.Regexp }

// CheckPattern returns an error unless text is a pattern.
func CheckPattern(text string) error {
	_, err := newPattern(text)
	return err
}

func newPattern(text string) (*pattern, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("not an RE2 pattern: %w", err)
	}
	return &pattern{re}, nil
}

func (p *pattern) Score(b Batch) (Scores, error) {
	s := Scores{Rewards: make([]float64, len(b.Completions))}
	for i, c := range b.Completions {
		if p.re.MatchString(c.Completion) {
			s.Rewards[i] = 1
		}
	}
	return s, nil
}

func (p *pattern) Close() {}
