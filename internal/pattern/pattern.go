// Package pattern has regular expressions that are compiled when they are first used. The program has
// dozens of them, and compiling all took a fifth of the time of a start.
package pattern

import (
	"regexp"
	"sync"
)

// Of returns the regular expression of a valid pattern, as a function that compiles it once.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
