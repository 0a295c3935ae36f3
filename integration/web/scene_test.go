//go:build web

package web

import (
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// fill gives a world something of everything. words makes each text that a peer may choose.
func (w *world) fill(words func(string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := words
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	names := []string{"desk", "build", "planner-host", "reviewer-host", "archive"}
	for i, name := range names {
		p := newPeer(i, s(name))
		p.Claim, p.Software = s(name), s(p.Software)
		w.peers = append(w.peers, p)
	}
	w.peers = append(w.peers, client.Peer{ID: peerID(90), Claim: s("stranger"), State: client.PeerPending})
	w.status.Warnings = []string{"config.yaml: " + s("policy.archive names nobody who is trusted")}
	w.status.Messages = client.MessageCount{In: map[string]uint64{"query": 120, "notify": 31}, Out: map[string]uint64{"query": 44, "delegate": 7}}
	w.status.Relays = []client.Relay{{Name: "office", URL: "tls://nats.example.org:4222", State: client.RelayUp, Since: client.Time{Time: ago(time.Hour)}}}

	w.agents = []client.AgentState{
		{Agent: client.Agent{Name: "planner", Kinds: []string{"query", "notify"}, MaxConcurrent: 4, Active: 1, Since: ago(time.Hour), Session: &client.SessionInfo{Harness: "claude", Version: "2.1"}},
			Woken: &client.Woken{Hour: 3, Day: 12, Waiting: 1, By: []client.WokenBy{{Peer: peerID(0), Name: s("desk"), Hour: 2, Day: 9}, {Peer: peerID(1), Name: s("build"), Hour: 1, Day: 3}}}},
		{Agent: client.Agent{Name: s("tester"), Kinds: []string{"query", "delegate", "cancel", "notify"}, Domains: []string{s("code.test")}, Topics: []string{s("ci")}, MaxConcurrent: 4, Active: 2, Since: ago(time.Hour)}},
	}
	w.spent = client.Spent{Rows: []client.SpentRow{{Day: "2026-11-27", Peer: peerID(0), Name: s("desk"), Profile: "claude", Runs: 9, Tokens: 412_300, Cost: 1.37}}, Limits: client.SpentLimits{Runs: 50, Tokens: 2_000_000, Cost: 5, CostAll: 20}}

	task, half := wire.NewMessageID(), 0.62
	approval := wire.NewMessageID()
	w.open = []client.TrafficEntry{
		{At: ago(754 * time.Second), Direction: client.Out, Peer: peerID(1), Name: s("build"), Agent: s("runner"), FromAgent: "planner", Kind: kinds.KindDelegate, ID: task, Thread: s("release"), Text: s("Build the release and run the long tests")},
		{At: ago(131 * time.Second), Direction: client.In, Peer: peerID(0), Name: s("desk"), Agent: "planner", FromAgent: s("reviewer"), Kind: kinds.KindQuery, ID: approval, Text: s("May I merge the parser branch, or do you still change it?")},
		{At: ago(8 * time.Second), Direction: client.Out, Peer: peerID(0), Name: s("desk"), Agent: s("reviewer"), FromAgent: "planner", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Thread: s("parser"), Text: s("Is line 214 of the parser safe for empty input?")},
	}
	w.wait = []client.Approval{{ID: "a1", Agent: "planner", Peer: peerID(0), Name: s("desk"), Kind: kinds.KindQuery, Message: approval, Text: s("May I merge"), Since: ago(131 * time.Second)}}
	w.tasks = []client.Task{
		{ID: task, Peer: s("build"), Direction: client.Given, Task: s("Build the release and run the long tests"), Began: client.Time{Time: ago(754 * time.Second)}, State: client.TaskAccepted, Deadline: client.Time{Time: time.Now().Add(time.Hour)}, Progress: &half, Message: s("tests of package peer"), Partials: 4},
		{ID: wire.NewMessageID(), Peer: s("desk"), Direction: client.Taken, FromAgent: s("reviewer"), Agent: s("tester"), Task: s("Fuzz the frame reader for an hour"), Began: client.Time{Time: ago(time.Hour)}, State: client.TaskCompleted, Over: true, Outcome: s("no crash in 41 million inputs")},
		{ID: wire.NewMessageID(), Peer: s("archive"), Direction: client.Given, Task: s("Find the old benchmark figures"), Began: client.Time{Time: ago(26 * time.Hour)}, State: client.TaskExpired, Over: true, Outcome: s("the deadline has passed")},
	}
	w.held = []client.HeldMessage{{Seq: 7, Agent: s("planner"), Envelope: wire.Envelope{ID: wire.NewMessageID(), From: peerID(1), Kind: kinds.KindNotify, FromAgent: s("runner"), TS: uint64(ago(time.Minute).UnixMilli()),
		Payload: kinds.EncodePayload(&kinds.Notify{Topic: "ci.nightly"})}}}
	w.files = []client.File{
		{ID: wire.MessageID{1}, Direction: client.In, Peer: peerID(0), PeerName: s("desk"), FromAgent: s("reviewer"), Agent: s("planner"), Name: s("build.log"), Text: s("The log of the failed run"), Thread: s("parser"), Size: 48 << 20, Bytes: 48 << 20, State: client.FileTaken, TakenBy: s("planner"), Since: ago(time.Minute)},
		{ID: wire.MessageID{2}, Direction: client.In, Peer: peerID(1), PeerName: s("build"), Name: s("fuzz-corpus.tar"), Size: 900 << 20, Bytes: 310 << 20, State: client.FileMoving, Since: ago(9 * time.Second)},
	}
	w.bindings = []client.OACPBinding{{Project: "demo", Agent: "reviewer", Peer: s("desk"), Mode: client.ModeMirror}}
	w.mail = []client.OACPQueued{{Project: "demo", Agent: "reviewer", Peer: s("desk"), File: clipName(s("20261127-0031-planner-review.yaml")), Size: 2140, State: client.MailWaiting, Reason: s("the peer is away"), Since: ago(40 * time.Second)}}
	w.budget = client.Budget{
		Rows:  []client.BudgetRow{{Name: "inbox", Peer: 2500, All: 10000, Held: 1, What: "held messages"}, {Name: "delegations", Peer: 256, All: 1024, Held: 240, What: "delegations that were taken and are not final", Remedy: "acpctl cancel ends them"}, {Name: "answers", Unit: client.UnitBytes, Peer: 32 << 20, All: 128 << 20, Held: 9 << 20, What: "answers in channels"}},
		Usage: []client.BudgetUsage{{Row: "delegations", Peer: peerID(0), Name: s("desk"), Held: 231, Refused: 3}, {Row: "answers", Peer: peerID(2), Name: s("planner-host"), Held: 9 << 20}, {Row: "inbox", Peer: peerID(1), Name: s("build"), Held: 1}},
	}
	w.channels["GET intents"] = `{"intents":[{"id":"int_acdc_1","title":` + quote(s("Ship 0.2")) + `}]}`
	w.channels["GET intents/int_acdc_1/channels"] = `[{"id":"chn_acdc_1","intent_id":"int_acdc_1","name":` + quote(s("review")) + `,"status":"open","members":["planner",` + quote(s("reviewer")) + `],"message_count":18,"last_message_at":"2026-11-27T00:30:00Z"},{"id":"chn_acdc_2","intent_id":"int_acdc_1","name":` + quote(s("release")) + `,"status":"closed","members":[],"message_count":4}]`
}

// openChains has calls open that have led to others: one that has led to two, of which one is a guess, and a question
// back. What led to the first is at desk: the two have the name of the chain in common.
func (w *world) openChains() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	task, asked := wire.NewMessageID(), wire.NewMessageID()
	const chain = "5f0c2a9e4bf92f3577b34da6a3ce929d"
	w.open = append(w.open,
		client.TrafficEntry{At: ago(41 * time.Minute), Direction: client.Out, Peer: peerID(0), Name: "desk", Agent: "reviewer", FromAgent: "clerk", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Thread: "audit", Chain: chain, Text: "Is the frame reader safe to ship?"},
		client.TrafficEntry{At: ago(40 * time.Minute), Direction: client.In, Peer: peerID(0), Name: "desk", Agent: "tester", FromAgent: "reviewer", Kind: kinds.KindQuery, ID: asked, Thread: "audit", Hops: 1, Chain: chain, Text: "Which inputs has the fuzzer not reached yet?"},
		client.TrafficEntry{At: ago(12 * time.Minute), Direction: client.Out, Peer: peerID(1), Name: "build", Agent: "runner", FromAgent: "tester", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Thread: "audit", Hops: 2, Parent: asked, Chain: chain, Text: "Run the fuzzer for the frames over 64 KiB"},
		client.TrafficEntry{At: ago(11 * time.Minute), Direction: client.Out, Peer: peerID(4), Name: "archive", Agent: "keeper", FromAgent: "tester", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Thread: "audit", Hops: 2, Parent: asked, Guessed: true, Chain: chain, Text: "Which corpus did 0.1.0 have?"},
		client.TrafficEntry{At: ago(7 * time.Minute), Direction: client.Out, Peer: peerID(1), Name: "build", FromAgent: "scribe", Kind: kinds.KindDelegate, ID: task, Text: "Write the release notes"},
		client.TrafficEntry{At: ago(20 * time.Second), Direction: client.In, Peer: peerID(1), Name: "build", FromAgent: "writer", Agent: "scribe", Kind: kinds.KindQuery, ID: wire.NewMessageID(), Ref: task, Hops: 1, Text: "Since which release shall they count?"},
	)
	w.tasks = append(w.tasks, client.Task{ID: task, Peer: "build", Direction: client.Given, ToAgent: "writer", Task: "Write the release notes", State: client.TaskAccepted})
}

// talk returns messages as they pass in a morning.
func talk(words func(string) string) (all []client.TrafficEntry) {
	s := words
	at := time.Now().Add(-10 * time.Minute)
	next := func(d client.MessageDirection, peer int, name, from, to, kind, thread, topic, text, answer, outcome string, took time.Duration) {
		at = at.Add(37 * time.Second)
		all = append(all, client.TrafficEntry{At: at, Direction: d, Peer: peerID(peer), Name: s(name), FromAgent: s(from), Agent: s(to), Kind: kind, Thread: s(thread), Topic: s(topic), Text: s(text), Answer: s(answer), Outcome: outcome, TookUS: uint64(took.Microseconds())})
	}
	next(client.Out, 0, "desk", "planner", "reviewer", "query", "parser", "", "Which branch has the new frame reader?", "parser-2; it is ready for a look", "ok", 2400*time.Millisecond)
	next(client.In, 0, "desk", "reviewer", "planner", "query", "parser", "", "Shall frames over 64 KiB be refused or split?", "Refused: split frames come with the next version", "ok", 9100*time.Millisecond)
	next(client.Out, 1, "build", "planner", "runner", "delegate", "release", "", "Build the release and run the long tests", "accepted", "ok", 84*time.Millisecond)
	next(client.In, 1, "build", "runner", "", "notify", "", "ci.nightly", "{\"branch\":\"main\",\"passed\":true}", "", "handed", 3*time.Millisecond)
	next(client.Out, 3, "reviewer-host", "", "", "ping", "", "", "", "", "ok", 41*time.Millisecond)
	next(client.In, 2, "planner-host", "scribe", "", "notify", "", "notes", "The minutes of this morning are in channel review", "", "held", 4*time.Millisecond)
	next(client.Out, 4, "archive", "planner", "", "query", "", "", "What did 10,000 messages cost in 0.1.0?", "peer archive is not reachable: no address answers", "unreachable", 5*time.Second)
	next(client.Out, 0, "desk", "planner", "reviewer", "query", "parser", "", "And the empty frame?", "It is valid, and keeps the stream open", "ok", 1300*time.Millisecond)
	return all
}

// clipName returns a name as long as that of a file may be.
func clipName(s string) string { return strings.ToValidUTF8(s[:min(len(s), 255)], "") }

func plain(s string) string { return s }
