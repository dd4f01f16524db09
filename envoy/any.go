package envoy

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// makeAny packs an extension's configuration.
func makeAny(m proto.Message) (*anypb.Any, error) {
	packed := new(anypb.Any)
	// Deterministic, because golden files and Envoy's own comparison of
	// resources see the bytes.
	if err := anypb.MarshalFrom(packed, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("pack %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return packed, nil
}

func seconds(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

func number(n uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(n) }
