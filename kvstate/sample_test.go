package kvstate_test

import "mooring/kvstate"

func ptr[T any](v T) *T { return &v }

func digest(b byte) (d kvstate.Digest) {
	for i := range d {
		d[i] = b
	}
	return d
}

// owner returns a cache owner with the given slot; all else is as in the base's vectors.
func owner(slot byte) kvstate.CacheOwnerID {
	return kvstate.CacheOwnerID{
		Pool: kvstate.PoolID{
			IndexerDomain: kvstate.IndexerDomainID{
				CacheSemantics: kvstate.CacheSemanticsID{Digest: digest(1), Source: kvstate.Explicit},
				RoutingScope:   kvstate.RoutingScopeID{Digest: digest(2), Source: kvstate.Explicit},
			},
			DC: 3,
		},
		Slot: kvstate.StableDPSlotID{Digest: digest(slot), Source: kvstate.Explicit},
	}
}

func instance() kvstate.Instance {
	return kvstate.Instance{Component: "worker", Endpoint: "state-agent", Namespace: "ns", InstanceID: 17,
		Transport: kvstate.Transport{Kind: kvstate.TCP, Address: "tcp://127.0.0.1:1234"}}
}

func worker() kvstate.Worker { return kvstate.Worker{WorkerID: 17, DPRank: 3} }

func identity() kvstate.AgentIdentity {
	return kvstate.AgentIdentity{CacheOwnerID: owner(4), PublisherID: 41, ProtocolVersion: kvstate.V2}
}

func source() kvstate.SourceAdvertisement {
	return kvstate.SourceAdvertisement{
		CacheOwnerID: owner(4), GlobalDPRank: 3, KVStateEndpoint: kvstate.EndpointID{Namespace: "ns", Component: "worker", Name: "generate"},
		IndexerDomainID: owner(4).Pool.IndexerDomain, KVBlockSize: 16, IngressProtocol: kvstate.VLLMResidencyV1, PublisherID: 41,
		ProtocolVersion: kvstate.V2, EventTopic: kvstate.EventTopic, RecoveryControlTarget: instance(),
	}
}

func attachment() kvstate.AttachmentAdvertisement {
	return kvstate.AttachmentAdvertisement{
		CacheOwnerID: owner(4), PublisherID: 41, ProtocolVersion: kvstate.V2, RecoveryControlTarget: instance(), AttachmentGeneration: 7,
		ProducerInstance: instance(), IntentIncarnation: 71, Worker: worker(), IngressProtocol: kvstate.VLLMResidencyV1,
		RawZMQEndpoint: "tcp://10.0.0.7:5557", RawTopic: "kv-events", ReadyAtOutboundCursor: 9,
	}
}

func status() kvstate.AgentStatus {
	return kvstate.AgentStatus{
		Identity:        identity(),
		Attachment:      &kvstate.AttachmentStatus{Generation: 7, Worker: worker(), Ready: true, ReadyAtOutboundCursor: 9},
		CacheOwnerReady: true, OutboundCursor: 12,
	}
}

func receipt() kvstate.RecoveryReceipt {
	return kvstate.RecoveryReceipt{Identity: identity(), AttachmentGeneration: ptr(uint64(7)), RecoveredThroughCursor: 9}
}

func intent() kvstate.AttachmentIntent {
	return kvstate.AttachmentIntent{
		TargetHost: instance(), ProducerInstance: instance(), IntentIncarnation: 71, CacheOwnerID: owner(4), Worker: worker(),
		KVStateEndpoint: kvstate.EndpointID{Namespace: "ns", Component: "worker", Name: "generate"}, IndexerDomainID: owner(4).Pool.IndexerDomain,
		KVBlockSize: 16, IngressProtocol: kvstate.VLLMResidencyV1, RawZMQEndpoint: "tcp://10.0.0.7:5557", RawTopic: "",
	}
}

func storeEvent() kvstate.RouterEvent {
	o := owner(4)
	return kvstate.RouterEvent{
		WorkerID: 1<<64 - 1, Tier: kvstate.HostPinned, Domain: kvstate.InDomain(kvstate.CacheOwnerDomain), EventID: 5, DPRank: 3,
		Kind: kvstate.Stored, StateSource: &o, SessionID: ptr("s-1"),
		Store: kvstate.StoreData{Parent: 1<<64 - 5, HasParent: true, StartPosition: ptr(uint32(0)),
			Blocks: []kvstate.Block{{External: 1, Local: 2}, {External: 3, Local: 4}},
			MM:     [][]kvstate.MMObject{nil, {{Hash: 42, Offsets: [][2]uint64{{0, 3}}}}}},
	}
}

func removeEvent() kvstate.RouterEvent {
	return kvstate.RouterEvent{WorkerID: 17, EventID: 6, Kind: kvstate.Removed, Removed: []uint64{1, 1<<64 - 1}}
}

func clearEvent() kvstate.RouterEvent {
	return kvstate.RouterEvent{WorkerID: 17, EventID: 7, DPRank: 1, Kind: kvstate.Cleared, Domain: kvstate.WireDomain{Present: true, Name: "from the future"}}
}
