package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mooring/internal/config"
)

// errCheckFailed says that a configuration was found wrong and that everything
// about it has been printed.
var errCheckFailed = errors.New("the configuration has problems")

func checkCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Validate a configuration without starting anything",
		Long: `Reads the configuration and the files that it names, and prints everything
that is wrong with them, one line each with file and line and what would be right.

What is fine but has no effect beside another value, a directory that is yet to
come, and listeners that anybody may reach, are listed after "FILE: fine".

Exit code 0 if the files can be used, 1 if not.`,
		Example: `  $ extproc check --config mooring.yaml
  mooring.yaml:4: session.ttl: is "30" without a unit; it takes a duration from 1s to 8760h, as in 30s
  mooring.yaml:9: worker: is no key; did you mean workers?`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return check(path, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	requireConfig(cmd, &path)
	return cmd
}

// check prints what there is to say about the configuration at path and returns
// errCheckFailed if it cannot be used.
func check(path string, out, errOut io.Writer) error {
	cfg, err := config.Load(path)
	if err != nil {
		fmt.Fprintln(errOut, err)
		return errCheckFailed
	}
	if err := cfg.CheckFiles(); err != nil {
		fmt.Fprintln(errOut, err)
		return errCheckFailed
	}
	remarks := cfg.Remarks()
	if file := cfg.Workers.File; file != "" {
		workers, err := config.LoadWorkers(file)
		if err == nil {
			_, err = config.MergeWorkers(cfg.Workers.Static, workers)
		}
		if err != nil {
			fmt.Fprintln(errOut, err)
			return errCheckFailed
		}
	}
	fmt.Fprintf(out, "%s: fine\n", path)
	for _, remark := range remarks {
		fmt.Fprintln(out, remark)
	}
	return nil
}
