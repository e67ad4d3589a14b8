package jsonkeys

import (
	"strings"
	"testing"
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
