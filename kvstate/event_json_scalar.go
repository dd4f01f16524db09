package kvstate

import (
	"fmt"
	"math"
	"strconv"
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
	return r.number(func(digits string) (uint64, error) { return strconv.ParseUint(digits, 10, 64) })
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
	return r.number(func(digits string) (uint64, error) {
		if digits[0] == '-' {
			v, err := strconv.ParseInt(digits, 10, 64)
			return uint64(v), err
		}
		return strconv.ParseUint(digits, 10, 64)
	})
}

func (r *eventReader) number(parse func(digits string) (uint64, error)) (uint64, error) {
	if r.dec.PeekKind() != '0' {
		return 0, unexpected(r.dec, "a whole number")
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return 0, err
	}
	v, err := parse(string(raw))
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a whole number of 64 bits", r.dec.StackPointer(), clip(string(raw)))
	}
	return v, nil
}
