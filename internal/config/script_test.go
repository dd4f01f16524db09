package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts shows files, good and bad, with everything that is said of them.
// Rewrite with -rewrite and read the difference.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				return sayFine(Parse("f.yaml", []byte(d.Input)))
			case "workers":
				return sayWorkers(ParseWorkers("w.yaml", []byte(d.Input)))
			case "remarks":
				return sayRemarks(mustParse(t, d.Input))
			}
			t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

func sayFine(_ *Config, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return "fine\n"
}

func sayWorkers(workers []WorkerSpec, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	if len(workers) == 0 {
		return "none\n"
	}
	var b strings.Builder
	for _, w := range workers {
		fmt.Fprintf(&b, "%s: %s models=%v adapters=%v group=%s ranks=%d id=%d drain=%t kv=%s,%s,%d\n", w.Source, w.Address,
			w.Models, w.Adapters, w.RoutingGroup, w.Ranks, w.ID, w.Drain, w.KVEvents, w.KVReplay, w.BlockSize)
	}
	return b.String()
}

func sayRemarks(c *Config) string {
	remarks := c.Remarks()
	if len(remarks) == 0 {
		return "none\n"
	}
	return Problems(remarks).Error() + "\n"
}
