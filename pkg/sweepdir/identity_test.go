package sweepdir

import "testing"

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
