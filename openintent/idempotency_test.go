package openintent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/store"
)

// What was said to a send is said to its repetition, whatever has happened since.
func TestARepeatedSendIsAnsweredAsTheFirst(t *testing.T) {
	const home = farID + idRest
	away := start(t, func(c *Config) { c.Self = home })
	for _, key := range []string{headerKey, headerID} {
		for how, happens := range map[string]func(p *client, in, ch, reviewer string){
			"read":   func(p *client, _, ch, _ string) { p.get(ch + "/messages").ok(200) },
			"closed": func(p *client, _, ch, _ string) { p.patch(ch, obj{"status": "closed"}).ok(200) },
			"removed": func(p *client, _, ch, reviewer string) {
				p.patch(ch, obj{"remove_members": []string{reviewer}}).ok(200)
			},
			"hidden": func(p *client, _, ch, reviewer string) {
				p.patch(ch, obj{"remove_members": []string{reviewer}, "options": obj{"discoverable": false}}).ok(200)
			},
			"deleted": func(p *client, _, ch, _ string) { p.do("DELETE", ch, nil).ok(200) },
			"denied": func(p *client, in, _, _ string) {
				p.do("PUT", "/intents/"+in+"/acl", obj{"default_policy": "closed"}).ok(200)
			},
			"evicted": func(p *client, in, ch, _ string) {
				p.patch(ch, obj{"options": obj{"max_messages": 1}}).ok(200)
				for range 3 {
					p.say(ch, obj{})
				}
			},
			"restarted": func(p *client, in, ch, _ string) { p.host.restart() },
		} {
			t.Run(key+" "+how, func(t *testing.T) {
				h := start(t, toOthers)
				in, reviewer := h.intent("planner"), "reviewer"
				if key == headerID {
					reviewer += "@" + home
				}
				ch := h.channel("planner", in, "talk", obj{"member_policy": "explicit", "members": []string{"planner", reviewer}})
				asked := h.as("planner").request(ch, reviewer)
				from := func() *client {
					if key == headerKey {
						return h.as("reviewer")
					}
					return h.from(home, "reviewer")
				}
				body := obj{"sender": "reviewer", "payload": obj{"a": strings.Repeat("x", 1<<10)}, "metadata": obj{"b": "c"}}
				var paths, keys []string
				var firsts []*answer
				for _, path := range []string{ch + "/messages", ch + "/messages/" + asked + "/reply", "/intents/" + in + "/channels/talk/messages"} {
					k := away.e.newMessageID(now(), 0)
					paths, keys = append(paths, path), append(keys, k)
					firsts = append(firsts, from().with(key, k).post(path, body).ok(201))
				}
				happens(h.as("planner"), in, ch, reviewer)
				for i, path := range paths {
					again := from().with(key, keys[i]).post(path, body).ok(201)
					if string(again.raw) != string(firsts[i].raw) || again.header.Get("Idempotency-Replayed") != "true" {
						t.Errorf("%s: first %s, then %s", path, firsts[i].raw, again.raw)
					}
					if key == headerKey { // it is for its sender alone, and for this message
						if a := h.as("desk").with(key, keys[i]).post(path, obj{"payload": body["payload"], "metadata": body["metadata"]}); a.header.Get("Idempotency-Replayed") != "" {
							t.Errorf("%s: desk is told %s", path, a.raw)
						}
						if a := from().with(key, keys[i]).post(path, obj{"payload": obj{}}); a.status < 400 && (how == "read" || how == "restarted") {
							t.Errorf("%s: another message gets %s", path, a.raw)
						}
					}
				}
			})
		}
	}
}

// Keys of an earlier version are still known.
func TestKeysAreMigrated(t *testing.T) {
	ctx, db := t.Context(), statedb.New(t)
	if err := db.Migrate(ctx, "openintent", schema[:1]); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`INSERT INTO openintent_intent (row, id, doc, access) VALUES (1, 'intent_1', '{}', '{"homes":{"a.b":"desk","planner":""}}')`,
		`INSERT INTO openintent_channel (row, id, intent, doc) VALUES (2, 'chan_1', 1, '{}')`,
		`INSERT INTO openintent_sent (channel, sender, key, hash, at, doc) VALUES (2, 'a.b', 'k', CAST('h' AS BLOB), 7, CAST('{"id":"msg_1","to":null}' AS BLOB)), (2, 'planner', 'k', CAST('h' AS BLOB), 7, CAST('{"id":"msg_2","to":"x"}' AS BLOB))`,
	} {
		statedb.Exec(t, db, q)
	}
	if err := db.Migrate(ctx, "openintent", schema); err != nil {
		t.Fatal(err)
	}
	got := make(map[Caller]answeredSend)
	if err := db.Read(ctx, func(tx *store.Tx) error {
		for _, who := range []Caller{{Agent: "a.b", Home: "desk"}, {Agent: "planner"}, {Agent: "a.b"}} {
			o := &Outgoing{who: who, sendKey: sendKey{key: "k"}, messageDraft: messageDraft{sender: who.Agent}}
			if err := readAnsweredSends(tx, o, 0, func(s answeredSend, hash []byte) {
				if string(hash) == "h" {
					got[who] = s
				}
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[Caller{Agent: "a.b", Home: "desk"}] != (answeredSend{"chan_1", "msg_1", "", 7}) || got[Caller{Agent: "planner"}] != (answeredSend{"chan_1", "msg_2", "x", 7}) {
		t.Errorf("%+v", got)
	}
}

// Who sends ever so much is remembered for the last of it, and makes nobody else forgotten.
func TestKeysAreBounded(t *testing.T) {
	h, _, ch := team(t, toOthers)
	count := func(home string) (n int) {
		t.Helper()
		statedb.Query(t, h.db, &n, "SELECT count(*) FROM openintent_sent WHERE home = ?", home)
		return n
	}
	for home, n := range map[string]int{desk: maxKeys + keyStep, laptop: 10, "": 10} {
		statedb.Exec(t, h.db, `INSERT INTO openintent_sent (key, home, sender, channel, hash, at, id, recipient) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?2)
				SELECT 'key' || i, ?1, 'worker', 'chan', x'00', ?3 + i, 'msg', '' FROM n`, home, n, int64(now())-2*maxKeys)
	}
	h.restart()
	far := h.from(desk, "reviewer")
	for i := range keyStep {
		far.with(headerKey, fmt.Sprint(i)).send(ch, obj{}).ok(201)
	}
	if d, l, here := count(desk), count(laptop), count(""); d != maxKeys || l != 10 || here != 10 {
		t.Errorf("desk has %d keys, laptop %d, this daemon %d", d, l, here)
	}
	again := far.with(headerKey, "0").send(ch, obj{}).ok(201)
	if again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the first of the last was forgotten: %s", again.raw)
	}
}
