package gsm8k

import (
	"fmt"
	"strings"
)

// unknownName is the error for a name that is not among the known ones: it
// lists them and points at a near one, if any.
func unknownName(name string, known []string) error {
	hint := ""
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("unknown name %q (%sknown: %s)", clip(name), hint, strings.Join(known, ", "))
}

// nearest returns the known name with the smallest edit distance to name, the
// first of equals, or "" if even that one shares less than half of the letters.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, bestDist := "", 0
	for _, k := range known {
		d := editDistance(strings.ToLower(name), strings.ToLower(k))
		if 2*d <= max(len(name), len(k)) && (best == "" || d < bestDist) {
			best, bestDist = k, d
		}
	}
	return best
}

// editDistance is Levenshtein's distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}

// clip shortens foreign text for an error message.
func clip(s string) string {
	const limit = 40
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit]) + "..."
}
