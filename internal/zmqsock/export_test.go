package zmqsock

// ReasonOf returns the reason that an error of this package carries, and
// Unreachable for an error without one.
func ReasonOf(err error) Reason { return reasonOf(err, Unreachable) }
