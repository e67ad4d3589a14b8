package hf

import (
	"fmt"
	"maps"

	"grpo/pkg/model/hf/jinja"
)

// Message is a turn of a conversation.
type Message struct {
	Role    string `json:"role" yaml:"role"` // "system", "user" or "assistant"
	Content string `json:"content" yaml:"content"`
}

// ChatTemplate renders conversations as a model expects them.
type ChatTemplate struct{ template *jinja.Template }

// NewChatTemplate compiles a Jinja template. The error says what is wrong with it or not supported.
func NewChatTemplate(source string) (*ChatTemplate, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("compile the chat template: %w", err)
	}
	return &ChatTemplate{t}, nil
}

// Render is the text of a conversation. With prompt, it ends where the assistant's next
// turn begins. vars are further variables of the template, such as bos_token and
// enable_thinking. As in transformers, tools and documents are none.
func (c *ChatTemplate) Render(messages []Message, prompt bool, vars map[string]any) (string, error) {
	turns := make([]any, len(messages))
	for i, m := range messages {
		turns[i] = []jinja.Field{{Name: "role", Value: m.Role}, {Name: "content", Value: m.Content}}
	}
	data := map[string]any{"messages": turns, "add_generation_prompt": prompt, "tools": nil, "documents": nil}
	maps.Copy(data, vars)
	text, err := c.template.Render(data)
	if err != nil {
		return "", fmt.Errorf("render the chat template: %w", err)
	}
	return text, nil
}
