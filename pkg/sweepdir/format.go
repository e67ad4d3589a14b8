// Package sweepdir defines a sweep's folder, as pkg/rundir defines a run's: pkg/sweep writes it,
// pkg/analysis reads it.
//
//	sweep.yaml  manifest.json               # the request; the frozen list of runs
//	runs/lr-3e-5_seed-1-9f2c1ab4/          # run folders (package rundir)
//	results.csv results.json results.md results.tex curves.csv report.html *.png
//
// An ablation is a sweep with named arms; the assignment is a folder of sweeps, one per question
// (see [Study]).
package sweepdir

import "grpo/pkg/rundir"

// Names of the files in a sweep's folder.
const (
	RequestFile  = rundir.RequestFile
	ManifestFile = rundir.ManifestFile
	StudyFile    = rundir.StudyFile // lists the sweeps of a study
	RunsDir      = "runs"
	ResultsCSV   = "results.csv"
	ResultsJSON  = "results.json"
	ResultsMD    = "results.md"
	ResultsTeX   = "results.tex"
	CurvesCSV    = "curves.csv"
	ReportHTML   = "report.html"
	TaskLog      = rundir.TaskLog // in a run's folder: the output of the run's process, panics included
)

// FormatVersion is the version of manifest.json that this program writes.
const FormatVersion = 1

// Override is one key with its value, as passed to --set.
type Override struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Axis is a swept key with its values, in the order of the request.
type Axis struct {
	Key    string   `json:"key"`   // "train.learning_rate"
	Label  string   `json:"label"` // "learning rate": for axes and tables
	Short  string   `json:"short"` // "lr": for arm names and folders
	Values []string `json:"values"`
	// Written has the values as the user typed them, for axes and tables ([Axis.Shown]); empty if
	// they are the same, or were not typed one by one.
	Written []string `json:"written,omitempty"`
	// Log asks for a logarithmic scale: the values are positive and span a factor of 10 or more.
	Log bool `json:"log"`
}

// Arm is one setting of a sweep.
type Arm struct {
	Name  string     `json:"name"`  // unique in the sweep: "lr=3e-5", "no_baseline"
	Label string     `json:"label"` // for legends: "learning rate 3e-5", "no baseline"
	Set   []Override `json:"set"`   // the settings of the arm
	// Point has the arm's value on each axis of the manifest; empty without axes.
	Point []string `json:"point,omitempty"`
	// Control marks an arm that is expected to fail (random reward, for example): it is compared
	// but never proposed as the best.
	Control bool `json:"control,omitempty"`
}

// Entry is one run: an arm with a seed.
type Entry struct {
	Index int    `json:"index"` // in Manifest.Runs
	Arm   int    `json:"arm"`   // index into Manifest.Arms
	Seed  uint64 `json:"seed"`
	Dir   string `json:"dir"`  // below the sweep's folder, slash-separated: "runs/lr-3e-5_seed-1-9f2c1ab4"
	Hash  string `json:"hash"` // of the resolved configuration
	// Config is the resolved configuration as YAML.
	Config string `json:"config"`
}

// Manifest is manifest.json: the question of the sweep and the frozen list of its runs. Runs are
// ordered by seed, then arm, so that a sweep stopped early has complete seeds.
type Manifest struct {
	Format  int    `json:"format"`
	Hash    string `json:"hash"`    // 8 hex of arms, seeds and configurations
	Command string `json:"command"` // "sweep" or "ablate"
	Name    string `json:"name"`    // "lr", "baseline", the name in a user's YAML
	Title   string `json:"title"`   // "Learning rate"
	// Question is the question of the sweep, ending with "?".
	Question string `json:"question"`
	// Reference names the arm that the others are compared with. Empty: compare with the best arm.
	Reference string `json:"reference"`
	// BestOver is the key of an axis that is tuned, not compared: arms that differ only there are
	// points of one arm, which is compared at its best point. Reference then means the arm of which
	// it is a point. Empty: no such axis.
	BestOver string `json:"best_over,omitempty"`
	// Notes are caveats that the verdict repeats.
	Notes []string `json:"notes"`
	// Fixed are keys with values that all arms share and that matter to the comparison, in the
	// order of the request.
	Fixed []Override `json:"fixed"`
	// Varied are the keys in which the configurations of the arms differ, sorted. Unless they
	// belong together, more than one confounds the comparison.
	Varied []string `json:"varied"`

	Axes  []Axis   `json:"axes"`
	Arms  []Arm    `json:"arms"`
	Seeds []uint64 `json:"seeds"`
	Runs  []Entry  `json:"runs"`
	// Argv is the command that made the sweep; not part of its identity.
	Argv []string `json:"argv"`
	// Base is the configuration that the arms start from, resolved, as YAML.
	Base string `json:"base"`
	// Fresh means that no run of a sweep in another folder is copied into this one.
	Fresh bool `json:"fresh,omitempty"`
	// Added lists seeds that were added when there were already results.
	Added []Addition `json:"added,omitempty"`
	// Halving is nil if every arm is trained to the end; not part of the sweep's identity.
	Halving *Halving `json:"halving,omitempty"`
	// Looks are the planned looks of --seeds 4..16; not part of the sweep's identity.
	Looks []Look `json:"looks,omitempty"`
	// Program is the program with which the runs were submitted to a cluster; not part of the
	// sweep's identity.
	Program *Program `json:"program,omitempty"`
}

// Program identifies a build of this program.
type Program struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // of the file, in hex
}

// Addition are seeds added to a sweep after some of its runs had finished, when their results could
// be known.
type Addition struct {
	Seeds    []uint64 `json:"seeds"`
	Finished int      `json:"finished"` // runs of the other seeds, at that time
	Runs     int      `json:"runs"`     // of the other seeds
}

// Study is study.json: several sweeps with one report, such as the
// assignment's four questions.
type Study struct {
	Format int      `json:"format"`
	Hash   string   `json:"hash"`
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Argv   []string `json:"argv"`
	// Asked are the flags that identify the study, for the error about a different request in its
	// folder.
	Asked []Override `json:"asked,omitempty"`
	Parts []Part     `json:"parts"`
}

// Part is a sweep of a study.
type Part struct {
	Name string `json:"name"` // "lr": its folder below the study's
	// Question is the part's question in the handout's terms.
	Question string `json:"question"`
	// Chosen explains what this part uses from an earlier one: "learning rate 1e-3, the best
	// validation reward of part lr". Empty: nothing.
	Chosen string `json:"chosen,omitempty"`
	// Set is Chosen as keys with their values. Once written it does not change.
	Set []Override `json:"set,omitempty"`
}
