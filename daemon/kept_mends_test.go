package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// keepNote sends a notification to laptop, which is kept.
func keepNote(from *program) wire.MessageID {
	from.t.Helper()
	e := from.refused(kinds.Kept, "notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"build"}`), KeepMS: uint64(time.Hour.Milliseconds())})
	return client.FindKept(e).ID
}

// keptTask returns a message that is, or was, kept.
func (d *running) keptTask(id wire.MessageID) client.Task {
	d.t.Helper()
	return get[client.Task](d.dial(), "task", client.TaskParams{ID: id})
}

// TestAMachineThatRefusesKeepsWhatIsKept: whoever answers at the peer's address without its trust ends nothing. The
// message arrives when the peer takes it.
func TestAMachineThatRefusesKeepsWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	addr := laptop.node.Addr().String()
	laptop.stop()
	id := keepNote(desk.dial())
	key, err := os.ReadFile(filepath.Join(laptop.dir, "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	empty := stateDir(t)
	writeFile(t, filepath.Join(empty, "identity.key"), string(key))
	other := startWith(t, Options{Home: empty, Listen: addr, Name: "laptop", NoMDNS: true})
	await.Until(t, "it is refused", func() bool {
		desk.kept.TryNow(laptop.ID())
		task := desk.keptTask(id)
		return task.Over || strings.Contains(task.Kept.LastError, "trust")
	})
	if task := desk.keptTask(id); task.State != client.TaskKept {
		t.Fatalf("%+v", task)
	}
	other.stop()
	laptop = startWith(t, Options{Home: laptop.dir, Listen: addr, Name: "laptop", NoMDNS: true})
	await.Until(t, "it arrives", func() bool { desk.kept.TryNow(laptop.ID()); return desk.keptTask(id).State == client.TaskHeld })
}

// TestPagesOfWhatIsKept: tasks returns all of it, page by page, and then the delegations.
func TestPagesOfWhatIsKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) { r.Respond(wire.Payload(accepted)) })
	caller := desk.dial()
	want := []wire.MessageID{delegateTo(caller, "laptop", task1("")).ID, delegateTo(caller, "laptop", task1("")).ID}
	laptop.stop()
	for range 5 {
		want = append(want, keepNote(caller))
	}
	slices.Reverse(want)
	var got []wire.MessageID
	for after := uint64(0); ; {
		page := get[client.Tasks](caller, "tasks", client.TasksParams{Limit: 2, After: after})
		if len(page.Tasks) > 2 || len(got) > len(want) {
			t.Fatalf("a page has %d rows, after %d", len(page.Tasks), len(got))
		}
		for _, task := range page.Tasks {
			got = append(got, task.ID)
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAFullDiskKeepsADelegation: what cannot be entered in the table of delegations has not left, and is kept.
func TestAFullDiskKeepsADelegation(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) { r.Respond(wire.Payload(accepted)) })
	statedb.Exec(t, desk.store, "CREATE TRIGGER full BEFORE INSERT ON daemon_task BEGIN SELECT RAISE(ABORT, 'full'); END")
	e := desk.dial().refused(kinds.Kept, "delegate", client.DelegateParams{To: "laptop", Payload: task1(""), KeepMS: 60_000})
	id := client.FindKept(e).ID
	await.Until(t, "it is tried", func() bool { desk.kept.TryNow(laptop.ID()); return desk.keptTask(id).Kept.Tries > 1 })
	if task := desk.keptTask(id); task.State != client.TaskKept {
		t.Errorf("%+v", task)
	}
	statedb.Exec(t, desk.store, "DROP TRIGGER full")
	await.Until(t, "it is accepted", func() bool { desk.kept.TryNow(laptop.ID()); return desk.keptTask(id).State == client.TaskAccepted })
	if task := desk.keptTask(id); task.Kind != "" || task.Kept != nil {
		t.Errorf("it is no ordinary delegation: %+v", task)
	}
}

// TestWhoMaySendWhatWasKept: the settings count again for each agent, also for one without a name, and never for the owner.
func TestWhoMaySendWhatWasKept(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	desk.configure("agents: {\"*\": {to: []}}")
	to, _ := desk.trust.FindPeer(laptop.ID())
	for _, who := range []registry.Credential{{KeyHash: registry.KeyHash{1}}, {Name: "planner"}, {Name: "planner", KeyHash: registry.KeyHash{1}}} {
		if err := desk.kept.MayCall(who, to); kinds.AsError(err).Code != kinds.NotAuthorized {
			t.Errorf("%+v: %v", who, err)
		}
	}
	if err := desk.kept.MayCall(registry.Credential{}, to); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// TestAnEndIsToldOnce, also if its agent takes time to confirm it while other messages end.
func TestAnEndIsToldOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	told, confirm := make(chan wire.MessageID, 10), make(chan struct{})
	planner := desk.agent(client.AttachParams{Name: "planner"}, func(_ context.Context, r *jsonrpc.Request) {
		told <- *bind(t, r).Ref
		<-confirm
		r.Respond(wire.Payload(`{}`))
	})
	laptop.stop()
	first, second, others := keepNote(planner), keepNote(planner), keepNote(desk.dial())
	desk.dial().must("cancel", client.CancelParams{Ref: first}, nil) // what the planner withdraws itself it knows
	if id := await.Receive(t, "the end of the first", told); id != first {
		t.Errorf("%s is told", id)
	}
	desk.dial().must("cancel", client.CancelParams{Ref: others}, nil)
	desk.dial().must("cancel", client.CancelParams{Ref: second}, nil)
	desk.kept.TryNow(laptop.ID())
	close(confirm)
	if id := await.Receive(t, "the end of the second", told); id != second {
		t.Errorf("%s is told again", id)
	}
	if held := get[client.Inbox](desk.dial(), "inbox", client.InboxParams{}).Messages; len(held) != 0 {
		t.Errorf("and the inbox has %+v", held)
	}
}
