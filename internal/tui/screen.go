// Package tui redraws lines at the end of a terminal in place.
package tui

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"grpo/internal/textutil"
)

// DrawEvery is the shortest time between two drawings.
const DrawEvery = 100 * time.Millisecond

// Screen draws lines over those that it drew before. A drawing is one write, so that nothing flickers, and never
// higher than the terminal, because the cursor can't reach lines that have scrolled out.
type Screen struct {
	W    io.Writer
	Size func() (width, height int)

	drawn int // lines on the screen
	last  time.Time
}

// New returns a screen that asks the terminal for its size; it is 80 x 24 without a terminal.
func New(w io.Writer) *Screen {
	return &Screen{W: w, Size: func() (int, int) {
		if f, ok := w.(*os.File); ok {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}}
}

// Due reports whether a drawing is due at this time, and counts it as drawn if it is.
func (s *Screen) Due(now time.Time) bool {
	if now.Sub(s.last) < DrawEvery {
		return false
	}
	s.last = now
	return true
}

// Draw shows lines in place of those drawn before, each cut to the width of the terminal. That a line can't be drawn
// is no reason to stop a command, so there is no error.
func (s *Screen) Draw(lines ...string) {
	width, _ := s.Size()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	for _, l := range lines {
		b.WriteString(textutil.Cut(l, width) + "\x1b[K\n")
	}
	if len(lines) < s.drawn {
		b.WriteString("\x1b[J")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.W, b.String())
}

// Erase removes the lines from the screen.
func (s *Screen) Erase() {
	if s.drawn > 0 {
		s.Draw()
	}
}

// Bar is a bar of this width, "[####....]".
func Bar(done, all int64, width int) string {
	full := int(min(max(0, done), all) * int64(width) / max(1, all))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}
