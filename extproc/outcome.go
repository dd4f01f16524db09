package extproc

import (
	"net"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"mooring/affinity"
)

// outcomeOf reads from an access log entry how its request ended. What counts
// first is whether the worker got it at all, then whose fault the end was.
func outcomeOf(c *logdatav3.AccessLogCommon) affinity.Outcome {
	f := c.GetResponseFlags()
	sent := c.GetTimeToFirstUpstreamTxByte() != nil
	switch {
	case !sent && (unreachable(f) || c.GetUpstreamRemoteAddress() == nil):
		return affinity.NeverSent
	case f.GetDownstreamConnectionTermination() || f.GetDownstreamRemoteReset() || f.GetDownstreamProtocolError():
		return affinity.ClientAborted
	case unreachable(f) || upstreamFailed(f):
		return affinity.UpstreamFailed
	default:
		return affinity.Completed
	}
}

// unreachable: no worker was found or connected to.
func unreachable(f *logdatav3.ResponseFlags) bool {
	return f.GetUpstreamConnectionFailure() || f.GetNoHealthyUpstream() || f.GetUpstreamOverflow() ||
		f.GetNoRouteFound() || f.GetNoClusterFound() || f.GetDnsResolutionFailure()
}

// connectFailed: the worker that was chosen could not be connected to.
func connectFailed(c *logdatav3.AccessLogCommon) bool {
	return c.GetResponseFlags().GetUpstreamConnectionFailure()
}

// upstreamFailed: the worker or the way to it broke, or was too slow.
func upstreamFailed(f *logdatav3.ResponseFlags) bool {
	return f.GetUpstreamRemoteReset() || f.GetUpstreamConnectionTermination() || f.GetUpstreamProtocolError() ||
		f.GetUpstreamRequestTimeout() || f.GetUpstreamRetryLimitExceeded() || f.GetUpstreamMaxStreamDurationReached() ||
		f.GetLocalReset() || f.GetStreamIdleTimeout() || f.GetDurationTimeout()
}

// servedBy returns the address that a request was sent to; "" if none.
func servedBy(c *logdatav3.AccessLogCommon) string {
	fields := c.GetMetadata().GetFilterMetadata()[namespaceLB].GetFields()
	if served := fields[headerServed].GetStringValue(); served != "" {
		return served
	}
	return addressOf(c.GetUpstreamRemoteAddress())
}

// addressOf writes an address as destinations are written: "ip:port" or
// "[v6]:port".
func addressOf(a *corev3.Address) string {
	socket := a.GetSocketAddress()
	if socket == nil {
		return ""
	}
	return net.JoinHostPort(socket.GetAddress(), strconv.FormatUint(uint64(socket.GetPortValue()), 10))
}
