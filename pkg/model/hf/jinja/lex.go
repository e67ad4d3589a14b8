package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"grpo/internal/pattern"
)

// kind is what a token is.
type kind byte

const (
	kEnd   kind = iota // of the template
	kText              // outside of tags
	kOpen              // {% or {{
	kClose             // %} or }}
	kFloat             // from here in the order of the groups of the pattern of tokens
	kInt
	kName
	kString
	kOperator
)

type token struct {
	kind kind
	text string // of a string, its content
	line int
}

// space is what Python's str.isspace accepts, as a class of regular expressions.
const space = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

var (
	rawBegin = pattern.Of(`^` + space + `*raw` + space + `*(?:-%\}` + space + `*|%\})`)
	rawEnd   = pattern.Of(`\{%([-+]?)` + space + `*endraw` + space + `*(?:\+%\}|-%\}` + space + `*|%\}\n?)`)
	comment  = pattern.Of(`\+#\}|-#\}` + space + `*|#\}\n?`)
	tagEnd   = map[byte]func() *regexp.Regexp{
		'%': pattern.Of(`^(?:\+%\}|-%\}` + space + `*|%\}\n?)`),
		'{': pattern.Of(`^(?:-\}\}` + space + `*|\}\})`),
	}
	tagStart = pattern.Of(`\{[{%#]`)
	tokens   = pattern.Of(`^(?s:(` + space + `+)|` +
		`(\d+(?:_\d+)*(?:(?:\.\d+(?:_\d+)*)?[eE][+-]?\d+(?:_\d+)*|\.\d+(?:_\d+)*))|([1-9](?:_?\d)*|0(?:_?0)*)|` +
		`([\pL_][\pL\pN_]*)|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(\*\*|//|==|!=|>=|<=|[-+/*%~\[\](){}><=.:|,]))`)
)

// lexer splits a template into tokens, with trim_blocks and lstrip_blocks.
type lexer struct {
	rest      string
	line      int
	lineStart bool // what was passed last ends a line
	tokens    []token
}

func lex(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{rest: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.rest != "" {
		l.next()
	}
	l.add(kEnd, "the end of the template")
	return l.tokens
}

func (l *lexer) add(k kind, text string) { l.tokens = append(l.tokens, token{k, text, l.line}) }

func (l *lexer) must(ok bool, format string, args ...any) {
	must(ok, "line %d: "+format, append([]any{l.line}, args...)...)
}

func (l *lexer) pass(n int) {
	l.line += strings.Count(l.rest[:n], "\n")
	l.lineStart = n > 0 && l.rest[n-1] == '\n'
	l.rest = l.rest[n:]
}

// next reads text up to a tag, and the tag.
func (l *lexer) next() {
	at := tagStart().FindStringIndex(l.rest)
	if at == nil {
		l.add(kText, l.rest)
		l.pass(len(l.rest))
		return
	}
	tag, sign := l.rest[at[0]+1], ""
	if after := l.rest[at[1]:]; after != "" && (after[0] == '-' || after[0] == '+') {
		sign = after[:1]
	}
	l.text(l.rest[:at[0]], sign, tag != '{')
	l.pass(at[1] + len(sign))
	raw := rawBegin().FindString(l.rest)
	switch {
	case tag == '#':
		end := comment().FindStringIndex(l.rest)
		l.must(end != nil, "the comment does not end")
		l.pass(end[1])
	case tag == '%' && raw != "":
		l.pass(len(raw))
		end := rawEnd().FindStringSubmatchIndex(l.rest)
		l.must(end != nil, "raw does not end")
		l.text(l.rest[:end[0]], l.rest[end[2]:end[3]], true)
		l.pass(end[1])
	default:
		l.add(kOpen, "{"+string(tag))
		l.tag(tagEnd[tag]())
	}
}

// text adds text before a tag with a sign. Blanks that begin the line of a block are left out.
func (l *lexer) text(text, sign string, block bool) {
	if sign == "-" {
		text = strings.TrimRightFunc(text, isSpace)
	} else if line := strings.LastIndexByte(text, '\n') + 1; sign == "" && block && (line > 0 || l.lineStart) {
		if strings.TrimLeftFunc(text[line:], isSpace) == "" {
			text = text[:line]
		}
	}
	if text != "" {
		l.add(kText, text)
	}
}

// tag reads the tokens of a tag. Its end inside of brackets is not the end.
func (l *lexer) tag(end *regexp.Regexp) {
	for open := []byte{}; ; {
		if s := end.FindString(l.rest); s != "" && len(open) == 0 {
			l.add(kClose, s)
			l.pass(len(s))
			return
		}
		groups := tokens().FindStringSubmatch(l.rest)
		l.must(groups != nil, "%.20q can't be read, or the tag does not end", l.rest)
		text := groups[0]
		for k, s := range groups[2:] {
			if s == "" {
				continue
			}
			before := l.tokens[len(l.tokens)-1].text
			if k := kFloat + kind(k); k == kString {
				l.add(k, l.unescape(s[1:len(s)-1]))
			} else if k == kFloat && before == "." { // x.1.2
				text, _, _ = strings.Cut(s, ".")
				l.add(kInt, text)
			} else {
				l.add(k, strings.ReplaceAll(s, "_", map[bool]string{true: "_"}[k == kName]))
			}
		}
		if i := strings.Index("(){}[]", text); i >= 0 && i%2 == 0 {
			open = append(open, "(){}[]"[i+1])
		} else if i >= 0 {
			l.must(len(open) > 0 && open[len(open)-1] == text[0], "%s without its partner", text)
			open = open[:len(open)-1]
		}
		l.pass(len(text))
	}
}

// unescape is the content of a string, of which s is the source.
func (l *lexer) unescape(s string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		s = after[1:]
		switch c := after[0]; {
		case strings.IndexByte(`abfnrtv\xuU01234567N`, c) >= 0:
			char, _, rest, err := strconv.UnquoteChar(`\`+after, 0)
			l.must(err == nil, `the escape \%.10s is not supported`, after)
			out.WriteRune(char)
			s = rest
		case c == '\'' || c == '"':
			out.WriteByte(c)
		case c != '\n':
			out.WriteByte('\\')
			s = after
		}
	}
}
