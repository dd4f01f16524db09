package replication

import "testing"

func BenchmarkEvent(b *testing.B) {
	payload := unhex(b, rankedHex)
	e, err := DecodeEvent(payload)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendEvent(buf[:0], &e)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEvent(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
