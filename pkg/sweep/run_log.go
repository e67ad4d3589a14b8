package sweep

import (
	"bytes"
	"io"
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// logTail returns the end of what a run's process printed since offset, or the
// end of the run's own log where it printed nothing, with the path of that log.
// A panic is shown from its beginning: its first lines say what happened.
func logTail(dir string, offset int64) (text, path string) {
	path = filepath.Join(dir, sweepdir.TaskLog)
	text = lastLines(path, offset)
	if text == "" {
		if own := filepath.Join(dir, rundir.LogFile); stampOf(own) != (stamp{}) {
			return lastLines(own, 0), own
		}
	}
	return text, path
}

// lastLines returns at most tailLines lines from the last tailBytes of a file.
func lastLines(path string, from int64) string {
	const tailLines, tailBytes = 12, 64 << 10
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from = max(from, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	begin := max(0, len(lines)-tailLines)
	for i, l := range lines {
		if bytes.HasPrefix(l, []byte("panic: ")) || bytes.HasPrefix(l, []byte("fatal error: ")) {
			begin = i
			break
		}
	}
	lines = lines[begin:min(begin+tailLines, len(lines))]
	return string(bytes.Join(lines, []byte("\n")))
}

// lastMessage is the message with which a program ended, if there is one in its
// log: the line that begins with "grpo: ", "panic: " or "fatal error: ".
func lastMessage(text string) string {
	var message string
	for line := range bytes.Lines([]byte(text)) {
		line = bytes.TrimSpace(line)
		for _, p := range []string{"panic: ", "fatal error: ", "runtime: "} {
			if bytes.HasPrefix(line, []byte(p)) {
				return string(line)
			}
		}
		if rest, ok := bytes.CutPrefix(line, []byte("grpo: ")); ok {
			message = string(rest)
		}
	}
	return message
}
