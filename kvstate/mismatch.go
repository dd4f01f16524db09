package kvstate

// compareStatus returns every comparison of step 6 that fails, nil if none does.
func compareStatus(owner CacheOwnerID, source *SourceAdvertisement, attachment *AttachmentAdvertisement, status *AgentStatus) []Mismatch {
	var failed []Mismatch
	differs := func(m Mismatch, is bool) {
		if is {
			failed = append(failed, m)
		}
	}
	differs(StatusOwner, status.Identity.CacheOwnerID != owner)
	differs(CacheOwnerNotReady, !status.CacheOwnerReady)
	differs(AttachmentPublisher, attachment.PublisherID != source.PublisherID)
	differs(StatusPublisher, status.Identity.PublisherID != source.PublisherID)
	differs(StatusProtocol, status.Identity.ProtocolVersion != source.ProtocolVersion)
	differs(AttachmentProtocol, source.ProtocolVersion != attachment.ProtocolVersion)
	differs(AttachmentIngress, source.IngressProtocol != attachment.IngressProtocol)
	differs(AttachmentRank, source.GlobalDPRank != attachment.Worker.DPRank)
	differs(SourceEventTopic, source.EventTopic != EventTopic)
	differs(AttachmentControlTarget, source.RecoveryControlTarget != attachment.RecoveryControlTarget)
	seen := status.Attachment
	if seen == nil {
		return append(failed, StatusDetached)
	}
	differs(StatusGeneration, seen.Generation != attachment.AttachmentGeneration)
	differs(StatusWorker, seen.Worker != attachment.Worker)
	differs(StatusBarrier, seen.ReadyAtOutboundCursor != attachment.ReadyAtOutboundCursor)
	differs(StatusNotReady, !seen.Ready)
	return failed
}
