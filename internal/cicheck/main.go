// Command cicheck checks the folder of a finished smoke run: it parses every line,
// decodes every figure, checks the counts, and compares the run with a second one
// bit for bit (except for times).
//
//	go run ./internal/cicheck RUN RESULT.json [SECOND-RUN]
//	go run ./internal/cicheck -sweep SWEEP RUNS     a finished sweep with this number of runs
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"

	"grpo/pkg/rundir"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "-sweep":
		err = checkSweep(args[1], args[2])
	case len(args) < 2:
		fmt.Fprintln(os.Stderr, "usage: cicheck RUN RESULT.json [SECOND-RUN]")
		os.Exit(2)
	default:
		if err = check(args[0], args[1]); err == nil && len(args) > 2 {
			err = same(args[0], args[2])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cicheck:", err)
		os.Exit(1)
	}
}

func check(dir, result string) error {
	run, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	if !run.Finished() || len(run.Missing) > 0 {
		return fmt.Errorf("%s: not finished, or files are missing: %v", dir, run.Missing)
	}
	if n := len(run.Metrics); n == 0 || n != run.Result.Steps {
		return fmt.Errorf("%d lines of metrics for %d steps", n, run.Result.Steps)
	}
	data, err := os.ReadFile(result)
	if err != nil {
		return err
	}
	var all struct {
		Result struct {
			Status string
			Final  rundir.Eval
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("%s: the output of --json is not JSON: %w", result, err)
	}
	printed := all.Result
	if printed.Status != run.Result.Status || printed.Final.Sampled.CorrectNum != run.Result.Final.Sampled.CorrectNum {
		return fmt.Errorf("--json and result.json disagree")
	}
	if f := run.Result.Final.Sampled; f.CorrectNum+f.ErrorNum != f.N || f.N == 0 {
		return fmt.Errorf("counts don't add up: %+v", f)
	}
	for _, name := range []string{rundir.ValidationPlot, rundir.TrainingPlot} {
		if err := checkPNG(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d steps, %d evaluations, validation reward %.3f -> %.3f, files ok\n", filepath.Base(dir),
		len(run.Metrics), len(run.Evals), run.Result.Initial.Sampled.AnswerReward, run.Result.Final.Sampled.AnswerReward)
	return nil
}

func same(a, b string) error {
	x, err := rundir.Open(a)
	if err != nil {
		return err
	}
	y, err := rundir.Open(b)
	if err != nil {
		return err
	}
	err = errors.Join(rundir.CompareMetrics(x.Metrics, y.Metrics), rundir.CompareEvals(x.Evals, y.Evals))
	if err != nil {
		return fmt.Errorf("%s and %s: %w", a, b, err)
	}
	if x.Result.WeightsSHA256 != y.Result.WeightsSHA256 {
		return fmt.Errorf("weights differ: %s and %s", x.Result.WeightsSHA256, y.Result.WeightsSHA256)
	}
	fmt.Println("the two runs are bit-identical")
	return nil
}

// checkPNG decodes a figure, which must be large enough to read.
func checkPNG(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if b := img.Bounds(); b.Dx() < 600 || b.Dy() < 300 {
		return fmt.Errorf("%s: only %dx%d pixels", path, b.Dx(), b.Dy())
	}
	return nil
}
