package sweep

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/config"
)

// fuzzLimit: each arm is resolved as a configuration is.
var fuzzLimit = untrusted.Limit{Base: 1 << 30, PerByte: 1 << 20, Time: untrusted.Reader.Time}

var lineOfX = regexp.MustCompile(`x\.yaml: line (\d+)`)

// FuzzParseRequest: whatever a file contains, it is refused with a line number,
// or it can be planned or is refused; and what was planned can be read and
// planned again, to the same sweep.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(wholeRequest))
	f.Add([]byte(strings.Repeat("a", 2000)))
	for _, seed := range []string{
		"", "name: a\narms: [{name: a}]", "a: &x [*x]", "name: a\nseeds: [1]\naxes: [{key: lr, values: [1, [2]]}]", "? [a]\n: b", "\t", "name: !!binary a",
		"name: a\naxes: [{key: name, values: [\"../../x\", \"/x\"]}]\nseeds: 1", "\"\\e[31m\": 1", "name: \"\\e\"", "name: a\narms: [{name: \"\\e\"}, {name: ..}]",
		"name: a\nseeds: [18446744073709551616]", "/\n---", "name: a\narms:\n- {name: a, set: {\"\\e\": \"\\e\"}}\n- {name: b, set: {lr: \"\\e\"}}", "\xff", "name: a\x00",
		"name: a\narms: [{name: a, set: {lr: 1e-3}}, {name: b, set: {lr: 2e-3}}]\nreference: \"\\u202e\"\nseeds: 2",
		"a0: &a0 [x, x]\na1: &a1 [*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]\na2: [*a1, *a1, *a1, *a1, *a1, *a1, *a1, *a1]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzLimit.Check(t, len(text), func() {
			req, err := ParseRequest("x.yaml", text)
			if err != nil {
				checkRefusal(t, text, err)
				return
			}
			if req.Name == "" || len(req.Arms)+len(req.Axes) == 0 {
				t.Fatalf("accepted %+v", req)
			}
			req.Config = "" // which would read whatever file is named
			if len(req.Seeds) > 3 {
				req.Seeds = req.Seeds[:3]
			}
			if cells(req) > 50 {
				return // takes its time, in proportion
			}
			plan, err := NewPlan(req, PlanOptions{})
			if err != nil {
				if untrusted.CheckError(t, err); !errors.Is(err, config.ErrConfig) {
					t.Fatalf("not an error of the configuration: %v", err)
				}
				return
			}
			for _, e := range plan.Manifest.Runs {
				checkFolder(t, strings.TrimPrefix(e.Dir, "runs/"))
			}
			expect.OK(t, plan.Manifest.Check())
			again, err := ParseRequest("sweep.yaml", plan.Request)
			if err != nil {
				t.Fatalf("%v in\n%s", err, plan.Request)
			}
			second, err := NewPlan(again, PlanOptions{})
			if err != nil || second.Manifest.Hash != plan.Manifest.Hash {
				t.Fatalf("%v: hash %s, now %v\n%s", err, plan.Manifest.Hash, second, plan.Request)
			}
		})
	})
}

// cells is the number of arms that a request asks for.
func cells(r Request) int {
	n := max(1, len(r.Arms))
	for _, a := range r.Axes {
		if n *= len(a.Values); n > 1000 {
			break
		}
	}
	return n
}

func checkRefusal(t *testing.T, text []byte, err error) {
	t.Helper()
	untrusted.CheckError(t, err)
	lines := lineOfX.FindAllStringSubmatch(err.Error(), -1)
	placed := len(lines) > 0 || strings.Contains(err.Error(), "x.yaml: the file is empty")
	if !errors.Is(err, config.ErrConfig) || !placed {
		t.Fatalf("an error without a place: %v", err)
	}
	last := 1 + len(regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]").FindAll(text, -1))
	for _, m := range lines {
		if n, _ := strconv.Atoi(m[1]); n < 1 || n > last {
			t.Fatalf("line %s of %d: %v", m[1], last, err)
		}
	}
}

// checkFolder holds for the name of a run's folder: one element of a path, of
// letters that every file system and every terminal takes.
func checkFolder(t *testing.T, name string) {
	t.Helper()
	if name == "" || len(name) > maxFolder || !filepath.IsLocal(name) || filepath.Base(name) != name || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=,.+-_") != "" {
		t.Fatalf("folder %q", name)
	}
}

// FuzzFolder: whatever an arm is called, its run has a folder.
func FuzzFolder(f *testing.F) {
	for _, s := range []string{"lr=3e-05", "../../x", "", ".", "..", "a/b\\c:d", "\x00", "\u202e", strings.Repeat("x", 500), "-rf", "CON", "a\nb"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, arm string, seed uint64) {
		untrusted.Reader.Check(t, len(arm), func() {
			name := folder(arm, seed, "0123abcd")
			checkFolder(t, name)
			if !strings.HasSuffix(name, "_seed-"+strconv.FormatUint(seed, 10)+"-0123abcd") {
				t.Fatalf("folder %q lacks what identifies the run", name)
			}
		})
	})
}

// FuzzAxis: the arguments of --axis, --values and --seeds are read, or refused in
// a text that can be shown; values are not changed by a second trip.
func FuzzAxis(f *testing.F) {
	for _, s := range []string{"lr=1e-3,3e-3", "functions=[answer],[answer, format]", "=", "lr=", "lr=[", "lr=]1", "\x1b[31m=1", "lr=\x1b", "1,2,3", "4", "[1,2]", "lr=1,,2", "\xff=1", strings.Repeat("\x01", 400)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		untrusted.Reader.Check(t, len(s), func() {
			if seeds, err := ParseSeeds(s); err != nil {
				untrusted.CheckError(t, err)
			} else if len(seeds) == 0 || len(slices.Compact(slices.Sorted(slices.Values(seeds)))) != len(seeds) {
				t.Fatalf("seeds %v", seeds)
			}
			a, err := ParseAxis(s)
			if err != nil {
				untrusted.CheckError(t, err)
				return
			}
			again, err := SplitValues(strings.Join(a.Values, ","))
			if err != nil || !slices.Equal(again, a.Values) {
				t.Fatalf("%q splits into %q, and then into %q (%v)", s, a.Values, again, err)
			}
			if _, err := axis(a); err != nil {
				untrusted.CheckError(t, err)
			}
		})
	})
}
