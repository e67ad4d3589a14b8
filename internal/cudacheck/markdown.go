package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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

// write puts the findings between their markers in a document.
func write(c *check, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc, wrote := string(text), 0
	for _, p := range parts {
		data, err := os.ReadFile(filepath.Join(c.out, p.name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var t table
		if err := json.Unmarshal(data, &t); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if doc, err = between(doc, p.name, t.markdown()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		wrote++
	}
	fmt.Printf("%d of %d tables written into %s\n", wrote, len(parts), path)
	return os.WriteFile(path, []byte(doc), 0o644)
}

// between replaces what stands between the markers of a part.
func between(doc, name, text string) (string, error) {
	begin, end := "<!-- cuda-check: "+name+" -->\n", "<!-- end: "+name+" -->"
	i := strings.Index(doc, begin)
	if i < 0 {
		return "", fmt.Errorf("the marker %q is missing", strings.TrimSpace(begin))
	}
	i += len(begin)
	j := strings.Index(doc[i:], end)
	if j < 0 {
		return "", fmt.Errorf("the marker %q is missing", end)
	}
	return doc[:i] + text + doc[i+j:], nil
}
