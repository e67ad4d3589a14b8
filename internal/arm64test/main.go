// Command arm64test compares two runs: every number of their metrics, evaluations and samples, times
// apart, and their weights. See the script arm64-test.
package main

import (
	"errors"
	"fmt"
	"os"

	"grpo/pkg/rundir"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: arm64test RUN RUN")
		os.Exit(2)
	}
	if err := compare(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "arm64test: %s and %s differ: %v\n", os.Args[1], os.Args[2], err)
		os.Exit(1)
	}
}

func compare(first, second string) error {
	a, err := rundir.Open(first)
	if err != nil {
		return err
	}
	b, err := rundir.Open(second)
	if err != nil {
		return err
	}
	err = errors.Join(rundir.CompareMetrics(a.Metrics, b.Metrics), rundir.CompareEvals(a.Evals, b.Evals),
		rundir.CompareSamples(a.Samples, b.Samples))
	switch {
	case len(a.Metrics) == 0 || a.Result == nil || b.Result == nil:
		err = errors.Join(err, errors.New("a run has no result"))
	case a.Result.WeightsSHA256 != b.Result.WeightsSHA256:
		err = errors.Join(err, fmt.Errorf("weights %s and %s", a.Result.WeightsSHA256, b.Result.WeightsSHA256))
	default:
		fmt.Printf("%d steps and weights %.8s are the same\n", len(a.Metrics), a.Result.WeightsSHA256)
	}
	return err
}
