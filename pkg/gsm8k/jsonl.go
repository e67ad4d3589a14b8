package gsm8k

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonkeys"
)

// ReadOptions says how files of problems are read.
type ReadOptions struct {
	// SkipBad counts broken problems and goes on, instead of failing at the first.
	SkipBad bool
	// Annotations says what becomes of "<<48/2=24>>" in worked answers.
	Annotations AnnotationMode
}

// ReadReport says what a reader met. Lines = Problems + Skipped.
type ReadReport struct {
	Lines    int    // records: lines of a JSONL file that are not blank, elements of an array
	Problems int    // records that became problems
	Skipped  int    // broken records passed over (SkipBad only)
	FirstBad string // the first of these, as "line 12: reason"
}

// ReadJSONL reads problems in GSM8K's form: one JSON object a line with the
// strings "question" and "answer", the latter ending in a line "#### N". The
// optional strings "id", "type" and "fact" are those that [WriteJSONL] writes;
// other keys are ignored, blank lines too. name is the name of the file in errors
// and IDs.
//
// A broken line is an error with its number and the reason, unless opt.SkipBad.
// A file without a single good line is an error always.
func ReadJSONL(r io.Reader, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	c := &collector{name: name, opt: opt}
	if err := opt.Annotations.check(); err != nil {
		return nil, c.report, fmt.Errorf("read problems: %s: %w", name, err)
	}
	lines := newLineReader(r, maxLineBytes)
	for {
		text, tooLong, err := lines.next()
		if errors.Is(err, io.EOF) {
			return c.finish()
		}
		if err != nil {
			return nil, c.report, fmt.Errorf("read problems: %s: after line %d: %w", name, lines.line, err)
		}
		if !tooLong && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var p Problem
		if tooLong {
			err = fmt.Errorf("longer than %d MiB", maxLineBytes>>20)
		} else {
			p, err = parseRecord(text)
		}
		if err := c.add(p, lines.line, err); err != nil {
			return nil, c.report, err
		}
	}
}

// parseRecord reads one line of GSM8K's form. Annotations are left in.
func parseRecord(text []byte) (Problem, error) {
	fields, err := decodeObject(text)
	if err != nil {
		return Problem{}, err
	}
	if err := wantFields(fields, "GSM8K's JSONL", "question", "answer"); err != nil {
		return Problem{}, err
	}
	var p Problem
	if p.Question, err = stringField(fields, "question"); err != nil {
		return Problem{}, err
	}
	if p.Answer, err = stringField(fields, "answer"); err != nil {
		return Problem{}, err
	}
	if p.Gold, err = goldOf(p.Answer); err != nil {
		return Problem{}, err
	}
	p.ID, p.Type, p.Fact = ownField(fields, "id"), ownField(fields, "type"), ownField(fields, "fact")
	return p, nil
}

// goldOf returns the number that closes a worked answer.
func goldOf(answer string) (string, error) {
	line, rest, ok := finalLine(answer)
	if !ok {
		return "", fmt.Errorf("no \"%s N\" in \"answer\"", marker)
	}
	gold, ok := normaliseNumber(line)
	if !ok {
		return "", fmt.Errorf("%q after %q in \"answer\" is no number", clip(strings.TrimSpace(line)), marker)
	}
	if strings.TrimSpace(rest) != "" {
		return "", fmt.Errorf("text after the line \"%s N\" in \"answer\"", marker)
	}
	return gold, nil
}

// decodeObject splits a JSON object into its fields. Unlike encoding/json's
// structs it tells "Question" from "question".
func decodeObject(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not valid UTF-8")
	}
	var fields map[string]json.RawMessage
	err := json.Unmarshal(text, &fields)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return nil, fmt.Errorf("a JSON %s, want an object", wrongType.Value)
	case err != nil:
		return nil, fmt.Errorf("broken JSON: %w", err)
	case fields == nil:
		return nil, errors.New("a JSON null, want an object")
	}
	return fields, jsonkeys.Check(text)
}

// shownFields is the number of field names that an error lists.
const shownFields = 8

// wantFields returns an error that names the fields that are there and those that
// a problem has, if one of these is missing.
func wantFields(fields map[string]json.RawMessage, form string, want ...string) error {
	missing := slices.DeleteFunc(slices.Clone(want), func(key string) bool { _, ok := fields[key]; return ok })
	if len(missing) == 0 {
		return nil
	}
	found := "it has no fields"
	if len(fields) > 0 {
		names := slices.Sorted(maps.Keys(fields))
		more := ""
		if len(names) > shownFields {
			names, more = names[:shownFields], " and more"
		}
		found = "its fields are " + quotedList(names) + more
	}
	return fmt.Errorf("no %s: %s; a problem in %s form has %s (rename the fields)", quotedList(missing), found, form, quotedList(want))
}

func quotedList(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.Quote(clip(name))
	}
	return strings.Join(out, ", ")
}

// stringField returns a field that must be a string with something in it.
func stringField(fields map[string]json.RawMessage, key string) (string, error) {
	raw, ok := fields[key]
	if !ok {
		return "", fmt.Errorf("no %q", key)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", fmt.Errorf("broken JSON: %w", err)
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%q is %s, want a string", key, jsonKind(v))
	}
	if strings.TrimSpace(s) == "" {
		return "", fmt.Errorf("%q is empty", key)
	}
	return s, nil
}

// ownField returns an optional string that WriteJSONL wrote. Foreign files may
// use the key for something else: what is no string is not ours.
func ownField(fields map[string]json.RawMessage, key string) string {
	var s string
	if json.Unmarshal(fields[key], &s) != nil {
		return ""
	}
	return s
}

func jsonKind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case float64, json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// collector gathers the problems of one file and keeps the books.
type collector struct {
	name     string
	opt      ReadOptions
	problems []Problem
	report   ReadReport
	// broken is the first broken record. Without SkipBad, reading goes on to the
	// first good one, because the advice to skip helps only if there is one.
	broken error
}

// add takes one record, or the reason why it is broken.
func (c *collector) add(p Problem, line int, bad error) error {
	c.report.Lines++
	if bad != nil {
		if c.broken == nil {
			c.broken = fmt.Errorf("line %d: %w", line, bad)
			c.report.FirstBad = c.broken.Error()
		}
		c.report.Skipped++
	} else {
		c.report.Problems++
	}
	if !c.opt.SkipBad && c.broken != nil && c.report.Problems > 0 {
		return fmt.Errorf("read problems: %s: %w (pass --skip-bad to count and skip such lines)", c.name, c.broken)
	}
	if bad != nil {
		return nil
	}
	p.Line = line
	if p.ID == "" {
		base := filepath.Base(c.name)
		p.ID = fmt.Sprintf("%s-%05d", strings.TrimSuffix(base, filepath.Ext(base)), line)
	}
	p.Answer = c.opt.Annotations.apply(p.Answer)
	c.problems = append(c.problems, p)
	return nil
}

func (c *collector) finish() ([]Problem, ReadReport, error) {
	switch {
	case c.report.Lines == 0:
		return nil, c.report, fmt.Errorf("read problems: %s: the file holds no problems", c.name)
	case c.report.Problems == 0 && !c.opt.SkipBad:
		return nil, c.report, fmt.Errorf("read problems: %s: %w (0 of %d records can be read)", c.name, c.broken, c.report.Lines)
	case c.report.Problems == 0:
		return nil, c.report, fmt.Errorf("read problems: %s: all of its %d records are broken, the first at %w", c.name, c.report.Lines, c.broken)
	}
	return c.problems, c.report, nil
}

// WriteJSONL writes problems in GSM8K's form, one a line, with "id" and, where
// they are known, and also "type" and "fact". [ReadJSONL] gives them back.
func WriteJSONL(w io.Writer, problems []Problem) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // keep "<<7+5=12>>" readable
	for _, p := range problems {
		err := enc.Encode(struct {
			ID       string `json:"id,omitempty"`
			Question string `json:"question"`
			Answer   string `json:"answer"`
			Type     string `json:"type,omitempty"`
			Fact     string `json:"fact,omitempty"`
		}{p.ID, p.Question, p.Answer, p.Type, p.Fact})
		if err != nil {
			return fmt.Errorf("write problems: %s: %w", p.ID, err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	return nil
}
