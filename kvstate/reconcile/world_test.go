package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// world is a core with everything around it, driven at random.
type world struct {
	t          *testing.T
	rand       *rand.Rand
	core       *core
	now        time.Time
	set        *index.Set
	controller *kvstate.Controller
	told       map[recordName]any // the directory's records
	calls      map[uint64]call
	restores   []restore
	streams    map[kvstate.CacheOwnerID]uint64
	cursors    map[uint64]uint64 // newest event id by publisher
	feeding    map[kvstate.CacheOwnerID]bool
	history    []string
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), core: newCore(fleet.NewView(nil), time.Second, 10*time.Second), now: time.Unix(1000, 0),
		set: index.NewSet(index.Config{}), controller: kvstate.NewController(), told: make(map[recordName]any), calls: make(map[uint64]call),
		streams: make(map[kvstate.CacheOwnerID]uint64), cursors: make(map[uint64]uint64), feeding: make(map[kvstate.CacheOwnerID]bool),
	}
}

// Publishers 1 to 6 are of owners A, B and C, two each.
func ownerOf(pub uint64) kvstate.CacheOwnerID { return testOwner('A' + byte(pub-1)/2) }

func (w *world) act() {
	pub, gen := 1+w.rand.Uint64N(6), 1+w.rand.Uint64N(2)
	worker := kvstate.Worker{WorkerID: 1 + w.rand.Uint64N(2)}
	what := w.rand.IntN(32)
	if len(w.history) == 0 {
		w.core.see(fleet.NewView([]fleet.Worker{testWorker(1), testWorker(2)}))
	}
	w.history = append(w.history, fmt.Sprintf("%d pub %d gen %d worker %s", what, pub, gen, worker))
	switch what {
	case 0, 1, 2:
		w.advertise(pub)
	case 3:
		w.tell(recordName{kvstate.SourceTopic, pub}, nil)
	case 4, 5, 6:
		w.attach(pub, gen, worker)
	case 7, 8:
		w.tell(recordName{kvstate.AttachmentTopic, kvstate.AttachmentRecordID(pub, gen)}, nil)
	case 9:
		w.core.update(update{watch: directoryWatch, lost: errors.New("gone")})
	case 10:
		w.back()
	case 11, 12:
		w.fleet()
	case 13:
		w.now = w.now.Add(time.Duration(w.rand.IntN(12_000)) * time.Millisecond)
	case 14:
		w.restored(false)
	case 15:
		w.feed(worker)
	case 16, 17:
		w.live(pub)
	case 18:
		w.core.streaming(ownerOf(pub), w.streams[ownerOf(pub)], w.rand.IntN(2) == 0)
	case 19:
		w.calm(pub, gen, worker)
	default:
		if all := w.asked(); len(all) > 0 {
			w.answer(all[w.rand.IntN(len(all))], what >= 24)
		}
	}
	w.settle()
}

// calm makes a publisher the only one of its owner, attached to a worker that is
// there, and answers well what is asked about it. What it has then gets into the
// index only at times.
func (w *world) calm(pub, gen uint64, worker kvstate.Worker) {
	w.back()
	w.core.see(fleet.NewView([]fleet.Worker{testWorker(1), testWorker(2)}))
	id := ownerOf(pub)
	for name, record := range w.told {
		if s, ok := record.(kvstate.SourceAdvertisement); ok && s.CacheOwnerID == id && s.PublisherID != pub {
			w.tell(name, nil)
		} else if a, ok := record.(kvstate.AttachmentAdvertisement); ok && a.CacheOwnerID == id && (a.PublisherID != pub || a.AttachmentGeneration != gen) {
			w.tell(name, nil)
		}
	}
	w.advertise(pub)
	w.attach(pub, gen, worker)
	for range 8 {
		w.settle()
		for _, q := range w.asked() {
			if q.owner == id {
				w.answer(q, true)
			}
		}
		if w.rand.IntN(4) > 0 {
			w.restored(true)
		}
		w.now = w.now.Add(shortestPause)
	}
}

func (w *world) advertise(pub uint64) {
	s := sourceRecord(pub)
	s.CacheOwnerID = ownerOf(pub)
	w.tell(recordName{kvstate.SourceTopic, pub}, s)
}

func (w *world) attach(pub, gen uint64, worker kvstate.Worker) {
	a := attachmentRecord(pub, gen)
	a.CacheOwnerID, a.Worker, a.ReadyAtOutboundCursor = ownerOf(pub), worker, w.rand.Uint64N(3)
	if name := (recordName{kvstate.AttachmentTopic, kvstate.AttachmentRecordID(pub, gen)}); w.told[name] == nil {
		w.tell(name, a)
	}
}

func (w *world) tell(name recordName, record any) {
	if record == nil {
		delete(w.told, name)
	} else {
		w.told[name] = record
	}
	if s := w.core.watches[directoryWatch]; s == nil || s.known {
		w.core.update(update{watch: directoryWatch, changes: []change{{name.topic, name.id, record}}})
	}
}

func (w *world) back() {
	u := update{watch: directoryWatch, whole: true}
	for name, record := range w.told {
		u.changes = append(u.changes, change{name.topic, name.id, record})
	}
	w.core.update(u)
}

func (w *world) fleet() {
	var all []fleet.Worker
	for id := range fleet.WorkerID(2) {
		if n := w.rand.IntN(8); n > 0 {
			one := testWorker(id + 1)
			one.State = fleet.States[max(0, n-4)]
			if n == 4 {
				one.Models = []string{"other"}
			}
			all = append(all, one)
		}
	}
	w.core.see(fleet.NewView(all))
}

func (w *world) feed(at kvstate.Worker) {
	id := testOwner('Y' + byte(at.WorkerID-1))
	switch {
	case !w.feeding[id]:
		w.feeding[id] = w.core.feedStarts(id, at, testPartition)
	case w.rand.IntN(2) == 0:
		source := sourceRecord(100 + at.WorkerID)
		source.CacheOwnerID = id
		w.core.feedSays(id, testimony{source: &source, holed: w.rand.IntN(2) == 0})
	default:
		w.core.feedStops(id)
		w.settle()
		w.core.feedEnded(id)
		w.feeding[id] = false
	}
}

// live publishes an event, of which one in three gets lost, and one in ten is of
// another worker.
func (w *world) live(pub uint64) {
	id := ownerOf(pub)
	w.cursors[pub]++
	e := kvstate.RouterEvent{EventID: w.cursors[pub], Kind: kvstate.Stored, Domain: kvstate.InDomain(kvstate.WorkerDomain)}
	o := w.core.owners[id]
	if w.rand.IntN(3) == 0 || o == nil || o.agent.identity.PublisherID != pub {
		return
	}
	e.WorkerID = o.held.worker.WorkerID
	if w.rand.IntN(10) == 0 {
		e.WorkerID += 7
	}
	e.Store.Blocks = []kvstate.Block{{External: e.EventID, Local: e.EventID}}
	w.core.heard(w.now, id, w.streams[id], []kvstate.RouterEvent{e})
}

// asked lists the questions that are out, in a fixed order.
func (w *world) asked() []call {
	all := slices.Collect(maps.Values(w.calls))
	slices.SortFunc(all, func(a, b call) int { return cmp.Compare(a.id, b.id) })
	return all
}

// answer answers a question, in one of many ways unless well.
func (w *world) answer(q call, well bool) {
	delete(w.calls, q.id)
	if !well && w.rand.IntN(6) == 0 {
		w.core.answered(w.now, q.id, kvstate.QueryResponse{}, errors.New("timed out"))
		return
	}
	w.core.answered(w.now, q.id, w.reply(&q, well), nil)
}

func (w *world) reply(q *call, well bool) kvstate.QueryResponse {
	pub := q.request.Kind.Expected.PublisherID
	cursor := w.cursors[pub]
	worker := kvstate.Worker{WorkerID: q.request.WorkerID}
	generation, barrier := uint64(1), uint64(0)
	for _, a := range w.core.owners[q.owner].attachments {
		generation, barrier = a.AttachmentGeneration, a.ReadyAtOutboundCursor
	}
	if q.question == askStatus {
		identity := q.request.Kind.Expected
		if !well && w.rand.IntN(10) == 0 {
			identity.PublisherID++
		}
		return kvstate.QueryResponse{Status: &kvstate.AgentStatus{
			Identity: identity, CacheOwnerReady: well || w.rand.IntN(10) > 0, OutboundCursor: cursor,
			EventEndpoint: []string{"", "tcp://a:1", "tcp://a:1", "tcp://a:2"}[w.rand.IntN(4)],
			Attachment:    &kvstate.AttachmentStatus{Generation: generation, Worker: worker, Ready: true, ReadyAtOutboundCursor: barrier},
		}}
	}
	reply := &kvstate.StateAgentRecoveryReply{Receipt: kvstate.RecoveryReceipt{
		Identity: q.request.Kind.Expected, AttachmentGeneration: q.request.Kind.ExpectedAttachmentGeneration, RecoveredThroughCursor: cursor}}
	source := q.owner
	event := kvstate.RouterEvent{EventID: cursor, Kind: kvstate.Stored, Tier: kvstate.HostPinned, StateSource: &source,
		Domain: kvstate.InDomain(kvstate.CacheOwnerDomain), Store: kvstate.StoreData{Blocks: []kvstate.Block{{External: 500 + pub, Local: 500 + pub}}}}
	mine := kvstate.RouterEvent{EventID: cursor, WorkerID: worker.WorkerID, Kind: kvstate.Stored, Domain: kvstate.InDomain(kvstate.WorkerDomain),
		Store: kvstate.StoreData{Blocks: []kvstate.Block{{External: 600 + pub, Local: 600 + pub}}}}
	text := "no"
	n := w.rand.IntN(8)
	if well {
		n = 4
	}
	switch {
	case n == 0:
		reply.Response.Error = &text
	case n == 1:
		reply.Response.TooNew = &kvstate.TooNewReply{NewestAvailable: cursor}
	case n == 2:
		reply.Receipt.Identity.PublisherID++
		reply.Response.TreeDump = &kvstate.TreeDumpReply{LastEventID: cursor}
	case n == 3 || q.question == askRange:
		reply.Response.Events = &kvstate.EventsReply{Events: []kvstate.RouterEvent{event}, LastEventID: cursor}
	default:
		reply.Response.TreeDump = &kvstate.TreeDumpReply{Events: []kvstate.RouterEvent{event, mine}, LastEventID: cursor}
	}
	return kvstate.QueryResponse{StateAgentRecovery: reply}
}

// restored puts what was recovered into the index; one in four is refused unless
// all is well.
func (w *world) restored(well bool) {
	for _, r := range w.restores {
		err := errBlockSize
		if well || w.rand.IntN(4) > 0 {
			err = r.perform(w.set)
		}
		w.core.restored(w.now, r.call, err)
	}
	w.restores = nil
}
