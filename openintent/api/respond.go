package api

import (
	"iter"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/object"
)

// encodeList encodes a list, up to the element with which it has room bytes.
func encodeList[T any](r *request, room int, list iter.Seq[T], err error) (any, error) {
	if err != nil {
		return nil, err
	}
	p, size := object.JSON{[]byte("[")}, 0
	for v := range list {
		doc := object.EncodeJSON(v)
		if err := r.ChargeCaller(len(doc)); err != nil {
			return nil, err
		}
		p = p.AppendMember(size == 0, doc)
		if size += len(doc); size >= room {
			break
		}
	}
	return append(p, []byte("]")), nil
}

// answerWriter writes the answers of handlers that answer by themselves. It remembers whether an
// answer has begun.
type answerWriter struct {
	http.ResponseWriter
	began bool
}

func (a *answerWriter) WriteHeader(status int) {
	a.began = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answerWriter) Write(b []byte) (int, error) {
	a.began = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// encodeAnswer returns the body of an answer.
func encodeAnswer(body any) object.JSON {
	switch b := body.(type) {
	case object.JSON:
		return b
	case jsontext.Value:
		return object.JSON{b}
	}
	return object.JSON{object.EncodeJSON(body)}
}

// writeAnswer writes an answer, up to the first write that fails.
func writeAnswer(w http.ResponseWriter, status int, answer object.JSON) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(answer.Len()))
	w.WriteHeader(status)
	for _, part := range answer {
		if _, err := w.Write(part); err != nil {
			return // the client has left or takes nothing
		}
	}
}
