package explain

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

func near(got, want float64) bool {
	if math.IsNaN(got) || math.IsNaN(want) {
		return math.IsNaN(got) && math.IsNaN(want)
	}
	return math.Abs(got-want) <= atol+rtol*math.Abs(want)
}

func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if !near(got[i], want[i]) {
			t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// reference reads a file of the tests of pkg/rl.
func reference(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "rl", "testdata", name))
	expect.OK(t, err)
	return data
}

// asJSON encodes v as the command line does and decodes it again.
func asJSON(t testing.TB, v any) any {
	t.Helper()
	data, err := rundir.Marshal(v)
	expect.OK(t, err)
	var out any
	expect.OK(t, json.Unmarshal(data, &out))
	return out
}

// textHas checks that a string contains all of wanted, ignoring line breaks.
func textHas(t *testing.T, text string, wanted ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, w := range wanted {
		if !strings.Contains(flat, w) {
			t.Errorf("the text lacks %q:\n%s", w, text)
		}
	}
}

// textOf is the text of a result.
func textOf(t *testing.T, r writer) string {
	t.Helper()
	var b strings.Builder
	expect.OK(t, r.WriteText(&b))
	return b.String()
}

var lineNumber = regexp.MustCompile(`f.json: line [0-9]+: `)

// wantError checks that an error contains part, the number of the line apart if part has none.
func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) &&
		!strings.Contains(lineNumber.ReplaceAllString(err.Error(), "f.json: "), part) {
		t.Errorf("error %v, want one with %q", err, part)
	}
}

// refusal is a change of the default options, and what the error then contains.
type refusal[O any] struct {
	name string
	set  func(*O)
	want string
}

// refuses checks that a subject fails for each change, with a prefix.
func refuses[O, R any](t *testing.T, prefix string, defaults func() O, subject func(O) (R, error), cases []refusal[O]) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := defaults()
			c.set(&o)
			_, err := subject(o)
			wantError(t, err, c.want)
			wantError(t, err, prefix)
		})
	}
}
