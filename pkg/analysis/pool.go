package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A mean over seeds is one only where the runs differ in their seed alone: same
// configuration, same problems, kernel and device. This file sorts runs into arms by
// these, never by the names of runs or folders. Versions of the program make arms
// where they are what is compared: where a seed of one configuration is there twice.

// runArm has the runs that differ in their seed alone.
type runArm struct {
	runs  []int               // indexes in the list that was sorted
	seeds []uint64            // of these runs
	set   []sweepdir.Override // the differing keys with their values
}

// mostNamedKeys is the largest number of differing keys that name an arm.
const mostNamedKeys = 3

// ArmsOf sorts runs into the arms of a sweep, in the order of their first runs.
//
// It is an error when a run is there twice, or when one of several runs does not
// say what its configuration or its seed was.
func ArmsOf(runs []*rundir.Run, title string) (*sweepdir.Sweep, error) {
	all, err := readInfos(runs)
	if err != nil {
		return nil, err
	}
	arms, texts, differing, err := sortRuns(runs, all)
	if err != nil {
		return nil, err
	}
	number := textutil.Count(len(runs), "run")
	sw := &sweepdir.Sweep{Dir: number}
	m := &sw.Manifest
	m.Format, m.Command, m.Name, m.Varied = sweepdir.FormatVersion, "report", "runs", differing
	m.Title = cmp.Or(title, number+" in "+textutil.Count(len(arms), "arm"))
	m.Notes = notesOn(differing)
	add := func(s sweepdir.RunState) {
		s.Index = len(m.Runs)
		m.Runs, sw.Runs = append(m.Runs, s.Entry), append(sw.Runs, s)
	}
	shown := shownValues(arms)
	for i, arm := range arms {
		name, label := nameArm(i, arm, all, shown[i])
		m.Arms = append(m.Arms, sweepdir.Arm{Name: name, Label: label, Set: arm.set})
		m.Seeds = append(m.Seeds, arm.seeds...)
		for k, at := range arm.runs {
			s := sweepdir.RunState{Run: runs[at]}
			if s.Run.Finished() {
				s.State = s.Run.Result.Status
			} else { // is a process at work on it?
				s = sweepdir.StateOf(s.Run.Dir, sweepdir.Entry{Dir: "."})
			}
			dir := filepath.ToSlash(runs[at].Dir)
			s.Entry = sweepdir.Entry{Arm: i, Seed: arm.seeds[k], Dir: dir, Config: texts[at]}
			add(s)
		}
	}
	slices.Sort(m.Seeds)
	m.Seeds = slices.Compact(m.Seeds)
	for i, arm := range arms { // every arm with every seed, as in the manifest of a sweep
		for _, seed := range m.Seeds {
			if !slices.Contains(arm.seeds, seed) {
				e := sweepdir.Entry{Arm: i, Seed: seed, Dir: "-", Config: texts[arm.runs[0]]}
				add(sweepdir.RunState{Entry: e, State: sweepdir.Missing, Error: "not among the folders"})
			}
		}
	}
	m.Hash = m.Identity()
	return sw, nil
}

func notesOn(differing []string) []string {
	if len(differing) == 0 {
		return nil
	}
	out := []string{"The runs were sorted into arms by what differs between them besides the seed: " +
		strings.Join(differing, ", ")}
	if OtherProblems(differing) {
		out = append(out, "The arms differ in their problems, so their rewards are shares of different problems")
	}
	return out
}

// OtherProblems reports whether arms that differ in these keys differ in their problems.
func OtherProblems(differing []string) bool {
	return slices.ContainsFunc(differing, func(key string) bool {
		return key == problemsKey || strings.HasPrefix(key, "data.")
	})
}

// nameArm names an arm by the differing keys; where they are too many, by the name
// of its first run, or by its number where other arms have that name.
func nameArm(i int, arm runArm, all []RunInfo, shown []string) (name, label string) {
	own := all[arm.runs[0]].Name
	if len(arm.set) > mostNamedKeys {
		for at, a := range all {
			if a.Name == own && !slices.Contains(arm.runs, at) {
				own = fmt.Sprintf("configuration %d", i+1)
				break
			}
		}
	}
	if len(arm.set) > mostNamedKeys || len(arm.set) == 0 {
		return own, own
	}
	var names, labels []string
	for k, o := range arm.set {
		key := yamldoc.LastPart(o.Key)
		if file, ok := strings.CutPrefix(o.Key, contentsKey); ok {
			key = filepath.Base(file)
		}
		clashes := func(p sweepdir.Override) bool { return p.Key != o.Key && yamldoc.LastPart(p.Key) == key }
		if slices.ContainsFunc(arm.set, clashes) {
			key = o.Key
		}
		names, labels = append(names, key+"="+o.Value), append(labels, key+" "+shown[k])
	}
	return strings.Join(names, ","), strings.Join(labels, ", ")
}

// shownValues are the values of each arm's keys, numbers of one key in one notation. The arms set the
// same keys.
func shownValues(arms []runArm) [][]string {
	out := make([][]string, len(arms))
	for k := range arms[0].set {
		var values []string
		for _, arm := range arms {
			values = append(values, arm.set[k].Value)
		}
		for i, s := range textutil.Alike(values) {
			out[i] = append(out[i], s)
		}
	}
	return out
}

// sortRuns returns the arms of runs with these infos, the configuration of each run as YAML, and the keys
// that differ between runs, except the seed.
func sortRuns(runs []*rundir.Run, all []RunInfo) (arms []runArm, texts, differing []string, err error) {
	texts = configTexts(runs)
	values, differing, err := differingKeys(runs, texts)
	if err != nil {
		return nil, nil, nil, err
	}
	other := slices.DeleteFunc(slices.Clone(differing), func(key string) bool { return key == VersionKey })
	if arms, err = armsBy(other, runs, all, values); err == nil { // no seed is there twice: the version just went on
		return arms, texts, other, nil
	}
	arms, err = armsBy(differing, runs, all, values)
	return arms, texts, differing, err
}

// armsBy sorts runs into arms by the keys.
func armsBy(keys []string, runs []*rundir.Run, all []RunInfo, values []map[string]string) ([]runArm, error) {
	var arms []runArm
	at := map[string]int{}
	for i, r := range runs {
		if len(r.Config) == 0 && len(runs) > 1 {
			return nil, fmt.Errorf("%s has no %s, so it is not known whether it differs from the other "+
				"runs in its seed alone: report on it by itself", r.Dir, rundir.ConfigFile)
		}
		seed := uint64(0)
		switch {
		case all[i].Seed != nil:
			seed = *all[i].Seed
		case len(runs) > 1:
			return nil, fmt.Errorf("%s does not say its seed: report on it by itself", r.Dir)
		}
		var set []sweepdir.Override
		for _, key := range keys {
			value, ok := values[i][key]
			if !ok {
				value = "(absent)"
			} else if x, err := strconv.ParseFloat(value, 64); err == nil && strings.Contains(value, "e") { // YAML's 1e-05
				value = textutil.Number(x)
			}
			set = append(set, sweepdir.Override{Key: key, Value: cmp.Or(value, "(empty)")})
		}
		id := fmt.Sprintf("%q", set)
		k, ok := at[id]
		if !ok {
			k = len(arms)
			at[id] = k
			arms = append(arms, runArm{set: set})
		}
		arm := &arms[k]
		if twin := slices.Index(arm.seeds, seed); twin >= 0 {
			return nil, fmt.Errorf("%s and %s are one run (seed %d of the same configuration), and a mean "+
				"over seeds takes each seed once: leave one of them out", runs[arm.runs[twin]].Dir, r.Dir, seed)
		}
		arm.runs, arm.seeds = append(arm.runs, i), append(arm.seeds, seed)
	}
	return arms, nil
}

// configTexts are the configurations with every key, so that folders of an earlier
// version compare by what its absent keys mean. If this version can't read one of
// them, all stay as they are.
func configTexts(runs []*rundir.Run) []string {
	raw, resolved := make([]string, len(runs)), make([]string, len(runs))
	known := true
	for i, r := range runs {
		raw[i] = string(r.Config)
		if known = known && len(r.Config) > 0; !known {
			continue
		}
		text, ok := resolvedTexts.Load(raw[i])
		if !ok {
			loaded, err := config.LoadText(filepath.Join(r.Dir, rundir.ConfigFile), r.Config)
			if known = err == nil; !known {
				continue
			}
			text = string(config.Marshal(loaded.Config))
			resolvedTexts.Store(raw[i], text)
		}
		resolved[i] = text.(string)
	}
	if known {
		return resolved
	}
	return raw
}

// A report needs the same configurations for many things: they are cached by their text.
var resolvedTexts, flatTexts sync.Map

// VersionKey is the name of the program's version and revision among the differing keys.
const VersionKey = "version"

const (
	// problemsKey is the name of the problems among the differing keys.
	problemsKey = "problems"
	// validationKey is the same for folders of the first version, which have no hash
	// of their problems.
	validationKey = "validation problems"
)

// madeWith are the facts of a run that its configuration does not have; "" where the
// run does not say.
var madeWith = []struct {
	key string
	of  func(*rundir.Run) string
}{
	{VersionKey, version},
	{"kernel", OfMeta(func(m *rundir.Meta) string {
		if m.Kernel == "avx2" || m.Kernel == "avx512" || m.Kernel == "neon" { // the same bits
			return "avx2, avx512 or neon"
		}
		return m.Kernel
	})},
	{"device", OfMeta(func(m *rundir.Meta) string { return cmp.Or(m.Device, "cpu") })},
	{problemsKey, OfMeta(func(m *rundir.Meta) string { return m.ProblemsHash[:min(len(m.ProblemsHash), 8)] })},
	{validationKey, func(r *rundir.Run) string {
		e := AnyValidation(r)
		if e == nil {
			return ""
		}
		return fmt.Sprintf("%d, answer %q on %.4f", e.Sampled.N, e.MajorityAnswer, e.MajorityBaseline)
	}},
}

var version = OfMeta(func(m *rundir.Meta) string { return strings.TrimSpace(m.Version + " " + m.Revision) })

// VersionsNote says, without a full stop, that the runs are of different versions of the program; empty
// if they are not.
func VersionsNote(runs []*rundir.Run) string {
	all := Unique(runs, func(r *rundir.Run) string { return textutil.Printable(version(r), 0) })
	if len(all) < 2 {
		return ""
	}
	return "The runs are of different versions of grpo (" + strings.Join(all, "; ") +
		"): what changed between these counts as a difference between runs"
}

// OfMeta is what f finds in meta.json; empty for a run without the file.
func OfMeta(f func(*rundir.Meta) string) func(*rundir.Run) string {
	return func(r *rundir.Run) string {
		if r.Meta == nil {
			return ""
		}
		return f(r.Meta)
	}
}

// differingKeys returns what each run was made with, by key, and the sorted keys
// in which runs differ. What the configuration does not have counts where every run
// states it.
func differingKeys(runs []*rundir.Run, texts []string) ([]map[string]string, []string, error) {
	values := make([]map[string]string, len(runs))
	for i, text := range texts {
		all, err := flatText(text)
		if err != nil {
			return nil, nil, fmt.Errorf("report on %s: %s: %w", runs[i].Dir, rundir.ConfigFile, err)
		}
		values[i] = map[string]string{}
		for key, value := range all {
			// Names and what stays on disk change nothing that a report shows.
			if key != "name" && key != "seed" && !strings.HasPrefix(key, "output.") && !strings.HasPrefix(key, "report.") {
				values[i][shown(key)] = shown(value)
			}
		}
	}
	for _, fact := range madeWith {
		unknown := slices.ContainsFunc(runs, func(r *rundir.Run) bool { return fact.of(r) == "" })
		if unknown || fact.key == validationKey && values[0][problemsKey] != "" {
			continue
		}
		for i, r := range runs {
			values[i][fact.key] = shown(fact.of(r))
		}
	}
	addContents(values, runs)
	differs := map[string]bool{}
	for _, v := range values {
		for _, keys := range []map[string]string{v, values[0]} {
			for key := range keys {
				x, okX := v[key]
				if y, okY := values[0][key]; x != y || okX != okY {
					differs[key] = true
				}
			}
		}
	}
	if differs[problemsKey] { // which says it
		for _, key := range []string{"data.train_file", "data.val_file", "data.test_file", "data.few_shot_file"} {
			delete(differs, contentsKey+values[0][key])
		}
	}
	return values, slices.Sorted(maps.Keys(differs)), nil
}

// shown is a string from a folder as it may be printed; unlike
// [textutil.Printable] it keeps different strings apart.
func shown(s string) string {
	if textutil.Printable(s, 0) == s {
		return s
	}
	return strconv.Quote(s)
}

// Distinct leaves out folders that were named before, by whatever path.
func Distinct(dirs []string) []string {
	var out []string
	var seen []os.FileInfo
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, info) }) {
			continue
		}
		if err == nil {
			seen = append(seen, info)
		}
		out = append(out, dir) // what can't be read fails where it is read
	}
	return out
}
