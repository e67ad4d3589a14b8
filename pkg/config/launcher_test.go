package config

import (
	"slices"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "90": 90 * time.Minute, "5:30": 5*time.Minute + 30*time.Second, "2:30:00": 150 * time.Minute,
		"1-12": 36 * time.Hour, "1-12:30": 36*time.Hour + 30*time.Minute, "0-0:0:1": time.Second,
	} {
		if got, err := ParseTime(text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "0:00", "1h", "-5", "1-", "1:2:3:4", "UNLIMITED", " 5", "5\n"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "800M": 800 << 20, "4G": 4 << 30, "1.5GiB": 3 << 29, "512Mi": 512 << 20, "2048K": 2 << 20, "1TB": 1 << 40,
	} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"4", "G", "-1G", "0G", "1K", "2000T", "4g", "4 G", "1e9"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

// Lines with commas reach the configuration from a file and as a flag, and an unknown key is an
// error with a suggestion.
func TestLauncherLines(t *testing.T) {
	const line = `source /opt/a.sh && export X="1,2"`
	r, err := LoadText("x.yaml", []byte("launcher:\n  type: slurm\n  setup: ['"+line+"']\n"))
	if err != nil || !slices.Equal(r.Config.Launcher.Setup, []string{line}) {
		t.Errorf("from a file: %v, %v", r, err)
	}
	r, err = Load(LoadOptions{Flags: []Flag{{Key: "launcher.setup", Name: "--setup", Lines: []string{line, "b"}}}})
	if err != nil || !slices.Equal(r.Config.Launcher.Setup, []string{line, "b"}) {
		t.Errorf("as flags: %v, %v", r, err)
	}
	_, err = Load(LoadOptions{Flags: []Flag{{Key: "launcher.setup", Name: "--setup", Lines: []string{"a\nb"}}}})
	wantError(t, "two lines", err, "must be one line")
	_, err = LoadText("x.yaml", []byte("launcher:\n  partitoin: long\n"))
	wantError(t, "unknown key", err, `did you mean "partition"?`)
}
