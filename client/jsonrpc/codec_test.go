package jsonrpc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestLines(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	in := lineReader{source: io.MultiReader(
		iotest.HalfReader(strings.NewReader("a\n\n"+big+"\n")),
		strings.NewReader("b\n"), strings.NewReader("last")), maxLine: 1 << 20}
	for _, want := range []string{"a", "", big, "b", "last"} {
		line, err := in.readLine()
		if err != nil || string(line) != want {
			t.Fatalf("got %.20q, %v, want %.20q", line, err, want)
		}
	}
	if _, err := in.readLine(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if len(in.buf) > minReadBuffer || len(in.full) > 0 {
		t.Errorf("a buffer of %d bytes and %d pieces stay", len(in.buf), len(in.full))
	}
	small := strings.Repeat("x", 99) + "\n"
	in = lineReader{source: strings.NewReader(strings.Repeat(small, 10000)), maxLine: 1 << 20}
	for range 10000 {
		if line, err := in.readLine(); err != nil || string(line) != small[:99] {
			t.Fatalf("got %.20q, %v", line, err)
		}
	}
	if len(in.buf) != maxReadBuffer {
		t.Errorf("a buffer of %d bytes for many small lines, want %d", len(in.buf), maxReadBuffer)
	}
	for n, want := range map[int]error{10: nil, 11: errLongLine, 30: errLongLine} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(strings.Repeat("x", n) + "\n"), "bytewise": iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n) + "\n"))} {
			in := lineReader{source: r, maxLine: 10}
			if _, err := in.readLine(); err != want {
				t.Errorf("%d bytes %s: got %v, want %v", n, name, err, want)
			}
		}
	}
}

// FuzzParse: a line is a request, a response, or gets an error that can be sent.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"desk","payload":{}}}`,
		`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":7}}`,
		`{"jsonrpc":"2.0","id":"a","result":{"id":"x"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{"code":"invalid"}}}`,
		`[]`, `{"jsonrpc":"2.0","id":1e400,"method":""}`, `{"id":1,"result":1,"error":2}`, "\xff", `{"jsonrpc":"2.0","id":"\ud800","method":"x"}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"to" "x"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		m := new(parsedLine)
		fail := m.parseLine(line)
		if m.id != nil && !m.id.IsValid() {
			t.Fatalf("an id that is no JSON: %s", m.id)
		}
		switch {
		case fail != nil:
			if text, err := appendValue(nil, toErrorObject(fail)); err != nil || !jsontext.Value(text).IsValid() {
				t.Fatalf("the error cannot be sent: %v", err)
			}
			if fail.Code == CodeParse && jsontext.Value(line).IsValid() {
				t.Fatal("valid JSON is a parse error")
			}
		case m.hasMethod == m.isResponse:
			t.Fatal("neither a request nor a response, or both")
		case m.isResponse && m.errorText != nil:
			if readErrorObject(m.errorText) == nil {
				t.Fatal("an error that is none")
			}
		default:
			for _, v := range []any{new(question), new(reply), new(wire.Payload), new(wire.Envelope)} {
				r := Request{Method: m.method, Params: m.params, line: m}
				if len(m.params) > 0 || !m.isResponse {
					r.ReadParams(v)
				}
			}
		}
	})
}

// The texts that a value holds cross as they were written, and not as Go would
// write them.
func TestTextsStayAsWritten(t *testing.T) {
	data := jsontext.Value(`{"\u0061":"\u0074","n":1.0e2}`)
	b, err := appendValue(nil, &kinds.Response{Data: data, Summary: "s"})
	if err != nil || !bytes.Contains(b, data) {
		t.Errorf("%s, %v", b, err)
	}
	if p := kinds.EncodePayload(&kinds.Notify{Topic: "t", Data: data}); !bytes.Contains(p, data) {
		t.Errorf("%s", p)
	}
}

// A payload crosses as it was written, valid or not. All else is written and read as the tags say.
func TestPayloadsCrossAsWritten(t *testing.T) {
	for _, payload := range []string{``, `{}`, `{ "a" : 1e400, "a":"\u0061" }`, `{"a":tru}`, `{"payload":{"to":"}"}}`} {
		for _, to := range []string{"desk", `","payload":{"x":1},"y":"`, "th\"\n\u2028read"} {
			text, err := appendValue([]byte("before "), &question{To: to, Payload: wire.Payload(payload)})
			if err != nil || payload != "" && !bytes.HasSuffix(text, []byte(`,"payload":`+payload+`}`)) {
				t.Fatalf("%s: %s, %v", payload, text, err)
			}
			text = bytes.TrimPrefix(text, []byte("before "))
			var q question
			end, at := skipParams(text, 0)
			if err := readValue(text, at, &q, true); err != nil || end != len(text) || q.To != to || payload != "" && string(q.Payload) != payload {
				t.Errorf("%s: read %q, %s, %v", text, q.To, q.Payload, err)
			}
		}
	}
	if text, err := appendValue(nil, &question{Payload: wire.Payload("{\"a\":\r\n1}")}); err != nil || bytes.ContainsAny(text, "\r\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// What is wrong with params is answered under the request's id, and names the member.
func TestWrongParamsAreNamed(t *testing.T) {
	for params, want := range map[string]string{
		`{"to":7,"payload":{}}`:            "to: expected a string",
		`{"to":"desk","tread":"x"}`:        "tread: unknown: see the method's params",
		`{"to":"a","payload":{},"to":"b"}`: `"to" is given twice`,
		`{"payload":{},"payload":{}}`:      `"payload" is given twice`,
		`{"payload":{},"\u0070ayload":{}}`: `"payload" is given twice`,
		`{"payload":7}`:                    "payload: expected a JSON object",
		`{"payload":"\ud800"}`:             "not well-formed JSON",
		`[1]`:                              "expected an object",
		`{"to" "x"}`:                       "not well-formed JSON",
	} {
		m := new(parsedLine)
		if fail := m.parseLine([]byte(`{"jsonrpc":"2.0","id":7,"method":"query","params":` + params + `}`)); fail != nil || string(m.id) != "7" {
			t.Errorf("%s: %v under %s", params, fail, m.id)
			continue
		}
		r := Request{Method: m.method, Params: m.params, line: m}
		if err := r.ReadParams(new(question)); err == nil || !strings.HasPrefix(err.Error(), "query: params: "+want) {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
		if err := r.ReadParamsIgnoringUnknown(new(question)); err == nil != strings.HasPrefix(want, "tread") {
			t.Errorf("%s: %v", params, err)
		}
	}
}

// A line whose names are wrong is answered under null: a second id could be meant.
func TestLineMembers(t *testing.T) {
	var many strings.Builder
	for i := range maxMembers {
		fmt.Fprintf(&many, `,"b%d":0`, i)
	}
	for rest, want := range map[string]string{
		`"method":"x"` + many.String():     "more than 32 members",
		`"method":"x","pad":1,"pad":2`:     `"pad" is given twice`,
		`"method":"x","\u006dethod":"y"`:   `"method" is given twice`,
		`"method":"x","\ud800":"y"`:        "the name of a member is not a well-formed string",
		`"result":{},"error":{},"x":[1,2]`: "a response has either result or error",
	} {
		m := new(parsedLine)
		if fail := m.parseLine([]byte(`{"jsonrpc":"2.0","id":7,` + rest + `}`)); fail == nil || !strings.Contains(fail.Message, want) || m.id != nil != strings.Contains(rest, "result") {
			t.Errorf("%s: %v under %s", rest, fail, m.id)
		}
	}
}
