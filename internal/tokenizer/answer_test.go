package tokenizer

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestReadAnswer(t *testing.T) {
	good := []struct {
		text string
		want []uint32
	}{
		{`{"count":2,"max_model_len":9,"tokens":[1,4294967295],"token_strs":null}`, []uint32{1, 4294967295}},
		{`{"tokens":[],"x":{"y":[{"z":"}"}]}}`, []uint32{}},
		{` { "token_strs" : ["a","\u0062"], "tokens" : [ 7 ] } `, []uint32{7}},
	}
	for _, tt := range good {
		got, err := readAnswer(strings.NewReader(tt.text))
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"count":1}`, `{"tokens":null}`, `{"tokens":"1"}`, `{"tokens":[1.5]}`, `{"tokens":[-1]}`, `{"tokens":[1e3]}`,
		`{"tokens":[4294967296]}`, `{"tokens":[1`, `{"tokens":[1]`, `{"tokens":[1,"2"]}`, `{"tokens":[[1]]}`, `{"a":1,"tokens"}`,
		`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,"tokens":[1]}`, `{"tokens":[1],}`,
	} {
		if got, err := readAnswer(strings.NewReader(text)); !errors.Is(err, errMalformed) || got != nil && err == nil {
			t.Errorf("%.40s: %v, %v; want it malformed", text, got, err)
		}
	}
}

func TestReadAnswerBoundsThePrompt(t *testing.T) {
	long := func(n int) string { return `{"tokens":[1` + strings.Repeat(",1", n-1) + `]}` }
	if got, err := readAnswer(strings.NewReader(long(maxTokens))); err != nil || len(got) != maxTokens {
		t.Errorf("at the bound: %d tokens, %v", len(got), err)
	}
	if _, err := readAnswer(strings.NewReader(long(maxTokens + 1))); !errors.Is(err, errMalformed) {
		t.Errorf("above the bound: %v", err)
	}
}

// FuzzReadAnswer compares readAnswer with encoding/json where both read.
func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"count":2,"tokens":[1,2]}`, `{"tokens":[],"token_strs":["a"]}`, `{"tokens":[01]}`, `{"tokens":[1]}x`, `{"tokens":[4294967296]}`, `{"x":[{}],"tokens":[3]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readAnswer(strings.NewReader(string(text)))
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("%q: %v, which is not of the answer", text, err)
			}
			return
		}
		var want struct {
			Tokens []uint32 `json:"tokens"`
		}
		if json.NewDecoder(strings.NewReader(string(text))).Decode(&want) == nil && want.Tokens != nil && !slices.Equal(got, want.Tokens) {
			t.Errorf("%q: %v, encoding/json reads %v", text, got, want.Tokens)
		}
	})
}
