// Command extproc is Mooring: an Envoy external-processing filter that pins each
// request to the LLM worker which holds its session. Run it without arguments
// for its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, fixed by the design: people's scripts rely on them.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run())
}

// run executes the command line and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := rootCommand()
	started := noteStart(root)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errCheckFailed): // has said everything itself
		return exitFailed
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "extproc: "+strings.TrimSuffix(line, "\n"))
	}
	var usage usageError
	if !*started || errors.As(err, &usage) {
		fmt.Fprintf(os.Stderr, "extproc: see %s --help\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// usageError is a command line that is wrong in a way that cobra can't know.
type usageError struct{ error }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "extproc",
		Short: "Mooring: keeps LLM sessions on the worker that holds their KV cache",
		Long: `Mooring is an Envoy external-processing (ext_proc) filter for fleets of LLM workers.
It answers one question inside Envoy's deadline: which worker. A request that carries
a session id goes to the worker that session is moored to; a new session goes to the
worker with the least to do for it.

  extproc demo                          see it work, with nothing configured
  extproc check --config mooring.yaml   validate a configuration
  extproc serve --config mooring.yaml   run the filter
  extproc envoy --config mooring.yaml   print the Envoy configuration that attaches it
  extproc explain --file request.json   where would it send this request, and why`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(serveCommand(), checkCommand(), envoyCommand(), demoCommand(), sessionsCommand(), explainCommand(), workerCommand())
	return root
}

// arguments demands exactly these arguments. Who gives a file without its flag is
// told so.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(names) == 0 && cmd.Flags().Lookup("config") != nil:
			return fmt.Errorf("%q: %s takes its file as --config %s", args[0], cmd.Name(), args[0])
		case len(names) == 0:
			return fmt.Errorf("%q: %s takes no arguments", args[0], cmd.Name())
		default:
			return fmt.Errorf("%s takes %s; there are %d arguments", cmd.Name(), strings.Join(names, " and "), len(args))
		}
	}
}

// requireConfig defines the flag that a command cannot do without.
func requireConfig(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "the configuration `FILE`; an empty one is valid")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag is defined in the line above
	}
}

// noteStart makes every command note that it began: an error before that is one
// of usage.
func noteStart(root *cobra.Command) *bool {
	started := new(bool)
	var wrap func(*cobra.Command)
	wrap = func(c *cobra.Command) {
		if body := c.RunE; body != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*started = true
				return body(c, args)
			}
		}
		for _, sub := range c.Commands() {
			wrap(sub)
		}
	}
	wrap(root)
	return started
}

// version is the module's version or, in a checkout, its commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return info.Main.Version
}
