package inputfiles

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	then := map[string]string{"same": "1", "other": "1", "gone": "1"}
	now := map[string]string{"same": "1", "other": "2", "new": "1"}
	changed, gone := Compare(then, now)
	if !slices.Equal(changed, []string{"other", "new, which was not there"}) || !slices.Equal(gone, []string{"gone"}) {
		t.Errorf("%q, %q", changed, gone)
	}
}
