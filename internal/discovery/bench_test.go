package discovery_test

import (
	"testing"

	"mooring/internal/discovery"
)

// BenchmarkRelist is an answer of 10,000 workers in which nothing changed.
func BenchmarkRelist(b *testing.B) {
	d := discovery.New(discovery.Config{})
	list := specs(manyAddresses(10000)...)
	d.Update("file", list)
	for b.Loop() {
		d.Update("file", list)
	}
}

// BenchmarkOneChange is an answer of 10,000 workers in which one changed, with
// the view that shows it.
func BenchmarkOneChange(b *testing.B) {
	d := discovery.New(discovery.Config{})
	list := specs(manyAddresses(10000)...)
	d.Update("file", list)
	for b.Loop() {
		list[0].Drain = !list[0].Drain
		d.Update("file", list)
	}
}
