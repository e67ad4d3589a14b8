package jsonkeys

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	for text, key := range map[string]string{
		`{"a":1,"b":2}`: "", `{"a":1,"a":1}`: "a", `[{"a":1},{"a":2}]`: "", `{"a":{"a":{"b":1,"b":2}}}`: "b",
		`{"a":"a","b":"a"}`: "", `{"a":["x","x"],"b":{"x":1},"c":[{"x":1}],"x":0}`: "", `{"a":[{}],"a":1}`: "a",
		`{"a":{},"a":1}`: "a", `{"a":"b","b":1,"b":2}`: "b", `{"\u0061":1,"a":2}`: "a", `{"a":1,"A":2}`: "",
		`{"a":1,`: "", `{"a":1,"a"`: "a", ``: "", `3`: "", `"a"`: "", `{"a":[1,[2,{"b":null,"b":true}]]}`: "b",
	} {
		err := Check([]byte(text))
		if (err == nil) != (key == "") || err != nil && !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("%s: %v, want the key %q", text, err, key)
		}
	}
}

func TestCharacters(t *testing.T) {
	for text, at := range map[string]string{
		`"\ud83d\ude00"`: "", `"\\ud83d"`: "", `"\\\\ud83d\n"`: "", `"\u0041\uD83D\uDE00\uFFFD"`: "", `"\u"`: "", `"\`: "", `"\ud8`: "",
		`"\ud83d"`: "byte 1: half", `"\ude00"`: "byte 1:", `"a\\\uD83Dx"`: "byte 4:", `"\ud83d\ud83d\ude00"`: "byte 1:",
		`"\ude00\ud83d"`: "byte 1:", `{"\ud83d\u0041":1}`: "byte 2:", `"\ud83d\\ude00"`: "byte 1:", `"\ud83d\n"`: "byte 1:",
	} {
		err := Check([]byte(text))
		if (err == nil) != (at == "") || err != nil && !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%s: %v, want %q", text, err, at)
		}
	}
}

// The decoder replaces exactly what the check refuses.
func FuzzCharacters(f *testing.F) {
	f.Add(`\ud83d\ude00`)
	f.Add(`\ud83d\\ude00`)
	f.Fuzz(func(t *testing.T, body string) {
		var s string
		if strings.Contains(strings.ToLower(body), "fffd") || json.Unmarshal([]byte(`"`+body+`"`), &s) != nil || !utf8.ValidString(body) ||
			strings.ContainsRune(body, utf8.RuneError) {
			return
		}
		if err := Characters([]byte(`"` + body + `"`)); (err != nil) != strings.ContainsRune(s, utf8.RuneError) {
			t.Errorf("%q: %v, decoded %q", body, err, s)
		}
	})
}
