package reward

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// sizedPattern is a pattern of "matches". A search takes up to a step of its program for each byte of the text.
type sizedPattern struct {
	*regexp.Regexp
	size int // instructions
}

// maxPatterns bounds the patterns that are kept.
const maxPatterns = 100

// matches is the operator of that name. Null matches nothing.
func (b *budget) matches(args ...any) (any, error) {
	if args[0] == nil || args[1] == nil {
		return false, nil
	}
	text, isText := args[0].(string)
	expr, isExpr := args[1].(string)
	if !isText || !isExpr {
		return nil, fmt.Errorf("matches wants two texts, not a %T and a %T", args[0], args[1])
	}
	p, known := b.patterns[expr]
	if !known {
		parsed, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			return nil, err
		}
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, err
		}
		p.size = len(prog.Inst)
		if err := b.spend(p.size, 0); err != nil {
			return nil, err
		}
		if p.Regexp, err = regexp.Compile(expr); err != nil {
			return nil, err
		}
		if b.patterns == nil || len(b.patterns) == maxPatterns {
			b.patterns = map[string]sizedPattern{}
		}
		b.patterns[expr] = p
	}
	if err := b.spend(1+product(len(text), p.size)/8, 0); err != nil {
		return nil, err
	}
	return p.MatchString(text), nil
}
