package extproc_test

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"mooring/affinity"
	"mooring/extproc"
	"mooring/internal/fleet"
	"mooring/routing"
)

func Example() {
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{
		{ID: 1, Address: "10.0.0.7:8000", Models: []string{"llama"}, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active},
	}))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 7})
	if err != nil {
		panic(err)
	}
	router := routing.NewRouter(live, sessions, routing.Config{SessionHeaders: []string{"x-session-id"}})
	cfg := extproc.Config{ReplicaID: 7}
	filter, err := extproc.New(router, cfg)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(extproc.ServerOptions(cfg)...)
	filter.Register(server)
	for _, name := range slices.Sorted(maps.Keys(server.GetServiceInfo())) {
		fmt.Println(name)
	}
	// Then: server.Serve, filter.Run, filter.SetReady(true); at the end
	// filter.Drain and server.GracefulStop.

	// Output:
	// envoy.service.accesslog.v3.AccessLogService
	// envoy.service.ext_proc.v3.ExternalProcessor
	// grpc.health.v1.Health
}
