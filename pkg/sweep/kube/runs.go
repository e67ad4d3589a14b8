package kube

import (
	"fmt"
	"strconv"
	"strings"
)

// FormatRuns writes ascending indexes of runs as a list with ranges: 0,3,5-9.
func FormatRuns(runs []int) string {
	var parts []string
	for i := 0; i < len(runs); {
		j := i
		for j+1 < len(runs) && runs[j+1] == runs[j]+1 {
			j++
		}
		part := strconv.Itoa(runs[i])
		if j > i {
			part += "-" + strconv.Itoa(runs[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// RunAt returns the run at place index, from 0, of a list that [FormatRuns] wrote.
func RunAt(list string, index int) (int, error) {
	at := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || last < first {
			return 0, fmt.Errorf("%q in the list of runs %q is neither an index nor a range such as 5-9", part, list)
		}
		n := int(last-first) + 1
		if index < at+n {
			return int(first) + index - at, nil
		}
		at += n
	}
	return 0, fmt.Errorf("there is no place %d in the list of runs %q, which has %d", index, list, at)
}
