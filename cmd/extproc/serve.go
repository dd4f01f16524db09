package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"mooring/internal/config"
)

func serveCommand() *cobra.Command {
	var configPath, logLevel string
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run the filter: ext_proc gRPC for Envoy, and admin HTTP",
		Long: `Runs the filter until SIGTERM or Ctrl-C, then drains: readiness drops first, running
requests finish, and what is left after shutdown.drain is cut.

Workers, their health settings and the replication peers are put in force while it
runs, when FILE or the workers file changes or on SIGHUP. A bad new file is refused
and logged; the old one stays in force. The log line "ready" carries every bound address.`,
		Example: "  extproc serve --config mooring.yaml",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(os.Stderr, logLevel)
			if err != nil {
				return err
			}
			slog.SetDefault(logger) // for what net/http says of its connections
			cfg, err := config.Load(configPath)
			if err == nil {
				err = cfg.CheckFiles()
			}
			if err != nil {
				return err
			}
			for _, remark := range cfg.Remarks() {
				logger.Info("configuration", "remark", remark.String())
			}
			r, err := newReplica(cfg, configPath, logger)
			if err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	requireConfig(cmd, &configPath)
	cmd.Flags().StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}
