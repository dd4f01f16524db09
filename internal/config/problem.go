package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a file, or worth knowing about it.
type Problem struct {
	File string // as it was given to Load or Parse
	Line int    // from 1; 0: the file as a whole
	Text string // "what is wrong; what would be right"
}

// String returns "file:line: text", in one line.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ": " + p.Text
}

// Problems is the error of a file that was refused: everything that is wrong
// with it, ordered by line. It is never empty when returned as an error.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// orNil orders the problems by line and returns them as an error, nil if there
// are none.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return ps
}
