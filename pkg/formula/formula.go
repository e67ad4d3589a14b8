// Package formula compiles the formulas of a configuration: the loss of a token with its derivatives
// (algorithm.loss_expr), and the advantages of a group (algorithm.advantage_expr).
//
// The notation is that of github.com/expr-lang/expr, whose parser reads it; the language is smaller,
// and has numbers and conditions only:
//
//	x + y - z * u / v ** w   < <= > >= == !=   && || !   x > 0 ? y : z   let u = x; y
//	min max abs exp log sqrt clip(x, low, high) sigmoid tanh
//
// A condition counts as 1 or 0 where a number is needed. A loss also has stop_gradient(x), in short
// sg(x); advantages have reductions over the group: sum, mean, std, and min and max of one argument.
//
// A formula is compiled to a list of instructions on registers. A register holds a dual number: a
// value with its derivatives, which each instruction computes by the chain rule (forward mode), so a
// gradient is exact up to rounding. Both sides of a conditional are computed, and one is taken with
// its derivatives; nothing has a side effect.
package formula

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
)

// Bounds of a formula, in characters and in parts of the parsed text.
const (
	maxLength = 2000
	maxNodes  = 1000
)

// language is what a formula may name.
type language struct {
	variables []string // in the first registers, in this order
	constants map[string]float64
	functions map[string]function
}

// function is a function of args arguments; with many, of that number or more.
type function struct {
	op   op
	args int
	many bool
	form string // how it is called
	over op     // the reduction over the group that the name means with one argument; 0 = none
}

// program is a compiled formula.
type program struct {
	start  []dual // the registers before the first instruction: variables, then constants
	code   []instruction
	result value
	named  map[string]bool // the variables and constants that the formula names
}

// Names reports whether the formula names a variable.
func (p *program) Names(variable string) bool { return p.named[variable] }

// instruction computes the register out from up to three others.
type instruction struct {
	op           op
	a, b, c, out uint16
}

// value is what is known about a register before the formula is evaluated.
type value struct {
	at        uint16
	constant  bool
	condition bool // true or false, as 1 or 0
	moves     bool // it has a derivative
	vanishes  bool // it is 0, and its derivatives too, wherever the variable A is 0
}

// compile parses a formula and checks its names and types. An error names the place as a column,
// counted in characters from 1.
func compile(text string, l language) (*program, error) {
	if n := len([]rune(text)); n > maxLength {
		return nil, fmt.Errorf("it has %d characters; the limit is %d", n, maxLength)
	}
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) {
			if strings.Contains(at.Message, "EOF") { // which the parser places at the last token
				return nil, place(text, len(text), "something is missing, such as an operand or a closing bracket")
			}
			return nil, place(text, at.From, at.Message)
		}
		return nil, err
	}
	c := compiler{language: l, lets: map[string]value{}, program: program{named: map[string]bool{}}}
	for i, name := range l.variables {
		c.start = append(c.start, dual{})
		c.lets[name] = value{at: uint16(i), moves: slices.Contains(moving, name), vanishes: name == "A",
			condition: name == "right"}
	}
	if c.result = c.node(tree.Node); c.failed != "" {
		return nil, place(text, c.failedAt, c.failed)
	}
	return &c.program, nil
}

// place is an error at a character of a formula, counted from 0.
func place(text string, at int, problem string) error {
	const shown = 24
	runes := []rune(text)
	if at >= len(runes) {
		return fmt.Errorf("column %d, at its end: %s", len(runes)+1, problem)
	}
	rest := string(runes[at:min(len(runes), at+shown)])
	if at+shown < len(runes) {
		rest += "..."
	}
	return fmt.Errorf("column %d, at %s: %s", at+1, textutil.Quote(rest), problem)
}

// compiler appends to a program. After the first problem it does nothing.
type compiler struct {
	language
	program
	lets     map[string]value // variables and the names of let
	failed   string
	failedAt int
}

func (c *compiler) fail(at ast.Node, format string, args ...any) value {
	if c.failed == "" {
		c.failed, c.failedAt = fmt.Sprintf(format, args...), at.Location().From
	}
	return value{}
}

func (c *compiler) node(n ast.Node) value {
	if c.failed != "" {
		return value{}
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		return c.constant(float64(n.Value), false)
	case *ast.FloatNode:
		return c.constant(n.Value, false)
	case *ast.BoolNode:
		x := 0.0
		if n.Value {
			x = 1
		}
		return c.constant(x, true)
	case *ast.IdentifierNode:
		return c.name(n)
	case *ast.VariableDeclaratorNode:
		if c.known(n.Name) {
			return c.fail(n, "the name %q is taken", n.Name)
		}
		c.lets[n.Name] = c.node(n.Value)
		out := c.node(n.Expr)
		delete(c.lets, n.Name)
		return out
	case *ast.UnaryNode:
		switch n.Operator {
		case "-":
			return c.emit(opNeg, c.node(n.Node))
		case "+":
			return c.emit(opAdd, c.constant(0, false), c.node(n.Node))
		}
		return c.emit(opNot, c.condition(n.Node))
	case *ast.BinaryNode:
		o, ok := operators[n.Operator]
		switch {
		case !ok:
			return c.fail(n, "the operator %s is not for numbers", n.Operator)
		case o == opAnd || o == opOr:
			return c.emit(o, c.condition(n.Left), c.condition(n.Right))
		}
		return c.emit(o, c.node(n.Left), c.node(n.Right))
	case *ast.ConditionalNode:
		return c.emit(opIf, c.condition(n.Cond), c.node(n.Exp1), c.node(n.Exp2))
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); ok {
			return c.call(n, f.Value, n.Arguments)
		}
	}
	return c.fail(n, "a formula has numbers, conditions, operators and functions only")
}

// condition compiles what must be true or false.
func (c *compiler) condition(n ast.Node) value {
	v := c.node(n)
	if c.failed == "" && !v.condition {
		return c.fail(n, "this is a number, and a condition is needed (compare it, as in x > 0)")
	}
	return v
}

func (c *compiler) name(n *ast.IdentifierNode) value {
	if v, ok := c.lets[n.Value]; ok {
		c.named[n.Value] = true
		return v
	}
	if x, ok := c.constants[n.Value]; ok {
		c.named[n.Value] = true
		return c.constant(x, false)
	}
	if f, ok := c.functions[n.Value]; ok {
		return c.fail(n, "%s is a function: write %s", n.Value, f.form)
	}
	return c.unknown(n, n.Value)
}

func (c *compiler) call(n ast.Node, name string, args []ast.Node) value {
	f, ok := c.functions[name]
	switch {
	case !ok && c.known(name):
		return c.fail(n, "%s is a number, not a function", name)
	case !ok:
		return c.unknown(n, name)
	case f.over != 0 && len(args) == 1:
		return c.emit(f.over, c.node(args[0]))
	case len(args) < f.args || len(args) > f.args && !f.many:
		return c.fail(n, "%s can't take %s: write %s", name, textutil.Count(len(args), "argument"), f.form)
	}
	values := make([]value, len(args))
	for i, a := range args {
		values[i] = c.node(a)
	}
	if !f.many {
		return c.emit(f.op, values...)
	}
	out := values[0]
	for _, v := range values[1:] {
		out = c.emit(f.op, out, v)
	}
	return out
}

// known reports whether a name is a number or a function.
func (c *compiler) known(name string) bool {
	_, variable := c.lets[name]
	_, constant := c.constants[name]
	_, function := c.functions[name]
	return variable || constant || function
}

func (c *compiler) unknown(n ast.Node, name string) value {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.lets)), maps.Keys(c.constants))
	slices.Sort(names)
	functions := slices.Sorted(maps.Keys(c.functions))
	return c.fail(n, "unknown name %s%s; there are %s, and the functions %s", textutil.Quote(name),
		suggest.DidYouMean(name, append(names, functions...)), strings.Join(names, ", "), strings.Join(functions, ", "))
}

// constant returns a register with this value.
func (c *compiler) constant(x float64, condition bool) value {
	c.start = append(c.start, dual{v: x})
	return value{at: uint16(len(c.start) - 1), constant: true, condition: condition, vanishes: x == 0}
}

// emit appends an instruction, or computes it now if its operands are constants.
func (c *compiler) emit(o op, args ...value) value {
	if c.failed != "" {
		return value{}
	}
	in, x := instruction{op: o}, [3]dual{}
	out := value{constant: o < opSum, condition: o.isCondition()}
	for i, at := range []*uint16{&in.a, &in.b, &in.c}[:len(args)] {
		*at, x[i] = args[i].at, c.start[args[i].at]
		out.constant = out.constant && args[i].constant
		out.moves = out.moves || args[i].moves
	}
	if o == opIf {
		out.condition, out.moves = args[1].condition && args[2].condition, args[1].moves || args[2].moves
	}
	out.moves = out.moves && o != opStop && !out.condition
	out.vanishes = o.vanishes(args, x)
	result := dual{}
	if out.constant {
		result = apply(o, x[0], x[1], x[2])
	}
	c.start = append(c.start, result)
	out.at = uint16(len(c.start) - 1)
	if in.out = out.at; !out.constant {
		c.code = append(c.code, in)
	}
	return out
}
