package routing

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNesting bounds how deep arrays and objects of a body may nest, the body's
// own object included. It is far beyond what clients send, tool schemas being
// the deepest, and well below the decoder's own bound of 10,000.
const maxNesting = 512

// bodyFields is what a decision needs of a body.
type bodyFields struct {
	Model    string
	ModelSet bool // false for no model, null and ""
}

// bodyError says what is wrong with a body. msg is for the client: it names the
// place as a byte offset in the decoded body, and never repeats the body's text.
type bodyError struct{ msg string }

func (e *bodyError) Error() string { return e.msg }

func wrongBody(format string, args ...any) *bodyError {
	return &bodyError{fmt.Sprintf(format, args...)}
}

// readBody reads the fields of a whole JSON body. A body without anything but
// white space has no fields. The error is a *bodyError.
//
// The syntax is held strictly and names match by exact case, as the workers'
// parsers do. A field of ours that appears twice is refused, since parsers
// disagree about which one counts; other names may repeat at any level, as the
// workers allow it. For the same reason text that is not Unicode (invalid UTF-8,
// half a surrogate pair) and a leading byte order mark are the workers' affair,
// except within a field of ours. Values that are not ours are checked for
// syntax, never built. body is not changed.
//
// prompt, unless it is nil, gets the fields that make up the prompt, as parts of
// body: it is good for as long as body does not change.
func readBody(body []byte, prompt *promptFields) (bodyFields, error) {
	text := bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimLeft(text, " \t\r\n")) == 0 {
		return bodyFields{}, nil
	}
	r := bodyReader{base: int64(len(body) - len(text)), text: text, prompt: prompt}
	// A bytes.Buffer is the one source that the decoder reads in place: no copy,
	// and values stay valid for as long as text.
	r.dec.Reset(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return r.read()
}

// bodyReader walks the top level of one body.
type bodyReader struct {
	dec  jsontext.Decoder
	text []byte // what dec reads
	base int64  // text's offset in the body

	fields bodyFields
	seen   struct{ model bool } // fields of ours that were there, whatever their value
	prompt *promptFields        // nil: nobody asks for it

	scratch [6 * 24]byte // a name without its escapes; 24 bytes suffice for a field of ours
}

func (r *bodyReader) read() (bodyFields, error) {
	if r.dec.PeekKind() != '{' {
		return bodyFields{}, r.notObject()
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return bodyFields{}, r.syntax(err)
	}
	for r.dec.PeekKind() != '}' {
		if err := r.member(); err != nil {
			return bodyFields{}, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return bodyFields{}, r.syntax(err)
	}
	end := r.base + r.dec.InputOffset()
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return bodyFields{}, wrongBody("body goes on after its JSON object, which ends at byte offset %d", end)
	}
	return r.fields, nil
}

// member reads one name and its value.
func (r *bodyReader) member() error {
	literal, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	at := r.offset(literal)
	name := r.fieldName(literal)
	switch string(name) {
	case "model":
		if r.seen.model {
			return wrongBody(`body has a second "model" at byte offset %d: it may be there once`, at)
		}
		r.seen.model = true
		r.fields.Model, err = r.name("model")
		r.fields.ModelSet = r.fields.Model != ""
		return err
	default:
		if r.prompt != nil {
			if field, ok := promptFieldNamed(name); ok {
				return r.keep(field)
			}
		}
		return r.skip()
	}
}

// keep passes over the value of a field of the prompt and remembers where it is.
func (r *bodyReader) keep(field promptField) error {
	after := r.dec.InputOffset()
	if err := r.skip(); err != nil {
		return err
	}
	value := bytes.TrimLeft(r.text[after:r.dec.InputOffset()], ": \t\r\n")
	r.prompt.set(field, value)
	return nil
}

// skip passes over one value. It goes token by token, as fast as the decoder's
// ReadValue, since that one recurses: 20 KB of brackets would grow a stack to
// megabytes.
func (r *bodyReader) skip() error {
	outside := r.dec.StackDepth()
	for {
		if _, err := r.dec.ReadToken(); err != nil {
			return r.syntax(err)
		}
		switch depth := r.dec.StackDepth(); {
		case depth > maxNesting:
			return wrongBody("body nests arrays and objects more than %d deep at byte offset %d", maxNesting, r.base+r.dec.InputOffset()-1)
		case depth == outside:
			return nil
		}
	}
}

// name reads the string of a field that names something; null is "".
func (r *bodyReader) name(field string) (string, error) {
	kind := r.dec.PeekKind()
	if kind == '{' || kind == '[' {
		_, _ = r.dec.ReadToken() // the bracket just seen; ReadValue would recurse into it
		return "", wrongBody("%s at byte offset %d must be a string, not %s", field, r.base+r.dec.InputOffset()-1, kindName(kind))
	}
	literal, err := r.dec.ReadValue()
	if err != nil {
		return "", r.syntax(err)
	}
	at := r.offset(literal)
	switch {
	case kind == 'n':
		return "", nil
	case kind != '"':
		return "", wrongBody("%s at byte offset %d must be a string, not %s", field, at, kindName(kind))
	case len(literal) > len(`""`)+6*maxNameBytes: // an escape has at most six bytes for one of the name's
		return "", tooLong(field, at)
	}
	name, err := jsontext.AppendUnquote(nil, literal)
	switch {
	case err != nil:
		return "", wrongBody("%s at byte offset %d is not valid Unicode text", field, at)
	case len(name) > maxNameBytes:
		return "", tooLong(field, at)
	}
	return string(name), nil
}

func tooLong(field string, at int64) *bodyError {
	return wrongBody("%s at byte offset %d is too long: at most %d bytes", field, at, maxNameBytes)
}

// offset returns where in the body the value begins that was read last.
func (r *bodyReader) offset(value jsontext.Value) int64 {
	return r.base + r.dec.InputOffset() - int64(len(value))
}

// notObject tells a body that is JSON but no object from one that is not JSON.
func (r *bodyReader) notObject() error {
	kind := r.dec.PeekKind()
	if kind == '[' {
		return wrongBody("body must be a JSON object, not an array")
	}
	if _, err := r.dec.ReadValue(); err == nil {
		if _, err = r.dec.ReadToken(); err == io.EOF {
			return wrongBody("body must be a JSON object, not %s", kindName(kind))
		}
	}
	return wrongBody("body is not JSON: a JSON object is needed")
}

// syntax turns a decoder's error into one for the client. The decoder's own
// words quote the body.
func (r *bodyReader) syntax(err error) error {
	var wrong *jsontext.SyntacticError
	if !errors.As(err, &wrong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return wrongBody("body is not valid JSON: it ends too early, at byte offset %d", r.base+int64(len(r.text)))
	}
	at := min(wrong.ByteOffset, int64(len(r.text)-1))
	return wrongBody("body is not valid JSON at byte offset %d%s", r.base+at, remedy(r.text[at]))
}

// remedy says what is right where the byte at fault tells.
func remedy(c byte) string {
	switch {
	case c < ' ':
		return fmt.Sprintf(": control character 0x%02x is allowed in strings only, and escaped", c)
	case c == '\'':
		return ": strings need double quotes"
	case c == ',':
		return ": this comma separates nothing"
	case c == '}', c == ']':
		return ": this closing bracket does not fit here; JSON has no comma before one"
	case c == '\\':
		return ": JSON knows no such escape"
	case c == '/', c == '#':
		return ": JSON has no comments"
	}
	return ""
}

// fieldName returns what the literal of a member's name says, valid until the
// next call; nothing for a literal too long to name a field of ours.
func (r *bodyReader) fieldName(literal jsontext.Value) []byte {
	switch {
	case bytes.IndexByte(literal, '\\') < 0:
		return literal[1 : len(literal)-1]
	case len(literal) > len(`""`)+len(r.scratch):
		return nil
	}
	// What is not Unicode becomes U+FFFD, which no field of ours has.
	name, _ := jsontext.AppendUnquote(r.scratch[:0], literal)
	return name
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "a boolean"
	}
}
