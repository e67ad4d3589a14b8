package gsm8k

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/internal/words"
)

// unknownName is the error for a name that is not among the known ones: it
// lists them and points at a near one, if any.
func unknownName(name string, known []string) error {
	hint := ""
	if near := words.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown name %q (%sknown: %s)", clip(name), hint, strings.Join(known, ", "))
}

// clip shortens foreign text for an error message.
func clip(s string) string { return textutil.Cut(s, 43) }
