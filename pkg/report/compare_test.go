package report

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// sweepFolder writes a sweep of two arms and two seeds whose runs are those of
// [synthFolder]; the last is not finished.
func sweepFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m := sweepdir.Manifest{
		Format: sweepdir.FormatVersion, Command: "ablate", Name: "two", Title: "Two arms", Question: "Which?",
		Arms:  []sweepdir.Arm{{Name: "first", Label: "the first"}, {Name: "second", Label: "the second"}},
		Seeds: []uint64{1, 2}, Base: "seed: 1\n", Argv: []string{"grpo"},
	}
	for i, seed := range []uint64{1, 1, 2, 2} {
		name := "runs/" + m.Arms[i%2].Name + ",seed=" + strconv.Itoa(int(seed))
		last := 200
		if i == 3 {
			last = 60
		}
		expect.OK(t, os.MkdirAll(filepath.Join(dir, "runs"), 0o755))
		expect.OK(t, os.Rename(reporttest.SynthFolder(t, seed+uint64(10*(i%2)), last), filepath.Join(dir, filepath.FromSlash(name))))
		m.Runs = append(m.Runs, sweepdir.Entry{Index: i, Arm: i % 2, Seed: seed, Dir: name, Hash: "0badcaf" + strconv.Itoa(i), Config: "seed: 1\n"})
	}
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(dir, m))
	return dir
}

func TestCompareFolders(t *testing.T) {
	sweep, run, half := sweepFolder(t), reporttest.SynthFolder(t, 7, 200), reporttest.SynthFolder(t, 8, 40)
	study := t.TempDir()
	expect.OK(t, os.Rename(sweepFolder(t), filepath.Join(study, "lr")))
	if err := sweepdir.WriteStudy(study, sweepdir.Study{
		Format: sweepdir.FormatVersion, Name: "s", Parts: []sweepdir.Part{{Name: "lr"}, {Name: "later"}},
	}); err != nil {
		t.Fatal(err)
	}
	rows, err := CompareFolders([]string{sweep, run, half, study})
	expect.OK(t, err)
	var names []string
	for _, r := range rows {
		names = append(names, r.Row.Name()+": "+r.Row.Status)
	}
	want := []string{
		"the first: done", "the second: done (1 of 2 seeds), interrupted (1 of 2 seeds)",
		"default, seed 7: done", "default, seed 8: interrupted (1 of 1 seed)",
		"the first: done", "the second: done (1 of 2 seeds), interrupted (1 of 2 seeds)",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("%q\nwant %q", names, want)
	}
	r, err := rundir.Open(run)
	expect.OK(t, err)
	if got := rows[2].Row; got.Of(analysis.FinalMetric).Mean != r.Result.Final.Sampled.AnswerReward || got.Of(analysis.FinalMetric).N != 1 || stats.IsFinite(got.Of(analysis.FinalMetric).Lo) || rows[2].WallS.Mean != 118.25 {
		t.Errorf("%+v", got.Of(analysis.FinalMetric))
	}
	if rows[3].Row.Of(analysis.FinalMetric).N != 0 {
		t.Errorf("an unfinished run ends at %v", rows[3].Row.Of(analysis.FinalMetric).Mean)
	}
	table := CompareTable(rows)
	for _, text := range []string{table.String(), table.Markdown()} {
		for _, want := range []string{"the first", "default, seed 8", "n/a", "118.2", analysis.Decimals(rows[2].Row.Of(analysis.FinalMetric).Mean, 3)} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

func TestCompareFoldersErrors(t *testing.T) {
	empty := t.TempDir()
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, sweepdir.ManifestFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dir, want string }{
		{"not there", filepath.Join(empty, "nix"), "nix: no such file"},
		{"empty", empty, "is not the folder of a run, sweep or study"},
		{"a broken manifest", broken, sweepdir.ManifestFile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect.Error(t, expect.Err(CompareFolders([]string{tt.dir})), tt.want)
		})
	}
}

func TestSortRows(t *testing.T) {
	half := reporttest.Around(.5, 0, 1)
	var rows []CompareRow
	for _, r := range mustAnalyse(t, reporttest.FakeSweep(1,
		reporttest.FakeArm{Name: "b", Run: half},
		reporttest.FakeArm{Name: "none", Run: reporttest.With(half, func(f *reporttest.FakeRun) { f.State = sweepdir.Missing })},
		reporttest.FakeArm{Name: "a", Run: reporttest.Around(.9, 0, 1)},
		reporttest.FakeArm{Name: "c", Run: half},
	)).Arms {
		rows = append(rows, CompareRow{Row: r})
	}
	for _, tt := range []struct{ by, want string }{
		{"final", "a b c none"}, {"-final", "b c a none"}, {"arm", "a b c none"}, {"-arm", "none c b a"}, {"seeds", "b a c none"},
	} {
		t.Run(tt.by, func(t *testing.T) {
			got := slices.Clone(rows)
			expect.OK(t, SortRows(got, tt.by))
			var names []string
			for _, r := range got {
				names = append(names, r.Row.Arm.Name)
			}
			if strings.Join(names, " ") != tt.want {
				t.Errorf("%v, want %s", names, tt.want)
			}
		})
	}
	for _, name := range CompareColumns() {
		if err := SortRows(slices.Clone(rows), name); err != nil {
			t.Error(err)
		}
	}
	expect.Error(t, SortRows(rows, "finale"), "finale")
}

func TestCompareCSV(t *testing.T) {
	rows, err := CompareFolders([]string{sweepFolder(t)})
	expect.OK(t, err)
	table, err := csv.NewReader(bytes.NewReader(CompareCSV(rows))).ReadAll()
	expect.OK(t, err)
	for i, r := range rows {
		for _, spec := range analysis.Metrics {
			f := r.Row.Of(spec)
			for column, want := range map[string]float64{spec.Name: f.Mean, spec.Name + "_lo": f.Lo, spec.Name + "_hi": f.Hi} {
				got := table[i+1][slices.Index(table[0], column)]
				if got != exact(want) {
					t.Errorf("row %d, %s: %q, want %v", i, column, got, want)
				}
			}
		}
	}
}

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *analysis.Analysis {
	t.Helper()
	a, err := analysis.Analyse(sw)
	expect.OK(t, err)
	return a
}
