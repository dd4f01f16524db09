package feed

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// pack turns JSON into msgpack, keeping the order of keys. In strings,
// "bytes:HEX" is a byte string, "int64:N" and "uint64:N" are integers in nine
// bytes.
func pack(t testing.TB, text string) []byte {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	b, err := packValue(d)
	if err != nil {
		t.Fatalf("pack %s: %v", text, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("pack %s: more follows", text)
	}
	return b
}

func packValue(d *json.Decoder) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		var inner []byte
		n := 0
		for ; d.More(); n++ {
			b, err := packValue(d)
			if err != nil {
				return nil, err
			}
			inner = append(inner, b...)
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if v == '[' {
			return append(msgp.AppendArrayHeader(nil, uint32(n)), inner...), nil
		}
		return append(msgp.AppendMapHeader(nil, uint32(n/2)), inner...), nil
	case json.Number:
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return msgp.AppendUint64(nil, u), nil
		}
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return msgp.AppendInt64(nil, i), nil
		}
		f, err := v.Float64()
		return msgp.AppendFloat64(nil, f), err
	case string:
		return packString(v)
	case bool:
		return msgp.AppendBool(nil, v), nil
	}
	return msgp.AppendNil(nil), nil
}

func packString(s string) ([]byte, error) {
	kind, rest, _ := strings.Cut(s, ":")
	switch kind {
	case "bytes":
		b, err := hex.DecodeString(rest)
		return msgp.AppendBytes(nil, b), err
	case "int64":
		i, err := strconv.ParseInt(rest, 10, 64)
		return wide(0xd3, uint64(i)), err
	case "uint64":
		u, err := strconv.ParseUint(rest, 10, 64)
		return wide(0xcf, u), err
	}
	return msgp.AppendString(nil, s), nil
}

func wide(lead byte, v uint64) []byte {
	b := []byte{lead}
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(v>>shift))
	}
	return b
}

func (e *event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", [...]string{"unknown", "stored", "removed", "cleared", "ignored"}[e.kind])
	show := func(name string, v any, given bool) {
		if given {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	show("hashes", e.hashes, e.hashes != nil)
	show("parent", e.parent, e.hasParent)
	show("tokens", e.tokens, e.tokens != nil)
	show("pairs", e.pairs, e.pairs)
	show("size", e.blockSize, e.blockSize != 0)
	show("medium", string(e.medium), len(e.medium) > 0)
	show("adapter", string(e.adapter), len(e.adapter) > 0)
	show("adapter_id", true, e.unnamedAdapter)
	show("salt", string(e.salt), len(e.salt) > 0)
	show("group", e.group, e.hasGroup)
	show("kind", string(e.attention), len(e.attention) > 0)
	show("locality", string(e.locality), len(e.locality) > 0)
	show("owner", string(e.owner), len(e.owner) > 0)
	show("extra", fmt.Sprintf("%x", e.extra), e.extra != nil)
	show("images", fmt.Sprintf("%x", e.images), e.images != nil)
	return b.String()
}
