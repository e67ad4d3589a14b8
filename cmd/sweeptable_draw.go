package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"grpo/internal/textutil"
	"grpo/internal/tui"
)

// draw shows the table; without force at most every [tui.DrawEvery]. Runs that failed or are running come first,
// and runs that have no room are counted.
func (t *sweepTable) draw(force bool) {
	now := t.now()
	if t.redraw && (t.screen.Due(now) || force) {
		width, height := t.screen.Size()
		t.screen.Draw(t.frame(now, width, height)...)
	}
}

// phaseOrder is that of the rows; finished and diverged runs are one group.
var phaseOrder = []phase{
	phaseFailed, phaseRunning, phaseOther, phaseStopped, phaseWaiting, phaseDiverged, phaseDone,
}

func (p phase) rank() int {
	return min(slices.Index(phaseOrder, p), slices.Index(phaseOrder, phaseDiverged))
}

// frame returns the lines of the table, at most height-1 of at most width
// characters: the last line of the terminal is for the cursor.
func (t *sweepTable) frame(now time.Time, width, height int) []string {
	part := t.parts[t.part]
	var order []int
	for i := part.from; i < part.to; i++ {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return t.runs[a].phase.rank() - t.runs[b].phase.rank() })

	room := height - 1 - 2 // without header and total
	if room < 2 {
		return []string{textutil.Cut(t.bar(now, width), width)}
	}
	var lines []string
	if part.head != "" && room > 2 {
		lines = append(lines, textutil.Cut(part.head, width))
		room--
	}
	hidden := map[phase]int{}
	if len(order) > room {
		for _, i := range order[room-1:] {
			hidden[t.runs[i].phase]++
		}
		order = order[:room-1]
	}
	cells := [][]string{{"run", "step", "validation", "state", "left"}}
	for _, i := range order {
		cells = append(cells, t.runs[i].cells())
	}
	lines = append(lines, align(cells, width)...)
	var counts []string
	for _, p := range phaseOrder {
		if n := hidden[p]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, p))
		}
	}
	if len(counts) > 0 {
		lines = append(lines, textutil.Cut("... and "+strings.Join(counts, ", "), width))
	}
	return append(lines, textutil.Cut(t.bar(now, width), width))
}

// cells are the columns of a run.
func (r tableRun) cells() []string {
	step, left := fmt.Sprintf("%d/%d", r.Step, r.Steps), ""
	switch {
	case r.phase == phaseWaiting && r.Step == 0:
		step = ""
	case (r.phase == phaseRunning || r.phase == phaseOther) && r.Left > 0:
		left = shortTime(r.Left)
	case r.phase.ended() && r.Seconds > 0:
		left = "took " + shortTime(r.Seconds)
	}
	return []string{r.name, step, r.rewardText(), string(r.phase), left}
}

// bar is the last line: the share of the finished steps, and the totals.
func (t *sweepTable) bar(now time.Time, width int) string {
	made, all := 0, 0
	for _, r := range t.runs {
		switch {
		case r.copied:
			continue
		case r.phase.ended():
			made += r.Steps
		default:
			made += r.Step
		}
		all += r.Steps
	}
	const wide = 20
	text := t.total(now)
	if width < wide+utf8.RuneCountInString(text)+3 {
		return text
	}
	return tui.Bar(int64(made), int64(all), wide) + " " + text
}

// align aligns the columns; names that leave no room for the other columns are cut.
func align(rows [][]string, width int) []string {
	lines := textutil.Align("l", rows)
	over, name := 0, 0
	for i, line := range lines {
		over = max(over, utf8.RuneCountInString(line)-width)
		name = max(name, utf8.RuneCountInString(rows[i][0]))
	}
	if over > 0 {
		for _, row := range rows {
			row[0] = textutil.Cut(row[0], max(8, name-over))
		}
		lines = textutil.Align("l", rows)
	}
	for i, line := range lines {
		lines[i] = textutil.Cut(line, width)
	}
	return lines
}
