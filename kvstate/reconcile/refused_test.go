package reconcile

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"mooring/kvstate"
)

// All refused records are counted, and of those alike one a minute is warned of.
func TestRefusedRecordsAreWarnedOfOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	l := refusedRecords{
		count:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "x"}, []string{"reason"}),
		logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	now := time.Unix(1000, 0)
	add := func(topic string, why reason) { l.add(refusal{why, topic, topic + "/7.json", errors.New("bad")}, now) }
	wants := func(lines int, last string) {
		t.Helper()
		all := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(all) != lines || !strings.HasSuffix(all[len(all)-1], last) {
			t.Errorf("%d lines, want %d that end with %q:\n%s", len(all), lines, last, log.String())
		}
	}
	for range 1000 {
		add(kvstate.SourceTopic, malformed)
	}
	wants(1, "file=kv-state-sources-v2/7.json reason=malformed error=bad")
	add(kvstate.SourceTopic, wrongID) // another reason
	wants(2, "file=kv-state-sources-v2/7.json reason=wrong_id error=bad")
	add(kvstate.AttachmentTopic, malformed) // another topic
	wants(3, "file=kv-state-attachments-v2/7.json reason=malformed error=bad")
	now = now.Add(refusedQuiet - 1)
	add(kvstate.SourceTopic, malformed)
	wants(3, "")
	now = now.Add(1)
	add(kvstate.SourceTopic, malformed)
	wants(4, "reason=malformed error=bad more=1000")
	now = now.Add(refusedQuiet)
	add(kvstate.SourceTopic, malformed)
	wants(5, "reason=malformed error=bad")
	var m dto.Metric
	if err := l.count.WithLabelValues(string(malformed)).Write(&m); err != nil || m.Counter.GetValue() != 1004 {
		t.Errorf("%v counted, want 1004 (%v)", m.Counter.GetValue(), err)
	}
}
