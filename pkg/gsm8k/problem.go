// Package gsm8k holds everything about problems that is text and numbers: the
// JSONL form of GSM8K (Cobbe et al., "Training verifiers to solve math word
// problems", 2021) and SVAMP's JSON, the generator of the default experiment,
// prompts, the texts of the supervised stages, the parser of final answers, the
// reward functions and statistics. It knows no model and no tokens.
//
// Everything generated here stays inside TinyLM's character vocabulary: newline
// and ASCII 32..126. Files may hold any UTF-8; [ComputeStats] counts what falls
// outside a vocabulary.
package gsm8k

// Problem is one word problem with its worked solution.
type Problem struct {
	// ID is stable over runs: "gen-add-00123" for generated problems, the file's
	// "id" or its stem and line ("train-00012") for others.
	ID       string
	Question string
	// Answer is the worked solution; it ends in a line "#### N".
	Answer string
	// Gold is N without commas, spaces, "$", a leading "+" and a trailing full
	// stop; it is otherwise as written ("72.0" stays "72.0").
	Gold string
	// Type is "add", "sub" or "mul" for generated problems, SVAMP's type in
	// lower case, and empty for GSM8K.
	Type string
	// Fact is the operand fact of a generated problem ("7+5", "9-4", "6*4").
	Fact string
	// Line is the 1-based line of the file that the problem came from; 0 for
	// generated problems.
	Line int
}

// Overlap counts the problems of b whose question also occurs in a.
func Overlap(a, b []Problem) int {
	seen := make(map[string]bool, len(a))
	for _, p := range a {
		seen[p.Question] = true
	}
	n := 0
	for _, p := range b {
		if seen[p.Question] {
			n++
		}
	}
	return n
}
