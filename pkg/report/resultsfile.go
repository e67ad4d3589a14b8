package report

import (
	"fmt"
	"path/filepath"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// resultsFormat is the version of results.json.
const resultsFormat = 1

// Results is results.json: what an analysis says, with what the sweep was.
// Nothing in it depends on when, where or how fast the runs were made, so that
// the same runs give the same bytes.
type Results struct {
	Format  int    `json:"format"`
	Command string `json:"command"`
	Name    string `json:"name"`
	Title   string `json:"title"`
	Hash    string `json:"hash"` // of the sweep

	Seeds    []uint64 `json:"seeds"`
	Level    float64  `json:"level"`    // of the intervals
	Interval string   `json:"interval"` // how they were made: "student_t"

	Runs     int    `json:"runs"`
	Finished int    `json:"finished"` // runs with a result
	Best     string `json:"best"`     // name of the best arm; empty where there is none

	Base           float64 `json:"base"`
	Majority       float64 `json:"majority"`
	MajorityAnswer string  `json:"majority_answer"`

	Arms        []analysis.ArmResult  `json:"arms"`
	Comparisons []analysis.Comparison `json:"comparisons"`
	Verdict     Verdict               `json:"verdict"`
}

// Results puts the analysis into the form of results.json.
func (a *Report) Results() Results {
	m := &a.Sweep.Manifest
	r := Results{
		Format: resultsFormat, Command: m.Command, Name: m.Name, Title: m.Title, Hash: m.Hash,
		Seeds: m.Seeds, Level: stats.Level, Interval: "student_t",
		Runs: a.Runs(), Finished: a.Finished(),
		Base: a.Base, Majority: a.Majority, MajorityAnswer: a.MajorityAnswer,
		Arms: a.Arms, Comparisons: a.comparisonResults(), Verdict: a.Verdict,
	}
	if a.Best >= 0 {
		r.Best = a.Arms[a.Best].Arm.Name
	}
	return r
}

// WriteResults writes results.csv, results.json and results.md of the analysis
// into dir, each in one atomic move, and returns their paths. The three hold
// the same numbers: results.json and results.csv exactly, results.md rounded.
func WriteResults(dir string, a *Report) ([]string, error) {
	table, err := a.csv()
	if err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	var paths []string
	for _, f := range []struct {
		name  string
		write func(path string) error
	}{
		{sweepdir.ResultsCSV, func(path string) error { return rundir.WriteFileAtomic(path, table) }},
		{sweepdir.ResultsJSON, func(path string) error { return rundir.WriteJSON(path, a.Results()) }},
		{sweepdir.ResultsMD, func(path string) error { return rundir.WriteFileAtomic(path, []byte(a.Markdown())) }},
	} {
		path := filepath.Join(dir, f.name)
		if err := f.write(path); err != nil {
			return paths, fmt.Errorf("write results: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}
