package reward

import (
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// Names that no expression can have.
const (
	stepName  = "one step"
	loopName  = "all steps"
	walkName  = "walk over"
	textName  = "texts together"
	callName  = "call "
	matchName = "search for"
)

// options register the functions that guard adds to an expression.
func (b *budget) options() []expr.Option {
	out := []expr.Option{
		expr.Function(stepName, func(...any) (any, error) { return nil, b.spend(1, 0) }),
		expr.Function(loopName, b.loop),
		expr.Function(walkName, b.walk),
		expr.Function(matchName, b.matches),
		expr.Function(textName, func(args ...any) (any, error) { return args[0], b.spend(0, length(args, 0)) }),
	}
	for _, f := range builtin.Builtins {
		if !f.Predicate {
			out = append(out, expr.Function(callName+f.Name, b.call(f)))
		}
	}
	return out
}

// guard is the visitor that adds the calls, after the types are checked.
type guard struct{}

// Visit implements [ast.Visitor]; the parts of a node come before it.
func (guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		step := &ast.CallNode{Callee: &ast.IdentifierNode{Value: stepName}}
		body := &ast.SequenceNode{Nodes: []ast.Node{step, n.Node}}
		body.SetNature(*n.Node.Nature())
		n.Node = body
	case *ast.BuiltinNode:
		f := builtin.Builtins[builtin.Index[n.Name]]
		if f.Predicate {
			counted(&n.Arguments[0], loopName)
			if n.Map != nil { // of map(filter(...)), which the walk leaves out
				ast.Walk(&n.Map, guard{})
			}
			if n.Name == "sortBy" || n.Name == "groupBy" { // these compare what the predicate gives
				body := n.Arguments[1].(*ast.PredicateNode).Node.(*ast.SequenceNode)
				counted(&body.Nodes[1], walkName)
			}
			return
		}
		replace(node, callName+n.Name, n.Arguments...)
	case *ast.BinaryNode:
		switch n.Operator {
		case "+":
			if !isNumber(n) {
				replace(node, textName, n)
			}
		case "matches":
			replace(node, matchName, n.Left, n.Right)
		case "==", "!=", "in", "not in", "contains", "startsWith", "endsWith", "<", ">", "<=", ">=":
			counted(&n.Left, walkName)
			counted(&n.Right, walkName)
		}
	}
}

// replace puts a call of a function in place of a node, with its type.
func replace(n *ast.Node, name string, args ...ast.Node) {
	call := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
	call.SetNature(*(*n).Nature())
	ast.Patch(n, call)
}

// counted puts a call around an operand, unless that is a number or written out.
func counted(n *ast.Node, name string) {
	switch (*n).(type) {
	case *ast.StringNode, *ast.ConstantNode, *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return
	}
	if !isNumber(*n) {
		replace(n, name, *n)
	}
}

func isNumber(n ast.Node) bool {
	t := n.Nature().Type
	return t != nil && t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64
}

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
