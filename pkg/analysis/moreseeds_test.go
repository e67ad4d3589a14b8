package analysis

import (
	"strings"
	"testing"

	"grpo/pkg/sweepdir"
)

func TestWithSeeds(t *testing.T) {
	for argv, want := range map[string]string{
		"./grpo sweep lr --seeds 4 --out x":     "grpo sweep lr --out d/lr --seeds 11",
		"grpo ablate clip --seeds=4 --out=x -q": "grpo ablate clip --out d/lr -q --seeds 11",
		"grpo sweep lr --prepare":               "grpo sweep lr --seeds 11",
		"grpo assignment --all --out a":         "grpo assignment --all --reuse d --seeds 11",
		"grpo assignment --lr-per-arm":          "grpo assignment --lr-per-arm --seeds 11",
		"grpo report a b":                       "", "grpo": "", "rm -rf /": "",
	} {
		m := sweepdir.Manifest{Argv: strings.Fields(argv)}
		if got := strings.Join(withSeeds(&m, "d/lr", "11"), " "); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
	for _, argv := range []string{"grpo sweep lr --fresh --out x", "grpo sweep lr --fresh"} {
		m := sweepdir.Manifest{Argv: strings.Fields(argv), Fresh: true}
		if got := strings.Join(withSeeds(&m, "x-2", "11"), " "); got != "grpo sweep lr --out x-2 --seeds 11" {
			t.Errorf("%s: %q", argv, got)
		}
	}
}

func TestSeedList(t *testing.T) {
	for _, test := range []struct {
		seeds []uint64
		n     int
		want  string
	}{
		{[]uint64{1, 2, 3, 4}, 8, "8"}, {[]uint64{2, 1}, 3, "3"}, {[]uint64{1, 2, 5}, 5, "5"},
		{[]uint64{7, 9}, 4, "7,9,1,2"}, {[]uint64{0, 1}, 3, "0,1,2"}, {[]uint64{0, 2}, 3, "0,2,1"},
	} {
		if got := seedList(test.seeds, test.n); got != test.want {
			t.Errorf("%v, %d: %s, want %s", test.seeds, test.n, got, test.want)
		}
	}
}
