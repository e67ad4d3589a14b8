package textutil

import "fmt"

// Count writes a number with a noun that takes an s: "1 run", "4 runs".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
