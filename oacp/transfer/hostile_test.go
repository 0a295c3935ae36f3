package transfer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// says sends what a peer of ours would never send on a stream, and returns the reply. If the connection ends before the
// reply, as it may on a loaded machine, it sends the same again: what was stored then is a duplicate.
func (s *side) says(to *side, m *wire.MailRequest, body string) *wire.MailReply {
	s.t.Helper()
	m.V = wire.MailVersion
	request, err := wire.AppendMailRequest(nil, m)
	if err != nil {
		s.t.Fatal(err)
	}
	for isRepeat := false; ; isRepeat = true {
		stream := s.opens(to)
		stream.Write(append(request, body...)) // fails where the reply comes first
		stream.CloseWrite()
		reply, err := wire.ReadMailReply(bufio.NewReader(stream))
		stream.Close()
		if isUnreachable(err) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if isRepeat && reply.Result == wire.MailDuplicate {
			reply.Result = wire.MailStored
		}
		return reply
	}
}

// opens opens a stream for mail, as often as it takes until the other side is reachable.
func (s *side) opens(to *side) (stream *peer.Stream) {
	s.t.Helper()
	ctx := await.NewContext(s.t)
	await.Until(s.t, "a stream opens", func() bool {
		var err error
		stream, err = s.node.OpenStream(ctx, to.key.ID(), wire.StreamMail)
		if err != nil && !isUnreachable(err) {
			s.t.Fatal(err)
		}
		return err == nil
	})
	return stream
}

func isUnreachable(err error) bool { return errors.Is(err, &kinds.Error{Code: kinds.Unreachable}) }

// letterOf is a request to deliver a text.
func letterOf(project, agent, file, text string) *wire.MailRequest {
	return &wire.MailRequest{Op: wire.MailDeliver, Project: project, Agent: agent, File: file, Size: uint64(len(text)), Hash: sha256.Sum256([]byte(text))}
}

// tree is every file below a folder.
func tree(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestHostilePeer: whatever a bound peer says, nothing is written but messages of
// its own agents into inboxes of agents that live here.
// holds: security.md#against-trusted-peers
func TestHostilePeer(t *testing.T) {
	desk, laptop := bound(t)
	laptop.makeAgent("demo", "other")
	laptop.makeAgent("secret", "reviewer")
	if err := os.Symlink(t.TempDir(), filepath.Join(laptop.folder("demo", "reviewer"), "..", "away")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, laptop.home)
	good := text1("planner", "reviewer", "x")
	for name, c := range map[string]struct {
		m            *wire.MailRequest
		body         string
		result, code string
	}{
		"project ../":      {letterOf("../demo", "reviewer", "a.yaml", good), good, wire.MailRefused, "invalid"},
		"project .":        {letterOf(".", "reviewer", "a.yaml", good), good, wire.MailRefused, "invalid"},
		"project NUL":      {letterOf("demo\x00", "reviewer", "a.yaml", good), good, wire.MailRefused, "invalid"},
		"agent ..":         {letterOf("demo", "..", "a.yaml", good), good, wire.MailRefused, "invalid"},
		"agent with slash": {letterOf("demo", "reviewer/inbox", "a.yaml", good), good, wire.MailRefused, "invalid"},
		"agent a link":     {letterOf("demo", "away", "a.yaml", good), good, wire.MailRefused, "not_found"},
		"no project":       {letterOf("nowhere", "reviewer", "a.yaml", good), good, wire.MailRefused, "not_authorized"},
		"another project":  {letterOf("secret", "reviewer", "a.yaml", good), good, wire.MailRefused, "not_authorized"},
		"no agent":         {letterOf("demo", "nobody", "a.yaml", good), good, wire.MailRefused, "not_found"},
		"bound agent":      {letterOf("demo", "planner", "a.yaml", good), good, wire.MailRefused, "not_found"},
		"foreign from":     {letterOf("demo", "reviewer", "a.yaml", text1("other", "reviewer", "x")), text1("other", "reviewer", "x"), wire.MailRefused, "not_authorized"},
		"no from":          {letterOf("demo", "reviewer", "a.yaml", "a: b\n"), "a: b\n", wire.MailRefused, "invalid"},
		"from twice":       {letterOf("demo", "reviewer", "a.yaml", "from: other\n"+good), "from: other\n" + good, wire.MailRefused, "invalid"},
		"from merged":      {letterOf("demo", "reviewer", "a.yaml", good+"<<: {from: other}\n"), good + "<<: {from: other}\n", wire.MailRefused, "invalid"},
		"from in a text":   {letterOf("demo", "reviewer", "a.yaml", "x: |\n  from: other\n"+good), "x: |\n  from: other\n" + good, wire.MailRefused, "invalid"},
		"no YAML":          {letterOf("demo", "reviewer", "a.yaml", "{"), "{", wire.MailRefused, "invalid"},
		"planted words":    {letterOf("demo", "reviewer", "a.yaml", "from: planner\nPLANTED: 1\nPLANTED: 2\n"), "from: planner\nPLANTED: 1\nPLANTED: 2\n", wire.MailRefused, "invalid"},
		"too large":        {&wire.MailRequest{Op: wire.MailDeliver, Project: "demo", Agent: "reviewer", File: "a.yaml", Size: 1<<20 + 1}, "", wire.MailRefused, "too_large"},
		"huge":             {&wire.MailRequest{Op: wire.MailDeliver, Project: "demo", Agent: "reviewer", File: "a.yaml", Size: 1 << 62}, "", wire.MailRefused, "too_large"},
		"empty":            {letterOf("demo", "reviewer", "a.yaml", ""), "", wire.MailRefused, "invalid"},
		"cut":              {letterOf("demo", "reviewer", "a.yaml", good), good[1:], wire.MailRefused, "invalid"},
		"more":             {letterOf("demo", "reviewer", "a.yaml", good), good + "x", wire.MailRefused, "invalid"},
		"another hash":     {letterOf("demo", "reviewer", "a.yaml", good), strings.ToUpper(good), wire.MailRefused, "invalid"},
		"consumed ../":     {&wire.MailRequest{Op: wire.MailConsumed, Project: "demo", Agent: "reviewer", File: "../../other/inbox/a.yaml"}, "", wire.MailRefused, "invalid"},
		"consumed nothing": {&wire.MailRequest{Op: wire.MailConsumed, Project: "demo", Agent: "reviewer", File: "a.yaml"}, "", wire.MailOK, ""},
		"presence of all":  {&wire.MailRequest{Op: wire.MailPresence, Project: "demo", Agent: "reviewer", Status: "offline"}, "", wire.MailOK, ""},
	} {
		reply := desk.says(laptop, c.m, c.body)
		if reply.Result != c.result || reply.Code != c.code || strings.Contains(reply.Message, laptop.home) || strings.Contains(reply.Message, "PLANTED") {
			t.Errorf("%s: %+v, want %s %s", name, reply, c.result, c.code)
		}
	}
	for name, raw := range map[string][]byte{"garbage": {5, 1, 2, 3, 4, 5}, "nothing": {}, "too long": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		stream := desk.opens(laptop)
		stream.Write(raw)
		stream.CloseWrite()
		if reply, err := wire.ReadMailReply(bufio.NewReader(stream)); err == nil && reply.Result != wire.MailRefused {
			t.Errorf("%s: %+v", name, reply)
		}
		stream.Close()
	}
	after := slices.DeleteFunc(tree(t, laptop.home), func(path string) bool { return strings.HasSuffix(path, "planner/"+statusFile) })
	before = slices.DeleteFunc(before, func(path string) bool { return strings.HasSuffix(path, "planner/"+statusFile) })
	if !slices.Equal(before, after) {
		t.Errorf("written: %v, was %v", after, before)
	}
	// A name that could do harm is replaced, always by the same.
	for range 2 {
		for _, name := range []string{"../x.yaml", ".hidden.yaml", "x.yaml/..", "a b.yaml", "x.yml", strings.Repeat("x", 300) + ".yaml"} {
			letter := text1("planner", "reviewer", name)
			if reply := desk.says(laptop, letterOf("demo", "reviewer", name, letter), letter); reply.Result != wire.MailStored && reply.Result != wire.MailDuplicate {
				t.Errorf("%q: %+v", name, reply)
			}
		}
	}
	got := slices.Collect(maps.Keys(laptop.files("reviewer")))
	if len(got) != 6 || slices.ContainsFunc(got, func(name string) bool { return !strings.HasPrefix(name, "unnamed_") }) {
		t.Errorf("names %v", got)
	}
	laptop.noDebris("reviewer")
}

// memory is a stream that is all there, for what a fuzzer makes.
type memory struct {
	io.Reader
	bytes.Buffer
}

func (m *memory) Read(b []byte) (int, error)       { return m.Reader.Read(b) }
func (m *memory) CloseWrite() error                { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }
func (m *memory) Close() error                     { return nil }
func (m *memory) Cancel()                          { m.Buffer.WriteString("cancelled") }

// FuzzServe: whatever a peer sends is answered or given up, and what is new on the
// disk is a whole message in the one inbox that it may write to.
func FuzzServe(f *testing.F) {
	good := text1("planner", "reviewer", "x")
	for _, m := range []*wire.MailRequest{
		letterOf("demo", "reviewer", "a.yaml", good),
		letterOf("demo", "reviewer", "../a.yaml", good),
		letterOf("../demo", "reviewer", "a.yaml", good),
		{Op: wire.MailConsumed, Project: "demo", Agent: "planner", File: "a.yaml"},
		{Op: wire.MailPresence, Project: "demo", Agent: "planner", Status: "busy"},
	} {
		m.V = wire.MailVersion
		b, err := wire.AppendMailRequest(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(b, good...))
		f.Add(b)
	}
	desk, laptop := desks(f)
	laptop.start()
	laptop.bind("demo", "planner", desk)
	mine := filepath.Join("projects", "demo", "agents", "reviewer", "inbox")
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &memory{Reader: bytes.NewReader(data)}
		laptop.Serve(t.Context(), desk.key.ID(), m)
		said := m.Buffer.Bytes()
		reply, err := wire.ReadMailReply(bufio.NewReader(bytes.NewReader(said)))
		if err != nil && string(said) != "cancelled" {
			t.Fatalf("said %q: %v", said, err)
		}
		for _, path := range tree(t, laptop.home) {
			switch {
			case filepath.Base(path) == statusFile:
			case filepath.Dir(path) != mine || !strings.HasSuffix(path, ".yaml") || err != nil || reply.Result != wire.MailStored:
				t.Errorf("%s is there after %+v", path, reply)
			}
			if filepath.Base(path) != statusFile {
				os.Remove(filepath.Join(laptop.home, path))
			}
		}
	})
}
