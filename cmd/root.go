// Package cmd is the command line. Each command turns its flags into an options
// struct and has a function that takes it and calls pkg/.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/process"
	"grpo/internal/regular"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1   // a run failed
	exitUsage       = 2   // usage or configuration
	exitUndecided   = 3   // the answer of grpo gate; keep is exitDone, discard exitFailed
	exitResumable   = 75  // interrupted; the same command continues
	exitInterrupted = 130 // interrupted before anything could be saved
)

// usageError is a mistake in the command line.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(c *cobra.Command, format string, args ...any) error {
	return &usageError{c, fmt.Errorf(format, args...)}
}

// run calls f, or in unit tests [State.RunF], with the options of a command.
func run[O any](c *cobra.Command, s *State, o *O, f func(context.Context, *State, *O) error) error {
	if s.RunF != nil {
		return s.RunF(o)
	}
	return f(c.Context(), s, o)
}

// exitCode maps an error to the exit code; the only place that does.
func exitCode(err error) int {
	var usage *usageError
	var gate *gateError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &gate):
		return gate.code
	case config.Outside(err):
		return exitFailed
	case errors.As(err, &usage), errors.Is(err, config.ErrConfig):
		return exitUsage
	case errors.Is(err, regular.ErrNamed), errors.Is(err, rundir.ErrNotRun): // what the user named is of the wrong kind
		return exitUsage
	case errors.Is(err, rundir.ErrNothingSaved), errors.Is(err, errStopped):
		return exitInterrupted
	case errors.Is(err, rundir.ErrInterrupted):
		return exitResumable
	}
	return exitFailed
}

// missingInput turns the error about a missing file or folder, named on the command
// line, into one with the exit code of usage errors.
func missingInput(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return config.Invalid(err)
	}
	return err
}

// errStopped is the end of a command that had nothing to save.
var errStopped = errors.New("interrupted")

// saves marks a command that saves or removes something when its context ends, and
// then returns.
var saves = map[string]string{"saves": "yes"}

// execute runs the command line. When ctx ends it does not wait for a command that
// has nothing to save: the process exits next, and files are replaced atomically.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	c, _, err := root.Find(args)
	if err == nil && c.Annotations["saves"] != "" {
		return root.ExecuteContext(ctx)
	}
	return orStopped(ctx, nil, func() error { return root.ExecuteContext(ctx) })
}

// orStopped returns what f returns, or errStopped as soon as ctx ends. If saves is not nil and returns true then, it
// waits for f, which ends soon with a part of its result.
func orStopped(ctx context.Context, saves func() bool, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if saves != nil && saves() {
		return <-done
	}
	return errStopped
}

// Run executes one command line and returns the exit code.
func Run(ctx context.Context, s *State) int {
	out := &outWriter{w: s.Out}
	state := *s
	state.Out = out
	root := newRoot(&state)
	err := execute(ctx, root, s.Args[1:])
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", out.err)
	}
	if err != nil {
		textutil.Fprintf(s.Err, "grpo: %s\n", textutil.Lines(err.Error()))
		if exitCode(err) == exitResumable && slices.Contains(s.Args, "--fresh") {
			fmt.Fprintln(s.Err,
				"grpo: --fresh would start over: to continue, give --out with this run's folder instead")
		}
		var usage *usageError
		if errors.As(err, &usage) {
			textutil.Fprintf(s.Err, "grpo: try \"%s --help\"\n", usage.cmd.CommandPath())
		}
	}
	return exitCode(err)
}

// Root is the tree of commands, for programs that describe it: man pages, completions.
func Root() *cobra.Command { return newRoot(processState()) }

// outWriter keeps the first write error, which [Run] reports: cobra reports none of
// help and version, and commands need not check each line.
type outWriter struct {
	w   io.Writer
	err error
}

func (o *outWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func newRoot(s *State) *cobra.Command {
	root := &cobra.Command{
		Use:   "grpo",
		Short: "Reinforcement learning from verifiable rewards: experiments on a laptop",
		Long: `grpo trains small language models with group-relative policy optimization (GRPO)
and its relatives on word problems with verifiable answers. It plots validation
reward and counts right, wrong and unformatted answers.

"grpo train" needs no setup: it starts from the embedded base model, which can
solve the problems but rarely does, and trains it in seconds on a CPU.`,
		Example: `  grpo train                                  the default experiment
  grpo train -c smoke                         a quick check, a few seconds
  grpo train --lr 3e-4 --seed 2 --out my-run  another learning rate and seed
  grpo eval my-run --split test               evaluate the trained policy
  grpo sweep lr --values 3e-4,1e-3,3e-3       learning rates x seeds, with figures and a verdict
  grpo ablate baseline                        a comparison by name
  grpo assignment                             learning rate, baseline, length and std normalization
  grpo config show --docs                     every setting, its default and its meaning`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(build(s)),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetArgs(s.Args[1:])
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		for _, name := range []string{memoryEnv, diskEnv} {
			if _, _, err := amountSetting(s.Env, name); err != nil {
				return err
			}
		}
		return checkKernel(s.Env)
	}
	root.SetFlagErrorFunc(flagError)
	for _, f := range []func(*State) *cobra.Command{
		newTrain, newDPO, newEval, newSweep, newAblate, newAssignment, newReport, newSamples, newStatus, newCancel,
		newCompare, newGate, newAudit, newSFT, newRewardModel, newGenerate, newExport, newExplain, newData, newPull, newReward, newBench,
		newConfig, newSchema, newVersion, newMan, newTask,
	} {
		root.AddCommand(f(s))
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			strictHelp(c)
			continue
		}
		strictArgs(c)
	}
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef(c, "unknown command %q%s", args[0], suggestion(c, args[0]))
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return root
}

// checkKernel refuses a GRPO_KERNEL that is not available on this machine, whose bits
// the user wants.
func checkKernel(env []string) error {
	if want := process.Getenv(env, "GRPO_KERNEL"); want != "" && want != kernel.Name() {
		return fmt.Errorf("%w: GRPO_KERNEL=%s is not available on this machine "+
			"(kernels: go, avx2 and avx512 on amd64, neon on arm64; without the variable it uses %s)",
			config.ErrConfig, want, kernel.Name())
	}
	return nil
}

// strictArgs turns wrong arguments of a command and its children into usage errors,
// and refuses unknown subcommands, which cobra would take as arguments.
func strictArgs(c *cobra.Command) {
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(c, "unknown command %q%s", c.CommandPath()+" "+args[0], suggestion(c, args[0]))
			}
			return c.Help()
		}
		c.Args = cobra.ArbitraryArgs
	} else {
		check := c.Args
		if check == nil {
			check = takes("", 0, 0)
		}
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &usageError{c, err}
			}
			return nil
		}
	}
	for _, child := range c.Commands() {
		strictArgs(child)
	}
}

// strictHelp turns an unknown topic of "grpo help" into a usage error.
func strictHelp(help *cobra.Command) {
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		found, rest, err := c.Root().Find(args)
		if err != nil || len(rest) > 0 || found == c.Root() && len(args) > 0 {
			topic := strings.Join(args, " ")
			return usagef(c, "there is no help on %q%s", topic, suggestion(c.Root(), topic))
		}
		show(c, args)
		return nil
	}
}

// subcommands lists the names of the commands below c that users see.
func subcommands(c *cobra.Command) (names []string) {
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return names
}

// suggestion ends the error about an unknown child of c: the nearest, or all if there are few, or who lists them.
func suggestion(c *cobra.Command, word string) string {
	names := subcommands(c)
	c.SuggestionsMinimumDistance = 2
	s := c.SuggestionsFor(word)
	switch {
	case len(names) <= 5 && (len(s) == 0 || suggest.Distance(word, s[0]) > 1):
		return fmt.Sprintf(" (there are %s)", strings.Join(names, ", "))
	case len(s) > 0:
		return fmt.Sprintf(" (did you mean %q?)", s[0])
	}
	return fmt.Sprintf(" (%q lists them)", c.CommandPath())
}
