package zmqsock

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// hostPort takes an endpoint such as "tcp://10.0.0.2:9092" apart into what
// package net wants. Only tcp exists here. For binding, an empty host and "*"
// mean every address, and the port "*" is 0: any free one.
func hostPort(endpoint string, bind bool) (string, error) {
	rest, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", fmt.Errorf("endpoint %q: want tcp://HOST:PORT", endpoint)
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	if bind && host == "*" {
		host = ""
	}
	if bind && port == "*" {
		port = "0"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || (n == 0 && !bind) {
		return "", fmt.Errorf("endpoint %q: port %q is not a number from 1 to 65535", endpoint, port)
	}
	if !bind && (host == "" || host == "*") {
		return "", fmt.Errorf("endpoint %q: no host to connect to", endpoint)
	}
	return net.JoinHostPort(host, port), nil
}

// CheckEndpoint says what is wrong with an endpoint that is to be bound or
// dialled; nil: nothing that can be told without trying.
func CheckEndpoint(endpoint string, bind bool) error {
	_, err := hostPort(endpoint, bind)
	return err
}
