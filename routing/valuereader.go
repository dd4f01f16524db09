package routing

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// valueReader walks a value of a body, whose syntax was checked. What is not as it is
// asked for makes it wrong, and then what it returns means nothing.
type valueReader struct {
	dec   jsontext.Decoder
	body  []byte // what dec reads
	wrong bool
}

func readerOf(value jsontext.Value) *valueReader {
	r := &valueReader{body: value}
	r.dec.Reset(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return r
}

// object reads an object. member is called with the name of each member, and has to
// read its value.
func (r *valueReader) object(member func(name string)) {
	r.open('{')
	for !r.wrong && r.dec.PeekKind() == '"' {
		name, err := r.dec.ReadToken()
		if err != nil {
			r.wrong = true
			return
		}
		member(name.String())
	}
	r.close()
}

// array reads an array. element is called for each element, and has to read it.
func (r *valueReader) array(element func()) {
	r.open('[')
	for !r.wrong && r.dec.PeekKind() != ']' {
		element()
	}
	r.close()
}

func (r *valueReader) open(bracket jsontext.Kind) {
	if r.wrong = r.wrong || r.dec.PeekKind() != bracket; !r.wrong {
		r.close()
	}
}

// close reads a bracket.
func (r *valueReader) close() {
	if !r.wrong {
		_, err := r.dec.ReadToken()
		r.wrong = err != nil
	}
}

// raw reads any value, as it stands there.
func (r *valueReader) raw() jsontext.Value {
	after := r.dec.InputOffset()
	r.skip()
	return bytes.TrimLeft(r.body[after:r.dec.InputOffset()], ":, \t\r\n")
}

func (r *valueReader) skip() {
	if !r.wrong {
		r.wrong = r.dec.SkipValue() != nil
	}
}

// text reads a string, and returns what stands between its quotes.
func (r *valueReader) text() []byte {
	value := r.raw()
	if r.wrong = r.wrong || value.Kind() != '"'; r.wrong {
		return nil
	}
	return value[1 : len(value)-1]
}

// texts reads what is one text or an array of blocks of text, of which it leaves out
// empty ones:
//
//	[{"type":"text","text":"hi"}]
func (r *valueReader) texts() [][]byte {
	if r.dec.PeekKind() == '"' {
		return [][]byte{r.text()}
	}
	var texts [][]byte
	r.array(func() {
		var kind, text []byte
		r.object(func(name string) {
			switch name {
			case "type":
				kind = r.text()
			case "text":
				text = r.text()
			default:
				r.skip()
			}
		})
		if r.wrong = r.wrong || string(kind) != "text"; len(text) > 0 {
			texts = append(texts, text)
		}
	})
	return texts
}
