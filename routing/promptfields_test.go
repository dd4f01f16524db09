package routing

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestPromptFieldsAreFound(t *testing.T) {
	body := []byte(" {\n\"model\":\"m\" , \"prompt\" :\t[1, 2 ,3] ,\"x\":{\"prompt\":7}, \"mess\\u0061ges\":null,\"tools\":[ {} ]\n,\"cache_salt\":\"a\\u0062\"}")
	var f promptFields
	fields, err := readBody(body, &f)
	if err != nil || fields.Model != "m" {
		t.Fatalf("%+v, %v", fields, err)
	}
	for field, want := range map[promptField]string{fieldPrompt: "[1, 2 ,3]", fieldTools: "[ {} ]", fieldMessages: "", fieldSystem: ""} {
		if got := string(f.values[field]); got != want {
			t.Errorf("%s is %q, want %q", promptFieldNames[field], got, want)
		}
	}
	if salt, ok := f.text(fieldCacheSalt); salt != "ab" || !ok || f.twice {
		t.Errorf("salt %q, %v, twice %v", salt, ok, f.twice)
	}
	if tokens, err := tokenIDs(f.values[fieldPrompt]); err != nil || !slices.Equal(tokens, []uint32{1, 2, 3}) {
		t.Errorf("tokens %v, %v", tokens, err)
	}
}

func TestTokenData(t *testing.T) {
	for ext, want := range map[string]string{
		`{"token_data":[1]}`: `[1]`, `{"a":{"token_data":[2]},"token_data" : [ 3 ] }`: `[ 3 ]`,
		`{}`: ``, `[]`: ``, `{"Token_data":[1]}`: ``, `"token_data"`: ``, `{"token_dat\u0061":[4]}`: `[4]`,
	} {
		var f promptFields
		f.set(fieldNVExt, []byte(ext))
		if got, twice := f.tokenData(); string(got) != want || twice {
			t.Errorf("%s: %q, twice %v; want %q once", ext, got, twice, want)
		}
	}
	var f promptFields
	f.set(fieldNVExt, []byte(`{"token_data":[1],"token_dat\u0061":[9]}`))
	if _, twice := f.tokenData(); !twice {
		t.Error("the second is not noticed")
	}
}

// FuzzPromptFields compares what is read of a prompt with encoding/json.
func FuzzPromptFields(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":[1,2,3],"cache_salt":"s"}`, `{"nvext":{"token_data":[4294967295]}}`, `{"prompt":[]}`, `{"prompt":[1,-1]}`, `{"prompt":[1.0]}`,
		`{"prompt":[1],"prompt":null}`, `{"messages":[{"role":"user"}],"tools":[]}`, `{"prompt":[ 1 , 2 ] }`, `{"prompt":[1e2]}`, `{"prompt":[01]}`,
		`{"system":1,"nvext":{"a":{"b":[]},"token_data":[[1]]}}`, `{"prompt":[1,"2"]}`, `{"nvext":{"token_data":[1],"token_data":[2]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fields promptFields
		if _, err := readBody(body, &fields); err != nil {
			return
		}
		var plain map[string]json.RawMessage
		if json.Unmarshal(body, &plain) != nil || fields.twice || strings.ContainsRune(string(body), '�') {
			return
		}
		for field, name := range promptFieldNames {
			want := string(plain[name])
			if want == "null" {
				want = ""
			}
			if got := string(fields.values[field]); got != want {
				t.Fatalf("%q: %s is %q, encoding/json reads %q", body, name, got, want)
			}
		}
		compareIDs(t, fields.values[fieldPrompt])
		data, _ := fields.tokenData()
		compareIDs(t, data)
		if asked, ok := fields.tokenizable(); ok && !json.Valid(fields.tokenizeRequest("m\"\xff", asked)) {
			t.Fatalf("%q: asks for %q", body, fields.tokenizeRequest("m", asked))
		}
	})
}

func compareIDs(t *testing.T, value []byte) {
	if value == nil {
		return
	}
	got, err := tokenIDs(value)
	var want []uint32
	ok := json.Unmarshal(value, &want) == nil && len(want) > 0 && !strings.Contains(string(value), "null")
	if (err == nil) != ok || ok && !slices.Equal(got, want) {
		t.Fatalf("%q: %v, %v; encoding/json reads %v, %v", value, got, err, want, ok)
	}
}
