package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// maxExplainedFile bounds the file that explain reads, in bytes.
const maxExplainedFile = 16 << 20

func explainCommand() *cobra.Command {
	var (
		admin, file, output string
		headers             []string
	)
	cmd := &cobra.Command{
		Use:   "explain --file REQUEST.json",
		Short: "Say where a running replica would send a request, and why",
		Long: `Asks the admin API of a running replica what it would do with a request, and shows every
candidate with what its choice would be judged by. Nothing is bound, and no load is counted;
a tokenizer may be asked.

FILE is the request's body as a client sends it, - for standard input. Its session, group
and the like are named by --header, as in the request's own headers.`,
		Example: `  extproc explain --file request.json --header x-session-id=3f2a
  extproc explain --file request.json --header x-routing-group=batch --output json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("--output %q: want table or json", output)}
			}
			request, err := explainRequest(file, cmd.InOrStdin(), headers)
			if err != nil {
				return err
			}
			client, err := newAdminClient(cmd.Context(), admin)
			if err != nil {
				return err
			}
			answer, err := client.do(http.MethodPost, "/v1/explain", request)
			if err != nil {
				return err
			}
			if output == "json" {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", strings.TrimSpace(string(answer)))
				return err
			}
			return printExplanation(cmd.OutOrStdout(), answer)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "file", "", "the request's body, a `FILE`, or - for standard input")
	flags.StringArrayVar(&headers, "header", nil, "a header of the request, as `K=V`; may be repeated")
	flags.StringVar(&admin, "admin", "http://127.0.0.1:9090", "the replica's admin API, as `URL`")
	flags.StringVar(&output, "output", "table", "table or json")
	if err := cmd.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// explainedRequest is the body of POST /v1/explain.
type explainedRequest struct {
	Headers map[string][]string `json:"headers"`
	Body    jsontext.Value      `json:"body,omitzero"`
	Text    string              `json:"text,omitzero"` // a body that is no JSON, or has a name twice
}

func explainRequest(file string, stdin io.Reader, headers []string) (explainedRequest, error) {
	request := explainedRequest{Headers: make(map[string][]string)}
	for _, h := range headers {
		name, value, found := strings.Cut(h, "=")
		if !found || name == "" {
			return request, usageError{fmt.Errorf("--header %q: want K=V", h)}
		}
		name = strings.ToLower(name)
		request.Headers[name] = append(request.Headers[name], value)
	}
	content, err := readExplained(file, stdin)
	switch {
	case err != nil:
		return request, err
	case len(content) > maxExplainedFile:
		return request, fmt.Errorf("%s is over %d bytes", file, maxExplainedFile)
	case jsontext.Value(content).IsValid():
		request.Body = content
	case utf8.Valid(content):
		request.Text = string(content)
	default:
		return request, errors.New(file + " is no text")
	}
	return request, nil
}

// readExplained reads one byte more than allowed at most.
func readExplained(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, maxExplainedFile+1))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxExplainedFile+1))
}
