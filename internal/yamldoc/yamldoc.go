// Package yamldoc reads files that hold one YAML document, strictly and with a
// line for every problem: what the YAML library would convert, drop or panic at
// is refused before it gets that far.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"grpo/internal/regular"
	"grpo/internal/words"
)

// Problem is what is wrong with a text, and where.
type Problem struct {
	Line int // from 1; 0 = the text as a whole
	Text string
}

// File says what a file should be, for its messages.
type File struct {
	What   string // "one file is one configuration"
	Folder string // "this is a folder, not a YAML file"
	Max    int    // bytes
	Larger string // "not a configuration"
	Empty  string // "it sets no key"
}

// Read returns the text of a file of at most f.Max bytes.
func (f File) Read(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, errors.New(f.Folder)
	}
	file, err := regular.Named(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(f.Max)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > f.Max {
		return nil, fmt.Errorf("the file is larger than %d KiB: %s", f.Max>>10, f.Larger)
	}
	return text, nil
}

// Parse returns the content of the text's only document.
func (f File) Parse(text []byte) (*yaml.Node, *Problem) {
	if p := isText(text); p != nil {
		return nil, p
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	err := decode(decoder, &doc)
	if errors.Is(err, io.EOF) || err == nil && isEmpty(&doc) {
		return nil, &Problem{0, "the file is empty: " + f.Empty}
	}
	if err == nil {
		if err = decode(decoder, &second); err == nil {
			line := max(second.Line, 1)
			if len(second.Content) > 0 {
				line = second.Content[0].Line
			}
			// The library puts an empty document behind the end.
			return nil, &Problem{min(line, lastLine(text)), fmt.Sprintf("a second YAML document begins: %s (remove the --- before it)", f.What)}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, syntax(text, err)
	}
	return doc.Content[0], nil
}

// decode turns a panic of the YAML library, which hostile input can provoke,
// into an error.
func decode(decoder *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return decoder.Decode(n)
}

func isEmpty(doc *yaml.Node) bool {
	if len(doc.Content) == 0 {
		return true
	}
	n := doc.Content[0]
	return n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0
}

// Kind says in words what a node is.
func Kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a section with keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Tag == "!!null":
		return "nothing"
	}
	return "the value " + words.Show(n.Value)
}
