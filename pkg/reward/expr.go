package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/vm"

	"grpo/internal/textutil"
)

// expression computes rewards in the language of github.com/expr-lang/expr. Its value is a number,
// true (1), false (0) or nil (no reward).
type expression struct {
	spec    Spec
	note    func(string)
	program *vm.Program
	budget  *budget
}

// variables are those of an expression. The names are those of the protocol.
type variables struct {
	Prompt     string   `expr:"prompt"`
	Completion string   `expr:"completion"`
	Tokens     []int    `expr:"tokens"`
	Ended      bool     `expr:"ended"`
	Answer     string   `expr:"answer"`
	Right      bool     `expr:"right"`
	Formatted  bool     `expr:"formatted"`
	Step       int      `expr:"step"`
	MaxTokens  int      `expr:"max_tokens"`
	Problem    problemV `expr:"problem"`
}

type problemV struct {
	ID       string         `expr:"id"`
	Question string         `expr:"question"`
	Solution string         `expr:"solution"`
	Type     string         `expr:"type"`
	Fact     string         `expr:"fact"`
	Fields   map[string]any `expr:"fields"`
}

// impure are builtin functions whose value depends on the clock, the machine or the order of a map.
var impure = []string{"now", "date", "timezone", "keys", "values", "toPairs"}

// CheckExpr returns an error unless text is an expression that can give a reward.
func CheckExpr(text string) error {
	_, err := newExpression(context.Background(), Spec{Expr: text}, nil)
	return err
}

func newExpression(ctx context.Context, s Spec, note func(string)) (*expression, error) {
	b := &budget{ctx: ctx, part: 1}
	program, err := compile(s.Expr, b)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // the rest shows the place
		return nil, fmt.Errorf("not an expression: %s", first)
	}
	switch t := program.Node().Type(); {
	case t == nil:
	case t.Kind() == reflect.String, t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return nil, fmt.Errorf("its value is a %s, want a number, true, false or nil", t.Kind())
	}
	return &expression{s, note, program, b}, nil
}

// compile is [expr.Compile], with calls that count in b.
func compile(text string, b *budget) (*vm.Program, error) {
	config := conf.CreateNew()
	for _, set := range append(b.options(), expr.Env(variables{})) {
		set(config)
	}
	for _, name := range impure {
		expr.DisableBuiltin(name)(config)
		delete(config.Builtins, name)
	}
	config.Check()
	tree, err := checker.ParseCheck(text, config)
	if err != nil {
		return nil, err
	}
	if err := optimizer.Optimize(&tree.Node, config); err != nil {
		return nil, err
	}
	ast.Walk(&tree.Node, guard{})
	return compiler.Compile(tree, config)
}

func (e *expression) Score(b Batch) (Scores, error) {
	s := nulls(len(b.Completions))
	var first error
	failed := 0
	for i, c := range b.Completions {
		x, err := e.value(b, c)
		if ended := e.budget.ctx.Err(); ended != nil {
			return Scores{}, ended
		}
		if err == nil {
			s.Rewards[i] = x
			continue
		}
		if failed++; first == nil {
			first = fmt.Errorf("reward %s: step %d: the expression failed for completion %d: %w",
				e.spec.Name, b.Step, i+1, err)
		}
	}
	switch {
	case first == nil:
	case !e.spec.NullOnError:
		return Scores{}, first
	default:
		e.note(fmt.Sprintf("%v; %s without this reward (on_error: null)", first, textutil.Count(failed, "completion")))
	}
	return s, nil
}

func (e *expression) value(b Batch, c Completion) (float64, error) {
	v := variables{
		Prompt: c.Prompt, Completion: c.Completion, Tokens: c.Tokens, Ended: c.Ended, Answer: c.Answer,
		Right: c.Right, Formatted: c.Formatted, Step: b.Step, MaxTokens: b.MaxTokens,
		Problem: problemV{ID: c.Problem.ID, Question: c.Problem.Question, Solution: c.Problem.Solution,
			Type: c.Problem.Type, Fact: c.Problem.Fact},
	}
	if len(c.Problem.Fields) > 0 {
		if err := json.Unmarshal(c.Problem.Fields, &v.Problem.Fields); err != nil {
			return 0, err
		}
	}
	e.budget.reset()
	out, err := expr.Run(e.program, v)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return 0, errors.New(first)
	}
	x := reflect.ValueOf(out)
	switch {
	case out == nil:
		return math.NaN(), nil
	case x.Kind() == reflect.Bool && x.Bool():
		return 1, nil
	case x.Kind() == reflect.Bool:
		return 0, nil
	case x.CanInt():
		return float64(x.Int()), nil
	case x.CanUint():
		return float64(x.Uint()), nil
	case x.CanFloat():
		return x.Float(), checkReward(x.Float())
	}
	return 0, fmt.Errorf("its value is a %s, want a number, true, false or nil", x.Kind())
}

func (e *expression) Close() {}
