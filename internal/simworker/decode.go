package simworker

import (
	"encoding/json"
	"errors"
	"fmt"
)

// fields are the members of a JSON object. Names match exactly, and of two
// with one name the last counts, as in Python.
type fields map[string]json.RawMessage

// decodeObject reads a body that must be one JSON object.
func decodeObject(body []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			return nil, badRequest("the request body must be a JSON object, not a JSON %s", wrongType.Value)
		}
		return nil, badRequest("the request body is not valid JSON: %v", err)
	}
	if f == nil {
		return nil, badRequest("the request body must be a JSON object, not null")
	}
	return f, nil
}

// decodeField reads an optional member; null counts as absent.
func decodeField[T any](f fields, name string, into *T) error {
	raw := f[name]
	if !isSet(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		var wrongType *json.UnmarshalTypeError
		if errors.As(err, &wrongType) {
			return badRequest("%s: a JSON %s is not possible here", name, wrongType.Value)
		}
		return badRequest("%s: %v", name, err)
	}
	return nil
}

// completion is a decoded request for a chat or text completion.
type completion struct {
	model        string // "" is the primary model
	prompt       []token
	maxTokens    int  // 0: the worker's default
	stream       bool // server-sent events
	includeUsage bool // a last event with the usage
	salt         string
}

// decodeChat reads a chat completion request and applies the chat template.
// Prompts of more than limit tokens are refused.
func decodeChat(body []byte, limit int) (completion, error) {
	var c completion
	f, err := decodeObject(body)
	if err != nil {
		return c, err
	}
	if c, err = decodeCommon(f, "max_tokens", "max_completion_tokens"); err != nil {
		return c, err
	}
	c.prompt, err = decodeMessages(f, true, limit)
	return c, err
}

// decodeText reads a text completion request.
func decodeText(body []byte, limit int) (completion, error) {
	var c completion
	f, err := decodeObject(body)
	if err != nil {
		return c, err
	}
	if c, err = decodeCommon(f, "max_tokens"); err != nil {
		return c, err
	}
	if !isSet(f["prompt"]) {
		return c, badRequest("prompt is missing")
	}
	prompts, err := decodeInputs("prompt", f["prompt"], 1, limit)
	if err != nil {
		return c, err
	}
	c.prompt = prompts[0]
	return c, nil
}

// decodeCommon reads what both kinds of completion have. Of the names for the
// number of tokens the last that is set counts.
func decodeCommon(f fields, maxTokensNames ...string) (completion, error) {
	var c completion
	var options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	n := 1
	err := errors.Join(
		decodeField(f, "model", &c.model),
		decodeField(f, "stream", &c.stream),
		decodeField(f, "stream_options", &options),
		decodeField(f, "cache_salt", &c.salt),
		decodeField(f, "n", &n),
	)
	if err != nil {
		return c, firstOf(err)
	}
	if n != 1 {
		return c, badRequest("n: this worker gives one choice only")
	}
	for _, name := range maxTokensNames {
		if !isSet(f[name]) {
			continue
		}
		if err := decodeField(f, name, &c.maxTokens); err != nil {
			return c, err
		}
		if c.maxTokens < 1 {
			return c, badRequest("%s must be at least 1, got %d", name, c.maxTokens)
		}
	}
	c.includeUsage = c.stream && options.IncludeUsage
	return c, nil
}

// firstOf returns the first of joined errors: a client gets one at a time.
func firstOf(err error) error {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return err
}

// decodeMessages reads messages and tools and applies the chat template.
func decodeMessages(f fields, generationPrompt bool, limit int) ([]token, error) {
	var messages []message
	if err := decodeField(f, "messages", &messages); err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, badRequest("messages is missing or empty")
	}
	for i := range messages {
		if messages[i].Role == "" {
			return nil, badRequest("messages[%d].role is missing", i)
		}
	}
	tokens, err := renderChat(messages, f["tools"], generationPrompt, limit)
	if err != nil {
		return nil, promptError("messages", err, limit)
	}
	return tokens, nil
}

// decodeInputs reads a prompt or an embedding input in any of OpenAI's four
// forms: a string, a list of strings, a list of token ids, a list of such
// lists. Each of the results has at least one token, all together at most
// limit.
func decodeInputs(name string, raw json.RawMessage, most, limit int) ([][]token, error) {
	single, err := decodeInput(raw, limit)
	if err == nil {
		return [][]token{single}, nil
	}
	if !errors.Is(err, errInputKind) {
		return nil, promptError(name, err, limit)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil || len(items) == 0 {
		return nil, promptError(name, errInputKind, limit)
	}
	if len(items) > most {
		return nil, badRequest("%s: at most %d in one request", name, most)
	}
	out := make([][]token, len(items))
	for i, item := range items {
		if out[i], err = decodeInput(item, limit); err != nil {
			return nil, promptError(name, err, limit)
		}
		limit -= len(out[i])
	}
	return out, nil
}

var (
	errInputKind  = errors.New("must be a string, a list of token ids, or a list of those")
	errInputEmpty = errors.New("must not be empty")
	errTokenRange = fmt.Errorf("token ids must be 0 to %d", maxToken)
)

// decodeInput reads a string or a list of token ids.
func decodeInput(raw json.RawMessage, limit int) ([]token, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, errInputKind
		}
		if text == "" {
			return nil, errInputEmpty
		}
		return appendText(nil, text, limit)
	}
	return decodeTokens(raw, limit)
}

// decodeTokens reads a list of token ids.
func decodeTokens(raw json.RawMessage, limit int) ([]token, error) {
	var ids []int64
	if err := json.Unmarshal(raw, &ids); err != nil {
		return nil, errInputKind
	}
	if len(ids) == 0 {
		return nil, errInputEmpty
	}
	if len(ids) > limit {
		return nil, errTooManyTokens
	}
	tokens := make([]token, len(ids))
	for i, id := range ids {
		if id < 0 || id > maxToken {
			return nil, errTokenRange
		}
		tokens[i] = token(id)
	}
	return tokens, nil
}

// promptError says what is wrong with a prompt.
func promptError(name string, err error, limit int) error {
	if errors.Is(err, errTooManyTokens) {
		return badRequest("%s: more than %d tokens", name, limit)
	}
	return badRequest("%s: %v", name, err)
}
