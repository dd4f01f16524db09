package main

import (
	"net"
	"net/http"

	"mooring/internal/admin"
)

func (r *replica) adminHandler() http.Handler {
	return admin.Handler(admin.Config{
		Fleet: r.discovery.Live(), Sessions: r.sessions, Router: r.router, Ready: r.readiness, Peers: r.peers,
		Owners: r.kv.reconciler.Owners, KV: r.kv.worker,
		Gatherer: r.registry, Registerer: r.registry, Host: r.adminHost(), ReplicaID: r.id, Version: version(), Logger: r.logger,
	})
}

func (r *replica) peers() []admin.Peer {
	if r.mesh == nil {
		return nil
	}
	return r.mesh.peers()
}

// adminHost returns the name under which the admin API was configured to listen.
func (r *replica) adminHost() string {
	host, _, err := net.SplitHostPort(r.config.Load().Listen.Admin)
	if err != nil {
		return ""
	}
	return host
}
