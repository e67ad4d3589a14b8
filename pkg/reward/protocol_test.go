package reward

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func TestParseAnswer(t *testing.T) {
	got, err := parseAnswer([]byte(`{"rewards": [0.5, null, -2e3], "id": 7, "columns": {"words": [1, null, 3], "why": ["a", "b", null]}}`), 7, 3)
	if err != nil || !equal(got.Rewards, []float64{0.5, math.NaN(), -2000}) {
		t.Fatal(got, err)
	}
	if w := got.Columns["words"]; w[0] != 1.0 || w[1] != nil || got.Columns["why"][1] != "b" {
		t.Errorf("columns %v", got.Columns)
	}
	for line, want := range map[string]string{
		``:                                      "not the JSON object",
		`null`:                                  "not the JSON object",
		`[1, 2]`:                                "not the JSON object",
		`{"id": 1, "rewards": [1, 2]`:           "not valid JSON",
		`{"id": 1, "rewards": [1, 2]} x`:        "not valid JSON",
		`{"id": 1, "rewards": [1, Infinity]}`:   "no NaN and no Infinity",
		`{"id": 1, "id": 1, "rewards": [1, 2]}`: "id",
		`{"rewards": [1, 2]}`:                   `no "id" (copy it from the request)`,
		`{"id": 2, "rewards": [1, 2]}`:          `"id" is 2, want 1 (it must print one line`,
		`{"id": null, "rewards": [1, 2]}`:       `"id" is null, want 1`,
		`{"id": 1, "version": 2, "rewards": [1, 2]}`: `"version" is 2, want 1 (this is the version`,
		`{"id": 1}`:                                                     `no "rewards"`,
		`{"id": 1, "rewards": 3}`:                                       `"rewards" is 3, want a list`,
		`{"id": 1, "rewards": null}`:                                    `"rewards" is null, want a list`,
		`{"id": 1, "rewards": [1]}`:                                     `"rewards" has 1 element for 2 completions`,
		`{"id": 1, "rewards": [1, 1e999]}`:                              "out of range",
		`{"id": 1, "rewards": [1, 1e200]}`:                              `element 2 of "rewards": the reward is 1e+200`,
		`{"id": 1, "rewards": [1, true]}`:                               `element 2 of "rewards" is a boolean`,
		`{"id": 1, "rewards": [1, "2"]}`:                                `element 2 of "rewards" is a string`,
		`{"id": 1, "reward": [1, 2]}`:                                   `unknown key "reward" (did you mean "rewards"?)`,
		`{"id": 1, "rewards": [1, 2], "columns": []}`:                   `"columns" is not an object`,
		`{"id": 1, "rewards": [1, 2], "columns": {"a": [1]}}`:           `column "a" has 1 element`,
		`{"id": 1, "rewards": [1, 2], "columns": {"a": [[], 1]}}`:       `element 1 of column "a" is a list`,
		`{"id": 1, "rewards": [1, 2], "columns": {"a\nb": [1, 1]}}`:     "printable characters",
		"{\"id\": 1, \"rewards\": [1, 2], \"columns\": {\"\xff\": []}}": "not UTF-8",
	} {
		expect.Error(t, expect.Err(parseAnswer([]byte(line), 1, 2)), want)
	}
}

// FuzzParseAnswer: any line is an error or has one finite reward or null for each completion, and
// reads back when it is written.
func FuzzParseAnswer(f *testing.F) {
	for _, line := range []string{
		`{"id": 1, "rewards": [0.5, null]}`, `{"id": 1, "rewards": [1, 2], "columns": {"a": ["x", null]}}`,
		`{"id":1,"version":1,"rewards":[1e100,-1e100],"columns":{}}`, `{"id": 1, "rewards": [NaN, 1]}`, `null`, "[",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseAnswer(line, 1, 2)
		if err != nil {
			if text := err.Error(); len(text) > 2000 || strings.Contains(text, "\n") {
				t.Errorf("the error has %d bytes: %q", len(text), text)
			}
			return
		}
		if len(s.Rewards) != 2 || len(s.Columns) > maxColumns {
			t.Fatalf("%d rewards, %d columns", len(s.Rewards), len(s.Columns))
		}
		again := map[string]any{"id": 1, "columns": s.Columns}
		rewards := make([]any, 2)
		for i, x := range s.Rewards {
			if math.IsInf(x, 0) {
				t.Fatalf("reward %v", x)
			}
			if !math.IsNaN(x) {
				rewards[i] = x
			}
		}
		again["rewards"] = rewards
		if s.Columns == nil {
			delete(again, "columns")
		}
		for name, c := range s.Columns {
			if len(c) != 2 || name == "" {
				t.Fatalf("column %q has %d values", name, len(c))
			}
		}
		text, err := json.Marshal(again)
		expect.OK(t, err)
		if back, err := parseAnswer(text, 1, 2); err != nil || !equal(back.Rewards, s.Rewards) {
			t.Errorf("%s reads back as %v, %v", text, back.Rewards, err)
		}
	})
}

// TestJoin: columns that only some workers log are null for the others.
func TestJoin(t *testing.T) {
	got := join([]Scores{
		{Rewards: []float64{1, 2}},
		{Rewards: []float64{3}, Columns: map[string][]any{"a": {4.0}}},
		{Rewards: []float64{5}, Columns: map[string][]any{"b": {"x"}}},
	})
	a, b := got.Columns["a"], got.Columns["b"]
	if !equal(got.Rewards, []float64{1, 2, 3, 5}) || len(a) != 4 || len(b) != 4 || a[2] != 4.0 || a[3] != nil || b[0] != nil || b[3] != "x" {
		t.Errorf("%v", got)
	}
}

// TestRequest: a request is one line, whatever a completion contains.
func TestRequest(t *testing.T) {
	b := batch(3, 1, "12")
	line, err := request{Version: Version, ID: 1, Step: 3, MaxTokens: 64, Completions: b.Completions}.encode()
	expect.OK(t, err)
	want := `{"version":1,"id":1,"step":3,"max_tokens":64,"completions":[{"prompt":"How many?\n",` +
		`"completion":"0 \u2028 <<1+1=2>>\n\ufffd","tokens":[1,2],"ended":false,"answer":"12","right":false,"formatted":false,` +
		`"problem":{"id":"","question":"","solution":"","type":"","fact":""}}]}` + "\n"
	if string(line) != want {
		t.Errorf("got\n%swant\n%s", line, want)
	}
}
