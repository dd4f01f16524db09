package routing

import (
	"bytes"
	"errors"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// promptField is a field of a body that says what its prompt is, or how a chat
// template makes it.
type promptField uint8

const (
	fieldPrompt promptField = iota
	fieldMessages
	fieldSystem             // Anthropic's: not part of the messages
	fieldInput              // of OpenAI's responses, and of embeddings
	fieldInstructions       // of OpenAI's responses
	fieldPreviousResponseID // likewise: what it goes on from is kept elsewhere
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
	"prompt", "messages", "system", "input", "instructions", "previous_response_id", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens",
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
	tokens := make([]uint32, 0, 1+bytes.Count(array, []byte{','}))
	// The syntax is known to be right: what is no digit can only be white space, a
	// comma, the closing bracket, or part of something that is no token id.
	id, digits := uint64(0), 0
	for _, c := range array[1:] {
		if digit := c - '0'; digit <= 9 {
			id = id*10 + uint64(digit)
			if digits++; id > math.MaxUint32 {
				return nil, errNoTokenIDs
			}
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n':
		case ',', ']':
			if digits == 0 {
				return nil, errNoTokenIDs
			}
			tokens = append(tokens, uint32(id))
			id, digits = 0, 0
		default:
			return nil, errNoTokenIDs
		}
	}
	return tokens, nil
}

// tokenData returns nvext.token_data, nil if there is none, and whether it is there
// twice.
func (f *promptFields) tokenData() (data jsontext.Value, twice bool) {
	ext := f.values[fieldNVExt]
	if ext == nil {
		return nil, false
	}
	r := readerOf(ext)
	r.object(func(name string) {
		if value := r.raw(); name == "token_data" {
			data, twice = value, data != nil
		}
	})
	return data, twice
}
