package reward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	system "grpo/internal/process"
	"grpo/internal/textutil"
)

// process is one process of a command. Its standard output is read
// at all times while an answer is awaited, and its standard error always, so full pipes block
// neither side.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan outputLine // of standard output
	quit   chan struct{}   // closed by stop: no more lines are wanted
	ended  chan struct{}   // closed when the process has ended and its output is read
	exit   error           // how it ended, then
	stderr tail
	once   sync.Once
}

// outputLine is a line of standard output without its line end. Of one that is longer than
// maxAnswer only the start is kept.
type outputLine struct {
	text    []byte
	tooLong bool
}

const (
	// leave is the time that a process has to end after its input is closed.
	leave = 2 * time.Second
	// drain is the time that others may keep the output of a process that has ended open.
	drain = time.Second
)

func startProcess(command []string) (*process, error) {
	p := &process{
		cmd: exec.Command(command[0], command[1:]...), lines: make(chan outputLine),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	// Python keeps lines in a buffer when it writes to a pipe, and the answer would not arrive.
	p.cmd.Env = append(p.cmd.Environ(), "PYTHONUNBUFFERED=1")
	p.cmd.WaitDelay = drain
	p.cmd.Stdout, p.cmd.Stderr = &splitter{lines: p.lines, quit: p.quit}, &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", textutil.CommandLine(command), err)
	}
	if err := system.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", textutil.CommandLine(command), err)
	}
	go func() {
		p.exit = p.cmd.Wait()
		system.End(p.cmd) // what it has started and left behind
		close(p.ended)
	}()
	return p, nil
}

// failure is an error of a process that a new one may not have.
type failure struct{ error }

// ask writes a line and returns the line of the answer. After an error the process must be stopped.
func (p *process) ask(ctx context.Context, request []byte, timeout time.Duration) ([]byte, error) {
	wrote := make(chan error, 1)
	go func() { // ends at the latest when stop closes the pipe
		_, err := p.stdin.Write(request)
		wrote <- err
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	late := fmt.Errorf("it gave no answer within %v (does it flush its output after each line? "+
		"a longer timeout may help)", timeout)
	var answer []byte
	for lines := p.lines; wrote != nil || lines != nil; {
		select {
		case err := <-wrote:
			if wrote = nil; err != nil { // it has ended, or closed its input
				late = errors.New("it does not read its input")
				timer.Reset(drain)
				lines = p.lines
			}
		case l := <-lines:
			if l.tooLong {
				return nil, fmt.Errorf("its answer is longer than %d MiB", maxAnswer>>20)
			}
			answer, lines = l.text, nil
		case <-p.ended:
			how := "exit status 0"
			if p.exit != nil {
				how = p.exit.Error()
			}
			return nil, failure{fmt.Errorf("the process ended without an answer (%s)", how)}
		case <-timer.C:
			return nil, failure{late}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return answer, nil
}

// stop ends the process and everything it has started. One that is idle gets time to end by itself.
func (p *process) stop(idle bool) {
	p.once.Do(func() {
		_ = p.stdin.Close() // an error means that it is closed
		close(p.quit)
		if idle {
			timer := time.NewTimer(leave)
			defer timer.Stop()
			select {
			case <-p.ended:
				return
			case <-timer.C:
			}
		}
		system.End(p.cmd)
		<-p.ended
	})
}

// splitter cuts what is written to it into lines and hands them over one by one.
type splitter struct {
	lines   chan<- outputLine
	quit    <-chan struct{}
	part    []byte
	tooLong bool
}

func (s *splitter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		head, rest, whole := bytes.Cut(b, []byte("\n"))
		if s.part = append(s.part, head...); len(s.part) > maxAnswer {
			s.part, s.tooLong = s.part[:0], true
		}
		b = rest
		if !whole && !s.tooLong {
			break
		}
		select {
		case s.lines <- outputLine{bytes.TrimSuffix(s.part, []byte("\r")), s.tooLong}:
		case <-s.quit:
		}
		s.part, s.tooLong = nil, false
	}
	return n, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const (
	tailBytes = 4 << 10
	tailLines = 8
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tailBytes):]...)
	t.text = append([]byte(nil), t.text[max(0, len(t.text)-tailBytes):]...)
	return len(b), nil
}

// String returns the last lines that are not blank, printable, each indented and after a line end;
// "" if there is none.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for line := range strings.Lines(string(t.text)) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			out = append(out, "\n  "+textutil.Printable(strings.ReplaceAll(line, "\t", "    "), 200))
		}
	}
	return strings.Join(out[max(0, len(out)-tailLines):], "")
}
