package report

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"

	"pgregory.net/rapid"

	"grpo/pkg/sweepdir"
)

// No cell of a CSV file is a formula to a spreadsheet, and numbers stay numbers.
func TestCSVHoldsNoFormula(t *testing.T) {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-1e-3", "+0.5", "-", "=", "plain, text", "'=x"}),
		rapid.StringMatching(`[=+@-][ -~]{0,8}`))
	rapid.Check(t, func(t *rapid.T) {
		text, part := name.Draw(t, "text"), name.Draw(t, "part")
		sw := reporttest.FakeSweep(2, reporttest.FakeArm{Name: "x", Point: []string{text}, Run: reporttest.Around(.9, .01, 1)}, reporttest.FakeArm{Name: "y", Point: []string{"1"}, Run: reporttest.Around(.8, .01, 2)})
		m := &sw.Manifest
		m.Axes = []sweepdir.Axis{{Key: text, Values: []string{text, "1"}}}
		m.Arms[0].Name, m.Arms[0].Label = text, text
		analysed, err := analysis.Analyse(sw)
		expect.OK(t, err)
		a := New(analysed)
		own, study := a.resultsTable(), studyTable(sweepdir.Study{Parts: []sweepdir.Part{{Name: part}}}, []*Report{a})
		compared := CompareCSV([]CompareRow{{Dir: part, Row: a.Arms[0]}})
		for file, text := range map[string][]byte{"results.csv": own.CSV(), "a study's": study.CSV(), "compare": compared} {
			records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
			expect.OK(t, err)
			for _, record := range records {
				for _, cell := range record {
					if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
						t.Fatalf("%s: the cell %q is a formula", file, cell)
					}
				}
			}
		}
		if _, err := strconv.ParseFloat(text, 64); err == nil && textutil.CSVCell(text) != text {
			t.Fatalf("the number %q became %q", text, textutil.CSVCell(text))
		}
	})
}
