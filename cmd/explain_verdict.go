package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"grpo/pkg/config"
	"grpo/pkg/explain"
)

func newExplainVerdict(s *State) *cobra.Command {
	c := &cobra.Command{
		Use:   "verdict",
		Short: "The tests behind a verdict: p values, bounds, planned looks; your own cases",
		Long: `Verdict compares arms seed by seed with the functions that reports use: the paired t
test of each pair, its adjustment for the number of pairs, the interval, the bound X
("the arms differ by at most X") and the test of equivalence (TOST). The example is a
sweep over four learning rates with four seeds.

--batch FILE computes cases, one JSON object per line (or a list of them):

  {"arms": {"a": [114, 108], "b": [103, 111]}, "problems": 128}
    right answers by seed, or shares without "problems"; null is a missing seed.
    Pairs are in the order of the file, the first arm minus the second. Optional:
    "reference" (an arm; the pairs are each other arm minus it), "stopped" (arms
    without final values, whose pairs count with p = 1), "weight" (0.5; 0 is Holm),
    "margin" (0.02, of TOST), "looks" ([4, 8, 16]: the planned numbers of seeds).
    If the pairs do not have the same seeds, the weight is 0.
  {"grid": {"x00": [912, 924], "x01": [972, 962], "x10": [970, 949],
            "x11": [956, 954]}, "problems": 1024}
    the effects of the first and the second key and their interaction
  {"collapse": [x, n, y, m]}
    x of n seeds collapsed in one arm, y of m in the other
  {"problems_by_seed": {"a": ["1011", "1101"], "b": ["0010", "0110"]}}
    1 for each problem that is right, a string for each seed

Fields whose names begin with "_" are comments. --json prints a list in the order of
the cases; "grpo schema explain-verdict-batch-json" has its fields. A wrong case ends
the command with exit code 2 before anything is printed.`,
		Example: `  grpo explain verdict
  grpo explain verdict --arm a=0.71,0.74,0.70 --arm b=0.69,0.75,0.66 --margin 0.05
  echo '{"collapse": [0, 4, 3, 4]}' | grpo explain verdict --batch - --json`,
	}
	o := worked(s, c, explain.DefaultVerdict(), explain.Verdict)
	example, f := c.RunE, c.Flags()
	cases := &batchOptions{}
	f.StringVar(&cases.file, "batch", "", "`file` of cases, one per line (\"-\" = standard input)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.Changed("batch") {
			if f.Changed("arm") && !f.Changed("problems") {
				o.Problems = 0
			}
			return example(cmd, args)
		}
		if other := changed(cmd, "arm", "problems", "weight", "margin", "reference", "stopped", "looks"); other != "" {
			return usagef(cmd, "--batch has its own numbers; leave out --%s", other)
		}
		cases.json, _ = f.GetBool("json")
		return runBatch(cmd, s, cases, func(file explain.File) (explain.Batch, error) {
			b, err := explain.Verdicts(file)
			return b, config.Invalid(err)
		})
	}
	listVar(f, &o.Arms, "arm",
		"`name=values` of an arm with each seed, such as a=0.71,0.74 (repeat for each arm)", parseArm)
	f.IntVar(&o.Problems, "problems", o.Problems, "number of problems, if values are counts of right answers (with --arm: 0 = shares)")
	f.Float64Var(&o.Weight, "weight", o.Weight, "share of the level for the largest difference (0 = Holm)")
	f.Float64Var(&o.Margin, "margin", o.Margin, "largest difference that counts as the same")
	f.StringVar(&o.Reference, "reference", "", "`arm` with which all others are compared (default all pairs)")
	f.StringSliceVar(&o.Stopped, "stopped", nil, "`arms` that were stopped early, with or without values")
	f.IntSliceVar(&o.Looks, "looks", nil, "planned numbers of seeds, such as 4,8,16")
	return c
}

// parseArm parses a name and its values; the name may have a "=" itself.
func parseArm(text string) ([]explain.VerdictArm, error) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 {
		return nil, fmt.Errorf("%q is not of the form name=value,value", text)
	}
	values, err := parseRow(text[at+1:])
	return []explain.VerdictArm{{Name: text[:at], Values: values}}, err
}
