package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"mooring/envoy"
	"mooring/internal/config"
)

// Where the printed configuration expects Envoy's own certificate, if Mooring
// asks its clients for one: Mooring's configuration does not know it.
const (
	envoyCertFile = "/etc/envoy/mooring-client.crt"
	envoyKeyFile  = "/etc/envoy/mooring-client.key"
)

func envoyCommand() *cobra.Command {
	var configPath string
	var filterOnly, clusterOnly bool
	cmd := &cobra.Command{
		Use:   "envoy --config FILE",
		Short: "Print the Envoy configuration that attaches the filter",
		Long: `Prints a complete Envoy bootstrap (YAML) for the configuration in FILE: a listener, the
filter, the clusters, the access log. Envoy 1.40 takes it as it is: envoy -c envoy.yaml

With --filter-only or --cluster-only it prints the pieces to paste into a configuration
that exists; comments in them say where each goes.

A second Envoy on one machine needs ports of its own (envoy.listener, envoy.admin) and
--base-id: envoy -c envoy.yaml --base-id 1

Where Mooring asks its clients for a certificate, the printed paths of Envoy's own,
` + envoyCertFile + ` and .key, are to be replaced.`,
		Example: "  extproc envoy --config mooring.yaml > envoy.yaml && envoy -c envoy.yaml",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filterOnly && clusterOnly {
				return usageError{errors.New("--filter-only and --cluster-only: choose one, or neither for everything")}
			}
			c, err := config.Load(configPath)
			if err != nil {
				return err
			}
			text, err := printEnvoy(c, filterOnly, clusterOnly)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	requireConfig(cmd, &configPath)
	cmd.Flags().BoolVar(&filterOnly, "filter-only", false, "print only what a listener that exists needs")
	cmd.Flags().BoolVar(&clusterOnly, "cluster-only", false, "print only the clusters")
	return cmd
}

func printEnvoy(c *config.Config, filterOnly, clusterOnly bool) ([]byte, error) {
	cfg, err := envoyConfig(c)
	if err != nil {
		return nil, err
	}
	switch {
	case filterOnly:
		return envoy.FilterYAML(cfg)
	case clusterOnly:
		return envoy.ClusterYAML(cfg)
	default:
		return envoy.BootstrapYAML(cfg)
	}
}

// envoyConfig says what the Envoy in front of a Mooring with configuration c is
// given: one listener, asking the Mooring at listen.extproc. Whoever knows
// better (the demo has two listeners) replaces Listeners.
func envoyConfig(c *config.Config) (envoy.Config, error) {
	extproc, err := reachable(c.Listen.ExtProc)
	if err != nil {
		return envoy.Config{}, fmt.Errorf("listen.extproc: %w", err)
	}
	listener, err := listenIP(c.Envoy.Listener)
	if err != nil {
		return envoy.Config{}, fmt.Errorf("envoy.listener: %w", err)
	}
	admin := c.Envoy.Admin
	if admin != "" {
		if admin, err = listenIP(admin); err != nil {
			return envoy.Config{}, fmt.Errorf("envoy.admin: %w", err)
		}
	}
	cfg := envoy.Config{
		Listeners:      []envoy.Listener{{Name: "mooring", Address: listener, ExtProc: extproc}},
		Expose:         c.Session.Expose,
		EndpointsFile:  c.Envoy.EndpointsFile,
		AdminAddress:   admin,
		Deadline:       c.Request.Deadline,
		MaxBodyBytes:   int64(c.Request.MaxBodyBytes),
		MaxRequestTime: c.Request.MaxRequestTime,
		TLS:            envoyTLS(c.Listen.TLS),
	}
	if c.Envoy.Attachment == config.AttachOriginalDst {
		cfg.Attachment = envoy.OriginalDst
	}
	if c.Request.End == config.EndStream {
		cfg.End = envoy.Stream
	}
	switch c.Envoy.BodyMode {
	case config.BodyFullDuplex:
		cfg.BodyMode = envoy.FullDuplex
	case config.BodyNone:
		cfg.BodyMode = envoy.HeadersOnly
	case config.BodyBuffered:
		cfg.BodyMode = envoy.Buffered
	}
	return cfg, nil
}

// envoyTLS trusts Mooring by its own certificate: the certificate may be
// self-signed, and Envoy takes an end certificate for an anchor.
func envoyTLS(files config.TLS) *envoy.TLS {
	if files.CertFile == "" {
		return nil
	}
	t := &envoy.TLS{CAFile: files.CertFile}
	if files.ClientCAFile != "" {
		t.CertFile, t.KeyFile = envoyCertFile, envoyKeyFile
	}
	return t
}

// reachable returns the address at which an Envoy on this machine reaches a
// socket that listens on s.
func reachable(s string) (string, error) {
	if strings.HasPrefix(s, "unix:") {
		return s, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", errors.New("port 0 is another one at every start; name a fixed port for Envoy to find it")
	}
	// Go listens on IPv4 too where it is told [::].
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// listenIP returns the listener's address with an IP address: Envoy resolves no
// names for its listeners.
func listenIP(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", err
	}
	if host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	return s, nil
}
