package routing

import "github.com/go-json-experiment/json/jsontext"

// hasAnthropicTools reports whether the first of some tools is described as Anthropic
// does it.
func hasAnthropicTools(tools jsontext.Value) (found bool) {
	if tools == nil {
		return false
	}
	r, first := readerOf(tools), true
	r.array(func() {
		if !first {
			r.skip()
			return
		}
		first = false
		r.object(func(name string) {
			found = found || name == "input_schema"
			r.skip()
		})
	})
	return found
}

// functionTools rewrites Anthropic's tools as a chat completion's:
//
//	{"type":"function","function":{"name":"ls","description":"lists","parameters":{"type":"object"}}}
//
// Nothing stays nothing. False if one of them is not the client's own.
func functionTools(tools jsontext.Value) (jsontext.Value, bool) {
	if tools == nil {
		return nil, true
	}
	r, b := readerOf(tools), []byte{'['}
	r.array(func() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendTool(b, r)
	})
	return append(b, ']'), !r.wrong
}

// appendTool reads one tool and writes it.
func appendTool(b []byte, r *valueReader) []byte {
	var name, description, schema jsontext.Value
	r.object(func(member string) {
		switch value := r.raw(); member {
		case "name":
			name = value
		case "description":
			description = value
		case "input_schema":
			schema = value
		case "type": // web_search_20250305 and the like are Anthropic's
			r.wrong = r.wrong || string(value) != `"custom"` && string(value) != "null"
		case "defer_loading":
			r.wrong = r.wrong || string(value) == "true"
		}
	})
	if name == nil || schema == nil || r.wrong {
		r.wrong = true
		return b
	}
	b = append(append(b, `{"type":"function","function":{"name":`...), name...)
	if description != nil {
		b = append(append(b, `,"description":`...), description...)
	}
	b = appendSchema(append(b, `,"parameters":`...), schema, r)
	return append(b, `}}`...)
}

// appendSchema writes a tool's schema. One that does not say what it describes
// describes an object.
func appendSchema(b []byte, schema jsontext.Value, outer *valueReader) []byte {
	r, members, typed := readerOf(schema), 0, false
	r.object(func(name string) {
		members++
		typed = typed || name == "type"
		r.skip()
	})
	outer.wrong = outer.wrong || r.wrong
	if b = append(b, schema...); typed || r.wrong {
		return b
	}
	b = b[:len(b)-1] // its closing bracket
	if members > 0 {
		b = append(b, ',')
	}
	return append(b, `"type":"object"}`...)
}
