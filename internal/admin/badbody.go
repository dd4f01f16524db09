package admin

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// badBody says what is wrong with a body in the words of the API, those of the
// decoder speak of Go types, and without quoting it: it may hold a prompt. want is
// what the body must be, otherType what is said of a value of a wrong type.
func badBody(err error, want, otherType string) error {
	var (
		large    *http.MaxBytesError
		semantic *json.SemanticError
	)
	switch {
	case errors.As(err, &large):
		return err
	case errors.As(err, &semantic) && semantic.Err == json.ErrUnknownName:
		return invalid("%s; it has the unknown field %q", want, semantic.JSONPointer.LastToken())
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid("%s; it has a field twice", want)
	case errors.As(err, &semantic):
		return invalid("%s; %s", want, otherType)
	default:
		return invalid("%s; it is not valid JSON", want)
	}
}
