package sweepdir

import (
	"testing"
)

func TestShown(t *testing.T) {
	typed := Axis{Key: "train.learning_rate", Label: "learning rate", Short: "lr", Values: []string{"0.001", "0.003"}, Written: []string{"1e-3", "3e-3"}}
	old := Axis{Key: "train.learning_rate", Label: "learning rate", Values: []string{"1e-5", "0.0001"}}
	words := Axis{Key: "reward.functions", Label: "reward", Short: "functions", Values: []string{"[answer]", "[format]"}}
	for _, tt := range []struct {
		axis        Axis
		value, want string
	}{
		{typed, "0.001", "1e-3"}, {typed, "0.003", "3e-3"}, {typed, "0.01", "0.01"}, {old, "0.0001", "1e-4"}, {words, "[answer]", "[answer]"},
	} {
		if got := tt.axis.Shown(tt.value); got != tt.want {
			t.Errorf("%s of %v: %s, want %s", tt.value, tt.axis.Values, got, tt.want)
		}
	}
	m := Manifest{Axes: []Axis{typed, words}, Arms: []Arm{
		{Name: "lr=0.003,functions=[answer]", Label: "learning rate 0.003, reward [answer]", Point: []string{"0.003", "[answer]"}},
		{Name: "a,lr=0.003,functions=[answer]", Label: "no clip, learning rate 0.003, reward [answer]", Point: []string{"0.003", "[answer]"}},
		{Name: "b", Label: "at 0.003", Point: []string{"0.003", "[answer]"}},
		{Name: "c", Label: "learning rate 0.003"},
	}}
	for i, want := range []string{
		"learning rate 3e-3, reward [answer]", "no clip, learning rate 3e-3, reward [answer]", "at 0.003", "learning rate 0.003",
	} {
		if got := m.LabelOf(i); got != want {
			t.Errorf("arm %d is labelled %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"lr=3e-3,functions=[answer]", "a,lr=3e-3,functions=[answer]", "b", "c"} {
		if got := m.NameOf(i); got != want {
			t.Errorf("arm %d is named %q, want %q", i, got, want)
		}
	}
}

// The first version wrote 1e-05 in the names of arms. Its sweeps have the same identity as those of
// the same command now.
func TestIdentityOfFormerNames(t *testing.T) {
	manifest := func(value, typed string) Manifest {
		return Manifest{
			Axes: []Axis{{Key: "train.learning_rate", Short: "lr", Values: []string{value}}},
			Arms: []Arm{
				{Name: "lr=" + value, Point: []string{value}, Set: []Override{{"train.learning_rate", value}}},
				{Name: typed + ",lr=" + value, Point: []string{value}, Set: []Override{{"train.learning_rate", value}}},
				{Name: typed, Set: []Override{{"train.learning_rate", "0.1"}}},
			},
			Runs: []Entry{{Arm: 0, Seed: 1, Hash: "11111111", Config: "x"}, {Arm: 1, Seed: 1, Hash: "33333333", Config: "x"}, {Arm: 2, Seed: 1, Hash: "22222222", Config: "x"}},
		}
	}
	for now, then := range map[string]string{"1e-5": "1e-05", "3e6": "3e+06", "1.5e-10": "1.5e-10", "1e21": "1e+21", "0.001": "0.001"} {
		if a, b := manifest(now, "t=1e-5").Identity(), manifest(then, "t=1e-5").Identity(); a != b {
			t.Errorf("%s: %s, %s: %s", now, a, then, b)
		}
	}
	if manifest("1e-5", "t=1e-5").Identity() == manifest("1e-5", "t=1e-05").Identity() {
		t.Error("a name that somebody gave is what it is")
	}
	if manifest("1e-5", "t").Identity() == manifest("1e-6", "t").Identity() {
		t.Error("two rates are one")
	}
}
