package e2e

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// report sends a replica the access log entry of a request that was picked.
func (m *meshStack) report(to int, p picked) {
	m.t.Helper()
	conn, err := grpc.NewClient("unix://"+m.socket(to), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(m.t.Context(), 10*time.Second)
	defer cancel()
	stream, err := logv3.NewAccessLogServiceClient(conn).StreamAccessLogs(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	entry := &logdatav3.HTTPAccessLogEntry{CommonProperties: &logdatav3.AccessLogCommon{
		AccessLogType: logdatav3.AccessLogType_DownstreamEnd, TimeToFirstUpstreamTxByte: durationpb.New(time.Millisecond),
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"mooring": {Fields: map[string]*structpb.Value{
			"replica": structpb.NewStringValue(p.replica), "lease": structpb.NewStringValue(p.lease),
		}}}},
	}}
	err = stream.Send(&logv3.StreamAccessLogsMessage{LogEntries: &logv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &logv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logdatav3.HTTPAccessLogEntry{entry}},
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	stream.CloseSend()
	stream.RecvMsg(new(logv3.StreamAccessLogsResponse)) // the end: all was read
}

// TestReplicationEndElsewhere: two gateways share two replicas, and the end of a
// request reaches the one that did not pick.
func TestReplicationEndElsewhere(t *testing.T) {
	m := newMesh(t, meshOptions{replicas: 2})
	picker, other := m.replicas[0], m.replicas[1]
	var all []picked
	for _, session := range names("s", 20) {
		p, err := picker.picker.pick(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if got := picker.metric(t, "mooring_leases"); got != 20 {
		t.Fatalf("%v leases after 20 picks", got)
	}
	eventually(t, 10*time.Second, "the other replica has heard of the picker", func() bool { return other.peer(t, picker.mesh).ReplicaID != nil })
	for _, p := range all {
		m.report(1, p)
	}
	eventually(t, 10*time.Second, "no lease left", func() bool { return picker.metric(t, "mooring_leases") == 0 })
	entries := func(r *meshReplica, disposition string) float64 {
		return metricAt(t, r.admin+"/metrics", "mooring_access_log_entries_total", "disposition", disposition)
	}
	if got := entries(other, "passed_on"); got != 20 {
		t.Errorf("%v entries were passed on, want 20", got)
	}
	gone := all[0]
	gone.replica = "5"
	m.report(1, gone)
	eventually(t, 10*time.Second, "the entry of a replica that is gone is counted", func() bool { return entries(other, "other_replica") == 1 })
}
