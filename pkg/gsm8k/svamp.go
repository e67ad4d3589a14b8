package gsm8k

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxSVAMPBytes bounds an SVAMP file, which is one JSON array and held whole.
// The real one has 340 kB.
const maxSVAMPBytes = 64 << 20

// ReadSVAMP reads SVAMP's JSON (Patel et al., "Are NLP models really able to
// solve simple math word problems?", 2021): an array of objects with "Body",
// "Question", "Equation", "Answer" (a number), "Type" and "ID". The question is
// Body, a space, Question. The worked answer is made from the equation in
// GSM8K's form: "( 76.0 - 25.0 )" with answer 51.0 becomes
// "76-25=<<76-25=51>>51", newline, "#### 51".
//
// Errors and SkipBad are those of [ReadJSONL], with the line on which an element
// begins; broken JSON cannot be skipped, because nothing after it can be found.
func ReadSVAMP(r io.Reader, name string, opt ReadOptions) ([]Problem, ReadReport, error) {
	c := &collector{name: name, opt: opt}
	fail := func(err error) ([]Problem, ReadReport, error) {
		if c.broken != nil && !opt.SkipBad {
			err = c.broken // it comes first in the file
		}
		return nil, c.report, fmt.Errorf("read problems: %s: %w", name, err)
	}
	if err := opt.Annotations.check(); err != nil {
		return fail(err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSVAMPBytes+1))
	if err != nil {
		return fail(err)
	}
	if len(data) > maxSVAMPBytes {
		return fail(fmt.Errorf("longer than %d MiB, too long for an SVAMP file", maxSVAMPBytes>>20))
	}
	data = bytes.TrimPrefix(data, utf8BOM)
	if len(bytes.TrimSpace(data)) == 0 {
		return c.finish()
	}
	if !utf8.Valid(data) {
		return fail(errors.New("not valid UTF-8"))
	}

	pos := position{data: data, line: 1}
	dec := json.NewDecoder(bytes.NewReader(data))
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the array is not closed")
		}
		return fmt.Errorf("line %d: broken JSON: %w", pos.at(dec.InputOffset()), err)
	}
	open, err := dec.Token()
	if err != nil {
		return fail(broken(err))
	}
	if open != json.Delim('[') {
		return fail(fmt.Errorf("line %d: want a JSON array of SVAMP's objects", pos.at(dec.InputOffset())))
	}
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fail(broken(err))
		}
		line := pos.at(dec.InputOffset() - int64(len(raw)))
		p, bad := parseSVAMP(raw)
		if err := c.add(p, line, bad); err != nil {
			return nil, c.report, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail(broken(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fail(fmt.Errorf("line %d: text after the array", pos.at(dec.InputOffset())))
	}
	return c.finish()
}

// position turns growing offsets into line numbers.
type position struct {
	data []byte
	off  int64
	line int
}

func (p *position) at(offset int64) int {
	if offset > p.off {
		p.line += bytes.Count(p.data[p.off:offset], []byte("\n"))
		p.off = offset
	}
	return p.line
}

func parseSVAMP(raw []byte) (Problem, error) {
	fields, err := decodeObject(raw)
	if err != nil {
		return Problem{}, err
	}
	if err := wantFields(fields, "SVAMP's", "Body", "Question", "Answer"); err != nil {
		return Problem{}, err
	}
	var p Problem
	body, err := stringField(fields, "Body")
	if err != nil {
		return Problem{}, err
	}
	question, err := stringField(fields, "Question")
	if err != nil {
		return Problem{}, err
	}
	p.Question = strings.TrimSpace(body) + " " + strings.TrimSpace(question)
	if p.Gold, err = svampGold(fields); err != nil {
		return Problem{}, err
	}
	var equation string
	for _, f := range []struct {
		key string
		dst *string
	}{{"ID", &p.ID}, {"Type", &p.Type}, {"Equation", &equation}} {
		if _, ok := fields[f.key]; !ok {
			continue
		}
		if *f.dst, err = stringField(fields, f.key); err != nil {
			return Problem{}, err
		}
	}
	p.Type = strings.ToLower(p.Type)
	if p.Type == "common-divison" { // one element of the published file is misspelt
		p.Type = "common-division"
	}
	p.Answer = marker + " " + p.Gold
	if eq := plainEquation(equation); eq != "" {
		p.Answer = fmt.Sprintf("%s=<<%s=%s>>%s\n%s", eq, eq, p.Gold, p.Gold, p.Answer)
	}
	return p, nil
}

// svampGold reads "Answer", a JSON number. SVAMP writes 51.0 for 51.
func svampGold(fields map[string]json.RawMessage) (string, error) {
	raw, ok := fields["Answer"]
	if !ok {
		return "", errors.New(`no "Answer"`)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // float64 would round
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("broken JSON: %w", err)
	}
	n, ok := v.(json.Number)
	if !ok {
		return "", fmt.Errorf(`"Answer" is %s, want a number`, jsonKind(v))
	}
	s, ok := normaliseNumber(n.String())
	if !ok {
		return "", fmt.Errorf(`"Answer" %s is no plain decimal number`, clip(n.String()))
	}
	return canonicalNumber(s), nil
}

// plainEquation rewrites SVAMP's "( ( 3.0 + 2.0 ) * 4.0 )" as "(3+2)*4". The
// outermost pair of parentheses, which SVAMP always writes, goes. It returns ""
// for text that is no such equation.
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
