package simworker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"mooring/kvstate"
)

const (
	// controlPath, and a rank, is where an agent is asked.
	controlPath = "/kv_state/control/"
	// maxQueryBytes bounds a question.
	maxQueryBytes = 16 << 10
)

// agentControl answers POST /kv_state/control/{rank}: a KV state query, in JSON,
// gets a KV state response, also where that is an error.
func (w *Worker) agentControl(rw http.ResponseWriter, r *http.Request) error {
	l, err := w.agentLane(r.PathValue("rank"))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxQueryBytes))
	if err != nil {
		return bodyError(err)
	}
	setReadDeadline(http.NewResponseController(rw), time.Time{})
	var q kvstate.QueryRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return badRequest("%v", err)
	}
	if l.agent.late() {
		if err := sleepUntil(r.Context(), time.Now().Add(l.agent.cfg.Delay)); err != nil {
			return err
		}
	}
	writeJSON(rw, http.StatusOK, l.agent.answer(&q))
	return nil
}

// agentLane returns the lane of a rank that has a running agent.
func (w *Worker) agentLane(rank string) (*lane, error) {
	i, err := strconv.Atoi(rank)
	if err != nil || i < 0 || i >= len(w.lanes) || w.lanes[i].agent == nil || w.lanes[i].agent.publisher == nil {
		return nil, &apiError{http.StatusNotFound, refusedNoRoute, "there is no state agent of this rank"}
	}
	return w.lanes[i], nil
}

// debugAttach answers POST /debug/agent/attach?rank=N&worker_id=N: the engine of
// this process or, with another worker id, one elsewhere is attached. The rank
// is 0 unless given.
func (w *Worker) debugAttach(rw http.ResponseWriter, r *http.Request) error {
	return w.debugAgent(rw, r, func(l *lane, worker kvstate.Worker) error { return l.agent.attach(worker) })
}

// debugDetach answers POST /debug/agent/detach?rank=N: the engine is detached,
// and what it does from then on does not count.
func (w *Worker) debugDetach(rw http.ResponseWriter, r *http.Request) error {
	return w.debugAgent(rw, r, func(l *lane, _ kvstate.Worker) error { return l.detach() })
}

// debugAgent has something done to the agent of a rank.
func (w *Worker) debugAgent(rw http.ResponseWriter, r *http.Request, what func(*lane, kvstate.Worker) error) error {
	q := r.URL.Query()
	l, err := w.agentLane(cmp.Or(q.Get("rank"), "0"))
	if err != nil {
		return err
	}
	worker, err := l.agent.engineOf(q.Get("worker_id"))
	if err != nil {
		return err
	}
	if err := l.do(r.Context(), func() error { return what(l, worker) }); err != nil {
		return laneError(err)
	}
	rw.WriteHeader(http.StatusNoContent)
	return nil
}

// engineOf reads a worker id; empty is the engine of this process.
func (a *agent) engineOf(id string) (kvstate.Worker, error) {
	worker := a.home
	if id != "" {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return worker, badRequest("worker_id must be a number")
		}
		worker.WorkerID = n
	}
	return worker, nil
}

// debugFault answers POST /debug/agent/fault?set=NAME, for all ranks.
func (w *Worker) debugFault(rw http.ResponseWriter, r *http.Request) error {
	var f AgentFault
	if err := f.UnmarshalText([]byte(r.URL.Query().Get("set"))); err != nil {
		return badRequest("set: %v", err)
	}
	if _, err := w.agentLane("0"); err != nil {
		return err
	}
	for _, l := range w.lanes {
		l.agent.setFault(f)
	}
	rw.WriteHeader(http.StatusNoContent)
	return nil
}

// debugRestart answers POST /debug/engine/restart?worker_id=N: the engine part
// of every rank starts anew, as if its process had been replaced, and is
// attached to its agent again, under that worker id if given.
func (w *Worker) debugRestart(rw http.ResponseWriter, r *http.Request) error {
	if len(w.lanes) == 0 {
		for rank := range w.cfg.Ranks {
			w.engine.restart(rank)
		}
	}
	for _, l := range w.lanes {
		var worker kvstate.Worker
		var err error
		if l.agent != nil {
			if worker, err = l.agent.engineOf(r.URL.Query().Get("worker_id")); err != nil {
				return err
			}
		}
		if err := l.do(r.Context(), func() error { return l.restart(worker) }); err != nil {
			return laneError(err)
		}
	}
	rw.WriteHeader(http.StatusNoContent)
	return nil
}

// laneError says what a failure of a lane is to the client.
func laneError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &apiError{http.StatusConflict, refusedBusy, err.Error()}
}
