package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// maxName bounds names of models, groups and the like, in bytes.
const maxName = 256

// isText reports whether n is a YAML string.
func isText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" }

// isDigits reports whether n is spelled as a plain decimal number.
func isDigits(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return false
	}
	return strings.Trim(n.Value, "0123456789") == ""
}

// raw is the value as the file spells it, quoted, or what it is instead of a
// single value.
func raw(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindOf(n)
	}
	return quote(n.Value)
}

// text reads a string that check finds nothing wrong with. The description that
// check returns follows the quoted value: "is no header name; write ...".
func text[T ~string](check check) parser[T] {
	return func(n *yaml.Node) (T, string) {
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return "", fmt.Sprintf("is %s; it takes text", kindOf(n))
		}
		value, wrong := check(n.Value)
		switch {
		case wrong != "":
			return "", quote(n.Value) + " " + wrong
		case !isText(n): // with quotes it would be right
			return "", fmt.Sprintf("is %s; it takes text: write %q with the quotes", kindOf(n), shorten(n.Value))
		}
		return T(value), ""
	}
}

// check says what is wrong with a text, or returns it in its canonical spelling.
type check func(s string) (value, wrong string)

// optional lets the empty string pass and asks check about others.
func optional(check check) check {
	return func(s string) (string, string) {
		if s == "" {
			return "", ""
		}
		return check(s)
	}
}

// name is any short printable text.
func name(s string) (string, string) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", "is blank; it takes a name"
	case s != strings.TrimSpace(s):
		return "", fmt.Sprintf("has blanks around it; write %q", strings.TrimSpace(shorten(s)))
	case len(s) > maxName:
		return "", fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), maxName)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", "holds a control character; use printable text"
	}
	return s, ""
}

// filePath is where a file is.
func filePath(s string) (string, string) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", "is blank; it takes the path of a file"
	case strings.ContainsRune(s, 0):
		return "", "holds a zero byte; it takes the path of a file"
	}
	return s, ""
}

// oneOf reads an enumeration.
func oneOf[T ~string](allowed ...T) parser[T] {
	list := make([]string, len(allowed))
	for i, a := range allowed {
		list[i] = string(a)
	}
	return func(n *yaml.Node) (T, string) {
		for _, a := range allowed {
			if isText(n) && n.Value == string(a) {
				return a, ""
			}
		}
		return "", fmt.Sprintf("is %s; it takes one of %s", raw(n), strings.Join(list, ", "))
	}
}

func boolean(n *yaml.Node) (bool, string) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		switch strings.ToLower(n.Value) {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
	}
	return false, fmt.Sprintf("is %s; it takes true or false", raw(n))
}

// duration reads a Go duration from least to most.
func duration(least, most time.Duration) parser[time.Duration] {
	return func(n *yaml.Node) (time.Duration, string) {
		want := fmt.Sprintf("it takes a duration from %s to %s", spell(least), spell(most))
		if n.Kind != yaml.ScalarNode {
			return 0, fmt.Sprintf("is %s; %s", kindOf(n), want)
		}
		d, err := time.ParseDuration(n.Value)
		switch {
		case isDigits(n) && n.Value != "0":
			return 0, fmt.Sprintf("is %s without a unit; %s, as in %ss", raw(n), want, shorten(n.Value))
		case err != nil:
			return 0, fmt.Sprintf("is %s; %s, as in 1m30s", raw(n), want)
		case d < least || d > most:
			return 0, fmt.Sprintf("is %s; %s", shorten(n.Value), want)
		}
		return d, ""
	}
}

// spell writes a duration without the zeros that String trails: 1h, not 1h0m0s.
func spell(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// size reads a number of bytes, plain or in KiB, MiB or GiB, from least to most.
func size(least, most Size) parser[Size] {
	return func(n *yaml.Node) (Size, string) {
		want := fmt.Sprintf("it takes a size from %s to %s", least, most)
		if n.Kind != yaml.ScalarNode {
			return 0, fmt.Sprintf("is %s; %s", kindOf(n), want)
		}
		s, ok := parseSize(n.Value)
		switch {
		case !ok:
			return 0, fmt.Sprintf("is %s; %s, in bytes or with KiB, MiB or GiB, as in 16MiB", raw(n), want)
		case s < least || s > most:
			return 0, fmt.Sprintf("is %s; %s", shorten(n.Value), want)
		}
		return s, ""
	}
}

// parseSize reads "16MiB" or "16777216". Above the largest Size it returns the
// largest, which no key allows.
func parseSize(s string) (Size, bool) {
	unit := Size(1)
	for suffix, u := range map[string]Size{"KiB": KiB, "MiB": MiB, "GiB": GiB} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = strings.TrimRight(number, " "), u
		}
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v > math.MaxInt64/int64(unit) {
		return math.MaxInt64, true
	}
	return Size(v) * unit, true
}

// integer reads a whole decimal number from least to most.
func integer[T int | uint32](least, most T) parser[T] {
	return func(n *yaml.Node) (T, string) {
		want := fmt.Sprintf("it takes a whole number from %d to %d", least, most)
		if n.Kind != yaml.ScalarNode || isText(n) {
			return 0, fmt.Sprintf("is %s; %s", raw(n), want)
		}
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil || v < int64(least) || v > int64(most) {
			return 0, fmt.Sprintf("is %s; %s", shorten(n.Value), want)
		}
		return T(v), ""
	}
}

// id reads all 64 bits of an id, with or without quotes, and never through a
// float64. 0 is allowed and means none.
func id[T ~uint64](n *yaml.Node) (T, string) {
	if isDigits(n) {
		if v, err := strconv.ParseUint(n.Value, 10, 64); err == nil {
			return T(v), ""
		}
	}
	return 0, fmt.Sprintf("is %s; it takes a whole decimal number from 0 to %d", raw(n), uint64(math.MaxUint64))
}

// number reads a decimal number from least to most. advice, if any, says what
// to do instead of going above.
func number(least, most float64, advice string) parser[float64] {
	return func(n *yaml.Node) (float64, string) {
		want := fmt.Sprintf("it takes a number from %g to %g", least, most)
		if n.Kind != yaml.ScalarNode || isText(n) {
			return 0, fmt.Sprintf("is %s; %s", raw(n), want)
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		switch {
		case err == nil && v > most && advice != "":
			return 0, fmt.Sprintf("is %s; %s; %s", shorten(n.Value), want, advice)
		case err != nil || !(v >= least && v <= most): // NaN is in no range
			return 0, fmt.Sprintf("is %s; %s", shorten(n.Value), want)
		}
		return v, ""
	}
}
