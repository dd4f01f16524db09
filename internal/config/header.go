package config

import (
	"fmt"
	"strings"
)

// headerName is a request header by which a client says something: a legal
// HTTP field name, in lower case as HTTP/2 spells it, and none of those that
// Mooring removes or overwrites before anyone reads them.
func headerName(s string) (string, string) {
	const most = 128
	lower := strings.ToLower(s)
	switch {
	case s == "" || strings.ContainsFunc(s, notInToken):
		return "", "is no header name; write a lower-case one such as x-session-id"
	case len(s) > most:
		return "", fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), most)
	case isOurHeader(lower):
		return "", "is a header that Mooring itself sets, so clients cannot; choose another"
	case s != lower:
		return "", fmt.Sprintf("has capital letters; write %s", shorten(lower))
	}
	return s, ""
}

// notInToken reports what RFC 9110, section 5.6.2, has no place for.
func notInToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}

// isOurHeader reports whether the filter removes or overwrites the header on
// the way to the worker (design.md 2.3).
func isOurHeader(lower string) bool {
	switch lower {
	case "x-gateway-destination-endpoint", "x-gateway-destination-endpoint-served", "x-gateway-destination-endpoint-subset",
		"x-mooring-worker", "x-mooring-reason",
		"x-dynamo-worker-instance-id", "x-worker-instance-id",
		"x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank",
		"x-dynamo-prefill-instance-id", "x-prefill-instance-id",
		"x-dynamo-prefill-dp-rank", "x-prefill-dp-rank":
		return true
	}
	return false
}
