package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/kvstate"
)

// roundTrip answers requests in this process, so that synctest knows of all waits.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slowBody takes a second to be read.
type slowBody struct{ *strings.Reader }

func (b slowBody) Read(p []byte) (int, error) {
	if b.Len() > 0 {
		time.Sleep(time.Second)
	}
	return b.Reader.Read(p)
}

// endless is a body that does not end before its request does.
type endless struct{ context.Context }

func (b endless) Read([]byte) (int, error) {
	<-b.Done()
	return 0, context.Cause(b)
}

// hosts makes a control whose hosts named hang... never answer, and whose others
// begin to answer at once; endless never ends.
func hosts() *control {
	c := newControl()
	c.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Host, "hang") {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}
		if r.URL.Host == "endless" {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{r.Context()}), Request: r}, nil
		}
		body := slowBody{strings.NewReader(`{"Error":"not now"}`)}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Request: r}, nil
	})
	return c
}

func asking(ctx context.Context, c *control, q question, host string) error {
	timeout := recoveryTimeout
	if q == askStatus {
		timeout = statusTimeout
	}
	_, err := c.ask(ctx, &call{question: q, target: testTarget("http://" + host), timeout: timeout,
		request: kvstate.QueryRequest{Kind: kvstate.QueryKind{Op: kvstate.QueryStatus, Expected: kvstate.AgentIdentity{ProtocolVersion: kvstate.V2}}}})
	return err
}

// Whatever the question: neither many agents of one host nor agents of several
// hosts, none of which answers, keep the others from being asked.
func TestHostsThatHangHoldUpNoOthers(t *testing.T) {
	for _, q := range []question{askStatus, askRange, askFull} {
		for _, many := range []int{1, 8} {
			synctest.Test(t, func(t *testing.T) {
				c := hosts()
				ctx, stop := context.WithCancel(t.Context())
				for i := range 400 {
					go func() { _ = asking(ctx, c, q, fmt.Sprintf("hang%d", i%many)) }()
				}
				synctest.Wait()
				began := time.Now()
				if err := asking(t.Context(), c, q, "well"); err != nil || time.Since(began) != time.Second {
					t.Errorf("%s beside %d hosts that hang: %v after %v", q, many, err, time.Since(began))
				}
				stop()
			})
		}
	}
}

// Two full states are read at once, beside ranges, and who waits for that is not late.
func TestAnswersWaitToBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hosts()
		const calls = 6
		ends := make(chan time.Duration, calls)
		began := time.Now()
		for i := range calls {
			go func() {
				if err := asking(t.Context(), c, askFull, fmt.Sprint("well", i)); err != nil {
					t.Error(err)
				}
				ends <- time.Since(began)
			}()
		}
		synctest.Wait()
		if err := asking(t.Context(), c, askRange, "well0"); err != nil || time.Since(began) > time.Second {
			t.Errorf("a range waits for full states: %v after %v", err, time.Since(began))
		}
		for i := range calls {
			if got, want := <-ends, time.Duration(i/2+1)*time.Second; got != want {
				t.Errorf("full state %d is read after %v, want %v", i, got, want)
			}
		}

		for range maxReads { // for longer than a time-out
			c.full.reading <- struct{}{}
			time.AfterFunc(10*recoveryTimeout, func() { <-c.full.reading })
		}
		if err := asking(t.Context(), c, askFull, "well"); err != nil {
			t.Errorf("the time to wait for a turn counted: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		for range maxReads {
			c.full.reading <- struct{}{}
		}
		time.AfterFunc(time.Second, stop)
		if err := asking(ctx, c, askFull, "well"); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody waits for it any more: %v", err)
		}
	})
}

func TestCallsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hosts()
		for q, want := range map[question]time.Duration{askStatus: 5 * time.Second, askRange: 30 * time.Second, askFull: 30 * time.Second} {
			for _, host := range []string{"hang", "endless"} {
				began := time.Now()
				if err := asking(t.Context(), c, q, host); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != want {
					t.Errorf("%s, %s: %v after %v", q, host, err, time.Since(began))
				}
			}
		}
	})
}
