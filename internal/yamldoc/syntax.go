package yamldoc

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"grpo/internal/pattern"
	"grpo/internal/textutil"
)

// lineAt returns the 1-based number of the line that contains the byte at i.
func lineAt(text []byte, i int) int { return 1 + bytes.Count(text[:i], []byte("\n")) }

// lastLine returns the number of the last non-empty line.
func lastLine(text []byte) int { return lineAt(text, len(bytes.TrimRight(text, "\n"))) }

// isText reports the first byte that no YAML file may contain; the YAML library would not report
// its line.
func isText(text []byte) *problem {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &problem{lineAt(text, i), "not a text file: it is not in UTF-8"}
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return &problem{lineAt(text, i), fmt.Sprintf("not a text file: it contains the character %U", r)}
		}
		i += n
	}
	return nil
}

var (
	yamlError = pattern.Of(`^yaml: (?:line (\d+): )?`)
	// parserError are the messages of the library's parser, which counts lines
	// from 0; its scanner counts from 1.
	parserError = pattern.Of(`^(did not find expected ` +
		`(<document start>|node content|'-' indicator|key|',' or)` +
		`|found (undefined tag handle|duplicate %|incompatible YAML))`)
	unknownAnchor = pattern.Of(`^unknown anchor '(.*)' referenced`)
	tabIndent     = pattern.Of(`(?m)^ *\t`)
)

// syntax reports a syntax error. The YAML library gives no line for an error on the first one, and
// does not mention tabs.
func syntax(text []byte, err error) *problem {
	if at := tabIndent().FindIndex(text); at != nil {
		return &problem{lineAt(text, at[0]), "a tab in the indentation (YAML wants spaces)"}
	}
	message, line := err.Error(), 1
	m := yamlError().FindStringSubmatch(message)
	if m != nil {
		message = message[len(m[0]):]
	}
	if m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
		if parserError().MatchString(message) {
			line++
		}
	}
	if m := unknownAnchor().FindStringSubmatch(message); m != nil {
		line = lineAt(text, max(0, bytes.Index(text, []byte("*"+m[1]))))
	}
	return &problem{min(line, lastLine(text)), "not valid YAML: " + textutil.Shorten(message)}
}
