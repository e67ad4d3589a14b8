package kube

import (
	"fmt"
	"strconv"
	"strings"
)

// RunAt returns the run at place index, from 0, of a list that [textutil.Ranges] wrote.
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
