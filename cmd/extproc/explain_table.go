package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// explanation is what a person is shown of the answer of POST /v1/explain.
type explanation struct {
	Decision   string      `json:"decision"`
	Reason     string      `json:"reason"`
	Why        string      `json:"why"`
	Worker     string      `json:"worker_id"`
	Rank       *uint32     `json:"dp_rank"`
	Address    string      `json:"address"`
	Session    string      `json:"session"`
	Model      string      `json:"model"`
	Group      string      `json:"group"`
	Prompt     promptShown `json:"prompt"`
	Candidates []candidate `json:"candidates"`
}

type promptShown struct {
	Source    string `json:"source"`
	Problem   string `json:"problem"`
	Tokens    int    `json:"tokens"`
	Blocks    int    `json:"blocks"`
	BlockSize int    `json:"block_size"`
}

type candidate struct {
	Worker  string   `json:"worker_id"`
	Rank    *uint32  `json:"dp_rank"`
	Address string   `json:"address"`
	Wins    bool     `json:"wins"`
	Full    bool     `json:"full"`
	Device  int      `json:"device_blocks"`
	Host    int      `json:"host_blocks"`
	Disk    int      `json:"disk_blocks"`
	Shared  int      `json:"shared_blocks"`
	Holed   bool     `json:"holed"`
	KV      kvShown  `json:"kv"`
	Credit  float64  `json:"credit"`
	Prefill float64  `json:"prefill_cost"`
	Decode  float64  `json:"decode_blocks"`
	Active  float64  `json:"active_requests"`
	Cost    *float64 `json:"cost"`
}

// kvShown says whether what a candidate has in its cache counts.
type kvShown struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// printExplanation writes
//
//	route to worker 7 rank 0 at 10.0.0.7:8000: new
//	why        its cost, 14.5, is the least of 2
//	session    3f2a, model m, group default
//	prompt     41 tokens in 11 blocks of 4, from prompt
//
// and a table of the candidates, the winner marked with *.
func printExplanation(w io.Writer, answer jsontext.Value) error {
	var e explanation
	if err := json.Unmarshal(answer, &e); err != nil {
		return fmt.Errorf("read the replica's answer: %w", err)
	}
	if e.Decision == "route" {
		fmt.Fprintf(w, "route to worker %s rank %s at %s: %s\n", printable(e.Worker), rankShown(e.Rank), printable(orDash(e.Address)), printable(e.Reason))
	} else {
		fmt.Fprintf(w, "refuse: %s\n", printable(e.Reason))
	}
	fmt.Fprintf(w, "why        %s\n", printable(e.Why))
	fmt.Fprintf(w, "session    %s, model %s, group %s\n", printable(orDash(e.Session)), printable(orDash(e.Model)), printable(orDash(e.Group)))
	fmt.Fprintf(w, "prompt     %s\n", e.Prompt)
	if len(e.Candidates) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  WORKER\tRANK\tADDRESS\tDEVICE\tHOST\tDISK\tSHARED\tCREDIT\tPREFILL\tDECODE\tREQUESTS\tCOST\t")
	for i := range e.Candidates {
		fmt.Fprintln(table, e.Candidates[i].line())
	}
	return table.Flush()
}

// String says what is known of the prompt.
func (p promptShown) String() string {
	switch {
	case p.Source != "":
		return fmt.Sprintf("%d tokens in %d blocks of %d, from %s", p.Tokens, p.Blocks, p.BlockSize, printable(p.Source))
	case p.Problem == "not_requested":
		return "not looked at: the choice does not depend on it"
	case p.Problem == "no_kv_state":
		return "not looked at: nothing is known of what workers hold"
	default:
		return "unknown: " + printable(p.Problem)
	}
}

func (c *candidate) line() string {
	mark, cost := " ", "-"
	if c.Wins {
		mark = "*"
	}
	if c.Cost != nil {
		cost = short(*c.Cost)
	}
	return fmt.Sprintf("%s %s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s", mark, printable(c.Worker), rankShown(c.Rank), printable(orDash(c.Address)),
		c.Device, c.Host, c.Disk, c.Shared, short(c.Credit), short(c.Prefill), short(c.Decode), short(c.Active), cost, c.notes())
}

// notes says what the numbers do not.
func (c *candidate) notes() string {
	var notes []string
	if c.Full {
		notes = append(notes, "over its limits")
	}
	if state := c.KV.State; state != "" && state != "ready" && state != "none" {
		notes = append(notes, fmt.Sprintf("its cache does not count: %s, %s", printable(state), printable(c.KV.Reason)))
	}
	if c.Holed {
		notes = append(notes, "holed: its credit is reduced")
	}
	return strings.Join(notes, "; ")
}

func rankShown(rank *uint32) string {
	if rank == nil {
		return "-"
	}
	return strconv.FormatUint(uint64(*rank), 10)
}

// short writes a number with at most two decimals.
func short(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}
