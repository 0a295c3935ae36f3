package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A full disk takes some writes, and then none.
type full struct {
	takes int
	took  bytes.Buffer
}

func (f *full) Write(b []byte) (int, error) {
	if f.takes == 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	}
	f.takes--
	return f.took.Write(b)
}

// fills runs a command line whose output is written to a full disk, and wants it told.
func (f *fake) fills(done string, args ...string) {
	f.t.Helper()
	for _, args := range [][]string{args, append([]string{"--json"}, args...)} {
		var stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &full{}, err: &stderr}
		got := a.run(f.t.Context(), append([]string{"--home", f.home}, args...))
		a.daemon.Close()
		told := ": write to standard output: no space left on device"
		if done != "" {
			told += "; " + done
		}
		if got != exitLocal || !strings.HasSuffix(stderr.String(), told+"\n") || !strings.HasPrefix(stderr.String(), "acpctl ") {
			f.t.Errorf("%s: exit code %d\n%s", strings.Join(args, " "), got, &stderr)
		}
	}
}

// TestFullOutput: what cannot be written is no success, and what was done is told.
func TestFullOutput(t *testing.T) {
	t.Setenv("ACP_HOME", "")
	f := newFake(t)
	answer := func(kind string, payload any) any {
		return &client.Answer{ID: someID, From: deskID, Kind: kind, RTTUS: 1, Payload: kinds.Encode(payload)}
	}
	f.on(client.MethodQuery, answer(kinds.KindResponse, &kinds.Response{Summary: "main"}))
	f.on(client.MethodPing, answer(kinds.KindPong, &kinds.Pong{Status: "idle"}))
	f.on(client.MethodDelegate, &client.Delegated{ID: someID, From: deskID, Payload: kinds.Encode(&kinds.Ack{Accepted: true})})
	f.on(client.MethodWait, &client.Task{ID: someID, State: client.TaskCompleted, Result: kinds.Encode(&kinds.Result{Status: "completed", Outcome: "done"})})
	f.on(client.MethodNotify, &client.Receipt{ID: someID, State: client.Handed})
	f.on(client.MethodPeers, client.Peers{Peers: []client.Peer{{ID: deskID, Name: "desk", State: client.PeerConnected}}})
	f.on(client.MethodInbox, client.Inbox{Messages: []client.HeldMessage{{Seq: 1, Envelope: wire.Envelope{ID: someID, From: deskID, Kind: kinds.KindNotify}}}})
	f.on(client.MethodInvite, &client.Invitation{URI: "acp://x", ID: "0a1b"})
	f.on(client.MethodStatus, &client.Status{})
	f.on(client.MethodWhoami, &client.Whoami{Name: "laptop"})
	f.on(client.MethodTasks, client.Tasks{Tasks: []client.Task{{ID: someID}}})
	id := someID.String()
	f.fills("the question was answered, and its id is "+id, "query", "desk", "Which branch?")
	f.fills("", "ping", "desk", "-c", "2", "-i", "1ms")
	again := "4a2b8c1e-6f0a-4d3c-9e57-010203040506"
	f.fills("the task was accepted: see acpctl wait "+again+", or acpctl cancel "+again, "delegate", "desk", "Build", "--id", again)
	f.fills("the message is handed, and its id is "+id, "notify", "desk", "built", "true")
	f.fills("", "peers")
	f.does(client.MethodShown, func(*client.Request) (any, error) {
		t.Error("what was not written counts as shown")
		return struct{}{}, nil
	})
	f.fills("", "inbox")
	f.fills("the invitation is open: acpctl invite --revoke 0a1b ends it", "invite")
	f.fills("", "wait", id)
	f.fills("", "status")
	f.fills("", "whoami")
	f.fills("", "tasks")
	f.fills("", "version")
	f.fills("", "ping", "--help")
	f.fills("", "help", "ping")
	f.fills("", "completion", "bash")
	f.on(client.MethodNotify, []client.Receipt{{To: "desk", ID: someID, State: client.Handed}, {To: "office", State: client.Held, ID: someID}})
	f.fills("what was sent: desk: handed "+id+", office: held "+id, "notify", "desk,office", "built", "true")
}

// TestFullOutputOfChannels: what was made is there.
func TestFullOutputOfChannels(t *testing.T) {
	t.Setenv("ACP_HOME", "")
	f := newFake(t)
	f.web(map[string]string{
		"POST intents":                   `{"id":"intent_1"}`,
		"POST intents/intent_1/channels": `{"id":"chan_1"}`,
		"POST channels/chan_1/messages":  `{"id":"msg_1","sender":"planner","message_type":"notify","status":"sent"}`,
	})
	f.fills("the channel was created, and its id is chan_1", "channel", "create", "questions", "--intent", "intent_1")
	f.fills("the channel was created, and its id is chan_1", "channel", "create", "questions", "--title", "Research")
	f.fills("the message was sent, and its id is msg_1", "channel", "send", "chan_1", "hello")
}

// An error that is to be JSON is told in words where it cannot be written.
func TestFullOutputOfAnError(t *testing.T) {
	f := newFake(t)
	f.on(client.MethodQuery, kinds.Errorf(kinds.NotFound, "to: desk: nobody has that name"))
	var stderr bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &full{}, err: &stderr}
	code := a.run(t.Context(), []string{"--home", f.home, "query", "desk", "x", "--json"})
	a.daemon.Close()
	if want := "acpctl query: PEER: desk: nobody has that name\nacpctl query: write to standard output: no space left on device\n"; code != exitOf(kinds.Errorf(kinds.NotFound, "")) || stderr.String() != want {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
}

// TestFullOutputOfOACP: what is stored stays stored.
func TestFullOutputOfOACP(t *testing.T) {
	f := newFake(t)
	home := filepath.Join(f.home, "oacp")
	t.Setenv("OACP_HOME", home)
	send := []string{"oacp", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Ready?", "--body", "x"}
	if r := f.run("oacp", "init", "demo", "--agents", "planner,reviewer"); r.code != 0 {
		t.Fatal(r)
	}
	if r := f.run(send...); r.code != 0 {
		t.Fatal(r)
	}
	for _, form := range []string{"", "--json"} {
		var stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &full{}, err: &stderr}
		args := send
		if form != "" {
			args = append([]string{form}, send...)
		}
		if code := a.run(t.Context(), args); code != exitLocal || !strings.Contains(stderr.String(), "acpctl oacp send: write to standard output: no space left on device; the message was sent, and its id is msg-") {
			t.Errorf("%s: exit code %d\n%s", form, code, &stderr)
		}
	}
	f.fills("", "oacp", "inbox", "demo", "--agent", "reviewer")
	f.fills("", "oacp", "doctor")
	// A watch that nobody can hear does not go on.
	for _, form := range []string{"--json=false", "--json"} {
		var stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &full{}, err: &stderr}
		code := a.run(t.Context(), []string{"oacp", "watch", "--agent", "reviewer", "--project", "demo", "--since", "epoch", "--follow", "--state-id", "of" + strings.TrimPrefix(form, "--json="), form})
		if want := "acpctl oacp watch: write to standard output: no space left on device; what is lost there counts as told: acpctl oacp inbox shows it\n"; code != exitLocal || stderr.String() != want {
			t.Errorf("%s: exit code %d\n%s", form, code, &stderr)
		}
	}
}

func TestOutletHasNoGaps(t *testing.T) {
	disk := &full{takes: 1}
	o := &outlet{to: disk}
	o.Write([]byte("one"))
	o.Write([]byte("two"))
	disk.takes = 1
	if _, err := o.Write([]byte("three")); !errors.Is(err, syscall.ENOSPC) || disk.took.String() != "one" {
		t.Errorf("%v, %s", err, &disk.took)
	}
}
