package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"grpo/pkg/analysis"

	"grpo/internal/words"
	"grpo/pkg/stats"
)

// results.csv has a row for each arm, in the manifest's order, and these
// columns:
//
//	arm, label, control                 the arm
//	KEY ...                             its value on each axis of the sweep, by the full key
//	status                              in words
//	done, diverged, failed, left        numbers of runs
//	diverged_at_seedS ...               the step at which the run of seed S diverged
//	FIGURE_mean, _sd, _lo, _hi, _n      each figure over the seeds: mean, sample standard deviation,
//	                                    95% interval of the mean (Student's t), number of values
//	FIGURE_seedS ...                    the figure of each seed S
//
// for every figure in the order of results.json (initial, final, best, greedy,
// test, ...). Numbers have as many digits as they need to be read back exactly;
// an empty cell is a metric that does not exist. Names and other text are escaped
// by [csvText].

// csv is results.csv.
func (a *Report) csv() ([]byte, error) {
	m := &a.Sweep.Manifest
	head := []string{"arm", "label", "control"}
	for _, x := range m.Axes {
		head = append(head, csvText(x.Key))
	}
	head = append(head, "status", "done", "diverged", "failed", "left")
	for _, s := range m.Seeds {
		head = append(head, fmt.Sprintf("diverged_at_seed%d", s))
	}
	for _, metric := range analysis.Metrics {
		if metric.Timed {
			continue
		}
		for _, part := range []string{"mean", "sd", "lo", "hi", "n"} {
			head = append(head, metric.Name+"_"+part)
		}
		for _, s := range m.Seeds {
			head = append(head, fmt.Sprintf("%s_seed%d", metric.Name, s))
		}
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(head); err != nil {
		return nil, err
	}
	for i := range a.Arms {
		if err := w.Write(a.csvRow(&a.Arms[i])); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func (a *Report) csvRow(r *analysis.ArmResult) []string {
	m := &a.Sweep.Manifest
	row := []string{csvText(r.Arm.Name), csvText(r.Arm.Label), strconv.FormatBool(r.Arm.Control)}
	for k := range m.Axes {
		value := ""
		if k < len(r.Arm.Point) {
			value = r.Arm.Point[k]
		}
		row = append(row, csvText(value))
	}
	row = append(row, csvText(r.Status))
	for _, n := range []int{r.Done, r.Diverged, r.Failed, r.Left} {
		row = append(row, strconv.Itoa(n))
	}
	for _, at := range r.DivergedAt {
		cell := ""
		if at != nil {
			cell = strconv.Itoa(*at)
		}
		row = append(row, cell)
	}
	for _, metric := range analysis.Metrics {
		if metric.Timed {
			continue
		}
		f := r.Of(metric)
		row = append(row, exact(f.Mean), exact(f.SD), exact(f.Lo), exact(f.Hi), strconv.Itoa(f.N))
		for _, v := range f.Values {
			row = append(row, exact(v))
		}
	}
	return row
}

// csvText is a text as a cell. A spreadsheet runs a cell that begins with one of
// these characters as a formula, so anything but a number gets an apostrophe in
// front, which makes it text (OWASP, CSV injection).
func csvText(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// exact prints v so that it reads back as itself; empty where it is not finite.
func exact(v float64) string {
	if !stats.IsFinite(v) {
		return ""
	}
	return words.Number(v)
}
