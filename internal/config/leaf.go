package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser reads one value. A wrong one is described: "is what it is; what would
// be right". The empty description means that the value is fine.
type parser[T any] func(n *yaml.Node) (value T, wrong string)

// leaf is a key with one value.
func leaf[C any, T comparable](path string, field func(*C) *T, parse parser[T]) key[C] {
	return key[C]{
		path: path,
		read: func(r *reader, at string, n *yaml.Node, c *C) {
			if isNull(n) {
				r.wrong(n.Line, at, fmt.Sprintf("has no value; leave the key out for the default (%s)", show(*field(c))))
				return
			}
			if v, wrong := parse(n); wrong != "" {
				r.wrong(n.Line, at, wrong)
			} else {
				*field(c) = v
			}
		},
		same: func(a, b *C) bool { return *field(a) == *field(b) },
	}
}

// show spells a default as the file would.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case time.Duration:
		return spell(v)
	}
	return fmt.Sprint(v)
}

// listOf is a key with a list of from least to most values, none of them twice.
func listOf[C any, T comparable](path string, least, most int, field func(*C) *[]T, parse parser[T]) key[C] {
	return key[C]{
		path: path,
		read: func(r *reader, at string, n *yaml.Node, c *C) {
			if list, ok := readList(r, at, least, most, n, parse); ok {
				*field(c) = list
			}
		},
		same: func(a, b *C) bool { return slices.Equal(*field(a), *field(b)) },
	}
}

func readList[T comparable](r *reader, at string, least, most int, n *yaml.Node, parse parser[T]) (list []T, ok bool) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.wrong(n.Line, at, fmt.Sprintf("is %s; it takes a list, as in [a, b]", kindOf(n)))
		return nil, false
	case len(n.Content) < least:
		r.wrong(n.Line, at, "is an empty list; name at least one, or leave the key out for the default")
		return nil, false
	case len(n.Content) > most:
		r.wrong(n.Line, at, fmt.Sprintf("has %d entries; at most %d are allowed", len(n.Content), most))
		return nil, false
	}
	ok = true
	first := make(map[T]int, len(n.Content)) // value -> its index
	for i, item := range n.Content {
		v := r.value(item)
		if v == nil {
			return nil, false
		}
		value, wrong := parse(v)
		if j, twice := first[value]; wrong == "" && twice {
			wrong = fmt.Sprintf("is the same as entry %d; name it once", j)
		}
		if wrong != "" {
			r.wrong(item.Line, fmt.Sprintf("%s[%d]", at, i), wrong)
			ok = false
			continue
		}
		first[value] = i
		list = append(list, value)
	}
	return list, ok
}
