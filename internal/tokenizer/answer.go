package tokenizer

import (
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxTokens bounds a prompt, in tokens.
	maxTokens = 1 << 20
	// maxNesting bounds arrays and objects in an answer.
	maxNesting = 32
)

var errMalformed = errors.New("not an answer of /tokenize")

// readAnswer reads the tokens out of an answer, of which all else is skipped:
//
//	{"count":2,"max_model_len":65536,"tokens":[23619183,19563631],"token_strs":null}
//
// The error is errMalformed or that of r. It quotes nothing of the answer.
func readAnswer(r io.Reader) ([]uint32, error) {
	dec := jsontext.NewDecoder(r, jsontext.AllowInvalidUTF8(true))
	if err := expect(dec, '{'); err != nil {
		return nil, err
	}
	var tokens []uint32
	found := false
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, malformed(err)
		}
		if name.String() != "tokens" {
			err = skip(dec)
		} else {
			found = true
			tokens, err = readTokens(dec)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := expect(dec, '}'); err != nil {
		return nil, err
	}
	if !found {
		return nil, errMalformed
	}
	return tokens, nil
}

// readTokens reads an array of token ids.
func readTokens(dec *jsontext.Decoder) ([]uint32, error) {
	if err := expect(dec, '['); err != nil {
		return nil, err
	}
	tokens := make([]uint32, 0, 256)
	for dec.PeekKind() == '0' {
		literal, err := dec.ReadValue()
		if err != nil {
			return nil, malformed(err)
		}
		id, err := strconv.ParseUint(string(literal), 10, 32)
		if err != nil || len(tokens) == maxTokens {
			return nil, errMalformed
		}
		tokens = append(tokens, uint32(id))
	}
	return tokens, expect(dec, ']')
}

// expect reads one bracket.
func expect(dec *jsontext.Decoder, kind jsontext.Kind) error {
	t, err := dec.ReadToken()
	switch {
	case err != nil:
		return malformed(err)
	case t.Kind() != kind:
		return errMalformed
	default:
		return nil
	}
}

// skip passes over one value without recursion.
func skip(dec *jsontext.Decoder) error {
	outside := dec.StackDepth()
	for {
		if _, err := dec.ReadToken(); err != nil {
			return malformed(err)
		}
		switch depth := dec.StackDepth(); {
		case depth > outside+maxNesting:
			return errMalformed
		case depth == outside:
			return nil
		}
	}
}

// malformed keeps the error of the reader and drops the decoder's, which may
// quote the answer.
func malformed(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errMalformed
	}
	return err
}
