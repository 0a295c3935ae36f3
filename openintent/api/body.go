package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// bodyRoom bounds the bytes of a body without its payload.
const bodyRoom = 320 << 10

// firstPart bounds the memory of a body from another daemon until so many of its bytes have
// come. Then it gets memory for all.
const firstPart = 16 << 10

// readBody reads the body, and refuses one of more than limit bytes. The caller's daemon is
// charged for the body and for the answer.
func (r *request) readBody(limit int64) (err error) {
	length := limit
	if r.http.ContentLength >= 0 {
		length = min(length, r.http.ContentLength)
	}
	if err := r.ChargeCaller(int(length) + max(r.route.room, openintent.AnswerRoom)); err != nil {
		return err
	}
	// Not MaxBytesReader: it would close the connection under the answer.
	from := io.LimitReader(r.http.Body, limit+1)
	if r.Caller.Home == "" {
		r.body, err = io.ReadAll(from)
	} else {
		r.body, err = readChargedBody(from, int(length))
	}
	switch {
	case err != nil && WriteIfRefusal(&r.w, err): // it is not the caller who has left
		return errAnswered
	case err != nil:
		return object.NewError("bad_body", "the body could not be read")
	case int64(len(r.body)) > limit:
		return object.NewError("too_large", "the body has more than %d bytes: send less, or a reference to it", limit)
	}
	return nil
}

// readChargedBody reads a body of at most length bytes, for which the caller is charged. It allocates
// twice: for the first part of the body, and for all of it. (io.ReadAll grows with a long body,
// which takes several times its length.)
func readChargedBody(from io.Reader, length int) ([]byte, error) {
	const over = 2 // one byte shows that the body is too long, one that it has ended
	body := make([]byte, 0, min(length, firstPart)+over)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		switch body = body[:len(body)+n]; {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == cap(body):
			body = append(make([]byte, 0, max(length, len(body))+over), body...)
		}
	}
}

// decodeBody decodes the body into v.
func (r *request) decodeBody(v any) error {
	if len(bytes.TrimSpace(r.body)) == 0 {
		return object.NewError("no_body", "the body is empty: send a JSON object, as /openapi.json describes it")
	}
	if jsonscan.IsNestedDeeper(r.body, object.MaxDepth) {
		return object.NewError("bad_json", "the body nests more than %d objects and arrays in each other: send what is so deep as a text, or put it elsewhere and refer to it", object.MaxDepth)
	}
	return newBodyRefusal(json.Unmarshal(r.body, v, json.RejectUnknownMembers(r.route.strict)))
}

// newBodyRefusal returns the refusal of a body that could not be decoded; nil if err is nil.
func newBodyRefusal(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*object.Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		field := cmp.Or(strings.TrimPrefix(string(s.JSONPointer), "/"), "body")
		field = strings.ToValidUTF8(field[:min(len(field), object.MaxName)], "")
		if errors.Is(s, json.ErrUnknownName) {
			return object.NewFieldError(field, "nothing was changed: there is no such member here: /openapi.json describes those that there are")
		}
		if errors.Is(s, chain.ErrTime) {
			return object.NewFieldError(field, "%v", chain.ErrTime)
		}
		return object.NewFieldError(field, "a value of another type is needed")
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return object.NewError("bad_json", "the body is not valid JSON, from byte %d on (counted from 0): names must not repeat, and text must be UTF-8", s.ByteOffset)
	}
	return object.NewError("bad_json", "the body is not valid JSON: names must not repeat, and text must be UTF-8")
}
