package gsm8k

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/jsonl"
)

// AnnotationMode selects what happens to the calculator annotations in worked
// answers, as in "She sold 48/2 = <<48/2=24>>24 clips.".
type AnnotationMode string

const (
	// KeepAnnotations leaves worked answers unchanged; the empty mode means the same.
	KeepAnnotations AnnotationMode = "keep"
	// StripAnnotations removes them: "She sold 48/2 = 24 clips.".
	StripAnnotations AnnotationMode = "strip"
	// EquationAnnotations keeps only them: one equation per line ("48/2=24"), then the line "####
	// N".
	EquationAnnotations AnnotationMode = "equation"
)

// ReadOptions are the options of reading problem files.
type ReadOptions struct {
	// SkipBad skips and counts invalid records instead of failing at the first one.
	SkipBad     bool
	Annotations AnnotationMode
	// Fields are the names of the fields with the question and the answer.
	Fields Fields
	// Answers are those of the problems.
	Answers Answers
}

func (o ReadOptions) check() error {
	known := []string{string(KeepAnnotations), string(StripAnnotations), string(EquationAnnotations)}
	if m := string(o.Annotations); m != "" && !slices.Contains(known, m) {
		return fmt.Errorf("annotation mode: %w", unknownName(m, known))
	}
	return nil
}

// Apply rewrites a worked answer that ends in a line "#### N". EquationAnnotations leaves others unchanged.
func (m AnnotationMode) Apply(answer string) string {
	switch m {
	case StripAnnotations:
		text, _ := splitAnnotations(answer)
		return text
	case EquationAnnotations:
		_, equations := splitAnnotations(answer)
		final := strings.LastIndex(answer, marker)
		if final < 0 { // an answer in another form
			return answer
		}
		return strings.Join(append(equations, answer[final:]), "\n")
	}
	return answer
}

// splitAnnotations returns the text without annotations, and their contents in
// order. An unclosed "<<" is text.
func splitAnnotations(s string) (text string, equations []string) {
	var b strings.Builder
	for {
		before, tail, open := strings.Cut(s, "<<")
		inside, after, closed := strings.Cut(tail, ">>")
		if !open || !closed {
			b.WriteString(s)
			return b.String(), equations
		}
		b.WriteString(before)
		if eq := strings.TrimSpace(inside); eq != "" {
			equations = append(equations, eq)
		}
		s = after
	}
}

// ReadReport counts the records of a file. Lines = Problems + Skipped.
type ReadReport struct {
	Lines    int    // records: lines of a JSONL file that are not blank, elements of an array
	Problems int    // valid records
	Skipped  int    // invalid records (SkipBad only)
	FirstBad string // the first of these, as "line 12: reason"
}

// ReadJSONL reads problems in GSM8K's form: one JSON object per line with a "question" and an
// "answer", or with the fields that opt names. The answer ends in a line "#### N" or is a plain
// number. The optional strings "id", "type" and "fact" are those of [WriteJSONL]; other keys become
// [Problem.Fields], and blank lines are ignored. name is the name of the file in errors and IDs.
//
// An invalid line is an error with its number and the reason, unless opt.SkipBad. A file without a
// single valid line is always an error.
func ReadJSONL(r io.Reader, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	return collect(name, "line", opt, func(c *collector) error {
		lines := jsonl.NewReader(r, jsonl.MaxLine)
		for {
			text, bad, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			var p Problem
			if bad == nil {
				p, bad = opt.parseRecord(text)
			}
			if err := c.add(p, lines.Line, bad); err != nil {
				return err
			}
		}
	})
}

// parseRecord parses one line of GSM8K's form. Annotations are left in.
func (o ReadOptions) parseRecord(text []byte) (Problem, error) {
	fields, err := decodeObject(text, o.Fields.form(), o.required()...)
	if err != nil {
		return Problem{}, err
	}
	return o.problem(fields)
}

// decodeObject decodes a JSON object that must have the wanted fields.
func decodeObject(text []byte, form string, want ...string) (map[string]any, error) {
	fields, err := jsonl.Object(text)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool { _, ok := field(fields, name); return ok }
	return fields, missingFields(slices.Sorted(maps.Keys(fields)), has, form, want)
}

// missingFields returns an error unless a record has the wanted fields. found are its fields.
func missingFields(found []string, has func(name string) bool, form string, want []string) error {
	missing := slices.DeleteFunc(slices.Clone(want), has)
	if len(missing) == 0 {
		return nil
	}
	list := "it has no fields"
	if len(found) > shownFields {
		list = "its fields are " + quotedList(found[:shownFields]) + " and more"
	} else if len(found) > 0 {
		list = "its fields are " + quotedList(found)
	}
	return fmt.Errorf("no %s: %s; a problem in %s form has %s "+
		"(rename the fields, or name them with data.fields; \"grpo data stats\" has --fields)",
		quotedList(missing), list, form, quotedList(want))
}

// otherFields encodes the fields other than these.
func otherFields(fields map[string]any, own ...string) string {
	rest := maps.Clone(fields)
	maps.DeleteFunc(rest, func(key string, _ any) bool { return slices.Contains(own, key) })
	if len(rest) == 0 {
		return ""
	}
	text, _ := json.Marshal(rest) // it was JSON before
	return string(text)
}

// shownFields is the number of field names that an error lists.
const shownFields = 8

func quotedList(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.Quote(clip(name))
	}
	return strings.Join(out, ", ")
}

// stringField returns a field that must be a string and not blank.
func stringField(fields map[string]any, key string) (string, error) {
	value, _ := field(fields, key)
	s, ok := value.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%q is %s, want a string", key, jsonl.Kind(value))
	case strings.TrimSpace(s) == "":
		return "", fmt.Errorf("%q is empty", key)
	}
	return s, nil
}

// Bounds of what is read from a file of problems: a record of a few bytes, or of none in a compressed
// file, takes some hundred in memory, and a pipe may never end.
const (
	maxRecords = 1 << 22
	maxText    = 1 << 30 // bytes of all texts
)

// collector gathers the problems of one file and counts its records.
type collector struct {
	text     int // bytes of the problems so far
	name     string
	unit     string // what a record's number counts: "line" or "row"
	opt      ReadOptions
	problems []Problem
	report   ReadReport
	// broken is the first invalid record. Without SkipBad, reading continues to the
	// first valid one, because the advice to skip helps only if there is one.
	broken error
}

// collect returns the problems that read adds to a collector. Its errors name the file.
func collect(name, unit string, opt ReadOptions, read func(*collector) error) ([]Problem, ReadReport, error) {
	c := &collector{name: name, unit: unit, opt: opt}
	err := opt.check()
	if err == nil {
		err = read(c)
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, c.report, fmt.Errorf("read problems: %s: %w", name, err)
	}
	return c.problems, c.report, nil
}

// add takes one record, or the reason why it is invalid.
func (c *collector) add(p Problem, line int, bad error) error {
	c.report.Lines++
	c.text += len(p.Question) + len(p.Answer) + len(p.Fields)
	if c.report.Lines > maxRecords || c.text > maxText {
		return fmt.Errorf("%s %d: more than %d records or %d MiB of text (use a part of the file)", c.unit,
			line, maxRecords, maxText>>20)
	}
	if bad != nil {
		if c.broken == nil {
			c.broken = fmt.Errorf("%s %d: %w", c.unit, line, bad)
			c.report.FirstBad = c.broken.Error()
		}
		c.report.Skipped++
	} else {
		c.report.Problems++
	}
	if !c.opt.SkipBad && c.broken != nil && c.report.Problems > 0 {
		return fmt.Errorf("%w (pass --skip-bad to count and skip such %ss)", c.broken, c.unit)
	}
	if bad != nil {
		return nil
	}
	p.Line = line
	if p.ID == "" {
		base := filepath.Base(c.name)
		p.ID = fmt.Sprintf("%s-%05d", strings.TrimSuffix(base, filepath.Ext(base)), line)
	}
	p.Answer = c.opt.Annotations.Apply(p.Answer)
	c.problems = append(c.problems, p)
	return nil
}

// check returns an error unless the file has a valid record.
func (c *collector) check() error {
	switch {
	case c.report.Lines == 0:
		return errors.New("the file has no problems")
	case c.report.Problems == 0 && !c.opt.SkipBad:
		return fmt.Errorf("%w (0 of %d records are valid)", c.broken, c.report.Lines)
	case c.report.Problems == 0:
		return fmt.Errorf("all of its %d records are invalid; the first: %w", c.report.Lines, c.broken)
	}
	return nil
}

// WriteJSONL writes problems in GSM8K's form, one per line, with "id" and, if known, "type" and
// "fact", and the other fields. [ReadJSONL] reads them back.
func WriteJSONL(w io.Writer, problems []Problem) error {
	records := make([]any, len(problems))
	for i, p := range problems {
		if records[i] = p; p.Fields == "" {
			continue
		}
		record, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("write problems: %w", err)
		}
		records[i] = json.RawMessage(append(append(record[:len(record)-1], ','), p.Fields[1:]...))
	}
	if err := jsonl.Write(w, records); err != nil {
		return fmt.Errorf("write problems: %w", err)
	}
	return nil
}
