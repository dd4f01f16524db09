package simworker

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
)

const (
	// maxInputs bounds the inputs of one embedding request, as OpenAI does.
	maxInputs = 2048
	// embeddingSize is the length of the vectors: enough to look like one.
	embeddingSize = 8
)

// embedding is one entry of the answer of /v1/embeddings. Embedding is a list
// of numbers, or for encoding_format "base64" its little-endian float32s.
type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

type embeddingList struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  usage       `json:"usage"`
}

// embeddings answers POST /v1/embeddings at once: unit vectors made from the
// hash of each input. Blocks and ranks play no part.
func (w *Worker) embeddings(rw http.ResponseWriter, r *http.Request) error {
	f, err := w.readObject(rw, r)
	if err != nil {
		return err
	}
	var model, format string
	if err := decodeField(f, "model", &model); err != nil {
		return err
	}
	if model == "" {
		model = w.cfg.Models[0]
	}
	if err := decodeField(f, "encoding_format", &format); err != nil {
		return err
	}
	if format != "" && format != "float" && format != "base64" {
		return badRequest("encoding_format must be float or base64")
	}
	if !isSet(f["input"]) {
		return badRequest("input is missing")
	}
	inputs, err := decodeInputs("input", f["input"], maxInputs, w.cfg.maxModelLen())
	if err != nil {
		return err
	}
	if err := w.maybeFail(); err != nil {
		return err
	}
	list := embeddingList{Object: "list", Model: model}
	for i, input := range inputs {
		list.Usage.PromptTokens += len(input)
		e := embedding{Object: "embedding", Index: i, Embedding: embed(input)}
		if format == "base64" {
			e.Embedding = float32s(embed(input))
		}
		list.Data = append(list.Data, e)
	}
	list.Usage.TotalTokens = list.Usage.PromptTokens
	writeJSON(rw, http.StatusOK, list)
	return nil
}

// embed returns a vector of length one that depends on the tokens alone.
func embed(tokens []token) []float32 {
	words := replyTo(tokens)
	vector := make([]float32, embeddingSize)
	var squares float64
	for i := range vector {
		v := float64(int64(mix(words.seed+uint64(i)))) / math.MaxInt64
		vector[i] = float32(v)
		squares += v * v
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(squares))
	}
	return vector
}

func float32s(vector []float32) string {
	var raw []byte
	for _, v := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
