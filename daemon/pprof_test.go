package daemon

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// readProfile reads a profile to its end, and returns it unpacked.
func readProfile(t *testing.T, l *program, p client.PprofParams) []byte {
	t.Helper()
	var packed []byte
	for {
		var r client.Pprof
		l.must("debug.pprof", p, &r)
		part, err := base64.StdEncoding.DecodeString(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		if packed = append(packed, part...); r.Next == 0 {
			if r.Size != len(packed) {
				t.Errorf("%d bytes came of %d", len(packed), r.Size)
			}
			break
		}
		p = client.PprofParams{Offset: r.Next}
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Profiles name functions of the daemon. They hold nothing of the payloads and keys that it has in
// memory, whatever is measured.
func TestProfilesHoldNoPayloads(t *testing.T) {
	desk, laptop := pair(t) // not in parallel: profiles are of the process
	const marker = "payload-that-no-profile-has"
	began, release := make(chan *client.Inbound, 1), make(chan struct{})
	desk.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		in := bind(t, r)
		began <- in
		<-release
		r.Respond(wire.Payload(`{"summary":"done"}`))
	})
	answered := make(chan error, 1)
	go func() {
		answered <- laptop.dial().call("query", client.QueryParams{To: "desk", Payload: query(strings.Repeat(marker, 1000))}, nil)
	}()
	held := await.Receive(t, "query", began)
	l := desk.dial()
	for _, profile := range append([]string{"cpu", "block", "mutex"}, client.ListStateProfiles()...) {
		p := client.PprofParams{Profile: profile}
		if !strings.Contains(strings.Join(client.ListStateProfiles(), " "), profile) {
			p.Secs = 1
		}
		text := readProfile(t, l, p)
		for _, secret := range []string{marker, laptop.ID().String(), "laptop"} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("the profile %s holds %q", profile, secret)
			}
		}
		if (profile == "heap" || profile == "goroutine") && !bytes.Contains(text, []byte("acpd/daemon.")) {
			t.Errorf("the profile %s names no function of the daemon", profile)
		}
	}
	if !strings.Contains(string(held.Payload), marker) {
		t.Error("the payload was not in memory")
	}
	close(release)
	if err := await.Receive(t, "answer", answered); err != nil {
		t.Error(err)
	}
}

// One profile is taken at a time, and a profile is read by the connection that asked for it.
func TestOneProfileAtATime(t *testing.T) {
	desk := start(t, stateDir(t), "desk")
	l := desk.dial()
	for _, p := range []client.PprofParams{{}, {Profile: "goroutines"}, {Profile: "heap", Secs: 1}, {Profile: "cpu", Secs: 121}} {
		l.refused(kinds.Invalid, "debug.pprof", p)
	}
	l.refused(kinds.NotFound, "debug.pprof", client.PprofParams{Offset: 1})
	desk.profiler.taking.Lock()
	if e := l.refused(kinds.Overloaded, "debug.pprof", client.PprofParams{Profile: "heap"}); !e.Retryable {
		t.Errorf("%+v", e)
	}
	desk.profiler.taking.Unlock()

	big := make([]byte, desk.maxProfilePart()+1)
	var s local.Conn
	if part := desk.profiler.keep(&s, big, desk.maxProfilePart()); part.Next != desk.maxProfilePart() || part.Size != len(big) {
		t.Errorf("the first part goes on at %d of %d", part.Next, part.Size)
	}
	l.refused(kinds.NotFound, "debug.pprof", client.PprofParams{Offset: desk.maxProfilePart()}) // another connection's
	part, err := desk.profiler.readPart(&s, desk.maxProfilePart(), desk.maxProfilePart())
	if err != nil || part.Next != 0 || desk.profiler.data != nil {
		t.Errorf("the last part: %+v, %v", part, err)
	}
	desk.profiler.keep(&s, big, desk.maxProfilePart())
	desk.profiler.forget(&s)
	if _, err := desk.profiler.readPart(&s, 1, 1); err == nil {
		t.Error("the profile of a connection that has ended is there")
	}
}

// A profile over the bound is refused, and not held in memory.
func TestBoundedWriter(t *testing.T) {
	var out bytes.Buffer
	w := &boundedWriter{to: &out, left: 5}
	w.Write([]byte("1234"))
	if _, err := w.Write([]byte("56")); err == nil || w.left >= 0 || out.String() != "1234" {
		t.Errorf("%v, %d left, %q", err, w.left, &out)
	}
	if _, err := w.Write([]byte("5")); err == nil {
		t.Error("after it was full it takes more")
	}
}
