package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/stats"
)

const (
	rates       = `"1e-5": [114,108,110,117], "3e-5": [103,111,116,109], "5e-5": [100,73,98,94], "1e-4": [15,32,47,81]`
	baselines   = `"none": [881,909,903,910], "mean": [929,939,890,865], "group": [99,499,584,55]`
	lengthnorms = `"masked_mean": [956,954,942,966], "masked_normalize": [970,949,940,962]`
	grids       = `"x00": [912,924,902,927], "x01": [972,962,968,963], "x10": [970,949,940,962], "x11": [956,954,942,966]`
	bits        = `"a": ["101111011110","011111111110","101111111110","101011001110"],
		"b": ["000010000100","000010001100","000101010110","000101011110"]`
)

// The values are those of scipy 1.17.1.
func TestGoldenVerdicts(t *testing.T) {
	type want map[string][]float64
	for _, tt := range []struct {
		name, file string
		want       want
	}{
		{"pairs", `{"arms": {` + rates + `}, "problems": 128}`, want{
			"pairs.p":           {.587959, .027925, .013733, .084149, .015545, .049491},
			"pairs.mean_square": {.003510, .031952, .318024, .030548, .298004, .178162},
			"pairs.p_adjusted":  {.587959, .079185, .023542, .112199, .025909, .079185},
		}},
		{"Holm", `{"arms": {` + rates + `}, "problems": 128, "weight": 0}`, want{
			"pairs.p_adjusted": {.587959, .111701, .082398, .168299, .082398, .148472},
		}},
		{"a fixed sequence", `{"arms": {` + rates + `}, "problems": 128, "weight": 1}`, want{
			"pairs.p_adjusted": {.587959, .049491, .013733, .084149, .015545, .049491},
		}},
		{"a reference", `{"arms": {` + baselines + `}, "problems": 1024, "reference": "none"}`, want{
			"pairs.p": {.827239, .021235}, "pairs.p_adjusted": {.827239, .028314},
		}},
		{"a stopped arm", `{"arms": {` + baselines + `, "std": null}, "problems": 1024, "reference": "none", "stopped": ["std"]}`, want{
			"pairs.p": {.827239, .021235, 1}, "pairs.p_adjusted": {1, .031853, 1}, "pairs.mean_square": {.001287, .384429, -1},
		}},
		{"the bound", `{"arms": {` + lengthnorms + `}, "problems": 1024}`, want{
			"pairs.mean": {-.00073242}, "pairs.p": {.877167}, "pairs.bound": {.01098351}, "pairs.tost_p": {.0107289},
		}},
		{"a margin", `{"arms": {` + lengthnorms + `}, "problems": 1024, "margin": 0.01}`, want{"pairs.tost_p": {.0616469}}},
		{"collapse", `{"collapse": [0,4,4,4]}`, want{"p": {.0078125}, "fisher_p": {.0285714}, "intervals": {0, .527129, .472871, 1}}},
		{"collapse", `{"collapse": [0,4,3,4]}`, want{"p": {.0703125}, "fisher_p": {.142857}}},
		{"collapse", `{"collapse": [1,8,6,8]}`, want{"p": {.0212708}, "fisher_p": {.0405594}}},
		{"collapse", `{"collapse": [0,8,4,8]}`, want{"p": {.0278938}, "fisher_p": {.0769231}}},
		{"bounds", `{"collapse": [0,16,1,4]}`, want{"intervals": {0, .170750, .006309, .805880}}},
		{"a grid", `{"grid": {` + grids + `}, "problems": 1024}`, want{
			"contrasts.mean": {.01330566, .02404785, -.02478027}, "contrasts.p": {.0356211, .0044967, .0179322},
			"contrasts.p_adjusted": {.0356211, .0268983, .0268983},
		}},
		{"problems", `{"problems_by_seed": {` + bits + `}}`, want{
			"mean": {.4166667}, "a": {.01388889}, "b": {.006944444}, "r": {.006313131}, "v": {.0145202},
			"p_seeds": {.03848644}, "p": {.04070456},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Verdicts(File{"f.json", []byte(tt.file)})
			expect.OK(t, err)
			got := asJSON(t, b.Cases).([]any)[0]
			for name, want := range tt.want {
				numbers := flat(got, strings.Split(name, "."))
				if len(numbers) != len(want) {
					t.Errorf("%s: %v, want %v", name, numbers, want)
					continue
				}
				for i := range want {
					if !scalar.EqualWithinAbs(numbers[i], want[i], 1e-5) {
						t.Errorf("%s: %v, want %v", name, numbers, want)
					}
				}
			}
		})
	}
}

// flat lists the numbers below a name.
func flat(v any, names []string) (out []float64) {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		for _, x := range v {
			out = append(out, flat(x, names)...)
		}
	case map[string]any:
		out = flat(v[names[0]], names[1:])
	}
	return out
}

// One case per line, a list, an object with the list, and a case over several lines are the same file.
func TestFormsOfVerdictFiles(t *testing.T) {
	a, b := `{"_note": "x", "collapse": [0,4,4,4]}`, `{"arms": {"b": [1,2], "a": [2,null,4]}}`
	want := ""
	for _, file := range []string{
		a + "\n\n" + b + "\n", a + "\r\n" + b, "\n" + a + "\n" + b, "[" + a + ",\n" + b + "]", `{"cases": [` + a + "," + b + `]}`,
		"{\n" + `"cases": [` + a + "," + b + "]\n}",
	} {
		got, err := Verdicts(File{"f.json", []byte(file)})
		if err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		text, _ := json.Marshal(asJSON(t, got.Cases))
		if want == "" {
			want = string(text)
		}
		if string(text) != want {
			t.Errorf("%q: %s, want %s", file, text, want)
		}
	}
	if got, err := verdicts(File{"f.json", []byte(strings.ReplaceAll(a, ",", ",\n"))}); err != nil || len(got) != 1 {
		t.Errorf("a single case over several lines: %v, %v", got, err)
	}
}

func TestVerdictsRefuse(t *testing.T) {
	file := `{"arms": {"a": [1,2,3], "b": [2,4,6]}, "problems": 9, "looks": [2,3]}` + "\n" +
		`{"collapse": [0,4,3,5]}` + "\n" + `{"grid": {` + grids + `}, "problems": 1024}` + "\n" + `{"problems_by_seed": {"a": ["101","011"], "b": ["001","011"]}}` + "\n"
	for _, tt := range []struct{ old, new, want string }{
		{file, " \n", "f.json: the file is empty"},
		{file, "[]", "f.json: line 1: cases: no cases"},
		{file, "3", "f.json: a number; it must be an object"},
		{`[0,4,3,5]}`, `[0,4,3,5]`, "f.json: line 2: "},
		{`[0,4,3,5]}`, `[0,4,3,5]} {}`, "f.json: line 2: invalid character '{'"},
		{`[1,2,3]`, `[1,NaN,3]`, "f.json: line 1: invalid character 'N' at start of value (JSON has no NaN"},
		{`"collapse"`, `"collapsed"`, `f.json: line 2: cases[1].collapsed: unknown field (did you mean "collapse"?)`},
		{`"x01"`, `"x02"`, `f.json: line 3: cases[2].grid.x02: unknown field (did you mean "x0`},
		{`{"collapse": [0,4,3,5]}`, "3", "f.json: line 2: cases[1]: a number; it must be an object"},
		{`{"collapse": [0,4,3,5]}`, "{}", "f.json: line 2: cases[1]: nothing to compare"},
		{`{"collapse": [0,4,3,5]}`, `{"collapse": [0,4,3,5], "arms": {}}`, "cases[1].collapse: a case has one comparison; this one has arms already"},
		{`[0,4,3,5]`, `[0,4,3,5], "weight": 1`, "cases[1].weight: it has no effect on a case of collapse"},
		{`[0,4,3,5]`, `[0,4,3]`, "cases[1].collapse: 3 numbers; it must be [x, n, y, m]"},
		{`[0,4,3,5]`, `[0,4,6,5]`, "line 2: cases[1].collapse[2]: 6; it must be a whole number from 0 to 5"},
		{`[0,4,3,5]`, `[-1,4,3,5]`, "cases[1].collapse[0]: -1; it must be"},
		{`[0,4,3,5]`, `[0,0,3,5]`, "cases[1].collapse[1]: 0; it must be a whole number from 1 to 100"},
		{`[0,4,3,5]`, `[0,4,3,1e9]`, "cases[1].collapse[3]: 1e9; it must be a whole number from 1 to 100"},
		{`[0,4,3,5]`, `[0.5,4,3,5]`, "cases[1].collapse[0]: 0.5; it must be a whole number"},
		{`[0,4,3,5]`, `[0,null,3,5]`, "cases[1].collapse[1]: null; it must be a whole number"},
		{`[0,4,3,5]`, `{"x": 1}`, "cases[1].collapse: an object; it must be a list of numbers"},
		{`[1,2,3]`, `[1,"2",3]`, "line 1: cases[0].arms.a[1]: a string; it must be a number"},
		{`[1,2,3]`, `[1,true,3]`, "cases[0].arms.a[1]: a boolean; it must be a number"},
		{`[1,2,3]`, `3`, "cases[0].arms.a: a number; it must be a list of numbers"},
		{`[1,2,3]`, `[1,-2,3]`, "cases[0].arms.a[1]: -2; a count of right answers is from 0 to 9 (problems)"},
		{`[1,2,3]`, `[1,2,10]`, "cases[0].arms.a[2]: 10; a count"},
		{`[1,2,3]`, `[0.5,2,3]`, "cases[0].arms.a[0]: 0.5; a count of right answers is a whole number"},
		{`[1,2,3]`, `[]`, `cases[0].arms.a: no values (list an arm without final values in "stopped")`},
		{`[1,2,3]`, `[null,null,null,4]`, "cases[0].arms.b: no seed in common with a"},
		{`[2,4,6]`, `[1e999]`, "cases[0].arms.b[0]: out of the range"},
		{`"problems": 9, "looks": [2,3]`, `"_": [2,3]}` + "\n" + `{"arms": {"a": [1e200], "b": [1]}`, "line 2: cases[1].arms.a[0]: 1e+200; it must be from -1e100"},
		{`, "b": [2,4,6]`, ``, "cases[0].arms: 1 arm; a comparison needs two"},
		{`"b": [2,4,6]`, `"": [2,4,6]`, "cases[0].arms: an arm without a name"},
		{`"b": [2,4,6]`, `"a": [2,4,6]`, "cases[0].arms.a: the field appears twice"},
		{`{"a": [1,2,3], "b": [2,4,6]}`, `[[1,2]]`, "cases[0].arms: a list; it must be an object"},
		{`9, `, `0, `, "cases[0].problems: 0; it must be a whole number from 1"},
		{`9, `, `1.5, `, "cases[0].problems: 1.5; it must be a whole number"},
		{`9, `, `9, "weight": 1.1, `, "cases[0].weight: 1.1; it must be from 0 to 1"},
		{`9, `, `9, "weight": "half", `, "cases[0].weight: a string; it must be a number"},
		{`9, `, `9, "margin": 0, `, "cases[0].margin: 0; it must be above 0"},
		{`9, `, `9, "reference": "c", `, `cases[0].reference: unknown arm "c" (did you mean "a"?)`},
		{`9, `, `9, "reference": "", `, `cases[0].reference: an arm without a name`},
		{`9, `, `9, "stopped": "a", `, "cases[0].stopped: a string; it must be a list"},
		{`[2,3]`, `[]`, "cases[0].looks: no looks"},
		{`[2,3]`, `[4,4]`, "cases[0].looks[1]: 4; looks are numbers of seeds that increase"},
		{`[2,3]`, `[1,4]`, "cases[0].looks[0]: 1; looks are"},
		{`[2,3]`, `[2.5]`, "cases[0].looks[0]: 2.5; it must be a whole number"},
		{`[2,3]`, `[null]`, "cases[0].looks[0]: null; it must be a whole number"},
		{`[972,962,968,963]`, `[972]`, "line 3: cases[2].grid.x01: 1 value; x00 has 4"},
		{`, "x11": [956,954,942,966]`, ``, "cases[2].grid.x11: missing"},
		{`[972,962,968,963]`, `[972,962,968,2000]`, "cases[2].grid.x01[3]: 2000; a count"},
		{`[972,962,968,963]`, `[null,null,null,null]`, "cases[2].grid: no seed that all four cells have"},
		{`"problems": 1024`, `"looks": [4]`, "cases[2].looks: it has no effect on a case of grid"},
		{`"001"`, `"002"`, `line 4: cases[3].problems_by_seed.b[0]: character 2 is '2'; right or wrong is written in 1 and 0`},
		{`"001"`, `"0011"`, "cases[3].problems_by_seed.b[0]: 4 problems; the first seed has 3"},
		{`"001"`, `1`, "cases[3].problems_by_seed.b[0]: a number; it must be a string of 0 and 1"},
		{`"001",`, ``, "cases[3].problems_by_seed.b: 1 seed; at least 2"},
		{`"001"`, `"111","001"`, "cases[3].problems_by_seed.b: 3 seeds; a has 2"},
		{`, "b": ["001","011"]`, ``, "cases[3].problems_by_seed: 1 arm; it must have two"},
	} {
		_, err := verdicts(File{"f.json", edit(t, file, tt.old, tt.new)})
		wantError(t, err, tt.want)
		wantError(t, err, "explain verdict: ")
	}
	var names []string
	for i := range 49 {
		names = append(names, fmt.Sprintf(`"arm %d"`, i))
	}
	many := `{"arms": {"a": [1,2]}, "stopped": [` + strings.Join(names, ",") + `]}`
	_, err := verdicts(File{"f.json", []byte(strings.Repeat(many+"\n", 45))})
	wantError(t, err, "line 45: cases[44]: the cases up to this one are too many comparisons")
	_, err = verdicts(File{"f.json", []byte(strings.Replace(many, `"a":`, `"b": [1,2], "a":`, 1))})
	wantError(t, err, "51 arms")
}

func pairsOf(t *testing.T, file string) VerdictCase {
	t.Helper()
	cases, err := verdicts(File{"f.json", []byte(file)})
	expect.OK(t, err)
	return cases[0]
}

// A pair takes the seeds that both arms have. If the pairs do not have the same seeds, the weight is 0.
func TestVerdictOfUnequalSeeds(t *testing.T) {
	c := pairsOf(t, `{"arms": {"a": [0.9,0.8,0.9], "b": [0.5,null,0.3,0.1], "c": [0.1,0.2,0.1]}}`)
	same(t, "seeds", []float64{float64(c.Pairs[0].N), float64(c.Pairs[1].N), float64(c.Pairs[2].N)}, []float64{2, 3, 2})
	same(t, "weight", []float64{*c.Weight}, []float64{0})
	p := []float64{c.Pairs[0].P, c.Pairs[1].P, c.Pairs[2].P}
	same(t, "Holm", []float64{c.Pairs[0].PAdjusted, c.Pairs[1].PAdjusted, c.Pairs[2].PAdjusted}, stats.Holm(p))
	// An arm of one seed has no p value, and counts in the family as a stopped one does.
	with := pairsOf(t, `{"arms": {"a": [9,8,9], "b": [5,4,3], "c": [5]}, "problems": 9}`)
	without := pairsOf(t, `{"arms": {"a": [9,8,9], "b": [5,4,3]}, "problems": 9, "stopped": ["c"]}`)
	if x := with.Pairs[1]; !math.IsNaN(x.P) || !math.IsNaN(x.PAdjusted) || x.Interval != nil || x.Mean != 4./9 {
		t.Errorf("one seed: %+v", x)
	}
	same(t, "the other pair", []float64{with.Pairs[0].PAdjusted, *with.Weight}, []float64{without.Pairs[0].PAdjusted, .5})
	same(t, "one pair", []float64{pairsOf(t, `{"arms": {"a": [9,8,9], "b": [5]}, "problems": 9}`).Pairs[0].MeanSquare}, []float64{16. / 81})
}

// One look is the test without looks; the first of two has half of the level, and seeds after the last do
// not count. A stopped arm and one that is beaten stay in the family.
func TestVerdictOfPlannedLooks(t *testing.T) {
	const arms = `"a": [0.9,0.8,0.9,0.7], "b": [0.5,0.4,0.3,0.7]`
	for _, tt := range []struct {
		looks string
		want  func(at2, at4 VerdictPair) float64
	}{
		{"[4]", func(_, at4 VerdictPair) float64 { return at4.P }},
		{"[4, 8]", func(_, at4 VerdictPair) float64 { return min(1, 2*at4.P) }},
		{"[2]", func(at2, _ VerdictPair) float64 { return at2.P }},
		{"[2, 4]", func(at2, at4 VerdictPair) float64 { return min(2*at2.P, 2*at4.P) }},
		{"[2, 3, 4]", func(at2, at4 VerdictPair) float64 { return min(2*at2.P, 4*at4.P) }},
	} {
		c := pairsOf(t, `{"arms": {`+arms+`}, "looks": `+tt.looks+`}`)
		at2 := pairsOf(t, `{"arms": {"a": [0.9,0.8], "b": [0.5,0.4]}}`)
		if tt.looks == "[2, 3, 4]" {
			at3 := pairsOf(t, `{"arms": {"a": [0.9,0.8,0.9], "b": [0.5,0.4,0.3]}}`)
			at2.Pairs[0].P = min(at2.Pairs[0].P, 2*at3.Pairs[0].P)
		}
		same(t, tt.looks, []float64{*c.Pairs[0].PSequential}, []float64{tt.want(at2.Pairs[0], c.Pairs[0])})
	}
	c := pairsOf(t, `{"arms": {`+arms+`}, "looks": [4], "stopped": ["c"]}`)
	same(t, "with a stopped arm", []float64{*c.Pairs[0].PSequential, *c.Pairs[1].PSequential},
		[]float64{c.Pairs[0].PAdjusted, 1})
	if c.Pairs[0].PAdjusted <= c.Pairs[0].P {
		t.Error("the stopped arm left the family")
	}
	// The weight of a look is 0 if its pairs do not have the same seeds.
	const uneven = `{"arms": {"a": [0.9,0.8,0.9], "b": [0.5,null,0.3], "c": [0.1,0.2,0.1]}`
	c, at := pairsOf(t, uneven+`, "looks": [3]}`), pairsOf(t, uneven+`}`)
	for j, p := range c.Pairs {
		same(t, "uneven seeds", []float64{*p.PSequential}, []float64{at.Pairs[j].PAdjusted})
	}
	// What the page says of a pair follows from the looks: what is separated at 5% need not be at half of it.
	o := VerdictOptions{Arms: []VerdictArm{{"a", []float64{.9, .8, .9}}, {"b", []float64{.5, .6, .6}}}, Weight: .5, Margin: .02, Looks: []int{3, 6}}
	r, err := Verdict(o)
	expect.OK(t, err)
	text := textOf(t, r)
	textHas(t, text, "0 are separated over the planned looks", "can each be the best: a, b.")
	if got := r.outcomes()[0]; got != "open" || r.Pairs[0].PAdjusted > stats.Alpha || strings.Contains(text, "with Holm's test (the weight 0)") {
		t.Errorf("%s with p %v, by itself %v: %s", got, *r.Pairs[0].PSequential, r.Pairs[0].P, text)
	}
}

// For any values the results are in their ranges, and the signs follow the order of the arms.
func TestVerdictLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := VerdictOptions{Weight: rapid.Float64Range(0, 1).Draw(t, "weight"), Margin: rapid.Float64Range(1e-9, 1).Draw(t, "margin")}
		value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, -1e100, 1e100, 1e-300}))
		if o.Problems = rapid.SampledFrom([]int{0, 1, 12}).Draw(t, "problems"); o.Problems > 0 {
			value = rapid.Map(rapid.IntRange(0, o.Problems), func(n int) float64 { return float64(n) })
		}
		for i := range rapid.IntRange(2, 5).Draw(t, "arms") {
			o.Arms = append(o.Arms, VerdictArm{string(rune('a' + i)), rapid.SliceOfN(value, 1, 6).Draw(t, "values")})
		}
		o.Looks = rapid.SampledFrom([][]int{nil, {2}, {2, 4}}).Draw(t, "looks")
		o.Stopped = rapid.SampledFrom([][]string{nil, {"b"}, {"z"}}).Draw(t, "stopped")
		o.Reference = rapid.SampledFrom([]string{"", "a"}).Draw(t, "reference")
		r, err := Verdict(o)
		expect.OK(t, err)
		for _, p := range r.Pairs {
			values := []float64{p.P, p.PAdjusted, p.TOST}
			if p.PSequential != nil {
				values = append(values, *p.PSequential)
			}
			for _, v := range values {
				if v < 0 || v > 1 {
					t.Fatalf("%+v", p)
				}
			}
			ordered := p.N < 2 || p.PAdjusted >= p.P-1e-15 && p.Bound >= math.Abs(p.Mean) && p.Interval[0] <= p.Mean && p.Mean <= p.Interval[1]
			if !ordered || o.Reference != "" && p.B != o.Reference || o.Reference == "" && p.A >= p.B {
				t.Fatalf("%+v", p)
			}
		}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil || strings.Contains(text.String(), "NaN") {
			t.Fatalf("%v: %s", err, text.String())
		}
	})
}

func TestVerdictPage(t *testing.T) {
	r, err := Verdict(DefaultVerdict())
	expect.OK(t, err)
	textHas(t, textOf(t, r), "6 1e-5 - 1e-4 58.3% 0.0137 0.0235 0.0235", "5e-5 - 1e-4 0.0792 0.1485 open",
		"1e-5 - 1e-4 0.0235 0.0824 1e-5 is higher", "2 are separated here, and 0 with Holm's test",
		"can each be the best: 1e-5, 3e-5, 5e-5.")
	same(t, "Holm", r.Holm, []float64{.5879590, .1117014, .0823978, .1682989, .0823978, .1484722})
	o := DefaultVerdict()
	o.Arms, o.Looks, o.Stopped = o.Arms[:2], []int{4, 8}, []string{"1e-3"}
	r, err = Verdict(o)
	expect.OK(t, err)
	textHas(t, textOf(t, r), "1e-5 - 1e-3 1.0000 1.0000 1.0000 stopped", "4 seeds at 0.025, 8 seeds at 0.025.")
	_, err = Verdict(VerdictOptions{Weight: 1, Margin: 1, Arms: []VerdictArm{{"a", []float64{1}}, {"a", nil}}})
	wantError(t, err, `explain verdict: arms: two arms with the name "a"`)
}

// Any file gives an error, or results that can be printed as a table and as JSON.
func FuzzVerdicts(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"arms": {` + rates + `}, "problems": 128, "looks": [2, 4], "stopped": ["\u001b"]}` + "\n" + `{"collapse": [0,4,3,4]}`))
	f.Add([]byte(`[{"grid": {` + grids + `}, "weight": 0}, {"problems_by_seed": {` + bits + `}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := File{"f.json", data}.listed()
		if err != nil {
			untrusted.CheckError(t, err)
			return
		}
		checkBatch(t, file.Data, Verdicts, func(b Batch) {
			for _, c := range b.Cases.([]VerdictCase) {
				if len(c.Pairs)+len(c.Contrasts) == 0 && c.P == nil {
					t.Errorf("a case without a result: %+v", c)
				}
			}
		})
	})
}
