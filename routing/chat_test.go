package routing

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// askedFor returns what /tokenize would be asked for a body; "" for nothing.
func askedFor(t *testing.T, body string) string {
	t.Helper()
	var f promptFields
	if _, err := readBody([]byte(body), &f); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	chat, ok := f.asChat()
	if !ok {
		return ""
	}
	fields, ok := chat.tokenizable()
	if !ok {
		return ""
	}
	return strings.TrimPrefix(string(chat.tokenizeRequest("m", fields)), `{"model":"m",`)
}

func TestOtherBodiesAsChats(t *testing.T) {
	hi := `{"role":"user","content":"hi"}`
	for what, tt := range map[string]struct{ body, want string }{
		"a system prompt": {
			`{"system":"be \"brief\"","max_tokens":9,"messages":[` + hi + `]}`,
			`"messages":[{"role":"system","content":"be \"brief\""},` + hi + `],"add_generation_prompt":true}`,
		},
		"blocks": {
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"cache_control":{"type":"ephemeral"},"text":"\u0062","type":"text"},{"type":"text","text":""}]},
			  {"content":[{"type":"text","text":"c"}],"role":"assistant"}, {"role":"user","content":"d"}],
			  "system":[{"type":"text","text":"x-anthropic-billing-header: cch=1f"},{"type":"text","text":"you "},{"type":"text","text":"are"}],"add_generation_prompt":false,"chat_template_kwargs":{"a":1}}`,
			`"messages":[{"role":"system","content":"you are"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"\u0062"}]},` +
				`{"role":"assistant","content":"c"},{"role":"user","content":"d"}],"add_generation_prompt":true,"chat_template_kwargs":{"a":1}}`,
		},
		"tools": {
			`{"messages":[` + hi + `],"tools":[{"name":"ls","description":"lists","input_schema":{"type":"object","properties":{}},"cache_control":{}},
			  {"input_schema":{},"name":"b","type":"custom"}, {"name":"c","input_schema" : { "properties":{"type":1}, "required":[] },"description":null,"defer_loading":false}]}`,
			`"messages":[` + hi + `],"tools":[{"type":"function","function":{"name":"ls","description":"lists","parameters":{"type":"object","properties":{}}}},` +
				`{"type":"function","function":{"name":"b","parameters":{"type":"object"}}},` +
				`{"type":"function","function":{"name":"c","description":null,"parameters":{ "properties":{"type":1}, "required":[] ,"type":"object"}}}],"add_generation_prompt":true}`,
		},
		"system messages": {
			`{"system":"a","messages":[{"role":"system","content":"b"},{"role":"user","content":"c"},{"role":"system","content":[{"type":"text","text":"d"},{"type":"text","text":"e"}]},{"role":"ctx","content":"f"},{"role":"msg","content":[]}]}`,
			`"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"c\n\nde"},{"role":"user","content":"f"}],"add_generation_prompt":true}`,
		},
		"no system prompt after all": {
			`{"system":"","messages":[` + hi + `],"tools":[]}`,
			`"messages":[` + hi + `],"tools":[],"add_generation_prompt":true}`,
		},
		"a response": {
			`{"instructions":"be brief","input":"hi","tools":[],"stream":true}`,
			`"messages":[{"role":"system","content":"be brief"},` + hi + `],"add_generation_prompt":true}`,
		},
		"a chat stays what it is": {
			`{"messages":[{"role":"tool","content":[{"type":"image_url"}]}],"tools":[{"type":"function","function":{"name":"input_schema"}}],"add_generation_prompt":false}`,
			`"messages":[{"role":"tool","content":[{"type":"image_url"}]}],"tools":[{"type":"function","function":{"name":"input_schema"}}],"add_generation_prompt":false}`,
		},

		"an image":                      {body: `{"system":"a","messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`},
		"a tool's result":               {body: `{"system":"a","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}]}`},
		"a tool call":                   {body: `{"system":"a","messages":[{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"ls","input":{}}]}]}`},
		"a silent assistant":            {body: `{"system":"a","messages":[{"role":"assistant","content":[]}]}`},
		"a system message for whom":     {body: `{"system":"a","messages":[{"role":"assistant","content":"b"},{"role":"system","content":"c"}]}`},
		"a role":                        {body: `{"system":"a","messages":[{"role":"root","content":"b"}]}`},
		"a message":                     {body: `{"system":"a","messages":["b"]}`},
		"no messages":                   {body: `{"system":"a","messages":{}}`},
		"no messages at all":            {body: `{"system":"a"}`},
		"a number for a system prompt":  {body: `{"system":7,"messages":[` + hi + `]}`},
		"a block of a number":           {body: `{"system":[7],"messages":[` + hi + `]}`},
		"a tool of the provider":        {body: `{"system":"a","messages":[` + hi + `],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`},
		"a tool without a schema":       {body: `{"system":"a","messages":[` + hi + `],"tools":[{"name":"ls"}]}`},
		"a tool with a text for schema": {body: `{"system":"a","messages":[` + hi + `],"tools":[{"name":"ls","input_schema":"{}"}]}`},
		"a tool that is loaded later":   {body: `{"system":"a","messages":[` + hi + `],"tools":[{"name":"ls","input_schema":{},"defer_loading":true}]}`},
		"tools of both kinds":           {body: `{"messages":[` + hi + `],"tools":[{"name":"ls","input_schema":{}},{"type":"function","function":{}}]}`},
		"a response with items":         {body: `{"instructions":"a","input":[{"role":"user","content":"hi"}]}`},
		"a response with tools":         {body: `{"instructions":"a","input":"hi","tools":[{"type":"function","name":"ls"}]}`},
		"a response that goes on":       {body: `{"instructions":"a","input":"hi","previous_response_id":"r"}`},
		"embeddings":                    {body: `{"input":"hi"}`},
	} {
		if got := askedFor(t, tt.body); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, tt.want)
		}
	}
}

// FuzzAnthropicAsChat compares the rewriting with a plain one over decoded JSON.
func FuzzAnthropicAsChat(f *testing.F) {
	for _, seed := range []string{
		`{"system":"a","messages":[{"role":"user","content":"b"}]}`,
		`{"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":""}]}]}`,
		`{"system":"","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"system","content":[{"type":"text","text":"c"}]}]}`,
		`{"system":"a","messages":[],"tools":[{"name":"b","description":"c","input_schema":{"a":[1,{}]}},{"name":"d","input_schema":{"type":1}}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header"}],"messages":[{"role":"ctx","content":"a"},{"role":"assistant","content":"b"}]}`,
		`{"system":"a","messages":[{"role":"user","content":[{"type":"tool_result"}]}],"tools":[{"type":"x"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fields promptFields
		if _, err := readBody(body, &fields); err != nil || !fields.has(fieldSystem) || !fields.has(fieldMessages) || fields.has(fieldInput) {
			return
		}
		var plain map[string]any
		if !jsontext.Value(body).IsValid() || strings.Contains(string(body), `\u`) || json.Unmarshal(body, &plain) != nil {
			return // names twice, or escaped: those are for the workers to judge
		}
		chat, ok := fields.asChat()
		messages, tools, plainOK := plainChat(plain)
		if ok != plainOK {
			t.Fatalf("%s: known %v, plainly %v", body, ok, plainOK)
		}
		if !ok {
			return
		}
		for value, want := range map[*[]byte]any{(*[]byte)(&chat.values[fieldMessages]): messages, (*[]byte)(&chat.values[fieldTools]): tools} {
			if *value == nil && want == nil {
				continue
			}
			var got any
			if err := json.Unmarshal(*value, &got); err != nil {
				t.Fatalf("%s: wrote %s: %v", body, *value, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: wrote %s, want %v", body, *value, want)
			}
		}
	})
}
