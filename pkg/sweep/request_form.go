package sweep

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"grpo/internal/words"
	"grpo/internal/yamldoc"
)

// The form of a request: which keys each section has, and what of them must be
// there. Its documentation is at [Request].

func (r *reader) request(root *yaml.Node) Request {
	var req Request
	met := r.section(root, "a sweep", []field{
		{"name", r.line("name", &req.Name)},
		{"title", r.line("title", &req.Title)},
		{"question", func(n *yaml.Node) { r.question(n, &req.Question) }},
		{"config", r.line("config", &req.Config)},
		{"set", func(n *yaml.Node) { req.Set = r.settings(n) }},
		{"arms", r.list("arms", func(n *yaml.Node) { r.arm(n, &req) })},
		{"axes", r.list("axes", func(n *yaml.Node) { r.axis(n, &req) })},
		{"reference", r.line("reference", &req.Reference)},
		{"best_over", r.line("best_over", &req.BestOver)},
		{"fixed", r.list("fixed", func(n *yaml.Node) { r.append("fixed", n, &req.Fixed) })},
		{"notes", r.list("notes", func(n *yaml.Node) { r.append("notes", n, &req.Notes) })},
		{"seeds", func(n *yaml.Node) { r.seeds(n, &req.Seeds) }},
	})
	if !met["name"] {
		r.problem(root, "it has no name (write \"name: my-sweep\")")
	}
	if !met["arms"] && !met["axes"] {
		r.problem(root, "it has neither arms nor axes: there is nothing to compare")
	}
	return req
}

// append reads one text of a list of texts.
func (r *reader) append(what string, n *yaml.Node, to *[]string) {
	var s string
	if r.line(what, &s)(n); s == "" {
		return
	}
	if slices.Contains(*to, s) {
		r.problem(n, "%s: %s appears twice", what, words.Quote(s))
		return
	}
	*to = append(*to, s)
}

func (r *reader) question(n *yaml.Node, to *string) {
	if r.line("question", to)(n); *to != "" && !strings.HasSuffix(*to, "?") {
		r.problem(n, "question must end with a question mark")
	}
}

// settings reads the keys of a set. They may be short; that two names are of one
// key shows when the sweep is planned.
func (r *reader) settings(n *yaml.Node) []Setting {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "set must be a section with keys, not %s", yamldoc.Kind(n))
		return nil
	}
	var out []Setting
	r.pairs(n, func(key, value *yaml.Node) {
		if v, ok := r.value(key.Value, value); ok {
			out = append(out, Setting{Key: key.Value, Value: v, From: r.at(key)})
		}
	})
	return out
}

func (r *reader) arm(n *yaml.Node, req *Request) {
	var arm ArmRequest
	met := r.section(n, "an arm", []field{
		{"name", func(n *yaml.Node) {
			r.line("name", &arm.Name)(n)
			if slices.ContainsFunc(req.Arms, func(a ArmRequest) bool { return a.Name == arm.Name }) {
				r.problem(n, "duplicate arm %s", words.Quote(arm.Name))
			}
		}},
		{"label", r.line("label", &arm.Label)},
		{"set", func(n *yaml.Node) { arm.Set = r.settings(n) }},
		{"control", r.boolean("control", &arm.Control)},
	})
	if n.Kind == yaml.MappingNode && !met["name"] {
		r.problem(n, "the arm has no name")
	}
	req.Arms = append(req.Arms, arm)
}

func (r *reader) axis(n *yaml.Node, req *Request) {
	a := AxisRequest{From: r.at(n)}
	met := r.section(n, "an axis", []field{
		{"key", r.line("key", &a.Key)},
		{"label", r.line("label", &a.Label)},
		{"values", r.list("values", func(n *yaml.Node) {
			if v, ok := r.value("values", n); ok {
				a.Values = append(a.Values, v)
			}
		})},
	})
	if n.Kind == yaml.MappingNode && (!met["key"] || !met["values"]) {
		r.problem(n, "an axis needs a key and its values")
	}
	req.Axes = append(req.Axes, a)
}

// seeds reads a count or a list.
func (r *reader) seeds(n *yaml.Node, to *[]uint64) {
	if n.Kind == yaml.ScalarNode {
		count, err := strconv.Atoi(n.Value)
		if err != nil || n.Style != 0 || count < 1 || count > maxRuns {
			r.problem(n, "seeds must be a count of 1 to %d or a list, not %s (write 4 for the seeds 1 to 4, or a list such as [1, 2, 5])", maxRuns, yamldoc.Kind(n))
			return
		}
		*to = FirstSeeds(count)
		return
	}
	r.list("seeds", func(e *yaml.Node) {
		s, err := strconv.ParseUint(e.Value, 10, 64)
		if err != nil || e.Kind != yaml.ScalarNode || e.Style != 0 {
			r.problem(e, "seeds: want an integer of 0 or more, not %s", yamldoc.Kind(e))
			return
		}
		*to = append(*to, s)
	})(n)
	if err := checkSeeds(*to); err != nil && len(*to) > 0 {
		r.problem(n, "seeds: %v", err)
	}
}
