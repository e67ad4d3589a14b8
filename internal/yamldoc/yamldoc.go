// Package yamldoc is the one strict reader of YAML files: run configurations, recipes of grpo sft,
// requests of sweeps. It decodes a document into a struct and refuses input that the YAML library
// would convert, merge, drop or panic at. Every problem has its line, and all problems of a file
// are reported at once.
//
// The fields of the struct are the keys, by their yaml tags. A key's full name is its path, joined
// by dots: train.learning_rate, stages.0.steps.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"grpo/internal/regular"
	"grpo/internal/textutil"
)

// Form describes what a file should contain, for the reader and for its messages.
type Form struct {
	What    string // "one file is one configuration"
	Folder  string // "this is a folder, not a YAML file"
	Max     int    // bytes
	Larger  string // "not a configuration"
	Empty   string // "it sets no key"
	Example string // a key with a value: "seed: 1"

	MaxProblems int // maximum listed
	MaxSections int // in a list of sections

	// OtherNames maps alternative full paths to their keys.
	OtherNames map[string]string
	// Rewrite replaces short forms in the document before it is decoded; nil = none.
	Rewrite func(d *Document, root *yaml.Node)
	// Suggest ends the message about an unknown key of a section that has the keys here; nil
	// suggests the nearest of these.
	Suggest func(key string, here []string) string
}

// Read returns the content of a file of at most f.Max bytes.
func (f *Form) Read(name string) ([]byte, error) {
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

// problem is an error in a file, and where.
type problem struct {
	line int // from 1; 0 = the file as a whole
	text string
}

// parse returns the content of the only document.
func (f *Form) parse(text []byte) (*yaml.Node, *problem) {
	if p := isText(text); p != nil {
		return nil, p
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	err := decode(decoder, &doc)
	if errors.Is(err, io.EOF) || err == nil && isEmpty(&doc) {
		return nil, &problem{0, "the file is empty: " + f.Empty}
	}
	if err == nil {
		if err = decode(decoder, &second); err == nil {
			line := max(second.Line, 1)
			if len(second.Content) > 0 {
				line = second.Content[0].Line
			}
			// The library puts an empty document after the last line.
			line = min(line, lastLine(text))
			return nil, &problem{line, "a second YAML document begins: " + f.What + " (remove the --- before it)"}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, syntax(text, err)
	}
	if root := doc.Content[0]; root.Kind != yaml.MappingNode {
		text := fmt.Sprintf("want keys (such as %q) at the top, not %s", f.Example, Kind(root))
		return nil, &problem{max(root.Line, 1), text}
	}
	return doc.Content[0], nil
}

// decode turns a panic of the YAML library, which untrusted input can provoke,
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

// Kind describes a node's type.
func Kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "an empty section"
	case n.Kind == yaml.MappingNode:
		return "a section with keys"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.Tag == "!!null":
		return "nothing"
	}
	return "the value " + textutil.Show(n.Value)
}
