package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// sessionsFlags are those that all commands on sessions share.
type sessionsFlags struct {
	admin, model, group, output string
}

func sessionsCommand() *cobra.Command {
	var f sessionsFlags
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Show, pin and unpin the sessions of a running replica",
		Long: `Talks to the admin API of a running replica.

A session belongs to a model and a routing group. Where the fleet serves one model in
one group, or where --model or --group leave one, that is the one meant.`,
		Example: `  extproc sessions list --worker 10.0.0.7:8000
  extproc sessions get 3f2a
  extproc sessions pin 3f2a 10.0.0.8:8000
  extproc sessions unpin 3f2a --model llama-70b`,
		Args: cobra.NoArgs,
		// Without this, cobra takes a misspelt command for a call for help.
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("sessions needs one of list, get ID, pin ID TARGET, unpin ID")}
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.admin, "admin", "http://127.0.0.1:9090", "the replica's admin API, as `URL`")
	flags.StringVar(&f.model, "model", "", "the session's model")
	flags.StringVar(&f.group, "group", "", "the session's routing group")
	flags.StringVar(&f.output, "output", "table", "table or json")
	cmd.AddCommand(sessionsList(&f), sessionsGet(&f), sessionsPin(&f), sessionsUnpin(&f))
	return cmd
}

// defaultListLimit bounds a listing that nobody bounded.
const defaultListLimit = 100_000

func sessionsList(f *sessionsFlags) *cobra.Command {
	var (
		worker string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, ordered by group, model and id",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.client(cmd)
			if err != nil {
				return err
			}
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d: want at least 1", limit)}
			}
			filter := url.Values{}
			for name, value := range map[string]string{"model": f.model, "group": f.group, "worker": worker} {
				if value != "" {
					filter.Set(name, value)
				}
			}
			sessions, more, err := client.list(filter, limit)
			if err != nil {
				return err
			}
			if more {
				fmt.Fprintf(cmd.ErrOrStderr(), "extproc: these are the first %d; more with a higher --limit\n", limit)
			}
			return f.printList(cmd.OutOrStdout(), sessions)
		},
	}
	cmd.Flags().StringVar(&worker, "worker", "", "only those bound to this worker: `ID` or ip:port")
	cmd.Flags().IntVar(&limit, "limit", defaultListLimit, "at most this many")
	return cmd
}

func sessionsGet(f *sessionsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show one session",
		Args:  arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, path, err := f.session(cmd, args[0])
			if err != nil {
				return err
			}
			session, err := client.do(http.MethodGet, path, nil)
			if err != nil {
				return err
			}
			return f.printOne(cmd.OutOrStdout(), session)
		},
	}
}

func sessionsPin(f *sessionsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "pin ID TARGET",
		Short: "Bind a session to a worker, or to one rank of it",
		Long: `Binds a session to TARGET from its next turn on; what runs finishes where it is.

TARGET is worker_id[:rank], ip:port[:rank] or [v6]:port[:rank]. A target that does
not exist is refused with a list of those that do.`,
		Args: arguments("ID", "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, path, err := f.session(cmd, args[0])
			if err != nil {
				return err
			}
			session, err := client.do(http.MethodPut, path, map[string]string{"target": args[1]})
			if err != nil {
				return err
			}
			return f.printOne(cmd.OutOrStdout(), session)
		},
	}
}

func sessionsUnpin(f *sessionsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "unpin ID",
		Short: "End a session's binding: its next turn chooses a worker anew",
		Args:  arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, path, err := f.session(cmd, args[0])
			if err != nil {
				return err
			}
			if _, err := client.do(http.MethodDelete, path, nil); err != nil {
				return err
			}
			if f.output == "table" {
				fmt.Fprintln(cmd.OutOrStdout(), "unpinned")
			}
			return nil
		},
	}
}

// client checks the shared flags.
func (f *sessionsFlags) client(cmd *cobra.Command) (*adminClient, error) {
	if f.output != "table" && f.output != "json" {
		return nil, usageError{fmt.Errorf("--output %q: want table or json", f.output)}
	}
	return newAdminClient(cmd.Context(), f.admin)
}

// session returns the client and the path of a session.
func (f *sessionsFlags) session(cmd *cobra.Command, id string) (*adminClient, string, error) {
	client, err := f.client(cmd)
	if err != nil {
		return nil, "", err
	}
	if id == "" {
		return nil, "", usageError{errors.New("the session ID is empty")}
	}
	model, group, err := f.partition(client)
	if err != nil {
		return nil, "", err
	}
	return client, "/v1/sessions/" + segment(model) + "/" + segment(group) + "/" + segment(id), nil
}

// partition returns the model and the group that the flags leave.
func (f *sessionsFlags) partition(client *adminClient) (model, group string, err error) {
	if f.model != "" && f.group != "" {
		return f.model, f.group, nil
	}
	found, err := client.partitions(f.model, f.group)
	switch {
	case err != nil:
		return "", "", err
	case len(found) == 1:
		return found[0].model, found[0].group, nil
	case len(found) == 0:
		return "", "", errors.New("the replica has no worker of this model and group; name the session's --model and --group if it had one")
	}
	var names strings.Builder
	for _, p := range found[:min(len(found), 20)] {
		fmt.Fprintf(&names, "\n  --model %s --group %s", printable(p.model), printable(p.group))
	}
	return "", "", fmt.Errorf("the replica has %d pairs of model and group; name the session's:%s", len(found), names.String())
}

// segment escapes one segment of a path, also those that proxies resolve.
func segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

func (f *sessionsFlags) printOne(w io.Writer, session jsontext.Value) error {
	if f.output == "json" {
		_, err := fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(session)))
		return err
	}
	return printTable(w, []jsontext.Value{session})
}

func (f *sessionsFlags) printList(w io.Writer, sessions []jsontext.Value) error {
	if f.output == "table" {
		return printTable(w, sessions)
	}
	if err := json.MarshalWrite(w, struct {
		Sessions []jsontext.Value `json:"sessions"`
	}{sessions}); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func printTable(w io.Writer, sessions []jsontext.Value) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SESSION\tMODEL\tGROUP\tWORKER\tRANK\tADDRESS\tRUNNING\tIDLE")
	for _, raw := range sessions {
		var s struct {
			Session string  `json:"session"`
			Model   string  `json:"model"`
			Group   string  `json:"group"`
			Worker  string  `json:"worker_id"`
			Rank    *uint32 `json:"dp_rank"`
			Address string  `json:"address"`
			Leases  int     `json:"leases"`
			IdleMS  int64   `json:"idle_ms"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("read the replica's answer: %w", err)
		}
		rank, idle := "-", "-"
		if s.Rank != nil {
			rank = strconv.FormatUint(uint64(*s.Rank), 10)
		}
		if s.Leases == 0 {
			idle = (time.Duration(s.IdleMS) * time.Millisecond).Round(time.Second).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", shortened(printable(s.Session)), printable(s.Model), printable(s.Group),
			printable(s.Worker), rank, printable(orDash(s.Address)), s.Leases, idle)
	}
	return table.Flush()
}

// shortened keeps a long session id from widening the table: its beginning and its
// end. --output json has it whole.
func shortened(s string) string {
	const most, end = 64, 12
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-end-1]) + "…" + string(runes[len(runes)-end:])
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable quotes what could move a terminal's cursor, break the table or pass
// for another text.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return strconv.Quote(s)
		}
	}
	return s
}
