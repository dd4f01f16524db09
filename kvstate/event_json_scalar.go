package kvstate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

func (r *eventReader) tier(e *RouterEvent) error {
	name, err := r.string()
	if err != nil {
		return err
	}
	return enumParse(tiers, name, &e.Tier)
}

func (r *eventReader) string() (string, error) {
	if r.dec.PeekKind() != '"' {
		return "", unexpected(r.dec, "a string")
	}
	token, err := r.dec.ReadToken()
	return token.String(), err
}

// uint reads a whole number from 0 to 2^64-1.
func (r *eventReader) uint() (uint64, error) {
	raw, err := r.number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(string(raw), 10, 64)
	return v, r.wrongNumber(err)
}

// numbers reads an array of exactly as many whole numbers as into has. (The JSON
// package would read null as zeros.)
func (r *eventReader) numbers(into []uint64) error {
	n := 0
	err := readArray(r.dec, func() error {
		v, err := r.uint()
		if n < len(into) {
			into[n] = v
		}
		n++
		return err
	})
	if err == nil && n != len(into) {
		err = fmt.Errorf("%s: %d numbers, want %d", r.dec.StackPointer(), n, len(into))
	}
	return err
}

func (r *eventReader) uint32() (uint32, error) {
	v, err := r.uint()
	if err == nil && v > math.MaxUint32 {
		err = fmt.Errorf("%s: %d does not fit 32 bits", r.dec.StackPointer(), v)
	}
	return uint32(v), err
}

// hash reads a hash; a negative one is the same 64 bits read as signed.
func (r *eventReader) hash() (uint64, error) {
	raw, err := r.number()
	if err != nil {
		return 0, err
	}
	if raw[0] == '-' {
		v, err := strconv.ParseInt(string(raw), 10, 64)
		return uint64(v), r.wrongNumber(err)
	}
	v, err := strconv.ParseUint(string(raw), 10, 64)
	return v, r.wrongNumber(err)
}

func (r *eventReader) number() (jsontext.Value, error) {
	if r.dec.PeekKind() != '0' {
		return nil, unexpected(r.dec, "a whole number")
	}
	return r.dec.ReadValue()
}

func (r *eventReader) wrongNumber(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: not a whole number of 64 bits: %w", r.dec.StackPointer(), err)
}
