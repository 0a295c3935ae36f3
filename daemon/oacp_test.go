package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// mailDir makes the inbox of an agent in the daemon's mailboxes.
func mailDir(t *testing.T, home, agent string) string {
	t.Helper()
	inbox := filepath.Join(home, "projects", "demo", "agents", agent, "inbox")
	if err := os.MkdirAll(inbox, 0o777); err != nil {
		t.Fatal(err)
	}
	return inbox
}

// mailPair is a pair with mailboxes: the planner lives at the desk, the reviewer at
// the laptop. config is added to the laptop's settings.
func mailPair(t *testing.T, config string) (desk, laptop *running, out, in string) {
	t.Helper()
	dirs, homes := []string{stateDir(t), stateDir(t)}, []string{t.TempDir(), t.TempDir()}
	writeConfig(t, dirs[0], fmt.Sprintf("oacp: {home: %q}\n", homes[0]))
	writeConfig(t, dirs[1], fmt.Sprintf("oacp: {home: %q}\n", homes[1])+config)
	desk, laptop = start(t, dirs[0], "desk"), start(t, dirs[1], "laptop")
	befriend(t, desk, laptop)
	mailDir(t, homes[0], "planner")
	in = mailDir(t, homes[1], "reviewer")
	b := get[client.OACPBinding](desk.dial(), client.MethodOACPBind, client.OACPBindParams{Project: "demo", Agent: "reviewer", Peer: "laptop"})
	if want := (client.OACPBinding{Project: "demo", Agent: "reviewer", Peer: "laptop", Mode: "mirror"}); b != want {
		t.Errorf("bound %+v", b)
	}
	laptop.dial().must(client.MethodOACPBind, client.OACPBindParams{Project: "demo", Agent: "planner", Peer: desk.ID().String()}, nil)
	return desk, laptop, mailDir(t, homes[0], "reviewer"), in
}

func writeMail(t *testing.T, inbox, name string) {
	t.Helper()
	text := "id: m\nfrom: planner\nto: reviewer\ntype: question\npriority: P2\ncreated_at_utc: \"2026-11-20T13:00:00Z\"\nsubject: s\nbody: x\n"
	temp := filepath.Join(inbox, "."+name+".tmp-1-abcdef")
	writeFile(t, temp, text)
	if err := os.Rename(temp, filepath.Join(inbox, name)); err != nil {
		t.Fatal(err)
	}
}

// mailEvents subscribes to events of mail.
func (d *running) mailEvents(t *testing.T) <-chan client.MailEvent {
	t.Helper()
	events := make(chan client.MailEvent, 16)
	c := &client.Client{Socket: d.home.ownerSocketPath()}
	ctx := t.Context()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Subscribe(ctx, client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventMail}}}, nil, func(e *client.Event) {
			var m client.MailEvent
			if err := json.Unmarshal(e.Details, &m); err != nil || e.Type != client.EventMail {
				t.Errorf("event %+v: %v", e, err)
			}
			events <- m
		})
	}()
	t.Cleanup(func() { <-ended })
	await.Until(t, "the subscription", d.watch.HasSubscribers)
	return events
}

// TestMailEvents: both sides' agents are told of mail.
func TestMailEvents(t *testing.T) {
	desk, laptop, out, in := mailPair(t, "")
	sent, came := desk.mailEvents(t), laptop.mailEvents(t)
	writeMail(t, out, "one.yaml")
	a := await.Receive(t, "mail", came)
	if _, err := os.Stat(filepath.Join(in, "one.yaml")); err != nil || a.State != client.MailArrived || a.Agent != "reviewer" || a.File != "one.yaml" || len(a.SHA256) != 64 {
		t.Errorf("arrived: %+v, %v", a, err)
	}
	if d := await.Receive(t, "the sender's word", sent); d.State != client.MailDelivered || d.SHA256 != a.SHA256 || d.Project != "demo" {
		t.Errorf("delivered: %+v", d)
	}
	writeFile(t, filepath.Join(out, "a b.yaml"), "x")
	if d := await.Receive(t, "the sender's word", sent); d.State != client.MailParked || d.Reason == "" || d.File != "a b.yaml" {
		t.Errorf("parked: %+v", d)
	}
}

// TestMailPolicy: a rule without the word mail refuses a peer's mail, and says so at
// the sender.
func TestMailPolicy(t *testing.T) {
	desk, _, out, in := mailPair(t, "policy: {desk: {kinds: [query]}}\n")
	sent := desk.mailEvents(t)
	writeMail(t, out, "one.yaml")
	if d := await.Receive(t, "the sender's word", sent); d.State != client.MailParked || !strings.Contains(d.Reason, "laptop says") || !strings.Contains(d.Reason, `do not include "mail"`) {
		t.Errorf("%+v", d)
	}
	if files, err := os.ReadDir(in); err != nil || len(files) > 0 {
		t.Errorf("%d files arrived, %v", len(files), err)
	}
	p := get[client.Policy](desk.dial(), client.MethodPolicy, client.PolicyParams{Peer: "laptop", Kind: "mail"})
	if !p.Allowed {
		t.Errorf("policy: %+v", p)
	}
}

// TestMailQueuePages: the queue comes in pages that fit a line.
func TestMailQueuePages(t *testing.T) {
	desk, _, out, _ := mailPair(t, "")
	const files = 5000
	for i := range files {
		writeFile(t, filepath.Join(out, fmt.Sprintf("not a name %04d.yaml", i)), "x")
	}
	c := &client.Client{Socket: desk.home.ownerSocketPath()}
	defer c.Close()
	var all []client.OACPQueued
	await.Until(t, "all are parked", func() bool {
		var err error
		if all, err = c.OACPQueue(t.Context(), "demo"); err != nil {
			t.Fatal(err)
		}
		return len(all) == files
	})
	for i, q := range all {
		if q.File != fmt.Sprintf("not a name %04d.yaml", i) || q.State != client.MailParked || q.Peer != "laptop" || q.SHA256 != "" || q.Size != 1 {
			t.Fatalf("entry %d: %+v", i, q)
		}
	}
	page := get[client.OACPQueue](desk.dial(), client.MethodOACPQueue, client.OACPQueueParams{})
	if len(page.Entries) == files || page.Next == "" {
		t.Errorf("one page holds %d", len(page.Entries))
	}
	for _, p := range []client.OACPQueueParams{{File: "one.yaml"}, {Project: "demo", Agent: "reviewer"}, {Project: "demo", File: "one.yaml"}} {
		desk.dial().refused(kinds.Invalid, client.MethodOACPQueue, p)
	}
	if other, err := c.OACPQueue(t.Context(), "other"); err != nil || len(other) > 0 {
		t.Errorf("another project: %d, %v", len(other), err)
	}
}
