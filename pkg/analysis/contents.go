package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"grpo/pkg/rundir"
)

// contentsKey starts the name of a file's contents among the differing keys.
const contentsKey = "contents of "

// addContents adds to what runs were made with the contents of the files that all of them read, by the
// files' names. Runs of earlier versions recorded fewer: the hash of what model.init and the pairs'
// files gave. Runs with other names in their configuration differ in that key already.
func addContents(values []map[string]string, runs []*rundir.Run) {
	for _, r := range runs {
		if r.Meta == nil || len(r.Meta.InputFiles) == 0 {
			addHashes(values, runs)
			return
		}
	}
	for path := range runs[0].Meta.InputFiles {
		if slices.ContainsFunc(runs, func(r *rundir.Run) bool { return r.Meta.InputFiles[path] == "" }) {
			continue
		}
		for i, r := range runs {
			values[i][contentsKey+shown(path)] = brief(r.Meta.InputFiles[path])
		}
	}
}

// addHashes is [addContents] for hashes of earlier versions, of runs of one network.
func addHashes(values []map[string]string, runs []*rundir.Run) {
	for _, h := range []struct {
		key string // that names the files
		of  func(*rundir.Meta) string
	}{
		{"model.init", initialWeights},
		{"model.init", func(m *rundir.Meta) string { return m.NetworkHash }},
		{"algorithm.dpo.pairs_file", func(m *rundir.Meta) string { return m.PairsHash }},
	} {
		name, of := values[0][h.key], OfMeta(h.of)
		known := !slices.Contains([]string{"", "base", "random"}, name)
		for i, r := range runs {
			for _, key := range []string{h.key, "model.precision", "model.device", "train.lora.rank"} {
				known = known && values[i][key] == values[0][key]
			}
			known = known && of(r) != ""
		}
		for i := 0; known && i < len(runs); i++ {
			key := contentsKey + name
			values[i][key] = strings.TrimSpace(values[i][key] + " " + brief(of(runs[i])))
		}
	}
}

// brief is the start of a hash.
func brief(hash string) string { return shown(hash[:min(len(hash), 8)]) }

// OtherContents are the files of which the runs had different contents: no mean of these runs is one
// over seeds alone.
func (a *Analysis) OtherContents() (files []string) {
	runs := configured(a.Sweep.Runs)
	if len(runs) < 2 {
		return nil
	}
	values, _, err := differingKeys(runs, configTexts(runs))
	if err != nil {
		return nil // reported elsewhere
	}
	for _, key := range slices.Sorted(maps.Keys(values[0])) {
		file, ok := strings.CutPrefix(key, contentsKey)
		other := func(v map[string]string) bool { return v[key] != values[0][key] }
		if ok && slices.ContainsFunc(values, other) {
			files = append(files, file)
		}
	}
	return files
}

// initialWeights is the hash of the weights that a run starts from, without adapters, which may be
// drawn by the seed.
func initialWeights(m *rundir.Meta) string {
	frozen, _, _ := strings.Cut(m.InitHash, "+")
	return cmp.Or(frozen, m.InitHash)
}
