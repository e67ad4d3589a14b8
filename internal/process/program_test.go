//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
)

// modeName is the environment variable that makes this test program one of the programs of the tests.
const modeName = "PROCESS_TEST_MODE"

func TestMain(m *testing.M) {
	switch os.Getenv(modeName) {
	case "":
		os.Exit(m.Run())
	case "sleep":
		time.Sleep(time.Hour)
	case "print": // without end
		line := strings.Repeat("x", 1<<16)
		for {
			fmt.Println(line)
		}
	case "leave": // prints, and leaves a process behind that keeps the output open
		fmt.Println("12345")
		c := self("sleep")
		c.Stdout = os.Stdout
		_ = c.Start()
	case "escape": // starts one in a session of its own, which prints its process id, and sleeps
		c := self("announce")
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		_ = c.Start()
		time.Sleep(time.Hour)
	case "announce":
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "start": // as a run that starts a program and is killed
		c := self("announce")
		c.Stdout = os.Stdout
		_ = Start(c)
		runtime.GC()
		time.Sleep(time.Hour)
	}
}

func self(mode string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), modeName+"="+mode)
	return c
}

func TestOutput(t *testing.T) {
	for _, tt := range []struct {
		mode, out, want string
		limit           time.Duration
	}{
		{"leave", "12345\n", "", time.Minute},
		{"sleep", "", "it did not end within 200ms and was killed", 200 * time.Millisecond},
		{"print", "", "it printed more than 64 MiB and was killed", time.Minute},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Setenv(modeName, tt.mode)
			start := time.Now()
			out, _, err := Output(t.Context(), tt.limit, "", os.Args[0])
			if tt.want == "" && (err != nil || out != tt.out) || tt.want != "" && (err == nil || err.Error() != tt.want) {
				t.Errorf("%.100q, %v", out, err)
			}
			if len(out) > maxOutput || time.Since(start) > 30*time.Second {
				t.Errorf("%d bytes in %v", len(out), time.Since(start))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Output(ctx, time.Minute, "", os.Args[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// announced reads the process id that a program prints, and returns whether that process ends.
func announced(t *testing.T, c *exec.Cmd, start func(*exec.Cmd) error) (ends func() bool) {
	t.Helper()
	out, err := c.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, start(c))
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatal(err, perr)
	}
	born := Born(pid)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return func() bool {
		for range 1000 {
			if exists, _ := Exists(pid, born); !exists {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	}
}

// End reaches a process that has left the program's group.
func TestEnd(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows the environment of processes")
	}
	c := self("escape")
	ends := announced(t, c, Start)
	End(c)
	if !ends() {
		t.Error("a process in a session of its own was left")
	}
	_ = c.Wait()
}

// A program ends with the process that has started it, also if that is killed, and not before.
func TestProgramEndsWithItsStarter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	c := self("start")
	ends := announced(t, c, (*exec.Cmd).Start)
	time.Sleep(50 * time.Millisecond)
	expect.OK(t, c.Process.Kill())
	_ = c.Wait()
	if !ends() {
		t.Error("the program was left")
	}
}
