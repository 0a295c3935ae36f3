package jsonrpc

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestLineLimit(t *testing.T) {
	for n, want := range map[int]error{10: nil, 11: errLongLine, 30: errLongLine} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(strings.Repeat("x", n) + "\n"), "bytewise": iotest.OneByteReader(strings.NewReader(strings.Repeat("x", n) + "\n"))} {
			in := lineReader{source: r, maxLine: 10}
			if _, err := in.readLine(); err != want {
				t.Errorf("%d bytes %s: got %v, want %v", n, name, err, want)
			}
		}
	}
}

func TestTooManyMembers(t *testing.T) {
	text := []byte(`{"a":0`)
	for i := range maxMembers {
		text = append(text, []byte(`,"`+strings.Repeat("b", i+1)+`":0`)...)
	}
	var o scannedObject
	if o.scan(append(text, '}'), 0, nil); o.err == nil {
		t.Error("accepted")
	}
}

// FuzzScan: what is valid JSON is delimited as the JSON library does.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [ 1 , {"b":"]}\"\\"} ] , "c" : null } `, `{"a":-0.5e+3,"b":"\\\\\"","c":"0123456789abcdef\\"}`, `{"\u0061":1,"a":2}`, `{"a":1}x`, `{"a"`, `{"a":tru}`, `[[]]`, `"abcdefghijklmno\""`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var o scannedObject
		end := o.scan(text, jsonscan.SkipSpace(text, 0), nil)
		if end > len(text) {
			t.Fatal("scanned beyond the end")
		}
		if !jsontext.Value(text).IsValid() {
			return
		}
		if at := jsonscan.SkipSpace(text, 0); jsonscan.SkipValue(text, at) < 0 || jsonscan.SkipSpace(text, jsonscan.SkipValue(text, at)) != len(text) {
			t.Fatalf("valid, but not delimited: %s", text)
		}
		if jsontext.Value(text).Kind() != '{' {
			return
		}
		var members []jsontext.Value
		dec := jsontext.NewDecoder(bytes.NewReader(text))
		dec.ReadToken()
		for dec.PeekKind() != '}' {
			v, err := dec.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, v.Clone())
		}
		if len(members)/2 > maxMembers {
			return
		}
		if end < 0 || o.err != nil || o.count != len(members)/2 {
			t.Fatalf("valid, but scanned as %d members to %d, %v: %s", o.count, end, o.err, text)
		}
		for i := range o.count {
			name, v := o.memberAt(i)
			want, _ := jsontext.AppendUnquote(nil, members[2*i])
			if !bytes.Equal(name, want) || !bytes.Equal(v, members[2*i+1]) {
				t.Fatalf("member %d: got %s: %s, want %s: %s", i, name, v, want, members[2*i+1])
			}
		}
	})
}

// FuzzParse: a line is a request, a response, or gets an error that can be sent.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"desk","payload":{}}}`,
		`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"id":7}}`,
		`{"jsonrpc":"2.0","id":"a","result":{"id":"x"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{"code":"invalid"}}}`,
		`[]`, `{"jsonrpc":"2.0","id":1e400,"method":""}`, `{"id":1,"result":1,"error":2}`, "\xff", `{"jsonrpc":"2.0","id":"\ud800","method":"x"}`,
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
			if text, err := AppendValue(nil, toErrorObject(fail)); err != nil || !jsontext.Value(text).IsValid() {
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
	b, err := AppendValue(nil, &kinds.Response{Data: data, Summary: "s"})
	if err != nil || !bytes.Contains(b, data) {
		t.Errorf("%s, %v", b, err)
	}
	if p := kinds.EncodePayload(&kinds.Notify{Topic: "t", Data: data}); !bytes.Contains(p, data) {
		t.Errorf("%s", p)
	}
}
