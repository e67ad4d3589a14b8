package jsonkeys

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for text, key := range map[string]string{
		`{"a":1,"b":2}`: "", `{"a":1,"a":1}`: "a", `[{"a":1},{"a":2}]`: "", `{"a":{"a":{"b":1,"b":2}}}`: "b",
		`{"a":["x","x"],"b":{"x":1},"c":[{"x":1}],"x":0}`: "", `{"\u0061":1,"a":2}`: "a", `{"a":1,"A":2}`: "",
		`{"a":1,`: "", `{"a":1,"a"`: "a", ``: "", `3`: "", `{"a/~1":1,"a/~1":2}`: "a/~1",
	} {
		err := Check([]byte(text))
		if (err == nil) != (key == "") || err != nil && !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("%s: %v, want the key %q", text, err, key)
		}
	}
}

func TestCharacters(t *testing.T) {
	for text, at := range map[string]string{
		`"\ud83d\ude00"`: "", `"\\ud83d"`: "", `"\u0041\uD83D\uDE00\uFFFD"`: "", `{"a":1,"a":1}`: "", `"\`: "",
		`"\ud83d"`: "byte 1: invalid surrogate", `"a\\\uD83Dx"`: "byte 4:", `{"\ud83d\u0041":1}`: "byte 2:",
		"\"\xff\"": "byte 1: invalid UTF-8",
	} {
		err := Characters([]byte(text))
		if (err == nil) != (at == "") || err != nil && !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%s: %v, want %q", text, err, at)
		}
	}
}
