package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// TestReconciliation replays testdata/reconciliation: each command is one input of
// the core at a time that the script says. It prints what is to be done, then the
// projection, then every owner: its resolution, and what the index holds.
func TestReconciliation(t *testing.T) {
	datadriven.Walk(t, "testdata/reconciliation", func(t *testing.T, path string) {
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			s.settle()
			s.print()
			return s.out.String()
		})
	})
}

// script drives a core with a real index and controller. Restores are done at once
// unless slow. Owners go by one letter.
type script struct {
	core       *core
	now        time.Time
	workers    map[uint64]fleet.Worker
	set        *index.Set
	controller *kvstate.Controller
	records    map[recordName]any
	slow       bool
	restores   []restore
	calls      map[string]uint64 // "status A" -> call
	streams    map[string]uint64
	next       time.Time
	out        strings.Builder
}

func newScript() *script {
	return &script{
		core: newCore(fleet.NewView(nil), 2*time.Second, time.Minute),
		now:  time.Unix(1000, 0), workers: make(map[uint64]fleet.Worker),
		set: index.NewSet(index.Config{}), controller: kvstate.NewController(),
		records: make(map[recordName]any), calls: make(map[string]uint64), streams: make(map[string]uint64),
	}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	a := arguments{t, d}
	switch d.Cmd {
	case "fleet": // one line a worker: id [state] [model=m]
		s.fleet(d.Input)
	case "source": // source [owner=A] pub=1 [target=tcp] [block=16]
		s.tell(kvstate.SourceTopic, a.number("pub", 1), s.source(a))
	case "attach": // attach [owner=A] pub=1 gen=1 worker=1 barrier=1
		at := s.attachment(a)
		s.tell(kvstate.AttachmentTopic, kvstate.AttachmentRecordID(at.PublisherID, at.AttachmentGeneration), at)
	case "unsource":
		s.tell(kvstate.SourceTopic, a.number("pub", 1), nil)
	case "detach":
		s.tell(kvstate.AttachmentTopic, kvstate.AttachmentRecordID(a.number("pub", 1), a.number("gen", 1)), nil)
	case "watch": // watch lost | watch back
		s.watch(d.CmdArgs[0].Key)
	case "status": // status [owner=A] cursor=5 [pub= gen= worker= barrier= endpoint= unready detached unsure]
		s.answer(a, "status", kvstate.QueryResponse{Status: s.status(a)})
	case "full": // full [owner=A] cursor=5 [through=5 pub= gen= scope=worker] and one event a line
		s.answer(a, "full", s.recovery(a, kvstate.QueryResponse{TreeDump: &kvstate.TreeDumpReply{
			Events: events(a), LastEventID: a.number("cursor", 1), ResetScope: a.scope()}}))
	case "full-for-range":
		s.answer(a, "range", s.recovery(a, kvstate.QueryResponse{TreeDump: &kvstate.TreeDumpReply{
			Events: events(a), LastEventID: a.number("cursor", 1)}}))
	case "range": // range [owner=A] cursor=5 and one event a line
		s.answer(a, "range", s.recovery(a, kvstate.QueryResponse{Events: &kvstate.EventsReply{
			Events: events(a), LastEventID: a.number("cursor", 1)}}))
	case "toonew":
		s.answer(a, "range", s.recovery(a, kvstate.QueryResponse{TooNew: &kvstate.TooNewReply{NewestAvailable: a.number("newest", 1)}}))
	case "refuse": // refuse question=range [owner=A]
		text := "no"
		s.answer(a, a.text("question", ""), kvstate.QueryResponse{Error: &text})
	case "silence": // silence question=status [owner=A]
		s.core.answered(s.now, s.call(a, a.text("question", "")), kvstate.QueryResponse{}, errors.New("timed out"))
	case "live": // live [owner=A] and one event a line
		s.core.heard(s.now, a.owner(), s.streams[letter(a.owner())], events(a))
	case "connected":
		s.core.streaming(a.owner(), s.streams[letter(a.owner())], true)
	case "advance":
		by, err := time.ParseDuration(a.text("by", ""))
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(by)
	case "restores": // restores slow | restores done
		s.slow = d.CmdArgs[0].Key == "slow"
		s.restore()
	case "feed": // feed starts|stops|ended [owner=F] [worker=1]; feed says ... prints as Ready
		s.feed(a)
	default:
		t.Fatalf("no command %q", d.Cmd)
	}
}

// tell is what the directory says: one record, or (nil) its withdrawal.
func (s *script) tell(topic string, id uint64, record any) {
	s.records[recordName{topic, id}] = record
	if w := s.core.watches[directoryWatch]; w != nil && !w.known {
		return // it is told when the watch is back
	}
	s.core.update(update{watch: directoryWatch, changes: []change{{topic, id, record}}})
}

func (s *script) watch(what string) {
	if what == "lost" {
		s.core.update(update{watch: directoryWatch, lost: errors.New("gone")})
		return
	}
	u := update{watch: directoryWatch, whole: true}
	for name, record := range s.records {
		if record != nil {
			u.changes = append(u.changes, change{name.topic, name.id, record})
		}
	}
	s.core.update(u)
}

func (s *script) call(a arguments, question string) uint64 {
	a.t.Helper()
	name := question + " " + letter(a.owner())
	id, ok := s.calls[name]
	if !ok {
		a.t.Fatalf("%s: nobody asked %s", a.d.Pos, name)
	}
	delete(s.calls, name)
	return id
}

func (s *script) answer(a arguments, question string, r kvstate.QueryResponse) {
	s.core.answered(s.now, s.call(a, question), r, nil)
}

// settle does what the core wants done, until it wants nothing more.
func (s *script) settle() {
	for {
		fx, next := s.core.settle(s.now)
		s.next = next
		for _, v := range fx.verdicts {
			s.controller.Update(v.now)
		}
		for _, e := range fx.edits {
			fmt.Fprintf(&s.out, "edit %s\n", describeEdit(&e))
			if ix, ok := s.set.Partition(e.partition); ok {
				e.perform(ix)
			}
		}
		for _, r := range fx.refused {
			fmt.Fprintf(&s.out, "refused %s\n", r)
		}
		s.restores = append(s.restores, fx.restores...)
		s.follow(fx)
		if len(fx.restores) == 0 || s.slow {
			return
		}
		s.restore()
	}
}

// follow notes calls and streams.
func (s *script) follow(fx effects) {
	for _, id := range fx.hangUps {
		for name, call := range s.calls {
			if call == id {
				fmt.Fprintf(&s.out, "hang up %s\n", name)
				delete(s.calls, name)
			}
		}
	}
	for _, c := range fx.calls {
		name := c.question.String() + " " + letter(c.owner)
		fmt.Fprintf(&s.out, "ask %s%s\n", name, describeRange(&c.request))
		s.calls[name] = c.id
	}
	for _, st := range fx.streams {
		fmt.Fprintf(&s.out, "listen %s %q\n", letter(st.owner), st.endpoint)
		s.streams[letter(st.owner)] = st.id
	}
	for _, p := range fx.unused {
		fmt.Fprintf(&s.out, "drop %s\n", p)
		s.set.Drop(p)
	}
}

func (s *script) restore() {
	for _, r := range s.restores {
		err := r.perform(s.set)
		if err != nil {
			s.out.WriteString("refused: ")
		}
		fmt.Fprintf(&s.out, "restore %s\n", describeEdit(&r.edit))
		s.core.restored(s.now, r.call, err)
	}
	s.restores = nil
}

func describeRange(q *kvstate.QueryRequest) string {
	var b strings.Builder
	if q.StartEventID != nil {
		fmt.Fprintf(&b, " from %d", *q.StartEventID)
	}
	if q.EndEventID != nil {
		fmt.Fprintf(&b, " to %d", *q.EndEventID)
	}
	return b.String()
}

func describeEdit(e *edit) string {
	var parts []string
	if e.clearOwner {
		parts = append(parts, "clear owner")
	}
	if e.clearWorker {
		parts = append(parts, "clear worker")
	}
	for _, event := range e.events {
		parts = append(parts, fmt.Sprintf("%s %d", event.Kind, event.EventID))
	}
	if !e.fills && len(e.events) > 0 {
		parts = append(parts, "(not the worker's)")
	}
	return e.partition.String() + ": " + strings.Join(parts, ", ")
}

func letter(id kvstate.CacheOwnerID) string { return string(rune(id.Slot.Digest[0])) }

// print shows the projection, and then what is known of each owner.
func (s *script) print() {
	s.out.WriteString("projected:")
	for p := range s.controller.Projection().All() {
		fmt.Fprintf(&s.out, " %s->%s", letter(p.Owner), p.Worker)
		if p.Holed {
			s.out.WriteString("(holed)")
		}
	}
	s.out.WriteString("\n")
	owners := slices.SortedFunc(maps.Values(s.core.owners), func(a, b *owner) int { return strings.Compare(letter(a.id), letter(b.id)) })
	for _, o := range owners {
		fmt.Fprintf(&s.out, "%s %s", letter(o.id), o.resolution.State)
		for i, r := range o.resolution.Reasons {
			fmt.Fprintf(&s.out, "%s%s", []string{" ", ","}[min(i, 1)], r)
		}
		for i, m := range o.resolution.Mismatches {
			fmt.Fprintf(&s.out, "%s%s", []string{": ", ","}[min(i, 1)], m)
		}
		if o.held.any {
			fmt.Fprintf(&s.out, " | cursor %d, holds %s", o.held.cursor, s.holds(o))
		}
		if err := o.why(); err != nil {
			fmt.Fprintf(&s.out, " | %v", err)
		}
		s.out.WriteString("\n")
	}
	if !s.next.IsZero() {
		fmt.Fprintf(&s.out, "next in %s\n", s.next.Sub(s.now))
	}
}

func (s *script) holds(o *owner) string {
	ix, ok := s.set.Partition(o.held.partition)
	if !ok {
		return "nothing"
	}
	text := fmt.Sprintf("%d of its own", ix.Blocks(index.Owner{Key: o.key, Domain: kvstate.CacheOwnerDomain}))
	if o.held.engine {
		text += fmt.Sprintf(", %d of %s", ix.Blocks(index.Owner{Key: kvstate.WorkerKey(o.held.worker)}), o.held.worker)
	}
	return text
}
