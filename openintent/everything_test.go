package openintent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/object"
)

// crowd does random things with one daemon.
type crowd struct {
	*host
	rand     *rand.Rand
	agents   []string
	intents  []string
	channels []string
	messages []string // channel and id
}

func newCrowd(h *host, seed uint64) *crowd {
	return &crowd{host: h, rand: rand.New(rand.NewPCG(seed, 1)), agents: []string{"planner", "reviewer", "desk", "laptop"}}
}

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// act does one random thing. It may be refused, but never fail.
func (c *crowd) act() *answer {
	r := c.rand
	if len(c.intents) == 0 {
		c.intents = append(c.intents, c.intent("planner"))
	}
	in := pick(r, c.intents)
	who := c.as(pick(r, c.agents))
	if len(c.channels) == 0 || r.IntN(20) == 0 {
		body := obj{"name": fmt.Sprint("c", r.IntN(5)), "options": obj{"audit": r.IntN(2) == 0, "max_messages": 2 + r.IntN(9)}}
		if r.IntN(3) == 0 {
			body["member_policy"], body["members"] = object.PolicyExplicit, []string{who.agent, pick(r, c.agents)}
		}
		if r.IntN(3) == 0 {
			body["options"].(obj)["ttl_seconds"] = 1 + r.IntN(100)
		}
		a := who.post("/intents/"+in+"/channels", body)
		if a.status == 201 {
			c.channels = append(c.channels, "/channels/"+a.id())
		}
		return a
	}
	ch := pick(r, c.channels)
	message := ch + "/messages/none"
	if len(c.messages) > 0 {
		message = pick(r, c.messages)
	}
	switch r.IntN(16) {
	case 0:
		return who.register(obj{"role_id": pick(r, []string{"tester", "builder"})})
	case 1:
		return who.do("DELETE", "/agents/"+who.agent, nil)
	case 2:
		return who.patch(ch, obj{"add_members": []string{pick(r, c.agents)}})
	case 3, 4:
		return who.patch(message, obj{"status": "read"})
	case 5, 6, 7:
		return who.post(message+"/reply", obj{"payload": obj{"n": r.IntN(100)}})
	case 8:
		if r.IntN(4) > 0 {
			return who.get(message)
		}
		return who.patch(ch, obj{"status": "closed"})
	case 9:
		if r.IntN(4) > 0 {
			a := who.get("/intents/" + in + "/events/verify")
			if a.at("valid") != true {
				c.t.Errorf("%s: %s", a.what, a.raw)
			}
			return a
		}
		return who.do("DELETE", ch, nil)
	case 10:
		if r.IntN(6) > 0 {
			return who.post("/intents/"+in+"/agents", obj{"agent_id": pick(r, c.agents)})
		}
		c.intents = append(c.intents, c.intent("planner"))
		return c.as("planner").with("If-Match", "1").post("/intents/"+in+"/status", obj{"status": "completed"})
	}
	kind := pick(r, []string{object.KindRequest, object.KindRequest, object.KindNotify, object.KindBroadcast})
	body := obj{"message_type": kind, "payload": obj{"n": r.IntN(100)}}
	if kind != object.KindBroadcast {
		body["to"] = pick(r, append([]string{"role:tester"}, c.agents...))
	}
	if r.IntN(4) == 0 {
		body["expires_at"] = time.Now().Add(time.Duration(r.IntN(60)-5) * time.Second).UTC().Format(time.RFC3339Nano)
	}
	a := who.post(ch+"/messages", body)
	if a.status == 201 {
		c.messages = append(c.messages, ch+"/messages/"+a.id())
	}
	return a
}

// view is everything that everybody sees.
func (c *crowd) view() map[string]string {
	all := make(map[string]string)
	for _, agent := range append([]string{""}, c.agents...) {
		see := func(path string) {
			a := c.as(agent).get(path)
			all[agent+" "+path] = fmt.Sprint(a.status, " ", string(a.raw))
		}
		see("/intents")
		for _, in := range c.intents {
			for _, of := range []string{"", "/channels", "/events", "/events/verify", "/acl", "/agents", "/homes"} {
				see("/intents/" + in + of)
			}
		}
		for _, ch := range c.channels {
			see(ch)
			see(ch + "/messages?wait=0")
			see(ch + "/messages?status=expired")
			see(ch + "/messages?types=request&limit=2")
			if len(c.messages) > 0 {
				last := c.messages[len(c.messages)-1]
				see(ch + "/messages?since=" + last[strings.LastIndex(last, "/")+1:])
			}
		}
		for _, m := range c.messages {
			see(m)
		}
	}
	return all
}

func TestARestartChangesNothing(t *testing.T) {
	seeds := uint64(6)
	if raceEnabled {
		seeds = 2
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			h := start(t)
			c := newCrowd(h, seed)
			for range 6 {
				for range 40 {
					time.Sleep(time.Duration(c.rand.IntN(3000)) * time.Millisecond)
					if a := c.act(); a.status >= 500 {
						t.Fatalf("%s: %d %s", a.what, a.status, a.raw)
					}
				}
				c.view() // the first look binds who has not been there before
				before := c.view()
				h.restart()
				for path, was := range c.view() {
					if was != before[path] {
						t.Errorf("seed %d, %s:\nbefore %s\nafter  %s", seed, path, before[path], was)
					}
				}
			}
		})
	}
}

// Many at once: nothing fails, and lists and streams have one order.
func TestTogether(t *testing.T) {
	h := start(t)
	stop := h.run()
	in := h.intent("planner")
	ch := h.channel("planner", h.intent("planner"), "talk")
	s := h.follow(h.as("watcher"), "/subscribe"+ch)
	var wg sync.WaitGroup
	for i := range 4 {
		c := newCrowd(h, uint64(i))
		c.intents = []string{in}
		wg.Go(func() {
			for range 40 {
				if a := c.act(); a.status >= 500 {
					t.Errorf("%s: %d %s", a.what, a.status, a.raw)
				}
				h.as(pick(c.rand, c.agents)).send(ch, obj{})
				h.as("watcher").messages(ch)
			}
		})
		wg.Go(func() {
			for range 10 {
				h.as("planner").post(ch+"/ask", obj{"to": "desk", "timeout": 0.01})
			}
		})
	}
	wg.Wait()
	await.Until(t, "all is pushed", func() bool { return len(s.events) >= 160 })
	stop()
	<-s.end
	var pushed []any
	for len(s.events) > 0 {
		f := <-s.events
		pushed = append(pushed, f.data["id"])
	}
	s.stop()
	listed := h.as("watcher").messages(ch).list("id")
	at := 0
	for _, id := range pushed {
		i := slices.Index(listed[at:], id)
		if i < 0 {
			t.Fatalf("%v was pushed in another order than it is listed", id)
		}
		at += i + 1
	}
	if len(pushed) < 160 || len(pushed) > len(listed) { // fewer in all than the stream's backlog
		t.Errorf("%d pushed, %d listed", len(pushed), len(listed))
	}
}
