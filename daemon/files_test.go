package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// randomBytes returns bytes in which no two ranges are alike.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}

// paramsFor returns the params with which content is sent.
func paramsFor(to, name string, content []byte) client.FileSendParams {
	hash := sha256.Sum256(content)
	return client.FileSendParams{Head: client.Head{ID: wire.NewMessageID()}, To: to, Name: name, Size: uint64(len(content)), SHA256: hex.EncodeToString(hash[:])}
}

// callAlone calls a method on a connection of its own, which carries bytes afterwards.
func callAlone(t testing.TB, socket, method string, params, result any) (net.Conn, *bufio.Reader, error) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	in, err := callOn(t, c, method, params, result)
	return c, in, err
}

// callOn calls a method on a connection that carries bytes afterwards, or another call.
func callOn(t testing.TB, c net.Conn, method string, params, result any) (*bufio.Reader, error) {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, text)
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return in, err
	}
	var answer struct {
		Result any
		Error  *jsonrpc.Error
	}
	answer.Result = result
	if err := json.Unmarshal(line, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if answer.Error != nil {
		return in, answer.Error
	}
	return in, nil
}

// sendFile sends a file as a client does. on, which may be nil, is called with each line before it is answered.
func sendFile(t testing.TB, socket string, p client.FileSendParams, content io.ReaderAt, on func(net.Conn, client.FileSendLine)) (*client.FileSent, error) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return sendFileOn(t, c, p, content, on)
}

// sendFileOn does so on a connection, which it closes.
func sendFileOn(t testing.TB, c net.Conn, p client.FileSendParams, content io.ReaderAt, on func(net.Conn, client.FileSendLine)) (*client.FileSent, error) {
	t.Helper()
	defer c.Close()
	c.SetDeadline(time.Now().Add(await.Patience))
	in, err := callOn(t, c, client.MethodFileSend, p, nil)
	if err != nil {
		return nil, err
	}
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var line client.FileSendLine
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if on != nil {
			on(c, line)
		}
		switch {
		case line.Error != nil:
			return nil, line.Error
		case line.Done != nil:
			return line.Done, nil
		case line.Range != nil:
			buf := make([]byte, line.Range[1])
			if n, _ := content.ReadAt(buf, int64(line.Range[0])); n < len(buf) {
				c.Close()
				return nil, io.ErrUnexpectedEOF
			}
			c.Write(buf) // if that fails, the last line says why
		}
	}
}

// spokenFor returns a connection to the agents' folder that speaks as an attached agent.
func (d *running) spokenFor(name, key string) net.Conn {
	d.t.Helper()
	c, _, err := callAlone(d.t, filepath.Join(d.dir, "agent", "acp.sock"), client.MethodSpeak, client.SpeakParams{Name: name, Key: key}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// takeFile takes a file as a client does.
func takeFile(t testing.TB, socket string, p client.FileTakeParams) (client.File, []byte, error) {
	t.Helper()
	var f client.File
	_, in, err := callAlone(t, socket, client.MethodFileTake, p, &f)
	if err != nil {
		return f, nil, err
	}
	content, err := io.ReadAll(in)
	return f, content, err
}

// ownerSends sends content from a daemon to a peer.
func (d *running) ownerSends(p client.FileSendParams, content []byte) (*client.FileSent, error) {
	d.t.Helper()
	return sendFile(d.t, d.home.ownerSocketPath(), p, bytes.NewReader(content), nil)
}

// answerNext answers the next approval.
func (d *running) answerNext(answer string) {
	d.t.Helper()
	a := d.nextApproval()
	d.decide(a.ID, answer)
}

// listFiles lists files, the oldest first.
func (d *running) listFiles() []client.File {
	d.t.Helper()
	all := get[client.Files](d.dial(), client.MethodFiles, client.FilesParams{}).Files
	slices.Reverse(all)
	return all
}

// A file comes with the owner's yes, byte for byte, and lies in the inbox and in the list until it is taken.
func TestAFileComes(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	content := randomBytes(5<<20 + 77)
	p := paramsFor("laptop", "../build\u202e.log", content)
	p.Text, p.Ref = "The log", wire.NewMessageID()
	var states []client.FileState
	sent, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.State != "" {
			states = append(states, line.State)
		}
		if line.State == client.FileAsked {
			laptop.answerNext("yes")
		}
	})
	if err != nil || sent.State != client.Held || sent.ID != p.ID || sent.Had {
		t.Fatalf("sent %+v, %v", sent, err)
	}
	if fmt.Sprint(states) != "[asked moving]" {
		t.Errorf("the client saw %v", states)
	}
	held := get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages
	if len(held) != 1 || held[0].Envelope.ID != p.ID || held[0].Origin != client.OriginDaemon || held[0].Envelope.From != desk.ID() {
		t.Fatalf("in the inbox: %+v", held)
	}
	n := parse[kinds.Notify](t, held[0].Envelope.Payload)
	var notice client.FileReport
	if err := json.Unmarshal(n.Data, &notice); err != nil || n.Topic != client.FileTopic || notice.Name != "build.log" || notice.Size != p.Size || notice.SHA256 != p.SHA256 || notice.Text != "The log" || notice.Ref != p.Ref {
		t.Errorf("%s: %+v, %v", n.Topic, notice, err)
	}
	files := laptop.listFiles()
	if len(files) != 1 || files[0].State != client.FileHere || files[0].Name != "build.log" || files[0].PeerName != "desk" || files[0].Bytes != p.Size || time.Until(files[0].Until.Time) < 29*24*time.Hour {
		t.Errorf("%+v", files)
	}
	for want, filter := range []client.FilesParams{{Ref: wire.NewMessageID()}, {Ref: p.Ref, Peers: []string{"desk"}}} {
		if found := get[client.Files](laptop.dial(), client.MethodFiles, filter).Files; len(found) != want {
			t.Errorf("%+v selects %+v", filter, found)
		}
	}
	f, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: p.ID})
	if err != nil || !bytes.Equal(got, content) || f.SHA256 != p.SHA256 {
		t.Errorf("%d bytes of %+v: %v", len(got), f, err)
	}
	info, err := os.Stat(filepath.Join(laptop.dir, "files", desk.ID().String(), p.ID.String()))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if again, err := desk.ownerSends(p, content); err != nil || !again.Had || again.State != client.Held {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	laptop.dial().must(client.MethodFileRemove, client.FileRemoveParams{ID: p.ID}, nil)
	if left := laptop.listFiles(); len(left) != 0 {
		t.Errorf("%+v is left", left)
	}
	if rest, _ := os.ReadDir(filepath.Join(laptop.dir, "files", desk.ID().String())); len(rest) != 0 {
		t.Errorf("%v are left", rest)
	}
}

// refusedWith fails the test unless err has a code and says some words.
func refusedWith(t testing.TB, err error, code kinds.Code, says string) {
	t.Helper()
	var rpc *jsonrpc.Error
	e := kinds.AsError(err)
	if errors.As(err, &rpc) {
		e = new(kinds.Error)
		if err := json.Unmarshal(rpc.Data, e); err != nil {
			t.Fatalf("%v: %v", rpc, err)
		}
	}
	if err == nil || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("%v, want %s and %q", err, code, says)
	}
}

// alwaysFrom makes laptop take files of desk without a question.
func (d *running) alwaysFrom(sender *running) {
	d.t.Helper()
	content := []byte("the first")
	_, err := sendFile(d.t, sender.home.ownerSocketPath(), paramsFor(d.name, "first", content), bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.State == client.FileAsked {
			d.answerNext("always")
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// The owner is asked about the first file of a peer, and then about those that exceed files.ask on one day. A no
// refuses the file; always ends the questions, until file.ask.
// holds: security.md#files
func TestTheOwnerIsAskedAboutFiles(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.stopCalendar()
	laptop.configure("files: {ask: 1000}\n")
	small, large := randomBytes(600), randomBytes(1001)
	send := func(content []byte, answer string) error {
		t.Helper()
		p := paramsFor("laptop", "a.txt", content)
		p.Text = "for\nyou"
		asked, answered := false, make(chan struct{})
		close(answered)
		_, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
			if line.State != client.FileAsked {
				return
			}
			asked, answered = true, make(chan struct{})
			a := laptop.nextApproval()
			if a.Kind != "file" || a.Message != p.ID || a.Name != "desk" || a.Agent != "" || !strings.HasPrefix(a.ID, "f") || a.Text != fmt.Sprintf("a.txt, %d bytes: for you", len(content)) {
				t.Errorf("the owner sees %+v", a)
			}
			if files := laptop.listFiles(); files[len(files)-1].State != client.FileAsked || files[len(files)-1].ID != p.ID {
				t.Errorf("the list has %+v", files)
			}
			go func() { defer close(answered); laptop.decide(a.ID, answer) }()
		})
		<-answered
		if asked != (answer != "") {
			t.Errorf("%d bytes: the owner was asked: %v", len(content), asked)
		}
		return err
	}
	refusedWith(t, send(small, "no"), kinds.NotAuthorized, "declined")
	for _, step := range []struct {
		content []byte
		answer  string
	}{{small, "yes"}, {small[:300], ""}, {small[:200], "yes"}, {large, "always"}, {large, ""}} {
		if err := send(step.content, step.answer); err != nil {
			t.Errorf("%d bytes: %v", len(step.content), err)
		}
	}
	laptop.dial().must(client.MethodFileAsk, client.FileAskParams{Peer: "desk"}, nil)
	if err := send(small[:1], "yes"); err != nil {
		t.Error(err)
	}
	laptop.dial().refused(kinds.NotFound, "approvals.decide", client.ApproveParams{ID: "f1", Answer: "yes"})
	laptop.dial().refused(kinds.Invalid, "approvals.decide", client.ApproveParams{ID: "f1", Answer: "perhaps"})
}

// What waits for the owner goes when its sender gives up.
func TestAnAbandonedOfferAsksNobody(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	content := randomBytes(10)
	_, err := sendFile(t, desk.home.ownerSocketPath(), paramsFor("laptop", "x", content), bytes.NewReader(content), func(c net.Conn, line client.FileSendLine) {
		if line.State == client.FileAsked {
			laptop.nextApproval()
			c.Close()
		}
	})
	if err == nil {
		t.Error("it was sent")
	}
	await.Until(t, "nothing waits", func() bool { return len(laptop.fileService.ListApprovals()) == 0 })
	await.Until(t, "nothing is sent", func() bool { return len(desk.listFiles()) == 0 })
	if files := laptop.listFiles(); len(files) != 0 {
		t.Errorf("%+v are left", files)
	}
}

// Agents in their folder send files, and take those that are for them; of those for any, the first agent gets one.
// holds: security.md#files
func TestAgentsSendAndTakeFiles(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	_, planner := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	_, claude := laptop.guestAgent(client.AttachParams{Name: "claude", Kinds: []string{"query"}}, say(`{}`))
	_, codex := laptop.guestAgent(client.AttachParams{Name: "codex", Kinds: []string{"query"}}, say(`{}`))
	content := randomBytes(3 << 20)
	send := func(agent string) wire.MessageID {
		p := paramsFor("laptop", "a.patch", content)
		p.Agent = agent
		c := desk.spokenFor("planner", planner)
		sent, err := sendFileOn(t, c, p, bytes.NewReader(content), nil)
		if err != nil {
			t.Fatal(err)
		}
		return sent.ID
	}
	take := func(agent, key string, id wire.MessageID) error {
		var f client.File
		c := laptop.spokenFor(agent, key)
		in, err := callOn(t, c, client.MethodFileTake, client.FileTakeParams{ID: id}, &f)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, content) || f.TakenBy != agent || f.FromAgent != "planner" || f.State != client.FileTaken {
			t.Errorf("%s took %d bytes of %+v: %v", agent, len(got), f, err)
		}
		return nil
	}
	mine, anys := send("claude"), send("")
	desk.agent(client.AttachParams{Name: "slow", Kinds: []string{"query"}}, func(ctx context.Context, _ *jsonrpc.Request) { <-ctx.Done() })
	busy := laptop.spokenFor("claude", claude)
	fmt.Fprintln(busy, `{"jsonrpc":"2.0","id":7,"method":"query","params":{"to":"desk/slow","payload":{"question":"?"}}}`)
	_, err := callOn(t, busy, client.MethodFileTake, client.FileTakeParams{ID: anys}, nil)
	refusedWith(t, err, kinds.Invalid, "other calls") // and codex can have it
	busy.Close()
	refusedWith(t, take("codex", codex, mine), kinds.NotFound, "no file")
	for range 2 {
		if err := take("claude", claude, mine); err != nil {
			t.Error(err)
		}
		if err := take("codex", codex, anys); err != nil {
			t.Error(err)
		}
	}
	refusedWith(t, take("claude", claude, anys), kinds.NotAuthorized, "another agent")
	if _, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: anys}); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the owner gets %d bytes, %v", len(got), err)
	}
	_, _, err = callAlone(t, filepath.Join(laptop.dir, "agent", "acp.sock"), client.MethodFileTake, client.FileTakeParams{ID: mine}, nil)
	refusedWith(t, err, kinds.NotAuthorized, "attach")
	var seen client.Files
	if _, err := callOn(t, laptop.spokenFor("codex", codex), client.MethodFiles, client.FilesParams{}, &seen); err != nil || len(seen.Files) != 2 || seen.Files[0].ID != anys {
		t.Errorf("codex sees %+v, %v", seen, err)
	}
}

// Policy, files.max and the space on the disk refuse a file before its bytes come.
// holds: security.md#files
func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, laptop, desk)
	send := func(size int) error {
		content := randomBytes(size)
		_, err := sendFile(t, laptop.home.ownerSocketPath(), paramsFor("desk", "x", content), bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
			if line.Range != nil {
				t.Error("bytes were sent")
			}
		})
		return err
	}
	desk.configure("files: {max: 1000}\n")
	refusedWith(t, send(1001), kinds.TooLarge, "files.max")
	desk.configure("policy: {laptop: {kinds: [query, mail]}}\n")
	refusedWith(t, send(1), kinds.NotAuthorized, `do not include "file"`)
	desk.configure("limits: {rate: [{kind: file, per_second: 0.001, burst: 1}]}\n")
	free.Store(1<<30 + 10<<20)
	await.Until(t, "the space is noticed", func() bool { now, _ := desk.space.MeasureFree(); return now < 1<<31 })
	refusedWith(t, send(11<<20), kinds.Overloaded, "disk")
	refusedWith(t, send(1), kinds.Overloaded, "rate")
	if files := desk.listFiles(); len(files) != 0 {
		t.Errorf("%+v", files)
	}
}

// The owner is told what is wrong with the params before anything is sent.
func TestFileParams(t *testing.T) {
	t.Parallel()
	desk, _ := pair(t)
	for says, change := range map[string]func(*client.FileSendParams){
		"sha256":           func(p *client.FileSendParams) { p.SHA256 = "00" },
		"text":             func(p *client.FileSendParams) { p.Text = strings.Repeat("x", client.MaxFileText+1) },
		"no peer":          func(p *client.FileSendParams) { p.To = "nobody" },
		"names an agent":   func(p *client.FileSendParams) { p.To = "laptop/claude" },
		"agent: 65 bytes":  func(p *client.FileSendParams) { p.Agent = strings.Repeat("a", 65) },
		"name: 1025 bytes": func(p *client.FileSendParams) { p.Name = strings.Repeat("n", 1025) },
	} {
		p := paramsFor("laptop", "x", nil)
		change(&p)
		_, err := desk.ownerSends(p, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Only a daemon reports files: nobody else's message has such a topic, on either side.
// holds: security.md#files
func TestReservedTopics(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	forged := kinds.EncodePayload(&kinds.Notify{Topic: client.FileTopic})
	if e := desk.dial().refused(kinds.Invalid, "notify", client.NotifyParams{To: client.To("laptop"), Payload: forged}); !strings.Contains(e.Message, "acp.") {
		t.Error(e)
	}
	env := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindNotify, forged)
	checked, err := kinds.CheckEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	_, err = desk.node.Send(t.Context(), checked, true)
	refusedWith(t, err, kinds.Invalid, "acp.")
	if held := get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages; len(held) != 0 {
		t.Errorf("%+v", held)
	}
}

// An agent that takes notifications is handed the entry for a file.
func TestAnAgentIsToldOfAFile(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.alwaysFrom(desk)
	told := make(chan client.Inbound, 4)
	laptop.agent(client.AttachParams{Name: "builder", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) {
		told <- *bind(t, r)
		r.Respond(nil)
	})
	content := randomBytes(100)
	p := paramsFor("laptop", "x.log", content)
	p.Agent = "builder"
	sent, err := desk.ownerSends(p, content)
	if err != nil || sent.State != client.Handed {
		t.Fatalf("%+v, %v", sent, err)
	}
	in := await.Receive(t, "the entry", told)
	if in.ID != p.ID || in.Name != "desk" || parse[kinds.Notify](t, in.Payload).Topic != client.FileTopic {
		t.Errorf("%+v", in)
	}
}
