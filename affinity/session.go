package affinity

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/blake3"
)

// MaxSessionBytes is the length limit of a session id, in bytes.
const MaxSessionBytes = 256

// groupPrefix begins every group key and no client's session id. Proxies refuse
// its first byte in header values; SessionID does not rely on that.
const groupPrefix = "\x01sg:"

// SessionID returns the session id that the values of one header carry, in the
// order in which they came: the first that is not blank, without the spaces and
// tabs around it. "" means that there is none. An id is opaque and case-sensitive.
//
// An id of more than MaxSessionBytes, one that is not valid UTF-8 and one that
// poses as a group key are refused with ErrInvalidSession; an id is never
// shortened or repaired, since that could make two sessions one.
func SessionID(values []string) (id string, err error) {
	for _, v := range values {
		id := strings.Trim(v, " \t")
		if id == "" {
			continue
		}
		if strings.HasPrefix(id, groupPrefix) {
			return "", fmt.Errorf("%w: it begins like a group key", ErrInvalidSession)
		}
		if err := checkSession(id); err != nil {
			return "", err
		}
		return id, nil
	}
	return "", nil
}

// checkSession refuses what no key of a table may be. Unlike SessionID it takes
// group keys.
func checkSession(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidSession)
	case len(id) > MaxSessionBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidSession, len(id), MaxSessionBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: not UTF-8", ErrInvalidSession)
	}
	return nil
}

// GroupKey returns the key under which all children of one parent session bind:
// byte 0x01, "sg:" and the parent id's BLAKE3-256 in lower-case hex, 68 bytes.
// No client can claim it as its own session id.
func GroupKey(parent string) string {
	sum := blake3.Sum256([]byte(parent))
	return groupPrefix + hex.EncodeToString(sum[:])
}

// HashSession returns the form in which a session id appears in logs, metrics
// and traces: the first 16 hex digits of its BLAKE3-256.
func HashSession(id string) string {
	sum := blake3.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}
