package simworker

import (
	"bytes"
	"encoding/json"
	"errors"
)

// message is one entry of a chat request's messages.
//
//	{"role":"user","content":"hello"}
//	{"role":"user","content":[{"type":"text","text":"hello"}]}
type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// contentPart is one entry of a message content that is a list.
type contentPart struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

var errContent = errors.New("content must be a string or a list of parts")

// renderChat applies the chat template:
//
//	<|begin|> [<|tools|> JSON <|end|>] (<|role|> content [<|calls|> JSON] <|end|>)* [<|assistant|>]
//
// The marks are tokens of their own, and contents are tokenized apart from one
// another. Invariant: with a generation prompt, the tokens followed by those
// of a reply begin the tokens of any conversation that goes on from there with
// the reply as the assistant's content.
func renderChat(messages []message, tools json.RawMessage, generationPrompt bool, limit int) ([]token, error) {
	tokens := []token{markBegin}
	var err error
	if isSet(tools) {
		if tokens, err = appendJSON(append(tokens, markTools), tools, limit); err != nil {
			return nil, err
		}
		tokens = append(tokens, markEnd)
	}
	for i := range messages {
		if tokens, err = appendMessage(tokens, &messages[i], limit); err != nil {
			return nil, err
		}
	}
	if generationPrompt {
		tokens = append(tokens, markAssistant)
	}
	if len(tokens) > limit {
		return nil, errTooManyTokens
	}
	return tokens, nil
}

func appendMessage(tokens []token, m *message, limit int) ([]token, error) {
	mark := roleMark(m.Role)
	tokens = append(tokens, mark)
	var err error
	if mark == markOther {
		if tokens, err = appendText(tokens, m.Role, limit); err != nil {
			return nil, err
		}
		tokens = append(tokens, markOther)
	}
	if tokens, err = appendContent(tokens, m.Content, limit); err != nil {
		return nil, err
	}
	if isSet(m.ToolCalls) {
		if tokens, err = appendJSON(append(tokens, markCalls), m.ToolCalls, limit); err != nil {
			return nil, err
		}
	}
	return append(tokens, markEnd), nil
}

func roleMark(role string) token {
	switch role {
	case "system":
		return markSystem
	case "developer":
		return markDeveloper
	case "user":
		return markUser
	case "assistant":
		return markAssistant
	case "tool":
		return markTool
	}
	return markOther
}

// appendContent tokenizes a content: a string, a list of parts, or nothing.
// Parts that are not text (images) count as their JSON.
func appendContent(tokens []token, content json.RawMessage, limit int) ([]token, error) {
	if !isSet(content) {
		return tokens, nil
	}
	if content[0] == '"' {
		var text string
		if err := json.Unmarshal(content, &text); err != nil {
			return nil, errContent
		}
		return appendText(tokens, text, limit)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, errContent
	}
	for _, raw := range parts {
		var part contentPart
		if err := json.Unmarshal(raw, &part); err != nil {
			return nil, errContent
		}
		var err error
		if part.Type == "text" && part.Text != nil {
			tokens, err = appendText(tokens, *part.Text, limit)
		} else {
			tokens, err = appendJSON(tokens, raw, limit)
		}
		if err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// appendJSON tokenizes a JSON value without its insignificant white space, so
// that a client which formats it anew does not change the prompt.
func appendJSON(tokens []token, raw json.RawMessage, limit int) ([]token, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	return appendText(tokens, compact.String(), limit)
}

// isSet reports whether an optional JSON field is there and not null.
func isSet(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null"
}
