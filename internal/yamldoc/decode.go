package yamldoc

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
)

// Line is a one-line string field, which accepts any scalar: it is trimmed, must not be empty, and
// may end in a line break, as folded YAML strings do.
type Line string

// MarshalYAML writes quotes only if YAML would read another type.
func (l Line) MarshalYAML() (any, error) {
	n := &yaml.Node{}
	n.SetString(string(l))
	return n, nil
}

var (
	lineType = reflect.TypeFor[Line]()
	nodeType = reflect.TypeFor[*yaml.Node]()
)

// Document is the result of [Form.Decode].
type Document struct {
	Label    string
	Problems []string
	// Lines has the line of each key and list element in the file, by path; nil if there is no
	// document.
	Lines map[string]int
	// Comments has the comment on each key as one line: the lines above it and the end of its own
	// line.
	Comments map[string]string
	// Broken has the keys whose value in the file is invalid.
	Broken map[string]bool

	form *Form
}

// Decode reads a document into the struct that into points to. Missing and invalid keys keep their
// values; elements of a list of sections start from their method SetDefaults, if they have one. A
// field of the type *yaml.Node is left for the caller to read. label is the name of the file in
// messages.
func (f *Form) Decode(label string, text []byte, into any) *Document {
	d := &Document{Label: label, Broken: map[string]bool{}, form: f}
	root, p := f.parse(text)
	switch {
	case p != nil && p.line == 0:
		d.Problems = []string{label + ": " + p.text}
	case p != nil:
		d.Problem(p.line, "%s", p.text)
	default:
		d.Lines, d.Comments = map[string]int{"": max(root.Line, 1)}, map[string]string{}
		if f.Rewrite != nil {
			f.Rewrite(d, root)
		}
		d.section(root, reflect.ValueOf(into).Elem(), "")
	}
	return d
}

// Problem reports what is wrong in a line.
func (d *Document) Problem(line int, format string, args ...any) {
	switch n := len(d.Problems); {
	case n < d.form.MaxProblems:
		d.Problems = append(d.Problems, d.At(line)+": "+fmt.Sprintf(format, args...))
	case n == d.form.MaxProblems:
		d.Problems = append(d.Problems, d.Label+": further problems are not listed")
	}
}

func (d *Document) full() bool { return len(d.Problems) > d.form.MaxProblems }

// At names a line: "x.yaml: line 3".
func (d *Document) At(line int) string { return fmt.Sprintf("%s: line %d", d.Label, line) }

// Pairs calls f with each key of the section n at path, and its value. A key that is not plain or
// appears twice is a problem.
func (d *Document) Pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		own := d.ownName(Join(path, key.Value))
		full := textutil.Quote(Join(path, key.Value))
		switch before := first[own]; {
		case key.Tag == "!!merge":
			d.Problem(key.Line, "merge keys (<<) are not supported (write the keys out)")
		case key.Kind != yaml.ScalarNode:
			d.Problem(key.Line, "want a key, not %s", Kind(key))
		case key.Style&yaml.TaggedStyle != 0:
			d.Problem(key.Line, "the key %s has the tag %s: tags are not supported (remove it)",
				textutil.Quote(key.Value), textutil.Show(key.Tag))
		case before == nil:
			first[own] = key
			f(key, value)
		case before.Value == key.Value:
			d.Problem(key.Line, "duplicate key %s: it is already in line %d", full, before.Line)
		default:
			d.Problem(key.Line, "duplicate key %s: it is already in line %d, as %s", full, before.Line,
				textutil.Quote(before.Value))
		}
	}
}

// ownName returns the key for a full path, which may be another name of it.
func (d *Document) ownName(path string) string {
	if own, ok := d.form.OtherNames[path]; ok {
		return own
	}
	return path
}

// section reads the keys of n into the struct v at path.
func (d *Document) section(n *yaml.Node, v reflect.Value, path string) {
	d.Pairs(n, path, func(key, value *yaml.Node) {
		name := key.Value
		if own, ok := d.form.OtherNames[Join(path, name)]; ok {
			name = LastPart(own)
		}
		for _, f := range Fields(v.Type()) {
			if Name(f) == name {
				d.Lines[Join(path, name)] = key.Line
				d.Comments[Join(path, name)] = Prose(key.HeadComment, key.LineComment, value.LineComment)
				d.value(value, v.FieldByIndex(f.Index), Join(path, name), key.Line)
				return
			}
		}
		d.Problem(key.Line, "unknown key %s%s", textutil.Quote(key.Value), d.suggest(v.Type(), key.Value))
	})
}

// Prose joins comments into one line.
func Prose(comments ...string) string {
	var all []string
	for _, c := range comments {
		for line := range strings.Lines(c) {
			all = append(all, strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "#"))...)
		}
	}
	return strings.Join(all, " ")
}

// suggest ends the message about an unknown key of a section.
func (d *Document) suggest(t reflect.Type, key string) string {
	var here []string
	for _, f := range Fields(t) {
		name := Name(f)
		if rest, ok := strings.CutPrefix(key, name+"."); ok {
			return fmt.Sprintf(" (write %s: and below it, indented, %s:)", name, rest)
		}
		here = append(here, name)
	}
	if d.form.Suggest != nil {
		return d.form.Suggest(key, here)
	}
	if s := suggest.DidYouMean(key, here); s != "" {
		return s
	}
	return fmt.Sprintf(" (the keys here are %s)", strings.Join(here, ", "))
}

// value reads the value of a key; line is the key's.
func (d *Document) value(n *yaml.Node, v reflect.Value, path string, line int) {
	var err error
	switch {
	case v.Type() == nodeType:
		v.Set(reflect.ValueOf(n))
	case n.Kind == yaml.AliasNode:
		err = fmt.Errorf("is the alias *%s: aliases are not supported (write the value out)", textutil.Show(n.Value))
	case n.Style&yaml.TaggedStyle != 0:
		err = fmt.Errorf("has the tag %s: tags are not supported (remove it)", textutil.Show(n.Tag))
	case v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode && len(n.Content) > 0:
		d.section(n, v, path)
	case v.Kind() == reflect.Struct && (n.Kind == yaml.MappingNode || n.Tag == "!!null"):
		err = mustBe(v.Type(), Kind(n), "remove the line or give it keys")
	case v.Kind() == reflect.Struct:
		err = mustBe(v.Type(), Kind(n), "")
	case IsSections(v.Type()):
		err = d.sections(n, v, path)
	default:
		err = d.leaf(n, v, path)
	}
	if err != nil {
		if n.Kind == yaml.ScalarNode || n.Kind == yaml.AliasNode {
			line = max(n.Line, line)
		}
		d.Broken[path] = true
		d.Problem(line, "%s %v", path, err)
	}
}

// sections reads a list of sections.
func (d *Document) sections(n *yaml.Node, v reflect.Value, path string) error {
	switch {
	case n.Kind != yaml.SequenceNode:
		return mustBe(v.Type(), Kind(n), "")
	case len(n.Content) > d.form.MaxSections:
		return fmt.Errorf("has %d sections, more than %d", len(n.Content), d.form.MaxSections)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, e := range n.Content {
		element := Join(path, strconv.Itoa(i))
		d.Lines[element] = e.Line
		if v, ok := v.Index(i).Addr().Interface().(interface{ SetDefaults() }); ok {
			v.SetDefaults()
		}
		d.value(e, v.Index(i), element, e.Line)
	}
	return nil
}

// leaf reads a scalar or a list of scalars. A YAML value has its own type (quoted "8" is not a
// number, bare 8 is not a string), which must match the key's.
func (d *Document) leaf(n *yaml.Node, v reflect.Value, path string) error {
	t := v.Type()
	if IsList(t) {
		if n.Kind != yaml.SequenceNode {
			return fmt.Errorf("must be %s, not %s (write [a, b])", TypeName(t), Kind(n))
		}
		for i, e := range n.Content {
			d.Lines[Join(path, strconv.Itoa(i))] = e.Line
		}
		return setList(v, len(n.Content), func(i int, e reflect.Value) error { return d.leaf(n.Content[i], e, "") })
	}
	inQuotes := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&yaml.TaggedStyle != 0:
		return mustBe(t, Kind(n), "")
	case n.Tag == "!!null" && !inQuotes:
		return mustBe(t, "nothing", "give a value or remove the line")
	case t == lineType:
		if strings.TrimSpace(n.Value) == "" {
			return fmt.Errorf("must not be empty (remove the line)")
		}
		v.SetString(strings.TrimSpace(n.Value))
		return checkString(strings.TrimSuffix(n.Value, "\n"))
	case t.Kind() == reflect.String && n.Tag != "!!str":
		return mustBe(t, Kind(n), fmt.Sprintf("write %s, in quotes", textutil.Quote(n.Value)))
	case t.Kind() != reflect.String && inQuotes:
		return mustBe(t, "the string "+textutil.Quote(n.Value), "remove the quotes")
	}
	return setScalar(v, n.Value)
}
