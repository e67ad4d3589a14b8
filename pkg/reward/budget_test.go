package reward

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// doubled is an expression whose name z is start after n doublings.
func doubled(start, step string, n int) string {
	text := "let a0 = " + start + "; "
	last := "a0"
	for i := range n {
		next := string(rune('b'+i)) + "0"
		text += "let " + next + " = " + strings.ReplaceAll(step, "x", last) + "; "
		last = next
	}
	return text + "let z = " + last + "; "
}

// long marks tests that -short leaves out: the race detector makes them ten times slower, and they
// have one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short")
	}
}

// An expression that runs for ever or takes the machine's memory is an error, in bounded time and memory.
func TestExprBudget(t *testing.T) {
	long(t)
	part := 16 // of the budget and of the texts, without GRPO_LONG, which CI sets
	if os.Getenv("GRPO_LONG") != "" {
		part = 1
	}
	c := Completion{Completion: strings.Repeat("word ", 1000/part), Tokens: make([]int, 4000),
		Problem: Problem{Fields: json.RawMessage(`{"text": "` + strings.Repeat("x", 1000/part) + `"}`)}}
	eight := "x + x + x + x + x + x + x + x"
	for name, text := range map[string]string{
		"loops":               "let a = 1..100000; all(a, all(a, all(a, true))) ? 1 : 0",
		"sums in a loop":      "let a = 1..100000; all(a, sum(a) > 0) ? 1 : 0",
		"in a loop, in":       "let a = 1..100000; all(a, # in a) ? 1 : 0",
		"in a loop, not in":   "let a = 1..100000; none(a, # not in a) ? 1 : 0",
		"uniq":                "len(uniq(1..100000))",
		"searches":            `let a = 1..100000; all(a, completion not contains "zz") && all(a, all(a, not (completion matches "z$"))) ? 1 : 0`,
		"map of filter":       "let a = 1..100000; max(map(filter(1..1000, true), all(a, all(a, true)) ? 1 : 0))",
		"sort by texts":       doubled("completion", "x + x", 13) + `let y = z + "y"; len(sortBy(1..100000, # % 2 == 0 ? z : y, "desc"))`,
		"group by texts":      doubled("completion", "x + x", 13) + `let y = z + "y"; len(groupBy(1..100000, # % 2 == 0 ? z : y))`,
		"pattern":             doubled("completion", "x + x", 13) + `z matches "((w|o|r|d| )?){900}y" ? 1 : 0`,
		"pattern in a loop":   `none(1..100000, completion matches "((w|o|r|d| )?){900}y") ? 1 : 0`,
		"patterns in a loop":  `none(1..100000, completion matches "((w|o|r|d| )?){900}" + string(#)) ? 1 : 0`,
		"sum of texts":        doubled("completion", eight, 7) + "len(z)",
		"sum of fields":       doubled("problem.fields.text", eight, 8) + "len(z)",
		"sum in a reduction":  `len(reduce(1..40, #acc + #acc, "x"))`,
		"join":                doubled("completion", "x + x", 10) + `len(join(map(1..10000, z), z))`,
		"join by a separator": doubled("completion", "x + x", 10) + `len(join(map(1..10000, "a"), z))`,
		"replace":             doubled("completion", "x + x", 10) + `len(replace(z, "w", z))`,
		"replace nothing":     doubled("completion", "x + x", 10) + `len(replace(z, "", z))`,
		"repeat":              doubled("completion", "x + x", 10) + `len(repeat(z, 100000))`,
		"JSON of lists":       doubled("[1]", "[x, x]", 24) + "len(toJSON(z))",
		"text of lists":       doubled("[1]", "[x, x]", 24) + "len(string(z))",
		"equal lists":         doubled("[1]", "[x, x]", 24) + "z == [z] ? 1 : 0",
		"flatten":             doubled("[1]", "[x, x]", 24) + "len(flatten(z))",
		"maximum of lists":    doubled("[1]", "[x, x]", 24) + "max(z)",
		"deep lists":          "len(string(reduce(1..100000, [#acc], [])))",
		"split":               doubled("completion", "x + x", 12) + `len(split(z, ""))`,
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := open(t, t.Context(), Spec{Name: "e", Expr: text})
			f.(*expression).budget.part = part
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			got, err := f.Score(Batch{Completions: []Completion{c}})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "completion 1: ") {
				t.Errorf("%v, %v", got.Rewards, err)
			}
			if took, mib := time.Since(start), (after.TotalAlloc-before.TotalAlloc)>>20; took > 30*time.Second || mib > uint64(1500/part) {
				t.Errorf("it took %v and %d MiB: %v", took, mib, err)
			}
		})
	}
}

// What a reward does is far within the budget.
func TestExprWithinBudget(t *testing.T) {
	long(t)
	c := Completion{Completion: strings.Repeat("word ", 4000), Tokens: make([]int, 4000), Answer: "4"}
	for _, text := range []string{
		`count(split(completion, " "), # == "word") / 4000`,
		`all(tokens, # == 0) ? 1 : 0`,
		`len(uniq(tokens))`,
		`len(uniq(split(completion, " "))) / 2`,
		`count(tokens[:500], # in tokens) / 500`,
		`replace(completion, "word", "x") contains "x x" ? 1 : 0`,
		`len(join(split(completion, ""), "-")) > 0 ? 1 : 0`,
		`sum(map(tokens, # + 1)) / 4000`,
		`reduce(tokens, #acc + 1, 0) / 4000`,
		`"a" + answer + "b" == "a4b" ? 1 : 0`,
		`max(tokens) + min([1, 2.5, 3]) + mean([0, 0])`,
		`int(float("1") + 0.5)`,
		`count(split(completion, " "), # matches "^w.*d$") / 4000`,
		`completion matches "(word ){20,999}$" ? 1 : 0`,
		`problem.fields.none matches "x" || answer matches problem.fields.none ? 0 : 1`,
		`len(sortBy(split(completion, " "), #)) / 4001`,
		`let text = answer; let walk = 1; let match = text; match == "4" ? walk : 0`,
	} {
		f, _ := open(t, t.Context(), Spec{Name: "e", Expr: text})
		if got, err := f.Score(Batch{Completions: []Completion{c}}); err != nil || !equal(got.Rewards, []float64{1}) {
			t.Errorf("%s: %v, %v", text, got.Rewards, err)
		}
	}
}

// The end of the context stops an expression.
func TestExprStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, _ := open(t, ctx, Spec{Name: "e", Expr: "let a = 1..100000; all(a, all(a, all(a, true))) ? 1 : 0", NullOnError: true})
	cancel()
	start := time.Now()
	if _, err := f.Score(Batch{Step: 1, Completions: make([]Completion, 1000)}); !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
