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
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("no %q in %q", want, policy)
		}
	}
	for _, tag := range []string{"<script", "<style"} {
		if n := strings.Count(body, tag); n != 1 {
			t.Errorf("%d times %s", n, tag)
		}
	}
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

func TestPageFetchesNothingFromElsewhere(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	body := r.get("/").Body.String()
	for _, link := range regexp.MustCompile(`(?i)(?:src|href)="([^"]*)"|url\(([^)]*)\)|@import[^;]*`).FindAllString(body, -1) {
		if !strings.HasPrefix(link, `href="/`) && !strings.HasPrefix(link, `href="data:image/svg+xml,`) {
			t.Errorf("the page refers to %s", link)
		}
	}
}
