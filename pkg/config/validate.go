package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Validate checks a configuration that did not come through [Load] or
// [LoadSFT] (which call it) and reports all broken rules at once in an [*Error].
func Validate[T Root](c *T) error {
	if problems := (&checker{root: c}).run(); len(problems) > 0 {
		return &Error{Doing: "check config", Problems: problems}
	}
	return nil
}

// checker runs the rules of a root. A key that is wrong in itself is reported
// once and left out of the rules that compare it with others.
type checker struct {
	root    any
	origins map[string]Origin
	broken  map[string]bool
	// partial: the sources hold other problems, such as a misspelt key, so
	// that comparing keys would report consequences beside the causes.
	partial  bool
	problems []string
}

func (c *checker) markBroken(sets ...map[string]bool) {
	if c.broken == nil {
		c.broken = map[string]bool{}
	}
	for _, set := range sets {
		maps.Copy(c.broken, set)
	}
}

func (c *checker) run() []string {
	v := viewOf(c.root, c.origins)
	for _, f := range leaves(c.root) {
		if err := wellFormed(f.value); err != nil {
			c.problems = append(c.problems, fmt.Sprintf("%s %v", v.name(f.path), err))
			c.markBroken(map[string]bool{f.path: true})
		}
	}
	rules, sections := rulesConfig, 1
	if s, ok := c.root.(*SFT); ok {
		rules, sections = rulesSFT, len(s.Stages)
		c.stages(s)
	}
	for _, r := range rules {
		if !strings.Contains(r.keys[0], "*") {
			c.apply(r, v, r.keys)
			continue
		}
		for i := range sections {
			keys := make([]string, len(r.keys))
			for j, k := range r.keys {
				keys[j] = strings.Replace(k, "*", strconv.Itoa(i), 1)
			}
			c.apply(r, v, keys)
		}
	}
	return c.problems
}

func (c *checker) apply(r rule, v *view, keys []string) {
	if c.partial && len(keys) > 1 {
		return
	}
	for _, k := range keys {
		if c.broken[k] {
			return
		}
	}
	if problem := r.check(v, keys); problem != "" {
		c.problems = append(c.problems, problem)
		if len(keys) == 1 {
			c.markBroken(map[string]bool{keys[0]: true})
		}
	}
}

// stages checks the list of stages as such.
func (c *checker) stages(s *SFT) {
	if len(s.Stages) == 0 && !c.partial {
		c.problems = append(c.problems, "stages must hold at least one stage")
	}
	first := map[string]int{}
	for i, stage := range s.Stages {
		if j, ok := first[stage.Name]; ok && stage.Name != "" {
			c.problems = append(c.problems, fmt.Sprintf("stages.%d.name must not be %q, as is stages.%d.name", i, stage.Name, j))
			continue
		}
		first[stage.Name] = i
	}
}

// wellFormed holds for every value that a source can write: numbers are finite
// and texts printable.
func wellFormed(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return fmt.Errorf("must be finite")
		}
	case reflect.String:
		return checkText(v.String())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := wellFormed(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
