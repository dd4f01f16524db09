package tokenizer

import "strconv"

// Outcome says how a call ended. Only OK and Cached come with tokens.
type Outcome uint8

const (
	// OK: the endpoint answered.
	OK Outcome = iota
	// Cached: the same was asked before; nobody was called.
	Cached
	// Timeout: no whole answer within the deadline.
	Timeout
	// Unreachable: the connection failed.
	Unreachable
	// Failed: the endpoint answered that it cannot: no such path, overloaded, broken.
	Failed
	// Refused: the endpoint finds fault with the prompt (400, 413, 422).
	Refused
	// TooLarge: the answer is longer than what is read.
	TooLarge
	// Malformed: the answer is not what /tokenize answers.
	Malformed
	// Busy: so many calls run already that none began within the deadline.
	Busy
	// Open: every endpoint has failed too often lately.
	Open
	// NoEndpoint: there is nobody to ask.
	NoEndpoint
	// Left: who asked wants no answer any more.
	Left
)

var outcomeNames = [...]string{
	OK: "ok", Cached: "cached", Timeout: "timeout", Unreachable: "unreachable", Failed: "failed", Refused: "refused", TooLarge: "too_large",
	Malformed: "malformed", Busy: "busy", Open: "open", NoEndpoint: "no_endpoint", Left: "left",
}

// String returns the name used in metrics.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "outcome(" + strconv.Itoa(int(o)) + ")"
}

// verdict is what an outcome says of the endpoint that was called.
type verdict uint8

const (
	silent verdict = iota // nothing
	works
	fails
)

func (o Outcome) verdict() verdict {
	switch o {
	case OK, Refused:
		return works
	case Timeout, Unreachable, Failed, TooLarge, Malformed:
		return fails
	default:
		return silent
	}
}
