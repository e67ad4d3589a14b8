package manpage

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestPage(t *testing.T) {
	if got := roff(".a\n'b\\c-d"); got != "\\&.a\n\\&'b\\ec\\-d" {
		t.Errorf("roff: %q", got)
	}
	bare := &cobra.Command{Use: "bare", Short: "S", Run: func(*cobra.Command, []string) {}}
	if page := string(Page(bare, "", "v1")); strings.Contains(page, "EXAMPLES") {
		t.Errorf("a page without examples: %q", page)
	}
}
