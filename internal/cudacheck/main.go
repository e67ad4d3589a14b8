// Command cudacheck runs the checks of docs/gpu.md on a machine with an NVIDIA GPU and writes their
// tables. It starts programs that were built before (see `make cuda-check-build`), so the machine
// needs neither Go nor a network:
//
//	cudacheck -bin DIR -out DIR -part PART,...   some parts, each into OUT/PART.json
//	cudacheck -out DIR -write docs/gpu.md        the tables of all parts that ran
//
// A part takes a few minutes, so parts can be run one by one if the time of a command is limited.
// OUT/PART.log has what its programs print, as they print it. A program that takes longer than
// -limit is ended, and so is the one that runs when -total is over; a Go program then prints where
// it is. What a part has measured before an error is in its table.
// The exit code is 0 if the part meets all its requirements, 1 if it fails one, and 2 if it could
// not run.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is one check.
type part struct {
	name, about string
	run         func(c *check) (*table, error)
}

var parts = []part{
	{"golden", "PyTorch's numbers, finite differences and the sampler, on the card", golden},
	{"bits", "the same configuration twice", bits},
	{"experiment", "the default experiment, seeds 1 to 4", experiment},
	{"step64", "a step against PyTorch at H = 64", func(c *check) (*table, error) { return step(c, 64) }},
	{"step256", "a step against PyTorch at H = 256", func(c *check) (*table, error) { return step(c, 256) }},
	{"step1024", "a step against PyTorch at H = 1024", func(c *check) (*table, error) { return step(c, 1024) }},
	{"precision", "tf32 and bf16: their speed and their error", precision},
	{"sizes", "the GPU against the CPU", sizes},
	{"smollm2", "the preset smollm2 ($" + smollm2Env + ": its weights; without, random ones)", smollm2},
	{"decoder-step", "a step against PyTorch at the shape of SmolLM2-135M", smollm2Step},
	{"assignment-step", "a step against PyTorch at the shape of Qwen2.5-1.5B, with LoRA", assignmentStep},
	{"leak", "memory over 1000 steps", leak},
	{"sanitizer", "compute-sanitizer: memcheck and racecheck", sanitizer},
}

// check has the settings of the parts.
type check struct {
	bin    string // grpo, gpu.test, kernels.test, train.test, the PyTorch programs and a copy of the reference data
	out    string
	python string
	tiny   bool     // the parts of decoders take seconds on the emulator
	libs   []string // folders of CUDA's libraries; nil before the search
	limit  time.Duration
	until  time.Time // the end of the last program; zero: no limit
	log    *os.File  // of the part
	card   string    // name of the GPU
}

var errHolds = errors.New("something does not hold")

func main() {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	var c check
	which := flag.String("part", "", "the parts to run, separated by commas: "+strings.Join(names, ", ")+", or all")
	doc := flag.String("write", "", "write the tables of the parts that ran into this document")
	flag.StringVar(&c.bin, "bin", ".cuda-check", "folder of the programs")
	flag.StringVar(&c.out, "out", ".cuda-check/out", "folder of the results")
	flag.StringVar(&c.python, "python", "python3", "Python with PyTorch")
	flag.DurationVar(&c.limit, "limit", 5*time.Minute, "time after which a program is ended")
	total := flag.Duration("total", 0, "time after which no program runs any more; 0: no limit")
	flag.BoolVar(&c.tiny, "tiny", false, "try the parts of decoders at a tiny size, as on the emulator without a GPU")
	flag.Parse()
	if *total > 0 {
		c.until = time.Now().Add(*total)
	}
	if err := run(&c, *which, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "cudacheck:", err)
		if errors.Is(err, errHolds) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

func run(c *check, which, doc string) error {
	var err error
	if c.bin, err = filepath.Abs(c.bin); err != nil {
		return err
	}
	if c.out, err = filepath.Abs(c.out); err != nil {
		return err
	}
	if file := os.Getenv(smollm2Env); file != "" { // the programs run in another folder
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		if err := os.Setenv(smollm2Env, file); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	if which == "" && doc == "" {
		return fmt.Errorf("give -part or -write (see -help)")
	}
	if doc != "" {
		return write(c, doc)
	}
	chosen := parts
	if which != "all" {
		chosen = nil
		for _, name := range strings.Split(which, ",") {
			i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
			if i < 0 {
				return fmt.Errorf("part %q is unknown", name)
			}
			chosen = append(chosen, parts[i])
		}
	}
	var failed []error
	for _, p := range chosen {
		fmt.Printf("== %s: %s\n", p.name, p.about)
		if err := c.do(p); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}

// do runs a part, prints its table and saves it, also if an error ends the part after some rows.
func (c *check) do(p part) (err error) {
	if c.log, err = os.Create(filepath.Join(c.out, p.name+".log")); err != nil {
		return err
	}
	defer c.log.Close()
	var unnamed error
	if c.card == "" {
		c.card, unnamed = card(c)
	}
	t, err := p.run(c)
	if err != nil {
		if t == nil || len(t.Rows) == 0 {
			return err
		}
		t.fails("the part ended early: %v", err)
	}
	t.Part, t.Card = p.name, c.card
	if unnamed != nil {
		t.fails("a tiny step: %v", unnamed)
	}
	fmt.Print(t.markdown())
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.out, p.name+".json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	if !t.Holds {
		return errHolds
	}
	return nil
}
