package envoy

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"
)

// Attachment is how Envoy is told the destination. In both, by dynamic metadata
// only.
type Attachment uint8

const (
	// OverrideHost: the workers are endpoints that Envoy knows from a file; an
	// address that is not among them is a 503.
	OverrideHost Attachment = iota
	// OriginalDst: Envoy connects to whatever address Mooring names; it need
	// not know the workers.
	OriginalDst
)

// BodyMode is how Envoy hands request bodies to Mooring.
type BodyMode uint8

const (
	// FullDuplex: in pieces as they arrive, without a copy in Envoy.
	FullDuplex BodyMode = iota
	// HeadersOnly: not at all, until Mooring asks for one request's body.
	HeadersOnly
	// Buffered: whole, in one message.
	Buffered
)

// End is how Mooring learns that a response has ended.
type End uint8

const (
	// AccessLog: from Envoy's gRPC access log; the ext_proc stream ends right
	// after the pick.
	AccessLog End = iota
	// Stream: from the ext_proc stream, which stays open for it.
	Stream
)

// Listener is one of Envoy's listeners and the Mooring that it asks.
type Listener struct {
	// Name is the listener's name in Envoy, unique.
	Name string
	// Address is where Envoy listens: "ip:port", or ":port" for all IPv4
	// addresses. Port 0 takes a free one.
	Address string
	// ExtProc is where Mooring's gRPC server is reached: "host:port" or
	// "unix:///path". Listeners may share one.
	ExtProc string
}

// TLS is how Envoy speaks TLS to Mooring. All files are read by Envoy, on its
// machine. The zero value verifies nothing and shows no certificate.
type TLS struct {
	// CAFile holds the certificates that Envoy trusts Mooring by: a CA, or
	// Mooring's own certificate. Empty: any certificate is accepted.
	CAFile string
	// ServerName is what Envoy asks for (SNI) and, with a CAFile, what the
	// certificate must say; empty: neither.
	ServerName string
	// CertFile and KeyFile are Envoy's own certificate and key, for a Mooring
	// that asks its clients for one; both or neither.
	CertFile, KeyFile string
}

// Config is what the generated configuration depends on.
type Config struct {
	// Listeners, at least one.
	Listeners []Listener
	// Attachment is how Envoy is told the destination.
	Attachment Attachment
	// BodyMode is how request bodies reach Mooring.
	BodyMode BodyMode
	// End is how Mooring learns of the end of a response.
	End End
	// Expose tells clients the worker and the reason in the response headers
	// x-mooring-worker and x-mooring-reason. Without it these headers are
	// removed from responses, so that no worker can fake them.
	Expose bool
	// EndpointsFile is the absolute path of the file that WriteEndpoints keeps;
	// needed for OverrideHost only.
	EndpointsFile string
	// AdminAddress is where Envoy's admin API listens, "ip:port"; empty: it has
	// none.
	AdminAddress string
	// Deadline is how long Mooring takes at most for a pick; 0: 2 s. Envoy
	// allows a second more before it gives up on Mooring.
	Deadline time.Duration
	// MaxBodyBytes is the longest request body that Mooring takes; 0: 16 MiB.
	MaxBodyBytes int64
	// MaxRequestTime is how long a request may pass without a byte in either
	// direction, as a long generation that is not streamed does; 0: 1 h.
	MaxRequestTime time.Duration
	// TLS is set if Mooring's gRPC server speaks TLS.
	TLS *TLS
}

// withDefaults returns the configuration with its zero values replaced, or what
// is wrong with it, all at once.
func (c Config) withDefaults() (Config, error) {
	if c.Deadline == 0 {
		c.Deadline = 2 * time.Second
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 16 << 20
	}
	if c.MaxRequestTime == 0 {
		c.MaxRequestTime = time.Hour
	}
	problems := []error{c.wrongChoice(), c.wrongLimit(), c.wrongListeners()}
	if c.Attachment == OverrideHost && !filepath.IsAbs(c.EndpointsFile) {
		problems = append(problems, fmt.Errorf("endpoints file %q: want an absolute path", c.EndpointsFile))
	}
	if t := c.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		problems = append(problems, errors.New("tls: want both a certificate and its key, or neither"))
	}
	if err := errors.Join(problems...); err != nil {
		return Config{}, fmt.Errorf("envoy configuration: %w", err)
	}
	return c, nil
}

func (c Config) wrongChoice() error {
	if c.Attachment > OriginalDst || c.BodyMode > Buffered || c.End > Stream {
		return fmt.Errorf("unknown choice: attachment %d, body mode %d, end %d", c.Attachment, c.BodyMode, c.End)
	}
	return nil
}

func (c Config) wrongLimit() error {
	switch {
	case c.Deadline < 0 || c.MaxRequestTime < 0:
		return fmt.Errorf("negative time: deadline %v, max request time %v", c.Deadline, c.MaxRequestTime)
	case c.MaxBodyBytes < 0 || c.MaxBodyBytes > math.MaxUint32-bufferSlack:
		return fmt.Errorf("max body of %d bytes: Envoy counts to 4 GiB", c.MaxBodyBytes)
	}
	return nil
}

func (c Config) wrongListeners() error {
	if len(c.Listeners) == 0 {
		return errors.New("no listener")
	}
	names := make(map[string]bool, len(c.Listeners))
	for _, l := range c.Listeners {
		if l.Name == "" || names[l.Name] {
			return fmt.Errorf("listener %q: want unique names", l.Name)
		}
		names[l.Name] = true
	}
	return nil
}
