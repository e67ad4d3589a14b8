package sweep

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
)

func TestShortLabels(t *testing.T) {
	keys := config.Keys()
	paths := append(slices.Collect(maps.Keys(labels)), analysis.RateKey)
	for _, path := range paths {
		if !slices.ContainsFunc(keys, func(k config.Key) bool { return k.Path == path }) {
			t.Errorf("%s is no key", path)
		}
	}
}

func TestFolder(t *testing.T) {
	tests := []struct {
		name, arm string
		seed      uint64
		want      string
	}{
		{"as documented", "lr=3e-5", 1, "lr-3e-5_seed-1-9f2c1ab4"},
		{"a list", "functions=[answer, format]", 2, "functions-_answer_format_seed-2-9f2c1ab4"},
		{"separators", `../a\b:c*?"`, 3, "a_b_c_seed-3-9f2c1ab4"},
		{"other letters", "über groß", 3, "ber_gro_seed-3-9f2c1ab4"},
		{"nothing left", "***", 18446744073709551615, "arm_seed-18446744073709551615-9f2c1ab4"},
		{"negative", "repetition_max_penalty=-0.5", 1, "repetition_max_penalty--0.5_seed-1-9f2c1ab4"},
	}
	for _, test := range tests {
		if got := folder(test.arm, test.seed, "9f2c1ab4"); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestFolderIsSafe: whatever the arm is called, the folder's name is short, of
// harmless letters, and ends in the hash.
func TestFolderIsSafe(t *testing.T) {
	safe := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*_seed-[0-9]+-9f2c1ab4$`)
	rapid.Check(t, func(t *rapid.T) {
		name := folder(rapid.String().Draw(t, "arm"), rapid.Uint64().Draw(t, "seed"), "9f2c1ab4")
		if len(name) > maxFolder || !safe.MatchString(name) {
			t.Fatalf("%q (%d bytes)", name, len(name))
		}
	})
}

// TestCanonical: a value is the same under its canonical spelling, for the one
// who reads it: config.
func TestCanonical(t *testing.T) {
	long(t)
	key, err := config.FindKey("lr")
	expect.OK(t, err)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{0,4})?([eE][+-]?[0-9])?`).Draw(t, "value")
		load := func(v string) string {
			r, err := config.Load(config.LoadOptions{Set: []string{"lr=" + v}})
			expect.OK(t, err)
			return config.Hash(r.Config)
		}
		once := canonical(key, text)
		if load(text) != load(once) || canonical(key, once) != once {
			t.Fatalf("%s became %s", text, once)
		}
	})
}
