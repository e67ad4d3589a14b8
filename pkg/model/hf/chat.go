package hf

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string `json:"role" yaml:"role"` // "system", "user" or "assistant"
	Content string `json:"content" yaml:"content"`
}

// ChatTemplate renders conversations as a model expects them.
type ChatTemplate struct{ template *jinja.Template }

// Limits of templates, which may come from anyone. Those of public models have at most
// 30 KB and render in less than a millisecond.
const (
	maxTemplate     = 128 << 10 // bytes; bounds the depth of the parser's recursion
	maxRange        = 10_000    // elements of range()
	maxRendered     = 16 << 20  // bytes
	maxRenderTime   = time.Second
	maxRenderMemory = 512 << 20 // bytes
)

// NewChatTemplate compiles a Jinja template. The error says what is wrong with it.
func NewChatTemplate(source string) (c *ChatTemplate, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			c, err = nil, fmt.Errorf("compile the chat template: %w", err)
		}
	}()
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(source), maxTemplate)
	}
	t, err := jinja.Compile(source)
	if err != nil {
		return nil, err
	}
	return &ChatTemplate{t}, nil
}

// Render is the text of a conversation. With prompt, it ends where the assistant's next
// turn begins. vars are further variables of the template, such as bos_token and
// enable_thinking. As in transformers, tools and documents are none.
//
// A template that takes too much time or memory is an error. It can't be stopped, and
// goes on until the program ends: after an error, end it.
func (c *ChatTemplate) Render(messages []Message, prompt bool, vars map[string]any) (string, error) {
	turns := make([]any, len(messages))
	for i, m := range messages {
		turns[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	data := map[string]jinja.Value{
		"messages": jinja.FromGoValue(turns), "add_generation_prompt": jinja.NewBool(prompt),
		"tools": jinja.None(), "documents": jinja.None(),
		"range": jinja.NewCallable("range", shortRange), "strftime_now": jinja.NewCallable("strftime_now", fixedDate),
	}
	for k, v := range vars {
		data[k] = jinja.FromGoValue(v)
	}
	text, err := watch(func() (string, error) { return c.template.RenderValues(data) })
	if err == nil && len(text) > maxRendered {
		err = fmt.Errorf("its text has %d bytes, the limit is %d", len(text), maxRendered)
	}
	if err != nil {
		return "", fmt.Errorf("render the chat template: %w", err)
	}
	return text, nil
}

// shortRange is Python's range() for lists of a limited length.
func shortRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	bounds := []int64{0, 0, 1}
	for i, a := range args {
		if !a.IsInt() || len(args) > 3 {
			return jinja.Undefined(), fmt.Errorf("range: want 1 to 3 integers")
		}
		bounds[i] = a.AsInt()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if len(args) == 0 || step == 0 {
		return jinja.Undefined(), fmt.Errorf("range: want 1 to 3 integers, the third not 0")
	}
	var items []jinja.Value
	for x := from; step > 0 && x < to || step < 0 && x > to; x += step {
		if len(items) == maxRange {
			return jinja.Undefined(), fmt.Errorf("range: more than %d elements", maxRange)
		}
		items = append(items, jinja.NewInt(x))
	}
	return jinja.NewList(items), nil
}

// fixedDate is strftime_now at the date that Llama 3's template has by default: prompts
// must not change from day to day.
func fixedDate(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), fmt.Errorf("strftime_now: want a format")
	}
	return jinja.NewString(strftime(time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC), args[0].AsString())), nil
}

// strftime formats a time as Python does; other directives than these are left as they are.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January",
		'b': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'I': "03", 'y': "06", 'j': "002"}
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] == '%' && i+1 < len(format) {
			if layout, ok := layouts[format[i+1]]; ok {
				out = t.AppendFormat(out, layout)
				i++
				continue
			}
			if format[i+1] == '%' {
				i++
			}
		}
		out = append(out, format[i])
	}
	return string(out)
}

var rendering sync.Mutex

// watch runs f with limits on its time and memory. The template engine has none, and
// recursion without end would end the program: so the stack may grow, too, until the
// memory limit is found to be exceeded.
func watch(f func() (string, error)) (string, error) {
	rendering.Lock()
	defer rendering.Unlock()
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	stack := debug.SetMaxStack(8 * maxRenderMemory)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("%v", p)
			}
			done <- r
		}()
		r.text, r.err = f()
	}()
	memory := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	var before int64
	tick, timeout := time.NewTicker(2*time.Millisecond), time.After(maxRenderTime)
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			debug.SetMaxStack(stack)
			return r.text, r.err
		case <-timeout:
			return "", fmt.Errorf("it did not end within %v", maxRenderTime)
		case <-tick.C:
			now := memory()
			if before == 0 {
				before = now
			}
			if now-before > maxRenderMemory {
				return "", fmt.Errorf("it needs more than %d MiB of memory (does it recurse without end?)", maxRenderMemory>>20)
			}
		}
	}
}
