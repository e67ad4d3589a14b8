package untrusted

import (
	"strings"
	"testing"
	"time"
)

// failure runs f with a test that only notes whether it failed.
func failure(f func(t testing.TB)) string {
	n := &note{}
	f(n)
	return n.text
}

// note is a testing.TB that keeps the text of its failure.
type note struct {
	testing.TB
	text string
}

func (n *note) Helper() {}

func (n *note) Fatalf(format string, args ...any) { n.text = format }

var sink []byte

func TestCheck(t *testing.T) {
	limit := Limit{Base: 1 << 20, PerByte: 1 << 10, Time: time.Minute}
	for _, c := range []struct {
		name string
		n    int
		f    func()
		want string
	}{
		{"nothing", 0, func() {}, ""},
		{"within the base", 0, func() { sink = make([]byte, 1<<19) }, ""},
		{"beyond the base", 0, func() { sink = make([]byte, 1<<22) }, "allocated"},
		{"in proportion to the input", 1 << 13, func() { sink = make([]byte, 1<<22) }, ""},
		{"freed again", 0, func() {
			for range 8 {
				sink = make([]byte, 1<<19)
			}
		}, "allocated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failure(func(t testing.TB) { limit.Check(t, c.n, c.f) })
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("failure %q, want one with %q", got, c.want)
			}
		})
	}
}

func TestCheckTime(t *testing.T) {
	said := make(chan string, 1)
	old := late
	late = func(text string) { said <- text }
	defer func() { late = old }()
	limit := Limit{Base: 1 << 30, Time: 10 * time.Millisecond}
	limit.Check(t, 3, func() {})
	time.Sleep(30 * time.Millisecond)
	select {
	case text := <-said:
		t.Fatalf("a quick input: %s", text)
	default:
	}
	limit.Check(t, 3, func() {
		if text := <-said; text != "3 bytes of input take more than 10ms" {
			t.Errorf("got %q", text)
		}
	})
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a line", `load config: x.yaml: line 1: unknown key "größe"`, ""},
		{"several", "2 problems:\n  a\n  b", ""},
		{"an escape sequence", "bad key \x1b[31m", "U+001B"},
		{"a carriage return", "a\rb", "U+000D"},
		{"the right-to-left mark", "a\u202eb", "U+202E"},
		{"not UTF-8", "a\xff", "not UTF-8"},
		{"long", strings.Repeat("x", 4000), "4000 bytes in line 1"},
		{"many lines", strings.Repeat("x\n", 100), "101 lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := unshowable(c.text) + long(c.text); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
