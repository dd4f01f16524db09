package routing

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// asChat returns the fields as those of a chat completion, which /tokenize takes: f
// itself if they are that, or a completion's. Bodies of other APIs are rewritten as
// vLLM rewrites them, so that the tokens are those that the worker will see. False
// where that is not known: images, tool calls and their results among the messages,
// tools that only a provider has, a conversation that is kept on the server.
func (f *promptFields) asChat() (*promptFields, bool) {
	switch {
	case f.has(fieldInput) && f.has(fieldInstructions):
		return f.responseAsChat()
	case f.has(fieldMessages) && (f.has(fieldSystem) || hasAnthropicTools(f.values[fieldTools])):
		return f.anthropicAsChat()
	default:
		return f, true
	}
}

// responseAsChat rewrites a request of OpenAI's responses API whose input is text:
//
//	{"instructions":"be brief","input":"hi"}
//
// Without instructions it cannot be told from a request for embeddings.
func (f *promptFields) responseAsChat() (*promptFields, bool) {
	input, instructions := readerOf(f.values[fieldInput]), readerOf(f.values[fieldInstructions])
	c := chat{system: instructions.text()}
	c.turns = []turn{{"user", [][]byte{input.text()}}}
	tools := f.values[fieldTools]
	plain := !f.has(fieldPreviousResponseID) && (tools == nil || string(tools) == "[]")
	return f.with(&c, nil), plain && !input.wrong && !instructions.wrong
}

// anthropicAsChat rewrites a request of Anthropic's messages API:
//
//	{"system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":"hi"}],
//	 "tools":[{"name":"ls","description":"lists","input_schema":{"type":"object"}}]}
func (f *promptFields) anthropicAsChat() (*promptFields, bool) {
	var c chat
	if value := f.values[fieldSystem]; value != nil {
		system := readerOf(value)
		texts := system.texts()
		if value.Kind() == '[' {
			texts = slices.DeleteFunc(texts, isBilling)
		}
		if c.system = bytes.Join(texts, nil); system.wrong {
			return nil, false
		}
	}
	messages := readerOf(f.values[fieldMessages])
	messages.array(func() { c.readMessage(messages) })
	tools, ok := functionTools(f.values[fieldTools])
	return f.with(&c, tools), ok && !messages.wrong
}

// with returns the fields of a chat with what of f its prompt depends on too.
func (f *promptFields) with(c *chat, tools jsontext.Value) *promptFields {
	g := new(promptFields)
	g.values[fieldMessages], g.values[fieldTools] = c.messages(), tools
	g.values[fieldChatTemplateKwargs] = f.values[fieldChatTemplateKwargs]
	return g
}

// chat is a chat of texts. A text is what stands between the quotes of a JSON
// string, escapes included: texts can be joined as they are.
type chat struct {
	system []byte
	turns  []turn
}

type turn struct {
	role  string
	texts [][]byte
}

// isBilling reports whether a text of a system prompt is what Claude Code says of
// itself in each request. It is another one each time, and vLLM leaves it out.
func isBilling(text []byte) bool { return bytes.HasPrefix(text, []byte("x-anthropic-billing-header")) }

// readMessage reads one of Anthropic's messages.
func (c *chat) readMessage(r *valueReader) {
	var role []byte
	var texts [][]byte
	r.object(func(name string) {
		switch name {
		case "role":
			role = r.text()
		case "content":
			texts = r.texts()
		default:
			r.skip()
		}
	})
	r.wrong = r.wrong || !c.add(string(role), texts)
}

// add adds a message. False if its role is not known, or it cannot be placed.
func (c *chat) add(role string, texts [][]byte) bool {
	switch role {
	case "user", "assistant":
	case "ctx", "msg": // Claude Code's, beside Anthropic's own
		role = "user"
	case "system":
		return c.fold(bytes.Join(slices.DeleteFunc(texts, isBilling), nil))
	default:
		return false
	}
	if len(texts) == 0 { // nothing of a user's message without text gets into the prompt
		return role == "user"
	}
	c.turns = append(c.turns, turn{role, texts})
	return true
}

// fold adds what a system message among the others says to what comes before it:
// few templates have room for one. Where a worker places it otherwise, what comes
// before is the same nevertheless.
func (c *chat) fold(text []byte) bool {
	last := len(c.turns) - 1
	switch {
	case len(text) == 0:
	case last < 0:
		c.system = paragraphs(c.system, text)
	case c.turns[last].role == "user":
		texts := c.turns[last].texts
		texts[len(texts)-1] = paragraphs(texts[len(texts)-1], text)
	default:
		return false
	}
	return true
}

func paragraphs(a, b []byte) []byte {
	if len(a) == 0 {
		return b
	}
	return bytes.Join([][]byte{a, b}, []byte(`\n\n`))
}

// messages writes the chat as a chat completion has it.
func (c *chat) messages() jsontext.Value {
	b := []byte{'['}
	if len(c.system) > 0 {
		b = appendMessage(b, "system", [][]byte{c.system})
	}
	for _, t := range c.turns {
		b = appendMessage(b, t.role, t.texts)
	}
	return append(b, ']')
}

func appendMessage(b []byte, role string, texts [][]byte) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(append(append(b, `{"role":"`...), role...), `","content":`...)
	if len(texts) == 1 {
		return append(appendText(b, texts[0]), '}')
	}
	for i, text := range texts {
		b = append(b, "[,"[min(i, 1)])
		b = append(appendText(append(b, `{"type":"text","text":`...), text), '}')
	}
	return append(b, `]}`...)
}

func appendText(b, text []byte) []byte {
	return append(append(append(b, '"'), text...), '"')
}
