package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"grpo/pkg/sweepdir"
)

// checkSweep checks a finished sweep: its runs, its figures, and that its table has
// the same numbers as CSV, as JSON and in the runs.
func checkSweep(dir, runs string) error {
	s, err := sweepdir.Open(dir)
	if err != nil {
		return err
	}
	if want, err := strconv.Atoi(runs); err != nil || len(s.Runs) != want || !s.Finished() {
		return fmt.Errorf("%s: %d runs, finished %v; want %s, all finished", dir, len(s.Runs), s.Finished(), runs)
	}
	for _, name := range []string{
		"validation_reward.png", "final_vs_lr.png", "paired_difference.png", "response_length.png", "entropy.png",
		"grad_norm.png", "reward_train_vs_validation.png", "validation_reward_vs_tokens.png",
	} {
		if err := checkPNG(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, sweepdir.ReportHTML))
	if err != nil {
		return err
	}
	if bytes.Contains(page, []byte("src=\"http")) || !bytes.Contains(page, []byte("src=\"data:image/svg")) {
		return fmt.Errorf("%s: the page is not self-contained", sweepdir.ReportHTML)
	}
	columns, err := readCSV(filepath.Join(dir, sweepdir.ResultsCSV))
	if err != nil {
		return err
	}
	var table struct {
		Arms []struct{ Final struct{ Mean float64 } }
	}
	data, err := os.ReadFile(filepath.Join(dir, sweepdir.ResultsJSON))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &table); err != nil {
		return fmt.Errorf("%s: %w", sweepdir.ResultsJSON, err)
	}
	if len(table.Arms) != len(s.Manifest.Arms) {
		return fmt.Errorf("%s: %d arms of %d", sweepdir.ResultsJSON, len(table.Arms), len(s.Manifest.Arms))
	}
	for arm := range table.Arms {
		var sum float64
		mine := s.OfArm(arm)
		for _, r := range mine {
			sum += r.Run.Result.Final.Sampled.AnswerReward
		}
		mean := sum / float64(len(mine))
		got, err := strconv.ParseFloat(columns["final_mean"][arm], 64)
		if err != nil || math.Abs(got-mean) > 1e-12 || math.Abs(table.Arms[arm].Final.Mean-mean) > 1e-12 {
			return fmt.Errorf("arm %d: mean %v in its runs, %v in CSV, %v in JSON (%v)",
				arm, mean, got, table.Arms[arm].Final.Mean, err)
		}
	}
	fmt.Printf("%s: %d runs of %d arms, tables and figures ok\n", filepath.Base(dir), len(s.Runs), len(s.Manifest.Arms))
	return nil
}

// readCSV returns the columns of a table by their headings.
func readCSV(path string) (map[string][]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	columns := map[string][]string{}
	for i, head := range rows[0] {
		for _, row := range rows[1:] {
			columns[head] = append(columns[head], row[i])
		}
	}
	return columns, nil
}
