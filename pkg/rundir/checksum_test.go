package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// saveChecksums writes the checksums of an unfinished run whose logs have complete lines.
func saveChecksums(t *testing.T, dir string) {
	t.Helper()
	s := Checksums{Step: 2, Files: map[string]Prefix{}}
	for _, name := range []string{ConfigFile, MetricsFile, EvalFile, SamplesFile} {
		s.Files[name] = PrefixOf([]byte(read(t, filepath.Join(dir, name))))
	}
	expect.OK(t, os.MkdirAll(filepath.Join(dir, CheckpointDir), 0o755))
	expect.OK(t, WriteJSON(filepath.Join(dir, CheckpointDir, ChecksumsFile), s))
}

// saveResult writes the result with the checksums of its files.
func saveResult(t *testing.T, dir string) {
	t.Helper()
	var res Result
	expect.OK(t, ReadJSON(filepath.Join(dir, ResultFile), &res))
	res.Files = map[string]string{}
	for _, name := range []string{ConfigFile, MetricsFile, EvalFile, SamplesFile} {
		res.Files[name] = PrefixOf([]byte(read(t, filepath.Join(dir, name)))).SHA256
	}
	expect.OK(t, WriteJSON(filepath.Join(dir, ResultFile), res))
}

func finished(t *testing.T) string {
	dir := fullRun(t)
	saveResult(t, dir)
	return dir
}

func unfinished(t *testing.T) string {
	dir := fullRun(t)
	expect.OK(t, os.Remove(filepath.Join(dir, ResultFile)))
	saveChecksums(t, dir)
	return dir
}

func TestOpenVerifiesChecksums(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	kinds := map[string]func(*testing.T) string{"finished": finished, "unfinished": unfinished}
	for _, tt := range []struct {
		name   string
		file   string
		change func(text string) string
		want   string // besides the name of the file
	}{
		{"a number of metrics", MetricsFile, func(s string) string { return strings.Replace(s, `"grad_norm":0`, `"grad_norm":1`, 1) }, "lines 1 to 2"},
		{"a count that adds up", EvalFile, func(s string) string {
			return strings.Replace(s, `"correct_num":7,"error_num":1,"formatted_right":7,"formatted_wrong":1`, `"correct_num":6,"error_num":2,"formatted_right":7,"formatted_wrong":1`, 1)
		}, "damaged or changed"},
		{"a completion", SamplesFile, func(s string) string { return strings.Replace(s, "12>>", "13>>", 1) }, "damaged or changed"},
		{"the configuration", ConfigFile, func(s string) string { return strings.Replace(s, "1", "2", 1) }, "damaged or changed"},
		{"a longer configuration", ConfigFile, func(s string) string { return s + "# a word\n" }, "damaged or changed"},
		{"missing lines", MetricsFile, func(s string) string { return s[:strings.Index(s, "\n")+1] }, "metrics.jsonl"},
		{"a partial line", MetricsFile, func(s string) string { return s[:len(s)-4] }, "metrics.jsonl"},
	} {
		for kind, run := range kinds {
			t.Run(kind+": "+tt.name, func(t *testing.T) {
				dir := run(t)
				if _, err := Open(dir); err != nil {
					t.Fatalf("untouched: %v", err)
				}
				path := filepath.Join(dir, tt.file)
				before := read(t, path)
				after := tt.change(before)
				if after == before {
					t.Fatal("no byte was changed: the case tests nothing")
				}
				write(t, path, after)
				_, err := Open(dir)
				var damaged *DamagedError
				if !errors.As(err, &damaged) || damaged.Path != path || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want a DamagedError of %s with %q", err, path, tt.want)
				}
			})
		}
	}
}

// Lines after those with a checksum are the run's next ones; a missing file is not damage.
func TestChecksumsAllowMoreLines(t *testing.T) {
	dir := unfinished(t)
	l := mustOpen(t, filepath.Join(dir, MetricsFile))
	expect.OK(t, l.Append(Metrics{Step: 3}))
	if r, err := Open(dir); err != nil || len(r.Metrics) != 3 {
		t.Errorf("a line after those with a checksum: %v", err)
	}
	for kind, run := range map[string]func(*testing.T) string{"finished": finished, "unfinished": unfinished} {
		dir := run(t)
		expect.OK(t, os.Remove(filepath.Join(dir, SamplesFile)))
		if r, err := Open(dir); err != nil || r.Missing[0] != SamplesFile {
			t.Errorf("%s, without samples: %v", kind, err)
		}
	}
}

func TestDamagedChecksumsFileIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	for name, content := range map[string]string{"cut": `{"step": 2`, "empty": "", "changed": `{"step":2,"files":{},"checksum":"` + strings.Repeat("0", 64) + `"}`} {
		dir := unfinished(t)
		write(t, filepath.Join(dir, CheckpointDir, ChecksumsFile), content)
		expect.Error(t, expect.Err(Open(dir)), ChecksumsFile)
		// A finished run does not need it.
		dir = finished(t)
		saveChecksums(t, dir)
		write(t, filepath.Join(dir, CheckpointDir, ChecksumsFile), content)
		if _, err := Open(dir); err != nil {
			t.Errorf("%s, finished: %v", name, err)
		}
	}
}

func TestPrefixHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), MetricsFile)
	lines := `{"step":1,"loss":0.5}` + "\n" + `{"step":2,"loss":0.25}` + "\n"
	p := PrefixOf([]byte(lines))
	for _, tt := range []struct{ name, content, want string }{
		{"as it was", lines, ""},
		{"with more after it", lines + `{"st`, ""},
		{"too short", lines[:30], "it has 30 bytes"},
		{"empty", "", "it has 0 bytes"},
		{"a digit of line 2", strings.Replace(lines, "0.25", "0.26", 1), "lines 1 to 2"},
		{"line 2 is not JSON", strings.Replace(lines, `"step":2`, `"step";2`, 1), "line 2"},
		{"line 2 is of another step", strings.Replace(lines, `"step":2`, `"step":3`, 1), "line 2"},
		{"line 1 has another key", strings.Replace(lines, `"loss":0.5`, `"lost":0.5`, 1), "line 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, path, tt.content)
			err := p.Holds(path)
			if tt.want == "" {
				expect.OK(t, err)
				return
			}
			expect.Error(t, err, tt.want, path)
		})
	}
	if err := p.Holds(filepath.Join(t.TempDir(), MetricsFile)); err == nil {
		t.Error("a missing file passes")
	}
	if err := (Prefix{}).Holds(filepath.Join(t.TempDir(), MetricsFile)); err == nil {
		// A zero Prefix has the hash "", which no content has.
		t.Error("a prefix without a hash passes")
	}
}
