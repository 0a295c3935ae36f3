package harness

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// Each fact by which Codex is known to ask its user is changed, left out, and given another type. Then
// the thread is not woken. Where it is only that nobody is asked, the owner may allow a wake all the same.
// holds: security.md#agents-on-this-machine
func TestCodexUnattended(t *testing.T) {
	granular := func(value any) any { return testMap{"granular": value} }
	sandbox := func(kind, network any) any { return testMap{"type": kind, "networkAccess": network} }
	for field, values := range map[string]map[string]any{
		"approvalPolicy": {
			"never": "never", "on-failure": "on-failure", "null": nil, "a number": 5, "a list": []any{"on-request"}, "empty": testMap{},
			"granular null": granular(nil), "granular empty": granular(testMap{}), "granular text": granular("on-request"),
			"granular with text": granular(testMap{"rules": true, "sandbox_approval": "true"}), "granular with null": granular(testMap{"rules": nil}),
			"granular and more": testMap{"granular": testMap{"rules": true}, "other": testMap{"rules": true}},
		},
		"approvalsReviewer": {"auto": "auto_review", "guardian": "guardian_subagent", "null": nil, "a number": 5, "an object": testMap{"user": true}},
		"sandbox": {
			"none": sandbox("dangerFullAccess", false), "external": sandbox("externalSandbox", false), "null type": sandbox(nil, false), "number": sandbox(5, false),
			"network": sandbox("workspaceWrite", true), "network, read-only": sandbox("readOnly", true), "network text": sandbox("workspaceWrite", "restricted"),
			"network null": sandbox("workspaceWrite", nil), "no network": testMap{"type": "workspaceWrite"}, "no type": testMap{"networkAccess": false},
			"null": nil, "text": "workspaceWrite", "empty": testMap{},
		},
	} {
		values["absent"] = absent
		for name, value := range values {
			t.Run(field+", "+name, func(t *testing.T) {
				t.Parallel()
				f := newFakeCodex(t)
				resuming(field, value)(f)
				s := f.mustFind()
				p := newPost()
				if _, err := s.Post(t.Context(), p); err == nil || len(f.list("turn/start")) != 0 {
					t.Errorf("Post: %v", err)
				} else if _, form := value.(string); !errors.Is(err, ErrUnattended) && !(form && field == "sandbox") {
					t.Errorf("Post: %v", err)
				} else if errors.Is(err, ErrUnattended) {
					p.Unattended = true
					f.change(func() { f.after["turn/start"] = proof(ownThread, p.Message.String()) })
					if _, err := s.Post(t.Context(), p); err != nil || len(f.list("turn/start")) != 1 {
						t.Errorf("Post, unattended allowed: %v", err)
					}
				}
			})
		}
	}
}

// absent has a field left out.
const absent = "\x00"

// resuming changes a field of what thread/resume answers.
func resuming(field string, value any) func(*fakeCodex) {
	return func(f *fakeCodex) {
		f.rewrite = func(method string, result testMap) {
			if method == "thread/resume" {
				setField(result, field, value)
			}
		}
	}
}

func setField(object testMap, field string, value any) {
	if object[field] = value; value == absent {
		delete(object, field)
	}
}

// These let somebody be asked.
func TestCodexAttended(t *testing.T) {
	for name, change := range map[string]func(*fakeCodex){
		"untrusted": resuming("approvalPolicy", "untrusted"),
		// What Codex uses in a folder without Git.
		"granular":  resuming("approvalPolicy", testMap{"granular": testMap{"sandbox_approval": false, "rules": false, "skill_approval": false, "request_permissions": true, "mcp_elicitations": true}}),
		"read-only": resuming("sandbox", testMap{"type": "readOnly", "networkAccess": false}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			change(f)
			if err := f.post(f.mustFind()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A thread that no user sees is not woken, whatever the owner allows, and neither is one of which Codex
// does not say that.
// holds: security.md#agents-on-this-machine
func TestCodexHiddenThread(t *testing.T) {
	for field, values := range map[string][]any{
		"ephemeral":      {true, nil, "false", 0, absent},
		"parentThreadId": {"019a-parent", "", false, 0, absent},
	} {
		for _, value := range values {
			for _, method := range []string{"thread/read", "thread/resume"} {
				f := newFakeCodex(t)
				s := f.mustFind()
				s.NoteCall(map[string]any{"threadId": ownThread})
				f.change(func() {
					f.rewrite = func(called string, result testMap) {
						if called == method {
							setField(result["thread"].(testMap), field, value)
						}
					}
				})
				p := newPost()
				p.Unattended = true
				if _, err := s.Post(t.Context(), p); !errors.Is(err, ErrNoThread) || len(f.list("turn/start")) != 0 {
					t.Errorf("%s: %s %v: %v", method, field, value, err)
				}
			}
		}
	}
}

// A thread that has had no turn gets one item, in which nothing of a peer's is, so that it can be joined.
// What it says then decides, and a second wake adds nothing.
func TestCodexIsFresh(t *testing.T) {
	f := newFakeCodex(t)
	f.fresh = true
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	p := newPost()
	p.Untrusted = "what a peer wrote"
	f.change(func() { f.after["turn/start"] = proof(ownThread, p.Message.String()) })
	if posted, err := s.Post(t.Context(), p); err != nil || !posted.Proven {
		t.Fatalf("Post: %+v, %v", posted, err)
	}
	var order []string
	f.change(func() {
		for _, c := range f.calls {
			if c.thread() == ownThread && slices.Contains([]string{"thread/resume", "thread/inject_items", "turn/start"}, c.Method) {
				order = append(order, c.Method)
			}
		}
	})
	if got := strings.Join(order, " "); got != "thread/resume thread/inject_items thread/resume turn/start" {
		t.Errorf("calls: %s", got)
	}
	if item := string(f.list("thread/inject_items")[0].Params); !strings.Contains(item, `"role":"system"`) || strings.Contains(item, p.Untrusted) || strings.Contains(item, p.Pointer) {
		t.Errorf("the item: %s", item)
	}
	f.change(func() { f.fresh = true }) // it lies: an item was there
	if err := f.post(s); !errors.Is(err, ErrRefused) || len(f.list("thread/inject_items")) != 1 {
		t.Errorf("Post to a thread that has its item and is not joined: %v", err)
	}
	f.change(func() {
		f.fresh = true
		f.calls = nil
		resuming("approvalPolicy", "never")(f)
	})
	s = f.mustFind()
	if err := f.post(s); !errors.Is(err, ErrUnattended) || len(f.list("turn/start")) != 0 {
		t.Errorf("Post to a fresh thread in which nobody is asked: %v", err)
	}
}

// A fresh thread that refuses the item says that it waits for its first turn, and is woken after that.
func TestCodexWaitsForItsFirstTurn(t *testing.T) {
	f := newFakeCodex(t)
	f.fresh = true
	f.refuse["thread/inject_items"] = refuseWith("no")
	s := f.mustFind()
	said := f.watch(s)
	expectPresence(t, said, "", "")
	const why = "its conversation has had no turn yet: say something to it once"
	if err := f.post(s); !errors.Is(err, ErrNoTurn) || !strings.HasSuffix(err.Error(), why) || len(f.list("turn/start")) > 0 {
		t.Errorf("Post: %v", err)
	}
	expectPresence(t, said, why, "")
	f.change(func() { f.fresh = false })
	f.setStatus(statusActive)
	expectPresence(t, said, "", "")
	f.setStatus(statusIdle)
	if err := f.post(s); err != nil {
		t.Errorf("Post after the first turn: %v", err)
	}
}

// The first turn of a thread is noticed also if no notification of it comes: when the thread is looked at while
// it runs, and when there is another connection.
func TestCodexFirstTurnIsNoticed(t *testing.T) {
	for name, begin := range map[string]func(*fakeCodex, Session, <-chan Presence){
		"by a look": func(f *fakeCodex, s Session, said <-chan Presence) {
			f.change(func() { f.threads[1].Status.Type = statusActive })
			s.NoteCall(map[string]any{"threadId": ownThread})
			expectPresence(f.t, said, "", "")
		},
		"by another connection": func(f *fakeCodex, _ Session, said <-chan Presence) {
			f.hangUp()
			expectPresence(f.t, said, ErrGone.Error(), "")
			expectPresence(f.t, said, "", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCodex(t)
			f.fresh = true
			f.refuse["thread/inject_items"] = refuseWith("no")
			s := f.mustFind()
			s.(*codex).connectPause = 0
			said := f.watch(s)
			expectPresence(t, said, "", "")
			if err := f.post(s); !errors.Is(err, ErrNoTurn) {
				t.Fatalf("Post: %v", err)
			}
			expectPresence(t, said, ErrNoTurn.Error(), "")
			begin(f, s, said)
			looks := len(f.list("mcpServerStatus/list"))
			f.setStatus(statusIdle)
			await.Until(t, "a look at an idle thread", func() bool { return len(f.list("mcpServerStatus/list")) > looks })
			f.setStatus(statusActive, "waitingOnApproval")
			expectPresence(t, said, "", "Codex")
		})
	}
}
