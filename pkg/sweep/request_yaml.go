package sweep

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// requestForm is a [Request] as YAML. Values may be anything that --set takes, so
// they stay nodes.
type requestForm struct {
	Name      yamldoc.Line   `yaml:"name,omitempty"`
	Title     yamldoc.Line   `yaml:"title,omitempty"`
	Question  yamldoc.Line   `yaml:"question,omitempty"`
	Config    yamldoc.Line   `yaml:"config,omitempty"`
	Set       *yaml.Node     `yaml:"set,omitempty"`
	Arms      []armForm      `yaml:"arms,omitempty"`
	Axes      []axisForm     `yaml:"axes,omitempty"`
	Reference yamldoc.Line   `yaml:"reference,omitempty"`
	BestOver  yamldoc.Line   `yaml:"best_over,omitempty"`
	Choice    int            `yaml:"choice_seeds,omitempty"`
	Reuse     bool           `yaml:"reuse_choice,omitempty"`
	Fixed     []yamldoc.Line `yaml:"fixed,omitempty"`
	Notes     []yamldoc.Line `yaml:"notes,omitempty"`
	Seeds     *yaml.Node     `yaml:"seeds,omitempty"` // a count or a list
}

type armForm struct {
	Name    yamldoc.Line `yaml:"name,omitempty"`
	Label   yamldoc.Line `yaml:"label,omitempty"`
	Set     *yaml.Node   `yaml:"set,omitempty"`
	Control bool         `yaml:"control,omitempty"`
}

type axisForm struct {
	Key    yamldoc.Line `yaml:"key,omitempty"`
	Label  yamldoc.Line `yaml:"label,omitempty"`
	Values *yaml.Node   `yaml:"values,omitempty"`
}

// maxProblems bounds the list: a data file given by mistake has one per line.
const maxProblems = 20

// requestFile is the form of a request's file; a thousand arms take about 100 KB.
var requestFile = yamldoc.Form{
	What: "one file is one sweep", Empty: "it names no arms and no axes",
	Folder: "this is a folder; a sweep's request is sweep.yaml in it", Max: 4 << 20, Larger: "not a sweep",
	Example: "name: my-sweep", MaxProblems: maxProblems, MaxSections: maxRuns,
}

// ParseRequest reads a request from YAML as strictly as a configuration (see package
// yamldoc). label is the name of the file in messages. [NewPlan] checks the keys and
// values of settings.
func ParseRequest(label string, text []byte) (Request, error) {
	var form requestForm
	d := requestReader{requestFile.Decode(label, text, &form)}
	var req Request
	if d.Lines != nil {
		req = d.request(form)
	}
	if len(d.Problems) > 0 {
		return Request{}, configError("read sweep", d.Problems...)
	}
	return req, nil
}

// requestReader checks a form and converts it to a request.
type requestReader struct{ *yamldoc.Document }

func (d requestReader) request(f requestForm) Request {
	req := Request{
		Name: string(f.Name), Title: string(f.Title), Question: string(f.Question), Config: string(f.Config),
		Reference: string(f.Reference), BestOver: string(f.BestOver), ReuseChoice: f.Reuse,
		Set: d.settings("set", f.Set), Fixed: d.texts("fixed", f.Fixed), Notes: d.texts("notes", f.Notes),
	}
	req.Seeds, req.Looks = d.seeds(f.Seeds)
	req.ChoiceSeeds = f.Choice
	n := len(req.Seeds)
	if f.Seeds == nil {
		n = DefaultSeeds
	}
	switch line := d.Lines["choice_seeds"]; {
	case line == 0:
	case f.Choice < 1 || f.BestOver == "" || f.Reuse:
		d.Problem(line, "choice_seeds must be 1 or more, and is for best_over without reuse_choice")
	case len(req.Looks) > 0:
		d.Problem(line, "choice_seeds does not go with planned looks (seeds), whose first has the seeds of the choice "+
			"(remove the line)")
	case n > 0 && f.Choice > n:
		d.Problem(line, "choice_seeds (%d) must not be more than the seeds on which arms are compared (%d)", f.Choice, n)
	}
	if f.Reuse && f.BestOver == "" {
		d.Problem(d.Lines["reuse_choice"], "reuse_choice is for best_over, which chooses (remove the line)")
	}
	if d.Lines["name"] == 0 {
		d.Problem(d.Lines[""], "it has no name (write \"name: my-sweep\")")
	}
	if d.Lines["arms"] == 0 && d.Lines["axes"] == 0 {
		d.Problem(d.Lines[""], "it has neither arms nor axes: there is nothing to compare")
	}
	if req.Question != "" && !strings.HasSuffix(req.Question, "?") {
		d.Problem(d.Lines["question"], "question must end with a question mark")
	}
	d.notEmpty("arms", f.Arms == nil, len(f.Arms))
	d.notEmpty("axes", f.Axes == nil, len(f.Axes))
	for i, a := range f.Arms {
		path := yamldoc.Join("arms", strconv.Itoa(i))
		same := func(b ArmRequest) bool { return b.Name == string(a.Name) }
		switch {
		case d.Broken[path]:
		case d.Lines[path+".name"] == 0:
			d.Problem(d.Lines[path], "the arm has no name")
		case a.Name != "" && slices.ContainsFunc(req.Arms, same):
			d.Problem(d.Lines[path], "duplicate arm %s", textutil.Quote(string(a.Name)))
		}
		req.Arms = append(req.Arms, ArmRequest{
			Name: string(a.Name), Label: string(a.Label), Set: d.settings(path+".set", a.Set), Control: a.Control,
		})
	}
	for i, a := range f.Axes {
		path := yamldoc.Join("axes", strconv.Itoa(i))
		if !d.Broken[path] && (d.Lines[path+".key"] == 0 || a.Values == nil) {
			d.Problem(d.Lines[path], "an axis needs a key and its values")
		}
		x := AxisRequest{Key: string(a.Key), Label: string(a.Label), From: d.At(d.Lines[path])}
		for _, e := range d.list(path+".values", a.Values) {
			if v, ok := d.value(path+".values", e); ok {
				x.Values = append(x.Values, v)
			}
		}
		req.Axes = append(req.Axes, x)
	}
	return req
}

// notEmpty refuses an empty list.
func (d requestReader) notEmpty(path string, broken bool, n int) {
	if d.Lines[path] > 0 && !broken && n == 0 {
		d.Problem(d.Lines[path], "%s must not be an empty list (remove the line)", path)
	}
}

// texts reads a list of different strings.
func (d requestReader) texts(path string, lines []yamldoc.Line) (out []string) {
	d.notEmpty(path, lines == nil, len(lines))
	seen := map[yamldoc.Line]bool{}
	for i, line := range lines {
		if seen[line] {
			at := d.Lines[yamldoc.Join(path, strconv.Itoa(i))]
			d.Problem(at, "%s: %s appears twice", path, textutil.Quote(string(line)))
		}
		seen[line] = true
		out = append(out, string(line))
	}
	return out
}

// list returns the elements of a node that must be a list with at least one.
func (d requestReader) list(path string, n *yaml.Node) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		d.Problem(n.Line, "%s must be a list, not %s", path, yamldoc.Kind(n))
		return nil
	}
	d.notEmpty(path, false, len(n.Content))
	return n.Content
}

// settings reads the keys of a set.
func (d requestReader) settings(path string, n *yaml.Node) (out []Setting) {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.Problem(n.Line, "%s must be a section with keys, not %s", path, yamldoc.Kind(n))
		return nil
	}
	d.Pairs(n, "", func(key, value *yaml.Node) {
		if v, ok := d.value(key.Value, value); ok {
			out = append(out, Setting{Key: key.Value, Value: v, From: d.At(key.Line)})
		}
	})
	return out
}

// value reads a value as --set takes it: a scalar, or a list as [a, b].
func (d requestReader) value(what string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.SequenceNode && n.Style&yaml.TaggedStyle == 0:
		parts := make([]string, len(n.Content))
		for i, e := range n.Content {
			if e.Kind != yaml.ScalarNode {
				d.Problem(e.Line, "%s: an element of a list must be a single value, not %s", what, yamldoc.Kind(e))
				return "", false
			}
			v, ok := d.value(what, e)
			if !ok {
				return "", false
			}
			if parts[i] = v; strings.TrimSpace(v) != v || strings.ContainsAny(v, "\n\t,[]\"") {
				parts[i] = strconv.Quote(v) // such as data.stop: ["\n\n", "a,b"]
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case n.Kind == yaml.MappingNode:
		d.Problem(n.Line, "%s must be a value, not a section (write the key with dots: %s.KEY)", what, what)
		return "", false
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Style&yaml.TaggedStyle != 0:
		d.Problem(n.Line, "%s must be a value, not %s", what, yamldoc.Kind(n))
		return "", false
	}
	return n.Value, true
}

// seeds reads a count, a list, or a plan of looks.
func (d requestReader) seeds(n *yaml.Node) ([]uint64, []sweepdir.Look) {
	if n == nil {
		return nil, nil
	}
	isNumber := func(e *yaml.Node) bool { return e.Kind == yaml.ScalarNode && e.Style == 0 }
	if n.Kind == yaml.ScalarNode {
		if count, err := strconv.Atoi(n.Value); err == nil && isNumber(n) && count >= 1 && count <= maxRuns {
			return FirstSeeds(count), nil
		}
		if seeds, looks, ok, err := ParseLooks(n.Value); ok {
			if err != nil {
				d.Problem(n.Line, "seeds: %s", strings.Join(problemsOf(err), "; "))
			}
			return seeds, looks
		}
		d.Problem(n.Line, "seeds must be a count of 1 to %d or a list, not %s "+
			"(write 4 for the seeds 1 to 4, a list such as [1, 2, 5], or 4..16 to look at 4, 8 and 16 seeds)", maxRuns,
			yamldoc.Kind(n))
		return nil, nil
	}
	var out []uint64
	for _, e := range d.list("seeds", n) {
		s, err := strconv.ParseUint(e.Value, 10, 64)
		if err != nil || !isNumber(e) {
			d.Problem(e.Line, "seeds: want an integer of 0 or more, not %s", yamldoc.Kind(e))
			continue
		}
		out = append(out, s)
	}
	if err := checkSeeds(out); err != nil && len(out) > 0 {
		d.Problem(n.Line, "seeds: %v", err)
	}
	return out, nil
}

// request writes the plan as a request. Its base is a set of all values that file,
// environment, request and command line set. Values that follow from others are left
// out, because the arms may change what they follow from.
func (p *planner) request(m sweepdir.Manifest) ([]byte, error) {
	f := requestForm{
		Name: yamldoc.Line(m.Name), Title: yamldoc.Line(m.Title), Question: yamldoc.Line(m.Question),
		Set: p.baseSettings(), Reference: yamldoc.Line(m.Reference), BestOver: yamldoc.Line(m.BestOver),
		Reuse: m.BestOver != "" && m.ChosenOn() == 0,
		Fixed: asLines(p.req.Fixed), Notes: asLines(p.req.Notes),
		Seeds: &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle},
	}
	for _, a := range p.req.Arms {
		set := &yaml.Node{Kind: yaml.MappingNode}
		for _, s := range a.Set {
			if k, err := config.FindKey(s.Key); err == nil { // planned already: the key is known
				set.Content = append(set.Content, quotable(k.Path), valueNode(k, s.Value))
			}
		}
		f.Arms = append(f.Arms, armForm{yamldoc.Line(a.Name), yamldoc.Line(a.Label), set, a.Control})
	}
	for _, a := range m.Axes {
		values := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		if k, err := config.FindKey(a.Key); err == nil {
			for _, v := range a.Values {
				values.Content = append(values.Content, valueNode(k, v))
			}
			for i, v := range a.Written { // numbers
				values.Content[i] = plain(v)
			}
		}
		f.Axes = append(f.Axes, axisForm{yamldoc.Line(a.Key), yamldoc.Line(a.Label), values})
	}
	head := "# written by grpo; repeat with: grpo ablate this-file\n"
	seeds := m.Seeds
	switch c := m.ChosenOn(); {
	case c > 0 && len(m.Looks) == 2: // the fresh seeds follow from these
		n := len(seeds) - c
		if seeds = seeds[:n]; n != c {
			f.Choice = c
		}
	case len(m.Looks) > 0 && slices.Equal(seeds, FirstSeeds(len(seeds))):
		f.Seeds, seeds = plain(LooksText(m.Looks)), nil
	case len(m.Looks) > 0: // a file can't plan looks at other seeds than the first
		head = "# written by grpo; grpo ablate this-file trains all of these seeds, without the looks at them that\n" +
			"# grpo assignment has planned: repeat that command\n"
	}
	for _, s := range seeds {
		f.Seeds.Content = append(f.Seeds.Content, plain(strconv.FormatUint(s, 10)))
	}

	b := bytes.NewBufferString(head)
	e := yaml.NewEncoder(b)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("write the sweep's request: %w", err)
	}
	return b.Bytes(), nil
}

func asLines(texts []string) (out []yamldoc.Line) {
	for _, s := range texts {
		out = append(out, yamldoc.Line(s))
	}
	return out
}

// baseSettings are the keys of the base that some source set, except name and seed.
func (p *planner) baseSettings() *yaml.Node {
	set := &yaml.Node{Kind: yaml.MappingNode}
	for _, row := range p.base.Rows() {
		o := row.Origin
		follows := o.Source == config.SourceDefault || o.From != "" || o.AskedBy != ""
		if !follows && row.Key != "name" && row.Key != "seed" && !config.OfLauncher(row.Key) {
			set.Content = append(set.Content, quotable(row.Key), notation(row.Value))
		}
	}
	return set
}

// quotable is a string, in quotes where YAML would take it for something else.
func quotable(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// plain is a number or a boolean, as it is written.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// notation is a value as package config writes it, in YAML.
func notation(s string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Content) != 1 {
		return quotable(s)
	}
	return doc.Content[0]
}

// valueNode is the value of a key, as --set takes it.
func valueNode(k config.Key, s string) *yaml.Node {
	switch {
	case k.Kind == reflect.String:
		return quotable(s)
	case k.Kind == reflect.Slice, k.Kind == reflect.Array:
		return notation(canonical(k, s))
	}
	return plain(canonical(k, s))
}
