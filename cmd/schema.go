package cmd

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"grpo/internal/jsonschema"
	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/bench"
	"grpo/pkg/config"
	"grpo/pkg/explain"
	"grpo/pkg/infer"
	"grpo/pkg/policy"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/supervised"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/train"
)

// schemaEntry is a document with a schema: a file, or the output of a command.
type schemaEntry struct {
	name, what string
	of         reflect.Type // of JSON
	yaml       func() jsonschema.Schema
}

// schemas lists every file and every output. A test finds a --json without its type here.
var schemas = slices.Concat([]schemaEntry{
	{name: "config", what: "configuration file of grpo train (-c)", yaml: config.Schema},
	{name: "sft", what: "recipe of grpo sft (-c)", yaml: config.SchemaSFT},
	{name: "reward-model", what: "configuration of grpo reward-model (-c)", yaml: config.SchemaRewardModel},
	{name: "sweep", what: "file of grpo ablate; sweep.yaml", yaml: sweep.Schema},
	{name: "result", what: "result.json of a run", of: reflect.TypeFor[rundir.Result]()},
	{name: "results", what: "results.json of a sweep; grpo report --json", of: reflect.TypeFor[report.Results]()},
	{name: "study", what: "results.json of a study; grpo report --json", of: reflect.TypeFor[report.StudyResults]()},
	output[report.Audit]("audit", "audit.json of an audit; grpo audit --json"),
	output[rundir.AuditDraw]("audit-draw", "a line of draws.jsonl of an audit"),
	output[rundir.AuditDrift]("audit-drift", "a line of drift.jsonl of an audit"),
	output[rundir.Metrics]("metrics", "a line of metrics.jsonl"),
	output[rundir.Eval]("eval-line", "a line of eval.jsonl"),
	output[trainOutput]("train-json", "grpo train --json"),
	output[sweepOutput]("sweep-json", "grpo sweep --json, grpo ablate --json"),
	output[drySweep]("sweep-dry-run-json", "grpo sweep --dry-run --json, grpo ablate --dry-run --json"),
	output[prepareOutput]("prepare-json", "grpo sweep --prepare --json, grpo ablate --prepare --json"),
	output[studyOutput]("assignment-json", "grpo assignment --json"),
	output[dryStudy]("assignment-dry-run-json", "grpo assignment --dry-run --json"),
}, receipts(), []schemaEntry{
	output[[]sweep.Ablation]("ablate-list-json", "grpo ablate list --json"),
	output[sweep.Status]("status-json", "grpo status --json"),
	output[cancelOutput]("cancel-json", "grpo cancel --json"),
	output[[]report.CompareRow]("compare-json", "grpo compare --json"),
	output[report.Test]("compare-against-json", "grpo compare --against --json"),
	output[report.Trial]("gate", "grpo gate"),
	output[report.LedgerLine]("gate-line", "a line of gate.jsonl in an incumbent's folder"),
	output[[]sweep.EqualRuns]("compare-equal-json", "grpo compare --equal --json"),
	output[[]report.SampledProblem]("samples-json", "grpo samples --json"),
	output[evalOutput]("eval-json", "grpo eval --json"),
	output[[]infer.Generated]("generate-json", "grpo generate --json"),
	output[policy.Exported]("export-json", "grpo export --json"),
	output[supervised.SFTRecord]("sft-json", "grpo sft --json"),
	output[supervised.RewardModelRecord]("reward-model-json", "grpo reward-model --json"),
	output[statsOutput]("data-stats-json", "grpo data stats --json"),
	output[infer.Prompts]("data-show-json", "grpo data show --json"),
	output[infer.PairsMade]("data-pairs-json", "grpo data pairs --json"),
	output[infer.RewardTrial]("reward-try-json", "grpo reward try --json"),
	output[pulledModel]("pull-model-json", "grpo pull model --json"),
	output[pulledData]("pull-data-json", "grpo pull data --json"),
	output[train.BenchResult]("bench-step-json", "grpo bench step --json"),
	output[bench.Kernels]("bench-kernels-json", "grpo bench kernels --json"),
	output[[]bench.Series]("bench-scaling-json", "grpo bench scaling --json"),
	output[explain.AdvantageResult]("explain-advantages-json", "grpo explain advantages --json"),
	output[explain.LengthNormResult]("explain-lengthnorm-json", "grpo explain lengthnorm --json"),
	output[explain.ClipResult]("explain-clip-json", "grpo explain clip --json"),
	output[explain.AggregationResult]("explain-aggregation-json", "grpo explain aggregation --json"),
	output[explain.OverlongResult]("explain-overlong-json", "grpo explain overlong --json"),
	output[explain.PassKResult]("explain-passk-json", "grpo explain passk --json"),
	output[explain.WalkthroughResult]("explain-walkthrough-json", "grpo explain walkthrough --json"),
	output[explain.DPOResult]("explain-dpo-json", "grpo explain dpo --json"),
	output[explain.RewardModelResult]("explain-reward-model-json", "grpo explain reward-model --json"),
	output[explain.VerdictResult]("explain-verdict-json", "grpo explain verdict --json"),
	output[explain.AnswerResult]("explain-reward-json", "grpo explain reward --completion --json"),
	output[explain.LogProbsResult]("explain-logprobs-json", "grpo explain logprobs --json"),
	output[[]explain.AdvantageCase]("explain-advantages-batch-json", "grpo explain advantages --batch --json"),
	output[[]explain.LossCase]("explain-loss-batch-json", "grpo explain loss --batch --json"),
	output[[]explain.Call]("explain-calls-json", "grpo explain loss --batch --json, and advantages, of the assignment's functions"),
	output[[]explain.RewardCase]("explain-reward-batch-json", "grpo explain reward --batch --json"),
	output[[]explain.VerdictCase]("explain-verdict-batch-json", "grpo explain verdict --batch --json"),
	output[configOutput]("config-show-json", "grpo config show --json"),
	output[[]listedConfig]("config-list-json", "grpo config list --json"),
	output[[]listedSchema]("schema-json", "grpo schema --json"),
	output[versionOutput]("version-json", "grpo version --json"),
})

// receipts are the outputs of the launchers, in place of a report.
func receipts() (out []schemaEntry) {
	for _, k := range launch.Kinds {
		if k.Receipt != nil {
			what := "--launcher " + k.Name + " --json"
			out = append(out, schemaEntry{name: k.Name + "-json", what: what, of: reflect.TypeOf(k.Receipt)})
		}
	}
	return out
}

func output[T any](name, what string) schemaEntry {
	return schemaEntry{name: name, what: what, of: reflect.TypeFor[T]()}
}

// printed is called with every JSON that a command prints. Tests replace it by a check against the
// schema of v.
var printed = func(v any, data []byte) {}

// schema is the JSON Schema of an entry.
func (e schemaEntry) schema() jsonschema.Schema {
	if e.yaml != nil {
		return e.yaml()
	}
	return jsonschema.Of(e.what, e.of, ownJSON)
}

// ownJSON has what types that write their own JSON add to their fields.
var ownJSON = jsonschema.Extra{
	reflect.TypeFor[rundir.Result](): func(s jsonschema.Schema, _ func(reflect.Type) jsonschema.Schema) {
		s["properties"].(jsonschema.Schema)["checksum"] = jsonschema.Schema{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	},
	reflect.TypeFor[analysis.ArmResult](): func(s jsonschema.Schema, ref func(reflect.Type) jsonschema.Schema) {
		for _, m := range analysis.Metrics {
			if !m.Timed {
				s["properties"].(jsonschema.Schema)[m.Name] = ref(reflect.TypeFor[analysis.Summary]())
				s["required"] = append(s["required"].([]string), m.Name)
			}
		}
	},
}

// schemaOptions are the inputs of `grpo schema`.
type schemaOptions struct {
	name string
	json bool
}

func newSchema(s *State) *cobra.Command {
	o := &schemaOptions{}
	var names []string
	for _, e := range schemas {
		names = append(names, e.name)
	}
	c := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a configuration, a file of results, or a command's --json",
		Long: `Schema prints a JSON Schema (draft 2020-12). Without a name it lists what there is.
With the schemas config, sft and sweep, an editor completes and checks YAML files:
docs/ci.md says how. They have types, values and meanings; the rules between keys
are checked by "grpo config check" and "grpo ablate FILE --dry-run".`,
		Example: `  grpo schema
  grpo schema config > grpo-config.schema.json
  grpo schema sweep-json`,
		Args: takes("one schema (\"grpo schema\" lists them)", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if o.name = args[0]; o.json {
					return usagef(cmd, "a schema is JSON already: --json is for the list")
				}
				if !slices.Contains(names, o.name) {
					hint := cmp.Or(suggest.DidYouMean(o.name, names), " (\"grpo schema\" lists them)")
					return usagef(cmd, "there is no schema %q%s", o.name, hint)
				}
			}
			return run(cmd, s, o, showSchema)
		},
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
	}
	addJSON(c, &o.json)
	return c
}

// listedSchema is a row of the list.
type listedSchema struct {
	Name string `json:"name"`
	Of   string `json:"of"`
}

func showSchema(_ context.Context, s *State, o *schemaOptions) error {
	var list []listedSchema
	for _, e := range schemas {
		if e.name == o.name {
			data, err := rundir.Marshal(e.schema())
			if err != nil {
				return err
			}
			return writeJSON(s.Out, data)
		}
		list = append(list, listedSchema{e.name, e.what})
	}
	if o.json {
		return printJSON(s.Out, list)
	}
	w := newTable(s.Out)
	for _, l := range list {
		textutil.Fprintf(w, "%s\t%s\n", l.Name, l.Of)
	}
	return w.Flush()
}
