package gsm8k

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"grpo/internal/jsonl"
)

// maxSVAMPBytes bounds an SVAMP file, one JSON array that is read into memory. The
// published file has 340 kB.
const maxSVAMPBytes = 64 << 20

// ReadSVAMP reads SVAMP's JSON (Patel et al., "Are NLP models really able to solve simple math word
// problems?", 2021): an array of objects with "Body", "Question", "Equation", "Answer" (a number),
// "Type" and "ID". The question is Body, a space, Question. The worked answer is written from the
// equation in GSM8K's form: "( 76.0 - 25.0 )" with answer 51.0 becomes "76-25=<<76-25=51>>51",
// newline, "#### 51".
//
// Elements in GSM8K's form, or with the fields that opt names, are read as by [ReadJSONL].
//
// Errors and SkipBad are those of [ReadJSONL], with the first line of an element. Broken JSON
// cannot be skipped, because the next element cannot be found.
func ReadSVAMP(r io.Reader, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	return collect(name, "line", opt, func(c *collector) error {
		err := c.array(r)
		if err != nil && c.broken != nil && !opt.SkipBad && !errors.Is(err, c.broken) {
			return c.broken // it comes first in the file
		}
		return err
	})
}

// array adds the elements of a JSON array.
func (c *collector) array(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxSVAMPBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxSVAMPBytes {
		return fmt.Errorf("longer than %d MiB, too long for a JSON array (write it as JSONL)", maxSVAMPBytes>>20)
	}
	data = bytes.TrimPrefix(data, jsonl.BOM)
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if !utf8.Valid(data) {
		return errUTF8
	}

	dec := json.NewDecoder(bytes.NewReader(data))
	line, counted := 1, int64(0)
	lineAt := func(offset int64) int { // of an offset that does not decrease
		line += bytes.Count(data[counted:max(counted, offset)], []byte("\n"))
		counted = max(counted, offset)
		return line
	}
	failAt := func(err error) error { return fmt.Errorf("line %d: %w", lineAt(dec.InputOffset()), err) }
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the array is not closed")
		}
		return failAt(fmt.Errorf("broken JSON: %w", err))
	}
	if open, err := dec.Token(); err != nil {
		return broken(err)
	} else if open != json.Delim('[') {
		return failAt(errors.New("want a JSON array of objects"))
	}
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return broken(err)
		}
		at := lineAt(dec.InputOffset() - int64(len(raw)))
		p, bad := c.opt.parseElement(raw)
		if err := c.add(p, at, bad); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return failAt(errors.New("text after the array"))
	}
	return nil
}

// parseElement parses an element of an array: one in SVAMP's form, or with the fields of GSM8K's
// form or those that the options name.
func (o ReadOptions) parseElement(raw []byte) (Problem, error) {
	var keys map[string]json.RawMessage
	known := json.Unmarshal(raw, &keys) == nil
	switch {
	case o.Fields != (Fields{}), known && keys["Body"] == nil && (keys[defaultQuestion] != nil || o.Answers.kind != ""):
		return o.parseRecord(raw)
	case o.Answers.kind == KindChoice || o.Answers.kind == KindCountdown:
		return Problem{}, fmt.Errorf("it is in SVAMP's form, whose answers are numbers, not of the kind %s", o.Answers.kind)
	}
	p, err := parseSVAMP(raw)
	if err == nil && o.Answers.kind != KindNone {
		err = o.setWorked(&p, p.Answer, "Answer")
	}
	return p, err
}

// parseSVAMP makes GSM8K's form of an element of SVAMP: its worked answer is the equation and the line "#### N".
func parseSVAMP(raw []byte) (p Problem, err error) {
	fields, err := decodeObject(raw, "SVAMP's", "Body", "Question", "Answer")
	if err != nil {
		return p, err
	}
	var body, question, equation string
	for _, f := range []struct {
		key      string
		optional bool
		to       *string
	}{
		{"Body", false, &body}, {"Question", false, &question},
		{"ID", true, &p.ID}, {"Type", true, &p.Type}, {"Equation", true, &equation},
	} {
		if _, ok := fields[f.key]; !ok && f.optional {
			continue
		}
		if *f.to, err = stringField(fields, f.key); err != nil {
			return p, err
		}
	}
	p.Question = strings.TrimSpace(body) + " " + strings.TrimSpace(question)
	if p.Type = strings.ToLower(p.Type); p.Type == "common-divison" { // misspelled in one element of the published file
		p.Type = "common-division"
	}
	number, ok := fields["Answer"].(json.Number) // SVAMP writes 51.0 for 51
	if !ok {
		return p, fmt.Errorf(`"Answer" is %s, want a number`, jsonl.Kind(fields["Answer"]))
	}
	if p.Gold, ok = normaliseNumber(number.String()); !ok {
		return p, fmt.Errorf(`"Answer" %s is not a plain decimal number`, clip(number.String()))
	}
	p.Gold = canonicalNumber(p.Gold)
	p.Fields = otherFields(fields, "Body", "Question", "Answer", "ID", "Type", "Equation")
	p.Answer = marker + " " + p.Gold
	if eq := plainEquation(equation); eq != "" {
		p.Answer = fmt.Sprintf("%s=<<%s=%s>>%s\n%s", eq, eq, p.Gold, p.Gold, p.Answer)
	}
	return p, nil
}

// plainEquation rewrites SVAMP's "( ( 3.0 + 2.0 ) * 4.0 )" as "(3+2)*4", without
// the outermost parentheses that SVAMP always writes. It returns "" for other text.
func plainEquation(s string) string {
	words := strings.Fields(s)
	if len(words) < 2 || words[0] != "(" || words[len(words)-1] != ")" {
		return ""
	}
	var b strings.Builder
	for _, w := range words[1 : len(words)-1] {
		if n, ok := normaliseNumber(w); ok {
			w = canonicalNumber(n)
		} else if !strings.Contains("( ) + - * /", w) {
			return ""
		}
		b.WriteString(w)
	}
	return b.String()
}
