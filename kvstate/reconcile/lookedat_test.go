package reconcile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mooring/kvstate"
)

// lookedAt is a directory under test: look says what was told since the last one.
type lookedAt struct {
	t    testing.TB
	root string
	dir  *directory
	told []string
}

func newLookedAt(t testing.TB) *lookedAt {
	w := &lookedAt{t: t, root: filepath.Join(t.TempDir(), "records")}
	w.dir = newDirectory(w.root, func(r refusal) { w.told = append(w.told, "refused "+string(r.reason)) })
	return w
}

func (w *lookedAt) look() string {
	w.dir.look(hearsay{all: true}, w.tell)
	return w.said()
}

func (w *lookedAt) tell(u update) { w.told = append(w.told, describe(u)) }

func (w *lookedAt) said() string {
	defer func() { w.told = nil }()
	return strings.Join(w.told, "; ")
}

func describe(u update) string {
	if u.lost != nil {
		return "lost"
	}
	var parts []string
	for _, c := range u.changes {
		sign := "+"
		if c.record == nil {
			sign = "-"
		}
		parts = append(parts, fmt.Sprintf("%s%s/%d", sign, strings.Split(c.topic, "-")[2], c.id))
	}
	slices.Sort(parts)
	if u.whole {
		parts = append([]string{"all:"}, parts...)
	}
	return strings.Join(parts, " ")
}

func (w *lookedAt) wants(want string) {
	w.t.Helper()
	if got := w.look(); got != want {
		w.t.Errorf("told %q, want %q", got, want)
	}
}

func (w *lookedAt) mkdir(topics ...string) {
	w.t.Helper()
	for _, topic := range append(topics, "") {
		if err := os.MkdirAll(filepath.Join(w.root, topic), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}

// write puts a file in place by a rename, as a writer of records does.
func (w *lookedAt) write(topic, name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, topic, name)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *lookedAt) remove(topic, name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.root, topic, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *lookedAt) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(from, to); err != nil {
		w.t.Fatal(err)
	}
}

func sourceRecord(publisher uint64) kvstate.SourceAdvertisement {
	owner := testOwner(byte(publisher))
	return kvstate.SourceAdvertisement{
		CacheOwnerID: owner, IndexerDomainID: owner.Pool.IndexerDomain, KVBlockSize: 16,
		KVStateEndpoint: kvstate.EndpointID{Namespace: "ns", Component: "worker", Name: "generate"},
		IngressProtocol: kvstate.VLLMResidencyV1, PublisherID: publisher, ProtocolVersion: kvstate.V2,
		EventTopic: kvstate.EventTopic, RecoveryControlTarget: testTarget("http://127.0.0.1:1"),
	}
}

func attachmentRecord(publisher, generation uint64) kvstate.AttachmentAdvertisement {
	return kvstate.AttachmentAdvertisement{
		CacheOwnerID: testOwner(byte(publisher)), PublisherID: publisher, ProtocolVersion: kvstate.V2,
		RecoveryControlTarget: testTarget("http://127.0.0.1:1"), ProducerInstance: testTarget("http://127.0.0.1:2"),
		AttachmentGeneration: generation, Worker: kvstate.Worker{WorkerID: 1}, IngressProtocol: kvstate.VLLMResidencyV1,
		RawZMQEndpoint: "tcp://127.0.0.1:5557", ReadyAtOutboundCursor: 1,
	}
}

func testOwner(n byte) kvstate.CacheOwnerID {
	var id kvstate.CacheOwnerID
	id.Slot.Digest[0] = n
	return id
}

func testTarget(url string) kvstate.Instance {
	return kvstate.Instance{Component: "agent", Endpoint: "query", Namespace: "ns", InstanceID: 1,
		Transport: kvstate.Transport{Kind: kvstate.HTTP, Address: url}}
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// manyRecords writes n source records.
func (w *lookedAt) manyRecords(n int) {
	w.t.Helper()
	w.mkdir(kvstate.SourceTopic)
	record := encoded(w.t, sourceRecord(1))
	for i := range n {
		path := filepath.Join(w.root, kvstate.SourceTopic, fmt.Sprintf("%d.json", i+1))
		text := strings.Replace(record, `"publisher_id":1`, fmt.Sprintf(`"publisher_id":%d`, i+1), 1)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}
