package simworker

import (
	"fmt"
	"slices"
	"strings"
)

// nameOf returns the name of a value of an enumeration.
func nameOf[T ~uint8](v T, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

// valueOf sets v to the value that is called text.
func valueOf[T ~uint8](v *T, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%q: must be %s", text, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}
