package reward

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/builtin"
)

// The expression language bounds the elements of the lists that an expression makes, but neither its
// loops nor the texts that it puts together, and nothing can interrupt it. So calls that count are
// added to a checked expression: one to each pass of a loop, one around each operation that walks or
// copies its operands.

const (
	maxSteps = 20_000_000 // of one evaluation: passes of loops, elements that an operation walks (of numbers an eighth)
	maxText  = 256 << 20  // bytes that one evaluation puts together
	maxDepth = 1000       // of lists in lists
)

// budget is what an evaluation has left.
type budget struct {
	ctx         context.Context
	part        int // the maxima are divided by it, in tests
	steps, text int
	looked      int // steps when ctx was looked at
	patterns    map[string]sizedPattern
}

// reset starts an evaluation.
func (b *budget) reset() {
	b.steps, b.text, b.looked = maxSteps/b.part, maxText/b.part, maxSteps/b.part
}

func (b *budget) spend(steps, text int) error {
	b.steps, b.text = b.steps-steps, b.text-text
	switch {
	case b.steps < 0:
		return fmt.Errorf("it takes more than %d million steps", maxSteps/1_000_000)
	case b.text < 0:
		return fmt.Errorf("it puts more than %d MiB of text together", maxText>>20)
	case b.looked-b.steps < 1000:
		return nil
	}
	b.looked = b.steps
	return b.ctx.Err()
}

// size is what it costs to walk a value, in eighths of steps, and its bytes. Parts that are there twice
// count twice, as an operation that walks it sees them. It stops above the budget.
func (b *budget) size(x any, depth int) (cost, bytes int, err error) {
	if depth > maxDepth {
		return 0, 0, fmt.Errorf("its lists are more than %d deep", maxDepth)
	}
	add := func(part any) bool {
		var n, size int
		n, size, err = b.size(part, depth+1)
		cost, bytes = cost+8+n, bytes+16+size
		return err == nil && cost/8 <= b.steps
	}
	switch x := x.(type) {
	case string:
		return 1 + len(x)/8, len(x), nil
	case []any:
		for i := 0; i < len(x) && add(x[i]); i++ {
		}
		return cost, bytes, err
	case int, float64, bool, nil:
		return 0, 0, nil
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k <= reflect.Float64 {
			return v.Len(), 16 * v.Len(), nil
		}
		for i := 0; i < v.Len() && add(v.Index(i).Interface()); i++ {
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next() && add(i.Key().Interface()) && add(i.Value().Interface()); {
		}
	}
	return cost, bytes, err
}

// loop counts the passes of a loop over a list.
func (b *budget) loop(args ...any) (any, error) {
	v := reflect.ValueOf(args[0])
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array && k != reflect.Map {
		return args[0], nil
	}
	return args[0], b.spend(1+v.Len(), 0)
}

// walk counts the elements of values that an operation looks at.
func (b *budget) walk(args ...any) (any, error) {
	for _, x := range args {
		n, _, err := b.size(x, 0)
		if err == nil {
			err = b.spend(1+n/8, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return args[0], nil
}

// call is a builtin function whose work is counted before it is done.
func (b *budget) call(f *builtin.Function) func(args ...any) (any, error) {
	return func(args ...any) (any, error) {
		cost, bytes := 0, 0
		for _, x := range args {
			n, size, err := b.size(x, 0)
			if err != nil {
				return nil, err
			}
			cost, bytes = cost+n, bytes+size
		}
		steps, text := 1+cost/8, 0
		switch f.Name {
		case "uniq": // compares each element with all different ones before it
			steps += product(cost, distinct(at(args, 0))) / 8
		case "toJSON":
			text = 6 * bytes // if each is escaped
		case "concat", "flatten", "string", "upper", "lower", "toBase64", "fromBase64", "fromJSON", "reverse", "sort",
			"fromPairs":
			text = 2 * bytes
		case "split", "splitAfter":
			text = bytes + 16*(1+count(args, 0, 1))
		case "join":
			text = bytes + product(cost, length(args, 1))
		case "repeat":
			if n, ok := at(args, 1).(int); ok {
				text = product(length(args, 0), n)
			}
		case "replace":
			text = bytes + product(1+count(args, 0, 1), length(args, 2))
		}
		if err := b.spend(steps, text); err != nil {
			return nil, err
		}
		switch {
		case f.Fast != nil:
			return f.Fast(at(args, 0)), nil
		case f.Safe != nil:
			out, _, err := f.Safe(args...)
			return out, err
		}
		return f.Func(args...)
	}
}

func at(args []any, i int) any {
	if i < len(args) {
		return args[i]
	}
	return nil
}

// length is that of a text among arguments; 0 for another value.
func length(args []any, i int) int {
	s, _ := at(args, i).(string)
	return len(s)
}

// count is how often one text is in another.
func count(args []any, in, what int) int {
	s, _ := at(args, in).(string)
	part, _ := at(args, what).(string)
	return strings.Count(s, part)
}

// distinct is at least the number of different elements of a list.
func distinct(list any) int {
	v := reflect.ValueOf(list)
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return 0
	}
	seen, others := map[any]bool{}, 0
	for i := range v.Len() {
		switch x := v.Index(i).Interface().(type) {
		case string, int, float64, bool, nil:
			seen[x] = true
		default:
			others++
		}
	}
	return len(seen) + others
}

// product of two sizes, at most a little above any budget.
func product(a, b int) int { return min(max(a, 0), maxText+1) * min(max(b, 0), maxText+1) }
