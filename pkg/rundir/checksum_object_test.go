package rundir

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// someResult has values that are hard to encode: NaN, nil, characters that HTML escapes.
func someResult() Result {
	eval := Eval{Step: 4, Split: SplitVal, Sampled: counts(8, 3, 2), Greedy: ptr(counts(8, 5, 1)), MajorityAnswer: "<12>"}
	return Result{
		Status: StateDiverged, DivergedAt: ptr(4), DivergedReason: "7+5=<<7+5=12>> & more", Warnings: []string{"a", "\u2028"},
		Name: "n", Seed: math.MaxUint64, LearningRate: 1e-3, Steps: 4, Updates: 8, Parameters: 1020,
		Initial: eval, Final: eval, BestStep: 4, Best: eval, Unseen: &eval, WeightsSHA256: "ab", WallS: math.NaN(),
		Checks: 7, Files: map[string]string{ConfigFile: "c", MetricsFile: "m"},
	}
}

func TestChecksumIsLast(t *testing.T) {
	data, err := Marshal(someResult())
	expect.OK(t, err)
	i := strings.LastIndex(string(data), `,"checksum":"`)
	if i < 0 || len(data)-i != len(`,"checksum":""}`)+64 {
		t.Fatalf("no checksum at the end of %s", data)
	}
	if !strings.Contains(string(data), "<<7+5=12>> & more") {
		t.Errorf("worked answers are not readable in %s", data)
	}
}

// Every form of the file gives the same value: indented, escaped for HTML, inside another value,
// and without a checksum, as earlier versions wrote it.
func TestChecksumSurvivesOtherForms(t *testing.T) {
	want := someResult()
	compact, err := Marshal(want)
	expect.OK(t, err)
	plain, err := Marshal(plainResult(want))
	expect.OK(t, err)
	escaped, err := json.Marshal(want)
	expect.OK(t, err)
	if string(escaped) == string(compact) {
		t.Fatal("no character was escaped: the case tests nothing")
	}
	indented := filepath.Join(t.TempDir(), ResultFile)
	expect.OK(t, WriteJSON(indented, &want))
	for name, text := range map[string]string{"compact": string(compact), "no checksum": string(plain), "HTML": string(escaped), "a file": read(t, indented),
		"carriage returns": strings.ReplaceAll(read(t, indented), "\n", "\r\n")} {
		var got Result
		if err := Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !math.IsNaN(got.WallS) {
			t.Errorf("%s: wall_s is %v, want NaN", name, got.WallS)
		}
		got.WallS, want.WallS = 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", name, got)
		}
		var outer struct {
			Inner *Result `json:"inner"`
			X     float64 `json:"x"`
		}
		if err := Unmarshal([]byte(`{"inner":`+text+`,"x":null}`), &outer); err != nil || outer.Inner.Seed != want.Seed || !math.IsNaN(outer.X) {
			t.Errorf("%s inside another value: %+v, %v", name, outer.Inner, err)
		}
	}
}

func TestStatusSurvivesTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Status{State: rapid.String().Draw(t, "state"), Step: rapid.Int().Draw(t, "step"), Error: rapid.String().Draw(t, "error"), Reward: rapid.Float64().Draw(t, "reward")}
		data, err := Marshal(s)
		expect.OK(t, err)
		var back Status
		if err := Unmarshal(data, &back); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		again, err := Marshal(back)
		if err != nil || string(again) != string(data) {
			t.Fatalf("%s reads back as %s, %v", data, again, err)
		}
	})
}

// Any changed byte, and any cut, gives an error or the same value.
func TestChecksumFindsEveryByte(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	path := filepath.Join(t.TempDir(), ResultFile)
	want := someResult()
	expect.OK(t, WriteJSON(path, want))
	want.WallS = 0
	text := []byte(read(t, path))
	refused := 0
	try := func(what string, at int, data []byte) {
		var got Result
		if err := Unmarshal(data, &got); err != nil {
			refused++
			return
		}
		if got.WallS = 0; !reflect.DeepEqual(got, want) {
			t.Errorf("%s %d (%q) gives %+v", what, at, text[at], got)
		}
	}
	for i := range text {
		for _, mask := range []byte{1, 0x20, 0x80} {
			text[i] ^= mask
			try("flipped byte", i, text)
			text[i] ^= mask
		}
		try("cut at byte", i, text[:i])
	}
	if refused < 3*len(text) {
		t.Errorf("%d of %d were refused", refused, 4*len(text))
	}
}

// A checksum in another place is an unknown key.
func TestChecksumElsewhereIsAnUnknownKey(t *testing.T) {
	for _, text := range []string{`{"checksum":"ab","status":"done"}`, `{"status":"done","checksum":"ab"}`} {
		expect.Error(t, Unmarshal([]byte(text), new(Result)), "checksum")
	}
}
