package replication_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The library that the sockets are made of ends one of its goroutines late.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}
