package e2e

import (
	"crypto/rand"
	"net"
	"strings"
	"testing"
	"time"
)

// greeting begins a ZMTP 3 connection: signature, version 3.0, NULL, client.
func greeting() []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return b
}

// hostileBytes are what strangers send to a mesh port.
func hostileBytes() map[string][]byte {
	noise := make([]byte, 64)
	rand.Read(noise)
	huge := func(bits int) []byte {
		ready := append([]byte{4, 5}, "\x05READY"...)
		ready[1] = byte(len(ready) - 2)
		b := append(greeting(), ready...)
		length := make([]byte, 8) // of a long frame, big-endian
		length[7-bits/8] = 1 << (bits % 8)
		return append(append(b, 2), length...)
	}
	return map[string][]byte{
		"silence":             nil,
		"half a greeting":     greeting()[:32],
		"a greeting only":     greeting(),
		"noise":               noise,
		"an HTTP request":     []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a frame of 2^62":     huge(62),
		"a frame of 2^40":     huge(40),
		"a READY that is cut": append(greeting(), 4, 20, 5, 'R', 'E', 'A', 'D', 'Y', 200),
	}
}

// TestReplicationHostileClients is B59 and B60, over and over: strangers at the
// mesh port disturb nobody, and a joiner comes in beside them.
func TestReplicationHostileClients(t *testing.T) {
	rounds := 125 // 1,000 connections
	m := prepareMesh(t, meshOptions{})
	m.start(0)
	m.start(1)
	m.await(0)
	m.await(1)
	address := strings.TrimPrefix(m.replicas[0].mesh, "tcp://")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	visit := func() {
		for name, bytes := range hostileBytes() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.Write(bytes) // an error: it has been cut off already
			if open = append(open, c); len(open) > 200 {
				open[0].Close()
				open = open[1:]
			}
		}
	}
	before := m.replicas[0].rss()
	for range rounds {
		visit()
	}
	began := time.Now()
	m.start(2)
	joiner := m.await(2)
	if got := joiner.readiness(t).Replication; got != "digest" || time.Since(began) > 10*time.Second {
		t.Errorf("the joiner was ready by %s after %v", got, time.Since(began))
	}
	went := joiner.bind(t, names("beside strangers", 100))
	for range 10 {
		visit()
	}
	m.equalTables(10*time.Second, m.replicas...)
	for i, r := range m.replicas {
		if moved := r.moved(t, went); moved > 0 {
			t.Errorf("replica %d: %d of 100 sessions moved", i, moved)
		}
	}
	r := m.replicas[0]
	if cut := r.metric(t, "mooring_mesh_closed_total"); cut < float64(8*rounds)*3/4 {
		t.Errorf("%v connections were cut off and counted, of %d hostile ones", cut, 8*rounds)
	}
	if grown := r.rss() - before; grown > 64<<20 {
		t.Errorf("the memory has grown by %d MiB", grown>>20)
	}
	if p := m.replicas[1].peer(t, r.mesh); !p.Connected || p.Holes > 0 {
		t.Errorf("a peer was disturbed: %+v", p)
	}
}
