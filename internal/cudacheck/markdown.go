package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/pkg/rundir"
)

// table is the result of a part.
type table struct {
	Part  string     `json:"part"`
	Card  string     `json:"card"`
	Holds bool       `json:"holds"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
	Notes []string   `json:"notes"`

	step float64 // seconds of the last step that was measured
}

func newTable(head ...string) *table { return &table{Holds: true, Head: head} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

func (t *table) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// fails notes a requirement that is not met.
func (t *table) fails(format string, args ...any) {
	t.Holds = false
	t.note("does not hold: "+format, args...)
}

func (t *table) markdown() string {
	var b strings.Builder
	if len(t.Rows) > 0 {
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
		for _, r := range t.Rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		}
	}
	if t.Card != "" {
		fmt.Fprintf(&b, "\nOn %s.\n", t.Card)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	return b.String()
}

// write puts the tables of the parts that ran into a document.
func write(c *check, path string) error {
	wrote := 0
	for _, p := range parts {
		data, err := os.ReadFile(filepath.Join(c.out, p.name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var t table
		if err == nil {
			err = json.Unmarshal(data, &t)
		}
		if err == nil {
			err = replace(path, "cuda-"+p.name, t.markdown())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		wrote++
	}
	fmt.Printf("%d of %d tables written into %s\n", wrote, len(parts), path)
	return nil
}

// replace puts text between the lines <!-- name:begin --> and <!-- name:end --> of the file at
// path. A file without the markers is an error and not changed.
func replace(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("put the table into the document: %w", err)
	}
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	before, rest, ok := bytes.Cut(old, []byte(begin+"\n"))
	_, after, closed := bytes.Cut(rest, []byte(end+"\n"))
	if !ok || !closed {
		return fmt.Errorf("put the table into the document: %s has no lines %s and %s, in this order", path, begin, end)
	}
	var b bytes.Buffer
	for _, part := range [][]byte{before, []byte(begin + "\n"), []byte(text), []byte(end + "\n"), after} {
		b.Write(part)
	}
	return rundir.WriteFileAtomic(path, b.Bytes())
}
