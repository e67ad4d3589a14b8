package gsm8k

import "strings"

const thinkOpen, thinkClose = "<think>", "</think>"

// ThinkFormat reports whether a text has the form of TRL's think_format_reward,
// the pattern ^<think>(?!.*<think>)(.*?)</think>.*$ over all lines: it begins
// with "<think>", which occurs once, and a "</think>" follows. What comes after
// that is free, and so is a second "</think>".
//
// The text includes the tag that opens it. A prompt of the r1_zero template ends
// in "<think>", so there the completion is graded with that tag in front of it:
// see [Template.Opening] and [RewardParams].
func ThinkFormat(text string) bool {
	rest, ok := strings.CutPrefix(text, thinkOpen)
	return ok && strings.Contains(rest, thinkClose) && !strings.Contains(rest, thinkOpen)
}
