package jinja

import (
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// readCases are templates with the text that jinja2 gives, nil where it has an error. See testdata/cases.py.
func readCases(t testing.TB) (variables string, all [][2]*string) {
	t.Helper()
	f, err := os.Open("testdata/cases.json.gz")
	expect.OK(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	expect.OK(t, err)
	expect.OK(t, json.NewDecoder(z).Decode(&all))
	return *all[0][0], all[1:]
}

func render(source string) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(nil)
}

var uses = regexp.MustCompile("messages|rows|tool|nested|_token|documents")

// styles is how many of the last cases are templates in the styles of published ones.
const styles = 13

// No template prints another text than in jinja2. Some are refused, but none of the styles of published ones.
func TestEqualsJinja2(t *testing.T) {
	variables, all := readCases(t)
	equal, refused := 0, 0
	for i, c := range all {
		source := *c[0]
		if uses.MatchString(source) {
			source = variables + source
		}
		got, err := render(source)
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: the error has several lines: %v", *c[0], err)
		case err == nil && c[1] == nil:
			t.Errorf("%q is an error in jinja2; got %q", *c[0], got)
		case err == nil && got != *c[1]:
			t.Errorf("%q\n got %q\nwant %q", *c[0], got, *c[1])
		case err == nil:
			equal++
		case c[1] != nil:
			if refused++; i >= len(all)-styles {
				t.Errorf("%q: %v", *c[0], err)
			}
		}
	}
	t.Logf("%d of %d equal, %d refused that jinja2 renders, the others are errors in both", equal, len(all), refused)
	if equal < 12_500 {
		t.Errorf("only %d of %d are equal", equal, len(all))
	}
}

// Templates that ask for too much end in one line, and have taken little memory by then.
func TestLimits(t *testing.T) {
	double := "{% set ns = namespace(x=%s) %}{% for i in range(60) %}{% set ns.x = %s %}{% endfor %}{{ ns.x | length }}"
	times := func(start, next string) string {
		return strings.Replace(strings.Replace(double, "%s", start, 1), "%s", next, 1)
	}
	deep := strings.Repeat("[", 20_000)
	for _, source := range []string{
		"{{ 'a' * 100000000000 }}", "{{ 100000000000 * 'a' }}", "{{ [0] * 100000000000 }}", "{{ '' * 100000000000 }}",
		"{{ [] * 100000000000 }}", "{{ 'ab' * 9223372036854775807 }}",
		"{{ [1] | tojson(indent=10000000000) }}", "{{ 'a\nb' | indent(100000000000) }}",
		"{{ range(100000000) | list }}", "{{ range(0, -9223372036854775807, -1) | list }}",
		times("'ab'", "ns.x + ns.x"), times("'ab'", "ns.x ~ ns.x"), times("'ab'", "ns.x * 2"), times("'ab'", "ns.x.replace('a', 'ba' * 9)"),
		times("'ab'", "'%s%s' % (ns.x, ns.x)"), times("'ab'", "ns.x.join([ns.x, ns.x, ns.x])"), times("[1]", "ns.x + ns.x"),
		times("[1]", "[ns.x, ns.x]") + "{{ ns.x | tojson }}",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}",
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% for i in range(100000) %}{{ 'aaaaaaaaaa' * 100000 }}{% endfor %}",
		"{% set x = 'a' * 10000000 %}{% for i in range(100000) %}{{ x[i] }}{% endfor %}",
		"{% set x = 'a' * 10000000 %}{% for i in range(100000) %}{{ x is in x }}{{ 'b' in x }}{% endfor %}",
		"{% set x = 'a' * 10000000 %}{% for i in range(100000) %}{{ x.split('a') | length }}{% endfor %}",
		"{{ " + deep + strings.ReplaceAll(deep, "[", "]") + " }}", "{{ " + strings.Repeat("not ", 300) + "1 }}",
		"{{ " + strings.Repeat("-", 300) + "1 }}", "{{ 1" + strings.Repeat("+1", 3000) + " }}", strings.Repeat("{% if 1 %}", 300),
		"{{ ('<' * 10000000) | e }}", "{{ ([[0] * 1000] * 1000) | sum(start=[]) | length }}",
		"{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}{% call f() %}{% endcall %}",
		"{{ '%100000000000d' % 1 }}", "{{ x" + strings.Repeat("|d(1)", 3000) + " }}", strings.Repeat("x", maxSource+1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := render(source)
		runtime.ReadMemStats(&after)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %d bytes, error %v", source, len(text), err)
		}
		if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 8*maxWork>>20 {
			t.Errorf("%.80q: took %d MiB", source, taken)
		}
	}
}

// Pieces of templates in any order end in a text or an error.
func TestPiecesInAnyOrder(t *testing.T) {
	_, all := readCases(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var source string
		for range 3 {
			piece := *all[random.IntN(len(all))][0]
			from, to := random.IntN(len(piece)+1), random.IntN(len(piece)+1)
			source += piece[min(from, to):max(from, to)]
			if random.IntN(2) == 0 {
				source += piece
			}
		}
		_, _ = render(source)
	}
}

// Names without a meaning here are refused when a template is parsed.
func TestParseRefuses(t *testing.T) {
	for _, source := range []string{
		"{{ 'a' | nosuch }}", "{{ 'a' | wordcount }}", "{{ 'a'.swapcase() }}", "{{ 1 is nosuch }}", "{{ [1] | map('nosuch') }}",
		"{{ [1] | select('nosuch') }}", "{{ 'a'.upper(1) }}", "{{ 'a' | upper(x=1) }}", "{{ lipsum() }}", "{% include 'x' %}",
		"{% extends 'x' %}", "{% import 'x' as y %}", "{{ [].append(1) }}", "{{ f(*x) }}", "{{ '\\N{BULLET}' }}", "{% do x %}",
		"{% if false %}{{ 'a' | nosuch }}{% endif %}", "{{ 'a'.split('x', limit=1) }}", "{{ range(1, 2, 3, 4) }}", "{{ x ** 2 }}",
		"{{ [1] | map('upper' if x else 'lower') }}", "{{ [1] | map(x) }}", "{{ [1] | select('up' ~ 'per') }}",
	} {
		if _, err := Parse(source); err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%q: %v", source, err)
		}
	}
}
