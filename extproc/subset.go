package extproc

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// namespaceSubset is the metadata namespace in which a gateway names the only
	// endpoints that it allows, under the key headerSubset:
	//
	//	["10.0.0.1:8000", "10.0.0.2:8000"] or "10.0.0.1:8000,10.0.0.2"
	//
	// An endpoint without a port stands for all ports of its address.
	namespaceSubset = "envoy.lb.subset_hint"

	// A longer list is unreadable. Both are far above what a gateway balances over.
	maxSubset      = 4096
	maxSubsetBytes = 256 << 10
)

// subset is whom the gateway allows to serve a request.
type subset struct {
	restricted bool     // false: everybody is allowed
	addresses  []string // the allowed ones as routing.Request wants them
	unreadable bool     // something in the list could not be read
}

// readSubset reads the gateway's subset of endpoints. A list that is there always
// restricts: what cannot be read in it allows nobody, and neither does an empty
// list or one that is too long. Only a gateway that names none allows all.
func readSubset(m *corev3.Metadata) subset {
	hint, there := m.GetFilterMetadata()[namespaceSubset].GetFields()[headerSubset]
	if !there {
		return subset{}
	}
	s := subset{restricted: true}
	entries, ok := subsetEntries(hint)
	s.unreadable = !ok
	for _, entry := range entries {
		switch address, ok := canonicalEndpoint(entry); {
		case ok:
			s.addresses = append(s.addresses, address)
		case entry != "":
			s.unreadable = true
		}
	}
	slices.Sort(s.addresses)
	s.addresses = slices.Compact(s.addresses)
	return s
}

// subsetEntries returns the trimmed texts in a list of endpoints, either of its
// forms. False if it holds anything else or too much; too much leaves nothing.
func subsetEntries(hint *structpb.Value) (entries []string, ok bool) {
	values := []*structpb.Value{hint}
	if list := hint.GetListValue(); list != nil {
		values = list.GetValues()
	}
	ok, size := true, 0
	for _, v := range values {
		text, is := v.GetKind().(*structpb.Value_StringValue)
		if !is {
			ok = false
			continue
		}
		if size += len(text.StringValue); size > maxSubsetBytes {
			return nil, false
		}
		for entry := range strings.SplitSeq(text.StringValue, ",") {
			entries = append(entries, strings.Trim(entry, " \t"))
		}
		if len(entries) > maxSubset {
			return nil, false
		}
	}
	return entries, ok
}

// canonicalEndpoint writes "ip:port", "[v6]:port", "ip" or "[v6]" as workers'
// addresses are written, or as their part before the port.
func canonicalEndpoint(s string) (string, bool) {
	if p, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", false
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return "", false
	}
	return a.Unmap().String(), true
}
