// Package docblock writes the measurements of a tool into a document, between two markers, so that
// numbers in the documentation are never typed by hand.
package docblock

import (
	"bytes"
	"fmt"
	"os"

	"grpo/pkg/rundir"
)

// Replace puts text between the lines <!-- name:begin --> and <!-- name:end --> of the file at
// path. A file without the markers is an error and not changed.
func Replace(path, name, text string) error {
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
