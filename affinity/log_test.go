package affinity

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"mooring/internal/fleet"
)

func TestLogNamesSessionsByTheirHashOnly(t *testing.T) {
	var log bytes.Buffer
	table, live := newTestTable(t, Config{Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	const session = "secret-conversation"
	bindTo(t, table, session, fleet.OnRank(1, 0)).Release(Completed)
	live.Publish(fleetOf(fleet.Vanished, fleet.Active))
	bindTo(t, table, session, fleet.OnRank(2, 0)).Release(Completed)
	if _, err := table.Pin(session, fleet.OnRank(2, 1)); err != nil {
		t.Fatal(err)
	}
	table.Unpin(session)
	for _, want := range []string{`"cause":"worker_gone","from":"1:0","to":"2:0"`, `"cause":"pin"`, `"msg":"session pinned"`, `"msg":"session unpinned"`, HashSession(session)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), session) {
		t.Errorf("the log has a session id:\n%s", log.String())
	}
}
