package routing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReadBodyFindsTheModel(t *testing.T) {
	longest := strings.Repeat("m", maxNameBytes)
	tests := []struct {
		name, body, model string
	}{
		{"chat, text content", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "m"},
		{"chat, content parts", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:,"}}]}]}`, "m"},
		{"chat, null content beside tool calls", `{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"model\":\"x\"}"}}]}]}`, "m"},
		{"chat, number content", `{"model":"m","messages":[{"role":"user","content":7}]}`, "m"},
		{"completion, text", `{"model":"m","prompt":"hi"}`, "m"},
		{"completion, texts", `{"model":"m","prompt":["hi","ho"]}`, "m"},
		{"completion, tokens", `{"model":"m","prompt":[1,2,3]}`, "m"},
		{"embeddings", `{"model":"m","input":["a"]}`, "m"},
		{"responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, "m"},
		{"anthropic", `{"model":"m","max_tokens":1,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[]}`, "m"},
		{"model last", `{"messages":[],"stream":true,"model":"org/m:1"}`, "org/m:1"},
		{"model missing", `{"prompt":"hi"}`, ""},
		{"model null", `{"model":null}`, ""},
		{"model empty", `{"model":""}`, ""},
		{"model in another case", `{"Model":"x","MODEL":"y"}`, ""},
		{"model beside its other cases", `{"Model":"x","model":"m","MODEL":"y"}`, "m"},
		{"model further inside only", `{"metadata":{"model":"x"},"list":[{"model":"y"}]}`, ""},
		{"model further inside, too", `{"metadata":{"model":"x"},"model":"m","z":{"model":"y"}}`, "m"},
		{"name with escapes", `{"m\u006fd\u0065l":"m"}`, "m"},
		{"name all escapes", `{"\u006d\u006f\u0064\u0065\u006c":"m"}`, "m"},
		{"name with a longer escaped tail", `{"model` + strings.Repeat(`\u0065`, 40) + `":"x","model":"m"}`, "m"},
		{"name that is not Unicode", "{\"model\xff\":\"x\",\"mod\\ud800el\":\"y\",\"model\":\"m\"}", "m"},
		{"value with escapes", `{"model":"\u006d\"\\\ud83d\ude00\u00fc"}`, "m\"\\\U0001F600ü"},
		{"value as long as may be", `{"model":"` + longest + `"}`, longest},
		{"value as long as may be, escaped", `{"model":"` + strings.Repeat(`\u006d`, maxNameBytes) + `"}`, longest},
		{"replacement character written out", `{"model":"\ufffd` + "\ufffd" + `"}`, "\ufffd\ufffd"},
		{"other names repeated", `{"model":"m","user":"a","user":"b","x":{"model":"x","model":"y"}}`, "m"},
		{"numbers beyond float64", `{"seed":9007199254740993,"x":1e400,"y":-0.1E-999,"model":"m"}`, "m"},
		{"keys unsorted, text that looks like markup", `{"b":1,"a":"<b>&\u0000","model":"m"}`, "m"},
		{"half a surrogate pair in a prompt", `{"prompt":"cut \ud83d","model":"m"}`, "m"},
		{"a prompt that is not UTF-8", "{\"prompt\":\"\xff\xfe\",\"model\":\"m\"}", "m"},
		{"white space everywhere", " \r\n\t{ \"model\" :\n\"m\" , \"a\" : [ ] }\n ", "m"},
		{"byte order mark", "\xef\xbb\xbf" + `{"model":"m"}`, "m"},
		{"as deep as may be", `{"a":` + nested(maxNesting-1) + `,"model":"m"}`, "m"},
		{"empty object", `{}`, ""},
		{"no body", ``, ""},
		{"only white space", " \r\n\t", ""},
		{"only a byte order mark", "\xef\xbb\xbf", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			got, err := readBody(body, nil)
			if want := (bodyFields{Model: tt.model, ModelSet: tt.model != ""}); err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
			if string(body) != tt.body {
				t.Errorf("the body was changed into %q", body)
			}
		})
	}
}

func TestReadBodyRefuses(t *testing.T) {
	tests := []struct {
		name, body, want string
	}{
		{"ends after a name", `{"model": `, "body is not valid JSON: it ends too early, at byte offset 10"},
		{"ends in a string", `{"model":"a`, "body is not valid JSON: it ends too early, at byte offset 11"},
		{"ends in an array", `{"a":[1,`, "body is not valid JSON: it ends too early, at byte offset 8"},
		{"ends in a literal", `{"a":tru`, "body is not valid JSON: it ends too early, at byte offset 8"},
		{"ends before its brace", `{"model":"a"`, "body is not valid JSON: it ends too early, at byte offset 12"},
		{"only a brace", "\xef\xbb\xbf{", "body is not valid JSON: it ends too early, at byte offset 4"},
		{"null", `null`, "body must be a JSON object, not null"},
		{"boolean", ` true`, "body must be a JSON object, not a boolean"},
		{"number", `-1`, "body must be a JSON object, not a number"},
		{"string", `"model"`, "body must be a JSON object, not a string"},
		{"array", `[]`, "body must be a JSON object, not an array"},
		{"10,001 arrays", nested(10001), "body must be a JSON object, not an array"},
		{"200,000 brackets", strings.Repeat("[", 200000), "body must be a JSON object, not an array"},
		{"a multipart form", "--x\r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n--x--", "body is not JSON: a JSON object is needed"},
		{"a form", "model=m", "body is not JSON: a JSON object is needed"},
		{"two numbers", "1 2", "body is not JSON: a JSON object is needed"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "body is not JSON: a JSON object is needed"},
		{"NUL bytes", "\x00\x00\x00", "body is not JSON: a JSON object is needed"},
		{"NUL bytes afterwards", "{}\x00", "body goes on after its JSON object, which ends at byte offset 2"},
		{"text afterwards", `{"model":"a"} secret`, "body goes on after its JSON object, which ends at byte offset 13"},
		{"another brace", `{"model":"a"}}`, "body goes on after its JSON object, which ends at byte offset 13"},
		{"another object", `{"model":"a"}{}`, "body goes on after its JSON object, which ends at byte offset 13"},
		{"one level too deep", `{"a":` + nested(maxNesting) + `}`, "body nests arrays and objects more than 512 deep at byte offset 516"},
		{"10,001 arrays in an object", `{"a":` + nested(10001) + `}`, "body nests arrays and objects more than 512 deep at byte offset 516"},
		{"200,000 objects", strings.Repeat(`{"a":`, 200000), "body nests arrays and objects more than 512 deep at byte offset 2560"},
		{"200,000 arrays in the model", `{"model":` + nested(200000) + `}`, "model at byte offset 9 must be a string, not an array"},
		{"model twice", `{"model":"a","model":"a"}`, `body has a second "model" at byte offset 13: it may be there once`},
		{"model twice, null first", `{"model":null,"model":"a"}`, `body has a second "model" at byte offset 14: it may be there once`},
		{"model twice, hidden by an escape", `{"model":"a","mod\u0065l":"b"}`, `body has a second "model" at byte offset 13: it may be there once`},
		{"model twice, after a byte order mark", "\xef\xbb\xbf" + `{"model":"a","model":"a"}`, `body has a second "model" at byte offset 16: it may be there once`},
		{"model a number", `{"model":123}`, "model at byte offset 9 must be a string, not a number"},
		{"model a boolean", `{"model":false}`, "model at byte offset 9 must be a string, not a boolean"},
		{"model an object", `{"model": {"name":"a"}}`, "model at byte offset 10 must be a string, not an object"},
		{"model too long", `{"model":"` + strings.Repeat("m", maxNameBytes+1) + `"}`, "model at byte offset 9 is too long: at most 1024 bytes"},
		{"model far too long", `{"model":"` + strings.Repeat("m", 1<<20) + `"}`, "model at byte offset 9 is too long: at most 1024 bytes"},
		{"model not UTF-8", "{\"model\":\"a\xff\"}", "model at byte offset 9 is not valid Unicode text"},
		{"model with half a surrogate pair", `{"model":"a\ud83d"}`, "model at byte offset 9 is not valid Unicode text"},
		{"comma before a brace", `{"model":"a",}`, "body is not valid JSON at byte offset 12: this comma separates nothing"},
		{"comma before a bracket", `{"a":[1,2,]}`, "body is not valid JSON at byte offset 9: this comma separates nothing"},
		{"wrong bracket", `{"a":[1}`, "body is not valid JSON at byte offset 7: this closing bracket does not fit here; JSON has no comma before one"},
		{"no value", `{"a":}`, "body is not valid JSON at byte offset 5: this closing bracket does not fit here; JSON has no comma before one"},
		{"no colon", `{"a" 1}`, "body is not valid JSON at byte offset 5"},
		{"bare name", `{secret:1}`, "body is not valid JSON at byte offset 1"},
		{"number as a name", `{1:1}`, "body is not valid JSON at byte offset 1"},
		{"leading zero", `{"a":01}`, "body is not valid JSON at byte offset 6"},
		{"NaN", `{"a":NaN}`, "body is not valid JSON at byte offset 5"},
		{"single quotes", `{'model':'secret'}`, "body is not valid JSON at byte offset 1: strings need double quotes"},
		{"comment", `{/*secret*/}`, "body is not valid JSON at byte offset 1: JSON has no comments"},
		{"line break in a string", "{\"prompt\":\"secret\n\"}", "body is not valid JSON at byte offset 17: control character 0x0a is allowed in strings only, and escaped"},
		{"unknown escape", `{"prompt":"secret\x"}`, "body is not valid JSON at byte offset 17: JSON knows no such escape"},
		{"half an escape", `{"model":"\u00"}`, "body is not valid JSON at byte offset 10: JSON knows no such escape"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields, err := readBody([]byte(tt.body), nil)
			var wrong *bodyError
			if !errors.As(err, &wrong) || wrong.Error() != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if fields != (bodyFields{}) {
				t.Errorf("fields of a refused body: %+v", fields)
			}
		})
	}
}

// The pieces in which a body may arrive: their borders mean nothing.
func TestReadBodyOfJoinedPieces(t *testing.T) {
	pieces := []string{"", `{"mod`, "", `el":"m`, "\xc3", "\xbc", `\ud8`, `3d\ude`, `00"`, "", "}", ""}
	got, err := readBody([]byte(strings.Join(pieces, "")), nil)
	if want := (bodyFields{Model: "mü\U0001F600", ModelSet: true}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestReadBodyKeepsNothingOfTheBody(t *testing.T) {
	body := []byte(`{"model":"mine"}`)
	fields, err := readBody(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	clear(body)
	if fields.Model != "mine" {
		t.Errorf("model became %q with the body's buffer", fields.Model)
	}
}

// What reading leaves to the collector must not grow with the body: neither with
// its prompt, its names, nor its depth.
func TestReadBodyGarbageIsFlat(t *testing.T) {
	bodies := map[string]string{
		"chat":        string(chatBody(1 << 20)),
		"names":       `{"model":"m"` + strings.Repeat(`,"other":1`, 100000) + `}`,
		"escapes":     `{"model":"m"` + strings.Repeat(`,"oth\u0065r":1`, 70000) + `}`,
		"inner names": `{"model":"m","a":{"b":1` + strings.Repeat(`,"other":"x"`, 90000) + `}}`,
		"deep":        `{"model":"m"` + strings.Repeat(`,"a":`+nested(maxNesting-1), 1000) + `}`,
		"brackets":    `{"model":"m","a":` + strings.Repeat("[", 1<<20),
	}
	for name, text := range bodies {
		const most = 64 << 10
		body := []byte(text)
		if got := allocated(func() { _, _ = readBody(body, nil) }); got > most {
			t.Errorf("%s: %d bytes of garbage for %d of body, want at most %d", name, got, len(body), most)
		}
	}
}

// FuzzReadBody compares readBody with encoding/json, which reads the same
// language but for what naiveReadBody adds.
func FuzzReadBody(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"model":null,"model":1}`, `{"mod\u0065l":"\ud83d\ude00"}`,
		`{"a":{"model":[1.5e3,-0,true,false,null]},"model":""} `, "\xef\xbb\xbf{}", `[{"model":"a"}]`, "{\"model\":\"\xff\"}", `{"a":"\ud83d"}`,
		`{"a":` + nested(600) + `}`, `{"model":"a"} x`, ` `, `{"a":01}`, "{\"a\":\"\n\"}", `{"model":"` + strings.Repeat("m", 1100) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		got, err := readBody(body, nil)
		if !bytes.Equal(body, before) {
			t.Fatalf("the body was changed from %q to %q", before, body)
		}
		if err != nil {
			var wrong *bodyError
			if !errors.As(err, &wrong) || !utf8.ValidString(err.Error()) || len(err.Error()) > 200 {
				t.Fatalf("error %T %q", err, err)
			}
		}
		want, ok := naiveReadBody(body)
		switch {
		case strings.ContainsRune(want.Model, utf8.RuneError):
			// encoding/json turns what is not Unicode into this character, and
			// so hides whether it was in the body.
			if err == nil && got != want {
				t.Fatalf("%q: got %+v, want %+v or an error", body, got, want)
			}
		case (err == nil) != ok || got != want:
			t.Fatalf("%q: got %+v, %v; want %+v, %v", body, got, err, want, ok)
		}
	})
}

// naiveReadBody does what readBody does by building everything.
func naiveReadBody(body []byte) (fields bodyFields, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if strings.Trim(string(body), " \t\r\n") == "" {
		return bodyFields{}, true
	}
	if !json.Valid(body) || depth(body) > maxNesting {
		return bodyFields{}, false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, _ := dec.Token(); first != json.Delim('{') {
		return bodyFields{}, false
	}
	var models []any
	for dec.More() {
		name, _ := dec.Token()
		var value any
		dec.UseNumber()
		if dec.Decode(&value) != nil {
			return bodyFields{}, false
		}
		if name == "model" {
			models = append(models, value)
		}
	}
	switch {
	case len(models) == 0, len(models) == 1 && models[0] == nil:
		return bodyFields{}, true
	case len(models) > 1:
		return bodyFields{}, false
	}
	model, ok := models[0].(string)
	if !ok || len(model) > maxNameBytes {
		return bodyFields{}, false
	}
	return bodyFields{Model: model, ModelSet: model != ""}, true
}

// depth returns how deep valid JSON nests.
func depth(body []byte) (deepest int) {
	level, dec := 0, json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			level++
			deepest = max(deepest, level)
		case json.Delim('}'), json.Delim(']'):
			level--
		}
	}
}

func BenchmarkReadBody(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 1 << 20} {
		body := chatBody(size)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if fields, err := readBody(body, nil); err != nil || !fields.ModelSet {
					b.Fatal(fields, err)
				}
			}
		})
	}
}

// chatBody returns a chat of about size bytes with its model last. Every twelfth
// byte of a message is an escape or beside one, as in code.
func chatBody(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"messages":[{"role":"system","content":"You are \"terse\"."}`)
	for b.Len() < size-200 {
		text := strings.Repeat(`The quick brown fox, who \"jumps\" over\n the dog. `, min(10, 1+(size-b.Len())/100))
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"text","text":"%s"}]}`, text)
	}
	b.WriteString(`],"temperature":0.7,"stream":true,"model":"llama-70b"}`)
	return b.Bytes()
}

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// allocated returns how many bytes f takes from the heap, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
