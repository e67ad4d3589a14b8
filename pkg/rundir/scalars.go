package rundir

import (
	"bytes"
	"encoding/csv"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
)

// Scalar is a number of a run at a step, for other programs. Its name is the place of the number in
// the JSON line, joined by slashes: "train/reward/mean", "eval/val/sampled/answer_reward".
type Scalar struct {
	Name  string
	Value float64 // NaN where the line has null
}

// Scalars lists the numbers of the line, in the order of its fields, except its step.
func (m Metrics) Scalars() []Scalar { return appendScalars(nil, "train", reflect.ValueOf(m)) }

// Scalars lists the numbers of the line, in the order of its fields, except its step.
func (e Eval) Scalars() []Scalar { return appendScalars(nil, "eval/"+e.Split, reflect.ValueOf(e)) }

func appendScalars(out []Scalar, name string, v reflect.Value) []Scalar {
	add := func(x float64) []Scalar { return append(out, Scalar{textutil.Printable(name, 0), x}) }
	switch v.Kind() {
	case reflect.Float64:
		return add(v.Float())
	case reflect.Int:
		return add(float64(v.Int()))
	case reflect.Pointer:
		switch {
		case !v.IsNil():
			return appendScalars(out, name, v.Elem())
		case v.Type().Elem().Kind() == reflect.Float64:
			return add(math.NaN())
		}
	case reflect.Map:
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
			return strings.Compare(a.String(), b.String())
		}) {
			out = appendScalars(out, name+"/"+k.String(), v.MapIndex(k))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			key, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			switch f := v.Field(i); {
			case key == "step", key == "samples", f.Kind() == reflect.Slice, f.Kind() == reflect.Map && f.Len() == 0:
			case option == "omitempty" && f.IsZero():
				out = append(out, Scalar{name + "/" + key, math.NaN()})
			default:
				out = appendScalars(out, name+"/"+key, f)
			}
		}
	}
	return out
}

// CSV is a table of the lines of metrics.jsonl and eval.jsonl, for pandas and other programs: a row
// for each step with a line, ascending, and a column for each scalar, in the order in which the
// lines first have it; last, in each row, the run's arm, which is empty outside of a sweep, and its
// seed. A cell without a finite number is empty.
func (r *Run) CSV(arm, seed string) []byte {
	heads := []string{"step"}
	column := map[string]int{}
	rows := map[int][]string{}
	add := func(step int, values []Scalar) {
		row := rows[step]
		for _, s := range values {
			k, ok := column[s.Name]
			if !ok {
				k = len(heads)
				column[s.Name], heads = k, append(heads, s.Name)
			}
			row = append(row, make([]string, max(0, k+1-len(row)))...)
			if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
				row[k] = textutil.Number(s.Value)
			}
		}
		rows[step] = row
	}
	for _, m := range r.Metrics {
		add(m.Step, m.Scalars())
	}
	for _, e := range r.Evals {
		add(e.Step, e.Scalars())
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(append(slices.Clip(heads), "arm", "seed")) // a Buffer returns no error
	for _, step := range slices.Sorted(maps.Keys(rows)) {
		row := append(rows[step], make([]string, len(heads)-len(rows[step]))...)
		row[0] = strconv.Itoa(step)
		w.Write(append(row, textutil.CSVCell(textutil.Printable(arm, 0)), seed))
	}
	w.Flush()
	return b.Bytes()
}
