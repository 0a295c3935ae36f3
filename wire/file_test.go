package wire

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fileRequests() []*FileRequest {
	return []*FileRequest{
		{V: 1, Op: FileOffer, ID: MessageID{15: 9}, Name: "build.log", Size: 5 << 20, Hash: [32]byte{1, 31: 2}},
		{V: 1, Op: FileOffer, ID: MessageID{15: 9}, Name: "", Hash: [32]byte{1}, Agent: "fixer", FromAgent: "reviewer", Ref: MessageID{7}, Thread: "t", Hops: 3, Text: "The log", WaitMS: 86_400_000},
		{V: 1, Op: FileRange, ID: MessageID{15: 9}, Offset: 4 << 20, Length: 77},
	}
}

func fileReplies() []*FileReply {
	return []*FileReply{
		{Op: FileAsked}, {Op: FileTake}, {Op: FileWant, Offset: 1 << 20, Length: FileRangeBytes, Have: 3}, {Op: FileDone, State: "handed"}, {Op: FileDone, State: "held", Had: true},
		{Op: FileRefuse, Code: "overloaded", Message: "the disk is full", RetryAfterMS: 60_000}, {Op: FileRefuse, Code: "invalid"},
	}
}

func TestFile(t *testing.T) {
	for _, f := range fileRequests() {
		b, err := AppendFileRequest(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		r := stream(append(b, "bytes"...))
		got, err := ReadFileRequest(r)
		if err != nil || !cmp.Equal(got, f) {
			t.Errorf("%+v became %+v, %v", f, got, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "bytes" {
			t.Errorf("%s: %q follows", f.Op, rest)
		}
		for n := range len(b) {
			if _, err := ReadFileRequest(stream(b[:n])); err != io.ErrUnexpectedEOF {
				t.Errorf("%s, %d bytes of %d: %v", f.Op, n, len(b), err)
			}
		}
	}
	var all []byte
	for _, f := range fileReplies() {
		var err error
		if all, err = AppendFileReply(all, f); err != nil {
			t.Fatal(err)
		}
	}
	r := stream(all)
	for _, f := range fileReplies() {
		if got, err := ReadFileReply(r); err != nil || !cmp.Equal(got, f) {
			t.Errorf("%+v became %+v, %v", f, got, err)
		}
	}
	if _, err := ReadFileReply(r); err != io.ErrUnexpectedEOF {
		t.Errorf("behind the last: %v", err)
	}
	long, err := AppendFileReply(nil, &FileReply{Op: FileRefuse, Code: "internal", Message: strings.Repeat("ü", 2000)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFileReply(stream(long)); err != nil || len(got.Message) != 1024 {
		t.Errorf("a long message: %+v, %v", got, err)
	}
}

func TestFileRefusals(t *testing.T) {
	offer := func() map[string]any {
		return map[string]any{"v": 1, "op": "offer", "id": make([]byte, 15), "name": "a", "size": 1, "sha256": make([]byte, 32), "new": []int{1}}
	}
	good := offer()
	good["id"] = append(make([]byte, 15), 1)
	if f, err := ReadFileRequest(stream(framed(t, good))); err != nil || f.Op != FileOffer {
		t.Errorf("an unknown field: %v", err)
	}
	for name, wrong := range map[string]any{
		"v": "1", "op": nil, "id": make([]byte, 16), "name": strings.Repeat("n", 1025), "size": -1, "sha256": make([]byte, 31), "agent": strings.Repeat("a", 65), "from_agent": 1, "ref": []byte{1},
		"thread": strings.Repeat("t", 65), "text": strings.Repeat("t", 4097), "wait_ms": "1",
	} {
		m := offer()
		m["id"], m[name] = good["id"], wrong
		if got, err := ReadFileRequest(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("%s = %v: %+v, %v", name, wrong, got, err)
		}
	}
	for name, wrong := range map[string][2]uint64{"an offset between": {5, 1}, "no byte": {0, 0}, "too many": {0, FileRangeBytes + 1}} {
		m := map[string]any{"v": 1, "op": "range", "id": good["id"], "offset": wrong[0], "length": wrong[1]}
		if got, err := ReadFileRequest(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		m = map[string]any{"op": "want", "offset": wrong[0], "length": wrong[1], "have": 0}
		if got, err := ReadFileReply(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("want, %s: %+v, %v", name, got, err)
		}
	}
	for _, m := range []map[string]any{{"op": "perhaps"}, {}, {"op": "done"}, {"op": "done", "state": "refused"}, {"op": "done", "state": "held", "had": 1}, {"op": "refuse", "message": "no"}, {"op": "want"}} {
		if got, err := ReadFileReply(stream(framed(t, m))); !errors.As(err, new(*FormatError)) {
			t.Errorf("%v: %+v, %v", m, got, err)
		}
	}
	for _, m := range []map[string]any{{"v": 2, "op": "x"}, {"v": 1, "op": "x"}} {
		if _, err := ReadFileRequest(stream(framed(t, m))); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	if _, err := AppendFileRequest(nil, &FileRequest{V: 1, Op: "x", ID: MessageID{1}}); err == nil {
		t.Error("an unknown operation was encoded")
	}
}

// FuzzFile: what is accepted means the same when it is written again.
func FuzzFile(f *testing.F) {
	for _, m := range fileRequests() {
		b, err := AppendFileRequest(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, m := range fileReplies() {
		b, err := AppendFileReply(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ReadFileRequest(stream(data)); err == nil && m.V == FileVersion && (m.Op == FileOffer || m.Op == FileRange) {
			b, err := AppendFileRequest(nil, m)
			if err != nil {
				t.Fatalf("%+v was read and cannot be written: %v", m, err)
			}
			if again, err := ReadFileRequest(stream(b)); err != nil || again.ID != m.ID || again.Name != m.Name || m.Op == FileRange && *again != (FileRequest{V: 1, Op: m.Op, ID: m.ID, Offset: m.Offset, Length: m.Length}) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := ReadFileReply(stream(data)); err == nil {
			b, err := AppendFileReply(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := ReadFileReply(stream(b)); err != nil || again.Op != m.Op || again.Code != m.Code || m.Op == FileWant && again.Offset != m.Offset {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}
