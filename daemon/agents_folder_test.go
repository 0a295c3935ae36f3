package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// guest is a connection to acp.sock of the agents' folder.
func (d *running) guest(h handler) *program {
	d.t.Helper()
	return d.dialAt(filepath.Join(d.dir, "agent", "acp.sock"), h)
}

// guestAgent is a guest that has attached, and its key.
func (d *running) guestAgent(p client.AttachParams, h handler) (*program, string) {
	d.t.Helper()
	l := d.guest(h)
	got := get[client.Attached](l, "attach", p)
	return l, got.Key
}

// served are the methods that agents may call. A method that is new is not among them
// until somebody decides so here too.
var served = []string{
	"ping", "discover", "query", "delegate", "cancel", "notify", "answer", "result", "error",
	"whoami", "peers", "tasks", "task", "wait", "inbox", "shown", "ack", "attach", "speak", "session", "unposted",
	"budget.reserve", "budget.settle", "file.send", "file.take", "files",
}

// Every method of the local API is tried in the agents' folder, by the name that it has
// in the table: what is not for agents is refused before its params are looked at.
// holds: security.md#agents-on-this-machine
func TestAgentsAreServedWhatAgentsDo(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	owner := desk.dial()
	before, config := desk.state(t, owner), desk.config.Load()
	g, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	for name, m := range desk.local.Methods {
		// Params that no method has tell what was refused from what was tried.
		err := g.call(name, map[string]any{"no such": "param"}, nil)
		rpc, tried := errors.AsType[*jsonrpc.Error](err)
		tried = tried && rpc.Code == jsonrpc.CodeInvalidParams
		barred := errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized})
		if want := slices.Contains(served, name); tried != want || barred == want || m.ForGuests != want {
			t.Errorf("%s: %v", name, err)
		}
		err = desk.dial().call(name, map[string]any{"no such": "param"}, nil)
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s is not served to the owner: %v", name, err)
		}
	}
	id := identity.ID{9}.String()
	text, err := os.ReadFile("../docs/local-api.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, list, _ := strings.Cut(string(text), "Served there: "); !strings.HasPrefix(list, "`"+strings.Join(served, "`, `")+"`.") {
		t.Errorf("docs/local-api.md has another list: %.300s", list)
	}
	for name, p := range map[string]any{
		"trust": client.TrustParams{Peer: id, Name: "laptop"}, "untrust": client.UntrustParams{Peer: id}, "trust.roster": client.RosterParams{Apply: true}, "invite": client.InviteParams{},
		"join": client.JoinParams{URI: "acp://x"}, "subscribe": client.SubscribeParams{Events: client.EventFilter{All: true}}, "status": nil, "pending": nil,
		"policy": client.PolicyParams{Peer: id, Kind: "query"},
		"budget": client.BudgetParams{Peer: id},
		"reload": nil, "drain": client.DrainParams{TimeoutMS: 1},
		"oacp.bind": client.OACPBindParams{Project: "parser", Agent: "planner", Peer: id},
	} {
		e := g.refused(kinds.NotAuthorized, name, p)
		if !strings.HasPrefix(e.Message, name+": ") || !strings.Contains(e.Message, "ask that person") {
			t.Errorf("%s: %s", name, e.Message)
		}
	}
	if err := g.call("restart", nil, nil); !errors.As(err, new(*jsonrpc.Error)) {
		t.Errorf("restart: %v", err)
	}
	if after := desk.state(t, owner); after != before || desk.config.Load() != config || desk.watch.HasSubscribers() {
		t.Errorf("an agent changed the daemon: %s, was %s", after, before)
	}
}

// state returns what administers the daemon, as text. owner is a connection to acp.sock.
func (d *running) state(t testing.TB, owner *program) string {
	t.Helper()
	var invitations client.Invitations
	if err := owner.call("invitations", nil, &invitations); err != nil {
		t.Fatal(err)
	}
	peers, blocks := d.trust.Peers(), d.trust.Blocks()
	text, _ := local.MarshalVerbatimJSON([]any{peers, blocks, invitations, d.mail.Bindings("")})
	return string(text)
}

// Agents know their peers by name: no address, no stranger, no blocked key is told them.
// holds: security.md#agents-on-this-machine
func TestAgentsHearOfNoAddresses(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	owner, g := desk.dial(), desk.guest(nil)
	gone := identity.ID{7}
	owner.must("trust", client.TrustParams{Peer: gone.String(), Name: "away", Addrs: []string{"127.0.0.1:9"}}, nil)
	owner.must("untrust", client.UntrustParams{Peer: identity.ID{8}.String()}, nil)
	var text jsontext.Value
	g.must("peers", nil, &text)
	addr := laptop.node.Addr().String()
	port := addr[strings.LastIndex(addr, ":"):]
	if s := string(text); strings.Contains(s, port) || strings.Contains(s, identity.ID{8}.String()) || !strings.Contains(s, `"laptop"`) || !strings.Contains(s, `"away"`) {
		t.Errorf("peers: %s", s)
	}
	g.must("whoami", nil, &text)
	if s := string(text); !strings.Contains(s, desk.ID().String()) || strings.Contains(s, desk.dir) || strings.Contains(s, "127.0.0.1") {
		t.Errorf("whoami: %s", s)
	}
	for _, to := range []string{"away", identity.ID{8}.String()} {
		var receipts jsontext.Value
		if g.must("notify", client.NotifyParams{To: client.ToAll(to), Payload: wire.Payload(`{"topic":"t"}`)}, &receipts); strings.Contains(string(receipts), "127.0.0.1") {
			t.Errorf("%s: %s", to, receipts)
		}
		err := g.call("ping", client.PingParams{To: to, TimeoutMS: 2000}, nil)
		if err == nil || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "untrusted") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// An agent reads and acknowledges what is for it, and what is for any; the latter lies
// in taken for a week with its name.
// holds: security.md#agents-on-this-machine
func TestAnAgentsInboxIsItsOwn(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	reviewer, _ := desk.guestAgent(client.AttachParams{Name: "reviewer", Kinds: []string{"query"}}, say(`{}`))
	owner, stranger := desk.dial(), desk.guest(nil)
	for _, to := range []string{"desk/planner", "desk/reviewer", "desk"} {
		laptop.dial().must("notify", client.NotifyParams{To: client.To(to), Payload: wire.Payload(`{"topic":"t","data":"` + to + `"}`)}, nil)
	}
	sees := func(l *program, p client.InboxParams) (names []string, all client.Inbox) {
		t.Helper()
		l.must("inbox", p, &all)
		for _, m := range all.Messages {
			n, err := kinds.ParsePayload[kinds.Notify](m.Envelope.Payload)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.Trim(string(n.Data), `"`))
		}
		return names, all
	}
	is := func(what string, l *program, want ...string) client.Inbox {
		t.Helper()
		got, all := sees(l, client.InboxParams{})
		if !slices.Equal(got, want) {
			t.Errorf("%s sees %v, want %v", what, got, want)
		}
		return all
	}
	stranger.refused(kinds.NotAuthorized, "inbox", nil)
	stranger.refused(kinds.NotAuthorized, "ack", client.AckParams{UpTo: 99})
	is("the owner", owner, "desk/planner", "desk/reviewer", "desk")
	all := is("the planner", planner, "desk/planner", "desk")
	is("the reviewer", reviewer, "desk/reviewer", "desk")

	// What is another's is not acknowledged, by number or by id.
	var acked client.Acked
	theirs := is("the reviewer", reviewer, "desk/reviewer", "desk").Messages[0].Envelope.ID
	if planner.must("ack", client.AckParams{IDs: []wire.MessageID{theirs}}, &acked); acked.Removed != 0 {
		t.Errorf("the planner acknowledged %d messages of the reviewer", acked.Removed)
	}
	if planner.must("ack", client.AckParams{UpTo: all.Messages[1].Seq}, &acked); acked.Removed != 2 {
		t.Errorf("%d acknowledged, want 2", acked.Removed)
	}
	is("the planner", planner)
	is("the reviewer", reviewer, "desk/reviewer")
	is("the owner", owner, "desk/reviewer")

	// The owner sees who took what was for any; the agents do not.
	planner.refused(kinds.NotAuthorized, "inbox", client.InboxParams{Taken: true})
	taken := func() client.Inbox {
		t.Helper()
		_, all := sees(owner, client.InboxParams{Taken: true})
		return all
	}
	if got := taken().Messages; len(got) != 1 || got[0].Agent != "planner" || time.Since(got[0].TakenAt.Time) > time.Minute || got[0].Envelope.ID != all.Messages[1].Envelope.ID {
		t.Errorf("taken: %+v", got)
	}
	if n := desk.held(); n != 1 {
		t.Errorf("%d messages are held", n)
	}

	// A connection that shows the key is the agent too.
	beside := desk.guest(nil)
	beside.refused(kinds.NotAuthorized, "speak", client.SpeakParams{Name: "planner", Key: registry.NewAgentKey()})
	beside.refused(kinds.NotAuthorized, "speak", client.SpeakParams{Name: "reviewer", Key: key})
	beside.refused(kinds.NoAgent, "speak", client.SpeakParams{Name: "nobody", Key: key})
	beside.refused(kinds.Invalid, "speak", client.SpeakParams{Name: "planner", Key: "x"})
	beside.refused(kinds.NotAuthorized, "inbox", nil)
	beside.must("speak", client.SpeakParams{Name: "planner", Key: key}, nil)
	laptop.dial().must("notify", client.NotifyParams{To: client.To("desk/planner"), Payload: wire.Payload(`{"topic":"t","data":"again"}`)}, nil)
	is("who speaks as the planner", beside, "again")
	planner.Close()
	desk.awaitLeft("planner")
	beside.refused(kinds.NotAuthorized, "inbox", nil)

	// After seven days, and when its peer is untrusted, nothing is left.
	age := func(by time.Duration) {
		t.Helper()
		statedb.Exec(t, desk.store, "UPDATE daemon_taken SET at = at - ?", by.Milliseconds())
	}
	age(6*24*time.Hour + 23*time.Hour)
	if n := len(taken().Messages); n != 1 {
		t.Errorf("%d taken before their time", n)
	}
	age(time.Hour)
	if n := len(taken().Messages); n != 0 {
		t.Errorf("%d taken after seven days", n)
	}
	owner.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	if n := desk.rows("daemon_inbox") + desk.rows("daemon_taken"); n != 0 || desk.held() != 0 {
		t.Errorf("%d rows are left, %d messages count as held", n, desk.held())
	}
}

// held returns how many messages count as held in the inbox.
func (d *running) held() (n int64) {
	for _, u := range d.budget.ListUsage() {
		if u.Row.Name == budget.Inbox.Name || u.Row.Name == budget.Results.Name {
			n += u.Held
		}
	}
	return n
}

func (d *running) rows(table string) (n int) {
	d.t.Helper()
	statedb.Query(d.t, d.store, &n, "SELECT count(*) FROM "+table)
	return n
}

// An agent sees, waits for, cancels and reports on its own delegations only.
// holds: security.md#agents-on-this-machine
func TestAnAgentsDelegationsAreItsOwn(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"delegate"}}, say(accepted))
	reviewer, _ := desk.guestAgent(client.AttachParams{Name: "reviewer", Kinds: []string{"result", "query"}}, say(`{}`))
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	owner, stranger := desk.dial(), desk.guest(nil)
	given := delegateTo(planner, "laptop", task1(""))
	taken := delegateTo(laptop.dial(), "desk/planner", task1(""))
	none := delegateTo(stranger, "laptop", task1(""))
	lists := func(l *program) int {
		t.Helper()
		all := get[client.Tasks](l, "tasks", nil)
		return len(all.Tasks)
	}
	if p, r, s, o := lists(planner), lists(reviewer), lists(stranger), lists(owner); p != 2 || r != 0 || s != 1 || o != 3 {
		t.Errorf("the planner lists %d, the reviewer %d, who is nobody %d, the owner %d", p, r, s, o)
	}
	for _, other := range []*program{reviewer, desk.guest(nil)} {
		for _, id := range []wire.MessageID{given.ID, taken.ID, none.ID} {
			other.refused(kinds.NotFound, "task", client.TaskParams{ID: id})
			other.refused(kinds.NotFound, "wait", client.WaitParams{ID: id})
			other.refused(kinds.NotFound, "cancel", client.CancelParams{Ref: id, To: "laptop", Payload: wire.Payload(`{}`)})
			other.refused(kinds.NotFound, "result", client.ResultParams{Ref: id, Payload: completed("stolen")})
			other.refused(kinds.NotFound, "error", client.ResultParams{Ref: id, Payload: kinds.EncodePayload(kinds.Errorf(kinds.Internal, "stolen"))})
		}
		other.refused(kinds.Invalid, "delegate", client.DelegateParams{Head: client.Head{ID: given.ID}, To: "laptop", Payload: task1("")})
	}
	planner.must("task", client.TaskParams{ID: taken.ID}, nil)
	beside := desk.guest(nil)
	beside.must("speak", client.SpeakParams{Name: "planner", Key: key}, nil)
	if lists(beside) != 2 {
		t.Error("who speaks as the planner does not see its delegations")
	}

	// The result of the planner's is handed to no other guest: it lies in its inbox.
	welder := laptop.dial()
	welder.must("result", client.ResultParams{Ref: given.ID, Payload: completed("welded")}, nil)
	var in client.Inbox
	if planner.must("inbox", nil, &in); len(in.Messages) != 1 || in.Messages[0].Agent != "planner" {
		t.Errorf("the planner's inbox: %+v", in.Messages)
	}
	if reviewer.must("inbox", nil, &in); len(in.Messages) != 0 {
		t.Errorf("the reviewer's inbox: %+v", in.Messages)
	}
	planner.must("result", client.ResultParams{Ref: taken.ID, Payload: completed("done")}, nil)
	if s := owner.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
	}

	// What is over stays with who has the key, and goes to nobody who has the name.
	planner.Close()
	desk.awaitLeft("planner")
	next, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	if n := lists(next); n != 0 {
		t.Errorf("the next planner lists %d delegations of the last", n)
	}
	next.refused(kinds.NotFound, "task", client.TaskParams{ID: given.ID})
	again, same := desk.guestAgent(client.AttachParams{Name: "another", Key: key}, say(`{}`))
	if n := lists(again); n != 2 || same != key {
		t.Errorf("with its key it lists %d delegations, key %q", n, same)
	}
}

// In channels an agent in the folder says who it is, is never the operator, and speaks
// for an attached agent only with its key.
// holds: security.md#agents-on-this-machine
func TestChannelsInTheAgentsFolder(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	path := filepath.Join(desk.dir, "agent", "http.sock")
	ask := func(headers ...string) (int, string) {
		t.Helper()
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://acpd/api/v1/intents", nil)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := jsontext.NewDecoder(answer.Body).ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	is := func(status int, word string, headers ...string) {
		t.Helper()
		if got, text := ask(headers...); got != status || !strings.Contains(text, word) {
			t.Errorf("%v: %d %s, want %d %s", headers, got, text, status, word)
		}
	}
	is(400, "no_caller")
	is(403, "no_operator", "X-Operator", "true")
	is(403, "no_operator", "X-Operator", "true", "X-Agent-ID", "planner")
	is(200, "intents", "X-Agent-ID", "planner")
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner"}, say(`{}`))
	is(403, "agent_key", "X-Agent-ID", "planner")
	is(403, "agent_key", "X-Agent-ID", "planner", "X-API-Key", registry.NewAgentKey())
	is(200, "intents", "X-Agent-ID", "planner", "X-API-Key", key)
	is(200, "intents", "X-Agent-ID", "reviewer", "X-API-Key", "any")
	planner.Close()
	desk.awaitLeft("planner")
	is(200, "intents", "X-Agent-ID", "planner")
}

// The folder is its owner's alone, unless other users are named; what lies in it under
// the sockets' names is replaced and never followed; a restart keeps the folder itself,
// which may be mounted.
// holds: security.md#agents-on-this-machine
func TestTheAgentsFolder(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	folder := filepath.Join(dir, "agent")
	modes := func(d *running, folderMode, socketMode fs.FileMode) {
		t.Helper()
		for name, want := range map[string]fs.FileMode{"": folderMode, "acp.sock": socketMode, "http.sock": socketMode} {
			info, err := os.Lstat(filepath.Join(folder, name))
			if err != nil || info.Mode().Perm() != want || name != "" && info.Mode().Type() != fs.ModeSocket {
				t.Errorf("%s: %v, want %04o: %v", name, info.Mode(), want, err)
			}
		}
		d.guest(nil).must("whoami", nil, nil)
		d.stop()
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left in the folder: %v, %v", left, err)
		}
	}
	modes(start(t, dir, "desk"), 0o700, 0o600)
	was, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "config.yaml")
	writeConfig(t, dir, "agents:\n  uids: [12345]\n")
	if err := os.Symlink(secret, filepath.Join(folder, "acp.sock")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "http.sock", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	modes(start(t, dir, "desk"), 0o711, 0o666)
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v %v", secret, info.Mode(), err)
	}
	if is, err := os.Stat(folder); err != nil || !os.SameFile(was, is) {
		t.Errorf("the folder is another one: %v", err)
	}
	writeConfig(t, dir, "")
	modes(start(t, dir, "desk"), 0o700, 0o600)

	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/tmp", folder); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDaemon(t.Context(), Options{Home: dir, Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true}); err == nil || !strings.Contains(err.Error(), "is no folder: move it away") {
		t.Errorf("a link in place of the folder: %v", err)
	}
}

// What agents have not sent whole, wait for or leave unread takes of the rooms of the folder's sockets. Packages
// jsonrpc and channels hold the bounds of these.
// holds: security.md#agents-on-this-machine
func TestAgentsTakeOfTheFoldersRooms(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner", Kinds: []string{"query"}}, say(`{}`))
	given := delegateTo(planner, "laptop", task1(""))
	sender := laptop.dial()
	for range 16 {
		sender.notify(client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"news","data":"` + long(60_000) + `"}`)})
	}
	speak := fmt.Sprintf(`{"jsonrpc":"2.0","id":"s","method":"speak","params":{"name":"planner","key":%q}}`+"\n", key)
	const read = `{"jsonrpc":"2.0","id":"i","method":"inbox","params":{"limit":16,"peek":true}}` + "\n"
	var conn net.Conn
	var err error
	for what, c := range map[string]struct {
		socket, text string
		isTaken      func() bool
	}{
		"a line without an end": {"acp.sock", long(1 << 20), func() bool { return desk.guests.InputLimit.HeldBytes() > 0 }},
		"half a body": {
			"http.sock", "POST /api/v1/intents HTTP/1.1\r\nHost: acpd\r\nX-Agent-ID: reviewer\r\nContent-Type: application/json\r\nContent-Length: 573440\r\n\r\n{\"title\":\"" + long(560_000),
			func() bool { return desk.channels.Bodies.HeldBytes() > 0 },
		},
		"a long request": {
			"acp.sock", speak + fmt.Sprintf(`{"jsonrpc":"2.0","id":"w","method":"wait","params":{"id":%q},"pad":"%s"}`+"\n", given.ID, long(1<<20)),
			func() bool { _, bytes := desk.guests.RequestLimit.HeldLoad(); return bytes > 0 },
		},
		"unread answers": {"acp.sock", speak, func() bool {
			free := desk.guests.UnreadRoom.TryAcquire(local.MaxUnreadBytes)
			if free { // an answer that came just now was refused for want of room: it is asked for again
				desk.guests.UnreadRoom.Release(local.MaxUnreadBytes)
				io.WriteString(conn, read)
			}
			return !free
		}},
	} {
		if conn, err = net.Dial("unix", filepath.Join(desk.dir, "agent", c.socket)); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(await.Patience))
		if _, err := io.WriteString(conn, c.text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		await.Until(t, what+" takes room", c.isTaken)
	}
}
