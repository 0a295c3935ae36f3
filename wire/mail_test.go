package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mailRequests() []*MailRequest {
	return []*MailRequest{
		{V: 1, Op: MailDeliver, Project: "demo", Agent: "reviewer", File: "20261120130000_planner_question_ab12.yaml", Hash: [32]byte{1, 31: 2}, Size: 400, Delivery: MessageID{15: 9}},
		{V: 1, Op: MailConsumed, Project: "demo", Agent: "reviewer", File: "a.yaml", Hash: [32]byte{7}},
		{V: 1, Op: MailPresence, Project: "demo", Agent: "planner", Status: "busy", UpdatedAt: "2026-11-20T13:00:00Z"},
	}
}

func mailReplies() []*MailReply {
	return []*MailReply{{Result: MailStored}, {Result: MailDuplicate}, {Result: MailOK},
		{Result: MailRefused, Code: "not_found", Message: "no such agent"}, {Result: MailRetry, Code: "internal", Message: "disk full"},
		{Result: MailRetry, Code: "overloaded", Message: "16 of the name", Scope: MailScopeMessage}}
}

func stream(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

func TestMail(t *testing.T) {
	for _, m := range mailRequests() {
		b, err := AppendMailRequest(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		r := stream(append(b, "body"...))
		got, err := ReadMailRequest(r)
		if err != nil || !cmp.Equal(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "body" {
			t.Errorf("%s: %q follows", m.Op, rest)
		}
		for n := range len(b) {
			if _, err := ReadMailRequest(stream(b[:n])); err != io.ErrUnexpectedEOF {
				t.Errorf("%s, %d bytes of %d: %v", m.Op, n, len(b), err)
			}
		}
	}
	for _, m := range mailReplies() {
		b, err := AppendMailReply(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadMailReply(stream(b)); err != nil || !cmp.Equal(got, m) {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
		if _, err := ReadMailReply(stream(append(b, 0))); !errors.As(err, new(*FormatError)) {
			t.Errorf("a byte after the reply: %v", err)
		}
	}
	long, err := AppendMailReply(nil, &MailReply{Result: MailRetry, Code: "internal", Message: strings.Repeat("ü", 2000)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadMailReply(stream(long)); err != nil || len(got.Message) != 1024 {
		t.Errorf("a long message: %+v, %v", got, err)
	}
}

func framed(t testing.TB, v any) []byte {
	t.Helper()
	b, err := MarshalCBOR(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(appendVarint(nil, uint64(len(b))), b...)
}

func TestMailRefusals(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{"v": 1, "op": "consumed", "project": "demo", "recipient": "reviewer", "filename": "a.yaml", "sha256": make([]byte, 32), "new": []int{1}}
	}
	if m, err := ReadMailRequest(stream(framed(t, good()))); err != nil || m.Op != MailConsumed {
		t.Errorf("an unknown field: %v", err)
	}
	for name, wrong := range map[string]any{
		"v": "1", "op": nil, "project": "", "recipient": strings.Repeat("r", 65), "filename": []byte("a.yaml"), "sha256": make([]byte, 31),
	} {
		m := good()
		m[name] = wrong
		if got, err := ReadMailRequest(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("%s = %v: %+v, %v", name, wrong, got, err)
		}
		delete(m, name)
		if got, err := ReadMailRequest(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("without %s: %+v, %v", name, got, err)
		}
	}
	if m, err := ReadMailRequest(stream(framed(t, map[string]any{"v": 2, "op": "x"}))); err != nil || m.V != 2 {
		t.Errorf("a later version: %+v, %v", m, err)
	}
	if m, err := ReadMailRequest(stream(framed(t, map[string]any{"v": 1, "op": "x"}))); err != nil || m.Op != "x" {
		t.Errorf("an unknown operation: %+v, %v", m, err)
	}
	for _, m := range []map[string]any{{"result": "perhaps"}, {"result": "refused_retry"}, {}, {"result": "refused_retry", "code": "overloaded", "scope": 1}} {
		if got, err := ReadMailReply(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("%v: %+v, %v", m, got, err)
		}
	}
	if _, err := AppendMailRequest(nil, &MailRequest{V: 1, Op: "x", Project: "demo", Agent: "a", File: "f"}); err == nil {
		t.Error("an unknown operation was encoded")
	}
}

// FuzzMail: what is accepted means the same when it is written again, and nothing
// is read beyond the item.
func FuzzMail(f *testing.F) {
	for _, m := range mailRequests() {
		b, err := AppendMailRequest(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, m := range mailReplies() {
		b, err := AppendMailReply(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ReadMailRequest(stream(data)); err == nil && m.V == MailVersion && (m.Op == MailDeliver || m.Op == MailConsumed || m.Op == MailPresence) {
			b, err := AppendMailRequest(nil, m)
			if err != nil {
				t.Fatalf("%+v was read and cannot be written: %v", m, err)
			}
			again, err := ReadMailRequest(stream(b))
			if err != nil || again.Project != m.Project || again.Agent != m.Agent || m.Op != MailPresence && (again.File != m.File || again.Hash != m.Hash) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := ReadMailReply(stream(data)); err == nil {
			b, err := AppendMailReply(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ReadMailReply(stream(b)); err != nil || again.Result != m.Result || again.Code != m.Code || m.Code != "" && again.Message != m.Message {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}
