package admin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"mooring/affinity"
)

func TestPagePolicyAllowsItsOwnStyleAndScriptOnly(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	w := r.get("/")
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for tag, pattern := range map[string]string{"style": `(?s)<style>(.*?)</style>`, "script": `(?s)<script type="module">(.*?)</script>`} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(body, -1)
		if len(found) != 1 {
			t.Fatalf("%d elements %s, want 1", len(found), tag)
		}
		if want := tag + "-src " + hashOf(found[0][1]) + ";"; !strings.Contains(policy, want) {
			t.Errorf("no %q in %q", want, policy)
		}
	}
	for _, tag := range []string{"<script", "<style"} {
		if n := strings.Count(body, tag); n != 1 {
			t.Errorf("%d times %s", n, tag)
		}
	}
}

// hashOf returns how a policy names an inline text.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// TestPageMakesNoMarkupFromText: Trusted Types would stop these in a browser
// that has them; others rely on there being none.
func TestPageMakesNoMarkupFromText(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	body := r.get("/").Body.String()
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "parseFromString", "parseInt", "parseFloat", "BigInt"} {
		if strings.Contains(body, word) {
			t.Errorf("the page says %s", word)
		}
	}
}

// TestPageNamesNoField: a form whose script has failed would put its fields into
// the address, but for a policy that forbids it; without names there are none.
func TestPageNamesNoField(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	body := r.get("/").Body.String()
	for _, field := range regexp.MustCompile(`<(?:input|textarea|select|button)[^>]*>`).FindAllString(body, -1) {
		if strings.Contains(field, " name=") {
			t.Errorf("%s has a name", field)
		}
		if strings.HasPrefix(field, "<textarea") && !strings.Contains(field, `autocomplete="off"`) {
			t.Errorf("%s may be kept by the browser", field)
		}
	}
}

func TestPageFetchesNothingFromElsewhere(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	body := r.get("/").Body.String()
	for _, link := range regexp.MustCompile(`(?i)(?:src|href)="([^"]*)"|url\(([^)]*)\)|@import[^;]*`).FindAllString(body, -1) {
		if !strings.HasPrefix(link, `href="/`) && !strings.HasPrefix(link, `href="data:image/svg+xml,`) {
			t.Errorf("the page refers to %s", link)
		}
	}
}
