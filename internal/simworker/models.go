package simworker

import "net/http"

// modelCard is one entry of /v1/models:
//
//	{"id":"llama","object":"model","created":1,"owned_by":"vllm","root":"llama","parent":null,"max_model_len":65536}
type modelCard struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len,omitempty"`
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

// models answers GET /v1/models: models first, then adapters, whose parent is
// the primary model.
func (w *Worker) models(rw http.ResponseWriter, r *http.Request) error {
	w.history.add(received(r))
	primary := w.cfg.Models[0]
	list := modelList{Object: "list"}
	card := modelCard{Object: "model", Created: w.started.Unix(), OwnedBy: "vllm"}
	for _, name := range w.cfg.Models {
		m := card
		m.ID, m.Root, m.MaxModelLen = name, primary, w.cfg.maxModelLen()
		list.Data = append(list.Data, m)
	}
	for _, name := range w.cfg.Adapters {
		m := card
		m.ID, m.Root, m.Parent = name, name, &primary
		list.Data = append(list.Data, m)
	}
	writeJSON(rw, http.StatusOK, list)
	return nil
}
