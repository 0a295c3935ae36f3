package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/identity"
)

func hello() *Hello {
	return &Hello{Name: "desk", Boot: Boot{1}, Software: "acpd 1.0.0", MaxMessage: DefaultMaxMessage, Features: []string{"mail", "channel"}, PQ: &HelloPQ{Key: []byte{1}, Sig: []byte{2}}, Cert: []byte{3}}
}

func items() []Item {
	return []Item{
		&Hello{Boot: Boot{1}, MaxMessage: MinMaxMessage, Features: []string{}}, hello(),
		&Receipt{Stream: 2, State: Handed}, &Receipt{Stream: 1 << 61, State: Held},
		&Receipt{Stream: 6, State: Refused, Code: "overloaded", Message: "wait", RetryAfterMS: 250},
		&Receipt{Stream: 6, State: Refused, Code: "invalid"},
		&Receipt{Stream: 6, State: Refused, Code: "overloaded", Undelivered: true},
		&Goaway{Code: 1}, &Ping{N: 7, Pad: make([]byte, 64)}, &Pong{N: 7, Pad: []byte{}}, &Done{},
		&Paths{Round: 2, Addrs: []string{}}, &Paths{Round: 1 << 62, Addrs: []string{"192.0.2.7:7117", "[2001:db8::7]:7117"}},
		&Renewal{Cert: []byte{}}, &Renewal{Cert: make([]byte, 4096)}, &Agents{},
	}
}

func TestItemsSurvive(t *testing.T) {
	var stream []byte
	for _, item := range items() {
		var err error
		if stream, err = AppendControlItem(stream, item); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(bytes.NewReader(stream))
	for _, want := range items() {
		got, err := ReadControlItem(r)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if _, err := ReadControlItem(r); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for cut := 1; cut < len(stream); cut++ {
		r := bufio.NewReader(bytes.NewReader(stream[:cut]))
		var err error
		for err == nil {
			_, err = ReadControlItem(r)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Fatalf("cut after %d: %v", cut, err)
		}
	}
}

// What the other side would close the connection for does not leave this one.
func TestAppendItemChecks(t *testing.T) {
	for field, spoil := range map[string]func(*Hello){
		"hello.name":        func(h *Hello) { h.Name = strings.Repeat("a", MaxLabel+1) },
		"hello.software":    func(h *Hello) { h.Software = "\xff" },
		"hello.boot":        func(h *Hello) { h.Boot = Boot{} },
		"hello.max_message": func(h *Hello) { h.MaxMessage = MinMaxMessage - 1 },
		"hello.features":    func(h *Hello) { h.Features = make([]string, maxFeatures+1) },
		"hello.pq":          func(h *Hello) { h.PQ.Sig = nil },
		"hello.cert":        func(h *Hello) { h.Cert = make([]byte, identity.MaxCertificate+1) },
	} {
		h := hello()
		spoil(h)
		refused(t, field, h)
	}
	refused(t, "receipt.state", &Receipt{State: 3})
	refused(t, "receipt.code", &Receipt{State: Refused})
	refused(t, "cert.cert", &Renewal{Cert: make([]byte, identity.MaxCertificate+1)})
	refused(t, "receipt.message", &Receipt{State: Refused, Code: "invalid", Message: "\xff"})
	refused(t, "paths.addrs", &Paths{Addrs: make([]string, MaxPaths+1)})
	refused(t, "paths.addrs", &Paths{Addrs: []string{strings.Repeat("a", MaxLabel+1)}})
	refused(t, "paths.addrs", &Paths{Addrs: []string{"\xff"}})
	if b, err := AppendControlItem([]byte{1}, &Ping{Pad: make([]byte, maxItem)}); err == nil || !bytes.Equal(b, []byte{1}) {
		t.Errorf("over MaxItem: %d bytes, %v", len(b), err)
	}
}

func refused(t *testing.T, field string, item Item) {
	t.Helper()
	b, err := AppendControlItem([]byte{1}, item)
	if fe, ok := errors.AsType[*FormatError](err); !ok || fe.Field != field || len(b) != 1 {
		t.Errorf("%s: %v", field, err)
	}
}

// The examples of RFC 9000, section A.1, of which one is not minimal.
func TestVarint(t *testing.T) {
	for text, want := range map[string]uint64{
		"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c": 151288809941952652, "\x9d\x7f\x3e\x7d": 494878333, "\x7b\xbd": 15293, "\x25": 37, "\x40\x25": 37,
	} {
		got, err := readVarint(strings.NewReader(text))
		if err != nil || got != want {
			t.Errorf("%x: %d, %v", text, got, err)
		}
		if b := appendVarint(nil, want); want < 1<<30 && len(b) <= len(text) && !strings.HasSuffix("\x40\x25"+text, string(b)) {
			t.Errorf("%d: %x", want, b)
		}
	}
}

// The modes of the library itself, which UnmarshalCBOR and every reader rest on.
func TestUnmarshalIsStrict(t *testing.T) {
	for name, b := range map[string]string{
		"duplicate key": "\xa2aa\x01aa\x01", "indefinite": "\xbf\xff", "tag": "\xa1aa\xc1\x01", "bignum": "\xa1aa\xc2\x41\x01",
		"undefined": "\xa1aa\xf7", "unassigned simple value": "\xa1aa\xe1", "NaN": "\xa1aa\xf9\x7e\x00", "trailing": "\xa0\xa0",
		"bytes as key": "\xa1\x41a\x01", "invalid UTF-8": "\xa1aa\x61\xff", "empty": "", "huge claim": "\x5b\x40\x00\x00\x00\x00\x00\x00\x00",
	} {
		var v struct {
			A any `cbor:"a"`
		}
		err := UnmarshalCBOR([]byte(b), &v)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadItem(f *testing.F) {
	for _, item := range items() {
		b, err := AppendControlItem(nil, item)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x02\x81\x18"))
	f.Add([]byte("\x80\x00\x00\x02\x81\x07"))
	f.Add([]byte("\x06\x84\x06\x01\x81\x61a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		for {
			item, err := ReadControlItem(r)
			if err != nil {
				if _, ok := errors.AsType[*FormatError](err); !ok && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatal(err)
				}
				return
			}
			again, err := AppendControlItem(nil, item)
			if err != nil {
				t.Fatal(err)
			}
			if len(again) > len(b) {
				t.Errorf("%d bytes became %d", len(b), len(again))
			}
			if item2, err := ReadControlItem(bufio.NewReader(bytes.NewReader(again))); err != nil || !cmp.Equal(item, item2) {
				t.Fatalf("%v: %s", err, cmp.Diff(item, item2))
			}
		}
	})
}
