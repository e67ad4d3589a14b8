package gsm8k

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func TestReadTurns(t *testing.T) {
	tests := []struct {
		name, text, says string
		want             []Turn
	}{
		{"two", "{\"question\":\"a\",\"answer\":\"any form\",\"more\":1}\n\n{\"question\":\"b\",\"answer\":\"<think>x\"}", "",
			[]Turn{{"a", "any form"}, {"b", "<think>x"}}},
		{"empty", "\n \n", "no examples", nil},
		{"no answer", "{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"a\"}", `turns.jsonl: line 2: no "answer"`, nil},
		{"a number", `{"question":"a","answer":7}`, `line 1: "answer" is a number`, nil},
		{"blank", `{"question":" ","answer":"7"}`, `line 1: "question" is empty`, nil},
		{"not JSON", "Q: a\n", "line 1: broken JSON", nil},
		{"too many", strings.Repeat("{\"question\":\"a\",\"answer\":\"b\"}\n", maxTurns+1), "line 1001: more than 1000", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "turns.jsonl")
			expect.OK(t, os.WriteFile(path, []byte(tt.text), 0o644))
			got, err := ReadTurns(path)
			if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, %v; want %v, %q", got, err, tt.want, tt.says)
			}
		})
	}
}
