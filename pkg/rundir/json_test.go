package rundir

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func ptr[T any](v T) *T { return &v }

func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	err := WriteJSON(path, Status{State: StateRunning, Step: 3, Reward: math.NaN()})
	expect.OK(t, err)
	want := `{
  "state": "running",
  "step": 3,
  "steps": 0,
  "pid": 0,
  "updated": "",
  "validation_reward": null,
  "checksum": "c402912a6b7f2ccb7b6d8b64e832aaf2f76bdc7e4fb09728726a7cd558d5b2a7"
}
`
	if got := read(t, path); got != want {
		t.Errorf("got %s want %s", got, want)
	}
	var s Status
	expect.OK(t, ReadJSON(path, &s))
	if !math.IsNaN(s.Reward) || s.Step != 3 || s.State != StateRunning {
		t.Errorf("read back %+v", s)
	}
}

func TestMarshalNonFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	type tagged struct {
		Kept    float64  `json:"kept"`
		Empty   string   `json:"empty,omitempty"`
		Skipped float64  `json:"-"`
		Ptr     *float64 `json:"ptr"`
		Any     any
		private float64
	}
	tests := []struct {
		name string
		v    any
		want string
	}{
		{"a number", nan, `null`},
		{"both infinities", []float64{inf, -inf, 1.5}, `[null,null,1.5]`},
		{"float32", []float32{float32(inf), 0.1}, `[null,0.1]`},
		{"map, keys sorted", map[string]float64{"b": nan, "a": 1}, `{"a":1,"b":null}`},
		{"nested", map[string]Stat{"x": {Mean: nan, Std: 2}}, `{"x":{"mean":null,"std":2}}`},
		{"array", [2]float64{nan, 2}, `[null,2]`},
		{"struct tags", tagged{Kept: nan, Ptr: &inf, Any: nan, private: 1}, `{"kept":null,"ptr":null,"Any":null}`},
		{"angle brackets stay", map[string]any{"s": "<<7+5=12>>", "f": nan}, `{"f":null,"s":"<<7+5=12>>"}`},
		{"nil map and slice", struct {
			F float64
			M map[string]float64
			S []float64
			B []byte
		}{F: nan, B: []byte{1}}, `{"F":null,"M":null,"S":null,"B":"AQ=="}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Marshal(tt.v)
			expect.OK(t, err)
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// anyFloat draws finite and non-finite numbers.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 5e-324, math.MaxFloat64}),
	)
}

func drawMetrics(t *rapid.T, float *rapid.Generator[float64]) Metrics {
	optional := func(label string) *float64 {
		if rapid.Bool().Draw(t, label+" is there") {
			return ptr(float.Draw(t, label))
		}
		return nil
	}
	stat := rapid.Custom(func(t *rapid.T) Stat { return Stat{float.Draw(t, "mean"), float.Draw(t, "std")} })
	return Metrics{
		Step: rapid.Int().Draw(t, "step"), Loss: float.Draw(t, "loss"), GradNorm: float.Draw(t, "norm"),
		ClipFraction: optional("clip"), LengthRight: optional("right"), Reward: stat.Draw(t, "reward"),
		Rewards: rapid.MapOf(rapid.String(), stat).Draw(t, "rewards"),
		Time:    Timing{ElapsedS: float.Draw(t, "elapsed")},
	}
}

func TestMetricsSurviveTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMetrics(t, anyFloat())
		data, err := Marshal(m)
		expect.OK(t, err)
		var back Metrics
		expect.OK(t, Unmarshal(data, &back))
		if err := CompareMetrics([]Metrics{m}, []Metrics{back}); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
	})
}

func TestSlowEncoderAgreesWithTheStandardOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMetrics(t, rapid.Float64())
		want, err := marshalFinite(m)
		expect.OK(t, err)
		if got, err := jsonv2.Marshal(m, writing); err != nil || string(got) != string(want) {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	})
}

func TestUnmarshal(t *testing.T) {
	tests := []struct {
		name, in, wantErr string
	}{
		{"unknown key", `{"mean":1,"mode":2}`, `unknown field "mode"`},
		{"wrong type", `{"mean":"1"}`, "string"},
		{"two values", `{"mean":1} {"mean":2}`, "after top-level value"},
		{"cut short", `{"mean":1`, "unexpected end"},
		{"empty", ``, "unexpected end"},
		{"bare null", `null`, "null"},
		{"python's NaN", `{"mean":NaN}`, "invalid character"},
		{"a key twice", `{"mean":1,"m\u0065an":2}`, `the key "mean" appears twice`},
		{"half a surrogate pair", `{"\ud83d":1}`, "byte 2: invalid surrogate pair"},
		{"not UTF-8", "{\"\xff\":1}", "byte 2: invalid UTF-8"},
		{"fine", `{"mean":1,"std":0}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Stat
			err := Unmarshal([]byte(tt.in), &s)
			if tt.wantErr == "" {
				expect.OK(t, err)
			} else {
				expect.Error(t, err, tt.wantErr)
			}
		})
	}
}

func TestUnmarshalTellsZeroFromMissing(t *testing.T) {
	type inner struct {
		A, B float64
	}
	type outer struct {
		Zero    float64
		Null    float64
		Missing float64
		Omitted float64 `json:",omitempty"`
		Ptr     *inner
		Gone    inner
		Map     map[string]inner
		List    []float64
		Raw     json.RawMessage
	}
	var o outer
	err := Unmarshal([]byte(`{"Zero":0,"Null":null,"Ptr":{"A":1,"B":null},"Map":{"k":{"A":2}},"List":[0,null],"Raw":null}`), &o)
	expect.OK(t, err)
	tests := []struct {
		name    string
		got     float64
		wantNaN bool
	}{
		{"zero", o.Zero, false},
		{"null", o.Null, true},
		{"missing", o.Missing, true},
		{"left out because empty", o.Omitted, false},
		{"there, behind a pointer", o.Ptr.A, false},
		{"null, behind a pointer", o.Ptr.B, true},
		{"in a missing struct", o.Gone.A, true},
		{"there, in a map", o.Map["k"].A, false},
		{"missing in a map", o.Map["k"].B, true},
		{"there, in a list", o.List[0], false},
		{"null in a list", o.List[1], true},
	}
	for _, tt := range tests {
		if math.IsNaN(tt.got) != tt.wantNaN {
			t.Errorf("%s: %v", tt.name, tt.got)
		}
	}
}
