package integration

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/relay"
	"github.com/acpd/acpd/wire"
)

// A vector is what vectors/README.md describes.
type vector struct {
	Name      string         `json:"name"`
	Is        string         `json:"is"`
	Kind      string         `json:"kind,omitzero"`
	Hex       string         `json:"hex"`
	Canonical bool           `json:"canonical,omitzero"`
	Means     jsontext.Value `json:"means,omitzero"`
	Error     *failure       `json:"error,omitzero"`
}

type failure struct {
	Code  string `json:"code"`
	Field string `json:"field,omitzero"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	paths, err := filepath.Glob("vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var all []vector
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var some []vector
		if err := json.Unmarshal(text, &some, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, some...)
	}
	return all
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			raw, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			means, again, err := run(v, raw)
			if v.Error != nil {
				got := refusal(v.Is, err)
				if got.Code != v.Error.Code || !names(got.Field, v.Error.Field) {
					t.Errorf("expected %+v, got %+v", *v.Error, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := canonical(t, means), canonical(t, v.Means); got != want {
				t.Errorf("means\n%s, expected\n%s", got, want)
			}
			if v.Canonical != bytes.Equal(raw, again) {
				t.Errorf("canonical: %t, encodes as %x", v.Canonical, again)
			}
		})
	}
}

// run decodes a vector's bytes and returns what they mean and how that is encoded.
func run(v vector, raw []byte) (means any, again []byte, err error) {
	switch v.Is {
	case "envelope":
		e, err := wire.ParseEnvelope(raw)
		if err == nil {
			_, err = kinds.CheckEnvelope(e)
		}
		if err != nil {
			return nil, nil, err
		}
		var b bytes.Buffer
		err = e.Append(&b)
		return e, b.Bytes(), err
	case "payload":
		k, ok := kinds.FindKind(v.Kind)
		if !ok {
			return nil, nil, fmt.Errorf("no kind %q", v.Kind)
		}
		return jsontext.Value(raw), raw, k.CheckPayload(raw)
	case "item":
		r := bufio.NewReader(bytes.NewReader(raw))
		item, err := wire.ReadControlItem(r)
		if err != nil {
			return nil, nil, err
		}
		if n, _ := io.Copy(io.Discard, r); n > 0 {
			return nil, nil, fmt.Errorf("%d bytes after the item", n)
		}
		again, err := wire.AppendControlItem(nil, item)
		return itemMeans(item), again, err
	case "mail request":
		m, err := wire.ReadMailRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return nil, nil, err
		}
		again, err := wire.AppendMailRequest(nil, m)
		return mailMeans(m), again, err
	case "mail reply":
		m, err := wire.ReadMailReply(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return nil, nil, err
		}
		again, err := wire.AppendMailReply(nil, m)
		return replyMeans(m), again, err
	case "file request":
		f, err := wire.ReadFileRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return nil, nil, err
		}
		again, err := wire.AppendFileRequest(nil, f)
		return fileMeans(f), again, err
	case "file reply":
		f, err := wire.ReadFileReply(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return nil, nil, err
		}
		again, err := wire.AppendFileReply(nil, f)
		return fileReplyMeans(f), again, err
	case "name request":
		r, err := relay.ParseRequest(raw)
		if err != nil {
			return nil, nil, err
		}
		return requestMeans(&r), relay.AppendRequest(nil, &r), nil
	case "name answer":
		c, err := parseAnswer(raw)
		if err != nil {
			return nil, nil, err
		}
		return answerMeans(c), raw, nil
	}
	return nil, nil, fmt.Errorf("no such thing as %q", v.Is)
}

// refusal returns the text of an error: the whole message stands for the field.
func refusal(is string, err error) failure {
	if err == nil {
		return failure{Code: "accepted"}
	}
	if is == "item" {
		return failure{Code: "protocol_error", Field: err.Error()} // the connection's close code
	}
	return failure{Code: string(kinds.AsError(err).Code), Field: err.Error()}
}

func names(message, field string) bool {
	return regexp.MustCompile(`(^|: )`+regexp.QuoteMeta(field)+`: `).MatchString(message) || field == ""
}

func itemMeans(item wire.Item) any {
	switch i := item.(type) {
	case *wire.Hello:
		m := map[string]any{"name": i.Name, "boot": hex.EncodeToString(i.Boot[:]), "software": i.Software, "max_message": i.MaxMessage, "features": i.Features}
		if i.PQ != nil {
			m["pq"] = map[string]any{"key": hex.EncodeToString(i.PQ.Key), "sig": hex.EncodeToString(i.PQ.Sig)}
		}
		if len(i.Cert) > 0 {
			m["cert"] = hex.EncodeToString(i.Cert)
		}
		return map[string]any{"hello": m}
	case *wire.Receipt:
		m := map[string]any{"stream": i.Stream, "state": i.State.String()}
		if i.Code != "" {
			m["code"], m["message"], m["retry_after_ms"] = i.Code, i.Message, i.RetryAfterMS
		}
		if i.Undelivered {
			m["delivered"] = "no"
		}
		return map[string]any{"receipt": m}
	case *wire.Goaway:
		return map[string]any{"goaway": map[string]any{"code": i.Code}}
	case *wire.Ping:
		return map[string]any{"ping": map[string]any{"n": i.N, "pad": hex.EncodeToString(i.Pad)}}
	case *wire.Pong:
		return map[string]any{"pong": map[string]any{"n": i.N, "pad": hex.EncodeToString(i.Pad)}}
	case *wire.Done:
		return map[string]any{"done": map[string]any{}}
	case *wire.Paths:
		return map[string]any{"paths": map[string]any{"round": i.Round, "addrs": i.Addrs}}
	case *wire.Renewal:
		return map[string]any{"cert": map[string]any{"cert": hex.EncodeToString(i.Cert)}}
	case *wire.Agents:
		return map[string]any{"agents": map[string]any{}}
	case *wire.Unknown:
		return map[string]any{"unknown": map[string]any{"type": i.Type}}
	}
	return nil
}

// canonical makes JSON comparable without touching its numbers.
func canonical(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	c := jsontext.Value(text)
	if err := c.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true)); err != nil {
		t.Fatal(err)
	}
	return string(c)
}

// The local API's form of an envelope is read back as the envelope that it shows.
func TestVectorsAsJSON(t *testing.T) {
	for _, v := range readVectors(t) {
		if v.Is != "envelope" || v.Error != nil {
			continue
		}
		e := new(wire.Envelope)
		if err := json.Unmarshal(v.Means, e); err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if _, err := kinds.CheckEnvelope(e); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		if got, want := canonical(t, e), canonical(t, v.Means); got != want {
			t.Errorf("%s:\n%s became\n%s", v.Name, want, got)
		}
	}
}

// Every kind is accepted in some way, and every field that it requires is missed.
func TestVectorsAreComplete(t *testing.T) {
	accepted, missed, seen := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, v := range readVectors(t) {
		if seen[v.Name] {
			t.Errorf("two vectors are called %q", v.Name)
		}
		seen[v.Name] = true
		if (v.Means != nil) == (v.Error != nil) {
			t.Errorf("%s: either means or error", v.Name)
		}
		if v.Is == "envelope" && v.Error == nil {
			var e wire.Envelope
			if err := json.Unmarshal(v.Means, &e); err != nil {
				t.Fatal(err)
			}
			accepted[e.Kind]++
		}
		if v.Is == "payload" && v.Error != nil {
			missed[v.Kind+"."+v.Error.Field] = true
		}
	}
	for _, k := range kinds.ListKinds() {
		if accepted[k.Name] < 3 {
			t.Errorf("%s: %d vectors", k.Name, accepted[k.Name])
		}
		for _, f := range k.Fields {
			if f.Name != "data" && !missed[k.Name+"."+f.Name] {
				t.Errorf("%s.%s: no vector refuses it", k.Name, f.Name)
			}
		}
	}
}
