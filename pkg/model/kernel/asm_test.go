package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// TestAssemblyRegisters: AVX2 functions use no register or instruction that
// needs AVX-512 (the assembler would silently accept them), and none returns
// with dirty upper halves.
func TestAssemblyRegisters(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly found: %v", err)
	}
	beyond := regexp.MustCompile(`\b(?:[XY](?:1[6-9]|2[0-9]|3[01])|Z[0-9]+|K[0-7])\b`)
	text := regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		name, last := "", ""
		for i, line := range strings.Split(string(data), "\n") {
			if m := text.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if strings.HasSuffix(name, "AVX2") && beyond.MatchString(line) && !strings.HasPrefix(line, "//") {
				t.Errorf("%s:%d: %s uses AVX-512: %s", file, i+1, name, strings.TrimSpace(line))
			}
			if op := strings.TrimSpace(line); op == "RET" && last != "VZEROUPPER" {
				t.Errorf("%s:%d: %s returns without VZEROUPPER", file, i+1, name)
			} else if op != "" {
				last = op
			}
		}
	}
}
