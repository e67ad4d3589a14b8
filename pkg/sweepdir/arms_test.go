package sweepdir

import "testing"

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
