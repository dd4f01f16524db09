package simworker

import (
	"net/http"
	"strings"
)

// tokenizeLimit bounds what /tokenize gives back, in tokens. vLLM has no such
// limit, not even the context length.
const tokenizeLimit = 1 << 20

// tokenizeAnswer is the answer of /tokenize:
//
//	{"count":2,"max_model_len":65536,"tokens":[23619183,19563631]}
type tokenizeAnswer struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []token  `json:"tokens"`
	TokenStrs   []string `json:"token_strs,omitempty"`
}

// tokenize answers POST /tokenize for {"prompt":".."} or {"messages":[..]},
// with the tokens that a completion of the same body computes with.
func (w *Worker) tokenize(rw http.ResponseWriter, r *http.Request) error {
	f, err := w.readObject(rw, r)
	if err != nil {
		return err
	}
	tokens, err := decodeTokenize(f)
	if err != nil {
		return err
	}
	var texts bool
	if err := decodeField(f, "return_token_strs", &texts); err != nil {
		return err
	}
	out := tokenizeAnswer{Count: len(tokens), MaxModelLen: w.cfg.maxModelLen(), Tokens: tokens}
	for i := 0; texts && i < len(tokens); i++ {
		text, _ := tokenText(tokens[i])
		out.TokenStrs = append(out.TokenStrs, strings.ToValidUTF8(text, "\ufffd"))
	}
	writeJSON(rw, http.StatusOK, out)
	return nil
}

// readObject reads a body that is a JSON object with a model that exists.
func (w *Worker) readObject(rw http.ResponseWriter, r *http.Request) (fields, error) {
	body, err := w.readBody(rw, r)
	if err != nil {
		return nil, err
	}
	f, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	var model string
	if err := decodeField(f, "model", &model); err != nil {
		return nil, err
	}
	_, _, err = w.resolveModel(model)
	return f, err
}

// decodeTokenize reads the two forms of a tokenize request. An empty prompt
// has no tokens, and that is no error.
func decodeTokenize(f fields) ([]token, error) {
	if isSet(f["messages"]) {
		generationPrompt := true
		if err := decodeField(f, "add_generation_prompt", &generationPrompt); err != nil {
			return nil, err
		}
		return decodeMessages(f, generationPrompt, tokenizeLimit)
	}
	if !isSet(f["prompt"]) {
		return nil, badRequest("prompt or messages is missing")
	}
	var prompt string
	if err := decodeField(f, "prompt", &prompt); err != nil {
		return nil, err
	}
	tokens, err := appendText([]token{}, prompt, tokenizeLimit)
	if err != nil {
		return nil, promptError("prompt", err, tokenizeLimit)
	}
	return tokens, nil
}

// detokenize answers POST /detokenize: {"tokens":[..]} becomes {"prompt":".."}.
func (w *Worker) detokenize(rw http.ResponseWriter, r *http.Request) error {
	f, err := w.readObject(rw, r)
	if err != nil {
		return err
	}
	if !isSet(f["tokens"]) {
		return badRequest("tokens is missing")
	}
	tokens, err := decodeTokens(f["tokens"], tokenizeLimit)
	if err != nil {
		return promptError("tokens", err, tokenizeLimit)
	}
	text, unknown, ok := tokensText(tokens)
	if !ok {
		return badRequest("tokens: %d is not in the vocabulary", unknown)
	}
	writeJSON(rw, http.StatusOK, map[string]string{"prompt": text})
	return nil
}
