package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"mooring/kvstate"
)

// TestKVUncertainRecords has the records of a state agent come and go, and stand
// beside others: what cannot be known counts for nothing while it lasts, and is
// forgotten no more than the rest.
func TestKVUncertainRecords(t *testing.T) {
	t.Parallel()
	s := newAgentStack(t, []string{}, nil)
	agent := s.workers[0]
	s.seed(agent.address, "Astronomy")
	s.ready(agent)
	held := func() int { return s.explain("any", "Astronomy").at(t, agent).Device }
	eventually(t, 10*time.Second, "its blocks are known", func() bool { return held() > 20 })
	recovered := s.recoveries()

	s.meanwhile("watch_uncertain", func() {
		s.move(s.records, s.records+".away")
	}, func() {
		s.move(s.records+".away", s.records)
	})
	source, publisher := s.only(kvstate.SourceTopic), `("publisher_id":)\d+`
	other := filepath.Join(s.records, kvstate.SourceTopic, "77.json")
	s.meanwhile("ambiguous_source", func() {
		s.put(other, regexp.MustCompile(publisher).ReplaceAll(source, []byte("${1}77")))
	}, func() {
		s.remove(other)
	})
	attachment, generation := s.only(kvstate.AttachmentTopic), regexp.MustCompile(`("attachment_generation":)1\b`)
	id, err := strconv.ParseUint(regexp.MustCompile(publisher).FindString(string(attachment))[len(`"publisher_id":`):], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	other = filepath.Join(s.records, kvstate.AttachmentTopic, fmt.Sprint(kvstate.AttachmentRecordID(id, 2), ".json"))
	s.meanwhile("ambiguous_attachment", func() {
		s.put(other, generation.ReplaceAll(attachment, []byte("${1}2")))
	}, func() {
		s.remove(other)
	})
	if n := s.recoveries() - recovered; n != 0 {
		t.Errorf("the whole state was asked for %v times though nothing was lost", n)
	}

	// What is no record harms nobody.
	refused := s.metric("mooring_kvstate_refused_total")
	s.put(filepath.Join(s.records, kvstate.SourceTopic, "1.json"), []byte(`{"publisher_id":]}`))
	s.put(filepath.Join(s.records, kvstate.AttachmentTopic, "2.json"), attachment)
	eventually(t, 10*time.Second, "both are refused", func() bool { return s.metric("mooring_kvstate_refused_total") >= refused+2 })
	if o := s.owners(); len(o) != 1 || o[0].Resolution != "ready" || held() < 20 {
		t.Errorf("beside two files that are no records: %+v, %d blocks", o, held())
	}

	// A replica that starts anew has it all when it says that it is ready.
	s.replica.kill()
	s.startReplica()
	if n := held(); n < 20 {
		t.Errorf("at once after a restart of the replica: %d blocks", n)
	}
}

// meanwhile does something by which the only owner cannot be known for a reason,
// looks at it, and undoes it: then it is ready again with all that it held.
func (s agentStack) meanwhile(reason string, do, undo func()) {
	s.t.Helper()
	do()
	state := ""
	defer s.ifFailed(&state)
	eventually(s.t, 10*time.Second, "the owner is "+reason, func() bool {
		o := s.owners()
		state = fmt.Sprintf("%+v", o)
		return len(o) == 1 && o[0].Resolution == "unknown" && o[0].Reason == reason
	})
	for _, c := range s.explain("any", "Astronomy").Candidates {
		if c.Device != 0 || c.Host != 0 {
			s.t.Errorf("%s: it counts %+v", reason, c)
		}
	}
	undo()
	eventually(s.t, 10*time.Second, "it is ready after "+reason, func() bool {
		return s.owners()[0].Resolution == "ready" && s.explain("any", "Astronomy").at(s.t, s.workers[0]).Device > 20
	})
}

// recoveries is how often a state agent was asked for its whole state.
func (s *stack) recoveries() float64 {
	s.t.Helper()
	return metricAt(s.t, s.admin+"/metrics", "mooring_kvstate_control_seconds_count", "question", "full")
}

// only returns the only record of a topic.
func (s agentStack) only(topic string) []byte {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.records, topic, "*.json"))
	if err != nil || len(files) != 1 {
		s.t.Fatalf("%d records of %s: %v", len(files), topic, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s agentStack) put(path string, data []byte) {
	s.t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s agentStack) move(from, to string) {
	s.t.Helper()
	if err := os.Rename(from, to); err != nil {
		s.t.Fatal(err)
	}
}

func (s agentStack) remove(path string) {
	s.t.Helper()
	if err := os.Remove(path); err != nil {
		s.t.Fatal(err)
	}
}
