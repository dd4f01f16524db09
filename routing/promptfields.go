package routing

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// promptField is a field of a body that says what its prompt is, or how a chat
// template makes it.
type promptField uint8

const (
	fieldPrompt promptField = iota
	fieldMessages
	fieldSystem // Anthropic's: not part of the messages
	fieldTools
	fieldAddGenerationPrompt
	fieldContinueFinalMessage
	fieldAddSpecialTokens
	fieldChatTemplate
	fieldChatTemplateKwargs
	fieldMMProcessorKwargs
	fieldCacheSalt
	fieldNVExt // NVIDIA's extension: {"token_data":[1,2,3]}
	promptFieldCount
)

var promptFieldNames = [promptFieldCount]string{
	"prompt", "messages", "system", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens",
	"chat_template", "chat_template_kwargs", "mm_processor_kwargs", "cache_salt", "nvext",
}

func promptFieldNamed(name []byte) (promptField, bool) {
	for field, known := range promptFieldNames {
		if string(name) == known {
			return promptField(field), true
		}
	}
	return 0, false
}

// promptFields are the fields of one body that its prompt is made of, as they
// stand in it. They are parts of the body and end with it.
type promptFields struct {
	values [promptFieldCount]jsontext.Value // nil: not there, or null
	twice  bool                             // one of them is there twice: which counts is up to the reader
}

func (f *promptFields) set(field promptField, value jsontext.Value) {
	if f.values[field] != nil {
		f.twice = true
	}
	if string(value) != "null" {
		f.values[field] = value
	}
}

func (f *promptFields) has(field promptField) bool { return f.values[field] != nil }

// text returns the string of a field; "" if it is not there. False if it is
// something else, or too long to name anything.
func (f *promptFields) text(field promptField) (string, bool) {
	value := f.values[field]
	switch {
	case value == nil:
		return "", true
	case value.Kind() != '"', len(value) > len(`""`)+6*maxNameBytes:
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

var errNoTokenIDs = errors.New("not an array of token ids")

// tokenIDs reads an array of token ids, which is checked JSON. The error is
// errNoTokenIDs if it holds anything else, or nothing.
func tokenIDs(array jsontext.Value) ([]uint32, error) {
	if array.Kind() != '[' {
		return nil, errNoTokenIDs
	}
	tokens := make([]uint32, 0, len(array)/6)
	for rest := array[1:]; ; {
		i := 0
		for i < len(rest) && isSpace(rest[i]) {
			i++
		}
		rest = rest[i:]
		n := 0
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		id, err := strconv.ParseUint(string(rest[:n]), 10, 32)
		if err != nil {
			return nil, errNoTokenIDs
		}
		tokens = append(tokens, uint32(id))
		for rest = rest[n:]; len(rest) > 0 && isSpace(rest[0]); {
			rest = rest[1:]
		}
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) > 0 && rest[0] == ']':
			return tokens, nil
		default:
			return nil, errNoTokenIDs
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// tokenData returns nvext.token_data; nil if there is none.
func (f *promptFields) tokenData() jsontext.Value {
	ext := f.values[fieldNVExt]
	if ext == nil || ext.Kind() != '{' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(ext), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		if wanted := name.String() == "token_data"; !wanted {
			err = dec.SkipValue()
		} else if value, err := dec.ReadValue(); err == nil {
			return value
		}
		if err != nil {
			return nil
		}
	}
	return nil
}
