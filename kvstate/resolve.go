package kvstate

// Inputs is everything that decides whether one cache owner is projected.
type Inputs struct {
	// DiscoveryKnown: Sources and Attachments are complete now. False while a
	// watch is lost.
	DiscoveryKnown bool
	Owner          CacheOwnerID
	// Sources and Attachments may hold records of other owners; they are skipped.
	Sources     []SourceAdvertisement
	Attachments []AttachmentAdvertisement
	// Live reports whether a worker's rank can be sent requests. nil: none can.
	Live func(Worker) bool
	// Status is the agent's last answer, nil if the last query failed.
	Status *AgentStatus
	// Receipt is of the last recovery, nil if there was none.
	Receipt *RecoveryReceipt
	// Holed: the recovered state has known holes. It decides nothing here and is
	// passed on to the projection.
	Holed bool
}

// Resolution is what [Resolve] decided about one owner.
type Resolution struct {
	Owner  CacheOwnerID
	State  State
	Reason Reason // the decisive one; none if Ready
	// Reasons is every reason that holds, the decisive one first; nil if Ready. A
	// reason that cannot be judged (there is no single attachment to compare with,
	// say) is left out.
	Reasons []Reason
	// Mismatches is every comparison that failed; nil unless Reasons has
	// StatusMismatch.
	Mismatches []Mismatch
	// Worker and Barrier are those of the attachment if Ready, and zero otherwise.
	Worker  Worker
	Barrier uint64
	Holed   bool // from Inputs; meaningful only if Ready
}

// Resolve decides whether one cache owner may be projected, and to which worker.
// It is pure and total, and it is the only place where this is decided. The order
// of the steps is the order in which reasons decide; steps after the decisive one
// only add to Reasons. A Ready result costs no allocation.
func Resolve(in Inputs) Resolution {
	r := Resolution{Owner: in.Owner}

	// 1. Discovery.
	if !in.DiscoveryKnown {
		r.because(WatchUncertain)
	}
	// 2. Exactly one source.
	source, sources := sole(in.Sources, func(s *SourceAdvertisement) bool { return s.CacheOwnerID == in.Owner })
	switch {
	case sources == 0:
		r.because(NoSource)
	case sources > 1:
		r.because(AmbiguousSource)
	}
	// 3. Exactly one attachment, counted before any look at publisher or liveness.
	attachment, attachments := sole(in.Attachments, func(a *AttachmentAdvertisement) bool { return a.CacheOwnerID == in.Owner })
	switch {
	case attachments == 0:
		r.because(NoAttachment)
	case attachments > 1:
		r.because(AmbiguousAttachment)
	}
	// 4. A live worker.
	if attachment != nil && (in.Live == nil || !in.Live(attachment.Worker)) {
		r.because(WorkerNotLive)
	}
	// 5. An answer from the source's agent.
	if source != nil && in.Status == nil {
		r.because(EndpointUnreachable)
	}
	if source != nil && attachment != nil {
		r.judge(in, source, attachment)
	}
	// 10. Nothing against it.
	if r.Reason == 0 {
		r.State, r.Worker, r.Barrier, r.Holed = Ready, attachment.Worker, attachment.ReadyAtOutboundCursor, in.Holed
	}
	return r
}

// judge is steps 6 to 9: it compares one source, one attachment, the status and
// the receipt.
func (r *Resolution) judge(in Inputs, source *SourceAdvertisement, attachment *AttachmentAdvertisement) {
	barrier := attachment.ReadyAtOutboundCursor
	// 6. One story from source, attachment and status.
	if in.Status != nil {
		r.Mismatches = compareStatus(in.Owner, source, attachment, in.Status)
		if len(r.Mismatches) > 0 {
			r.because(StatusMismatch)
		}
	}
	// 7. A recovery.
	if in.Receipt == nil {
		r.because(RecoveryBehindBarrier)
		return
	}
	// 8. A recovery of this very agent and attachment; no generation is another one.
	expected := AgentIdentity{in.Owner, source.PublisherID, source.ProtocolVersion}
	generation := in.Receipt.AttachmentGeneration
	if in.Receipt.Identity != expected || generation == nil || *generation != attachment.AttachmentGeneration {
		r.because(RecoveryIdentityMismatch)
	}
	// 9. Both the agent and the recovery at or past the barrier.
	if in.Status != nil && in.Status.OutboundCursor < barrier || in.Receipt.RecoveredThroughCursor < barrier {
		r.because(RecoveryBehindBarrier)
	}
}

// because notes a reason; the first one decides.
func (r *Resolution) because(reason Reason) {
	if r.Reason == 0 {
		r.State, r.Reason = reason.State(), reason
	}
	r.Reasons = append(r.Reasons, reason)
}

// sole returns the one record that is wanted, nil unless there is exactly one, and
// how many there are.
func sole[T any](all []T, wanted func(*T) bool) (record *T, n int) {
	for i := range all {
		if wanted(&all[i]) {
			record, n = &all[i], n+1
		}
	}
	if n != 1 {
		return nil, n
	}
	return record, n
}
