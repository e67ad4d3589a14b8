package process

import (
	"fmt"
	"os"
	"strings"
)

func here() Place {
	read := func(name string) string {
		text, _ := os.ReadFile(name)
		return strings.TrimSpace(string(text))
	}
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return Place{Machine: read("/etc/machine-id"), Boot: read("/proc/sys/kernel/random/boot_id"), Namespace: namespace}
}

// inspect reads the start time of a process, in clock ticks since the machine was started; ended:
// its last thread has ended, but its parent has not read its exit code.
func inspect(pid int) (born string, ended bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false // also of another user's process where /proc is mounted with hidepid
	}
	// The second field, the program's name in parentheses, may contain anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, threads, start = 0, 17, 19 // proc(5) numbers them from 3
	if len(fields) <= start {
		return "", false
	}
	// A killed process is a zombie while other threads of it are still writing.
	last := fields[threads] == "0" || fields[threads] == "1"
	return fields[start], strings.Contains("ZX", fields[state]) && last
}
