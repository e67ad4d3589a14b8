//go:build unix

package main

import (
	"fmt"
	"runtime"
	"strings"
)

// markdown is the table of what came out.
func markdown(l *lab, o options, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`go run ./internal/faulttest -kills %d -seed %d` on %s/%s with %d cores, Go %s:\n\n", o.kills, o.seed,
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.TrimPrefix(runtime.Version(), "go"))
	b.WriteString("| fault | what must come out | what came out | |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, r.promise, strings.ReplaceAll(strings.ReplaceAll(r.text(), "|", `\|`), l.work, "FOLDER"), r.verdict())
	}
	return b.String()
}
