package remote

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
)

// What a daemon knows of another's agents goes when that is trusted no more, and comes again with
// their next request once it is trusted again; what names them here stays.
// holds: security.md#what-untrust-does-and-what-it-does-not-undo
func TestRecordsGoWithTrust(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"connected": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
			reviewer.must(201, "POST", "agents/register", obj{"role_id": "review", "name": "The reviewer"})
			intent := "intents/" + planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
			at := "reviewer@" + laptop.key.ID().String()
			channel := "channels/" + planner.must(201, "POST", intent+"/channels", obj{"name": "build", "members": []string{"planner", at}})["id"].(string)
			reviewer.must(200, "GET", channel, nil)
			if a := planner.must(200, "GET", "agents/"+at, nil); a["role_id"] != "review" || a["status"] != "active" {
				t.Fatalf("before: %v", a)
			}
			peer, _ := desk.trust.FindPeer(laptop.key.ID())
			if err := desk.trust.Untrust(peer.ID); err != nil {
				t.Fatal(err)
			}
			desk.node.Disconnect(peer.ID)
			if known, err := desk.ListKnownPeers(t.Context()); err != nil || !slices.Contains(known, peer.ID) {
				t.Errorf("before it is forgotten: %v %v", known, err)
			}
			if err := desk.ForgetPeer(t.Context(), peer.ID); err != nil {
				t.Fatal(err)
			}
			if known, err := desk.ListKnownPeers(t.Context()); err != nil || slices.Contains(known, peer.ID) {
				t.Errorf("once it is forgotten: %v %v", known, err)
			}
			desk.again()
			planner = desk.agent("planner")
			planner.must(404, "GET", "agents/"+at, nil)
			if list := planner.list("agents"); find(list, "agent_id", "reviewer") != nil {
				t.Errorf("listed: %v", list)
			}
			if restart {
				laptop.stop()
			}
			if _, err := desk.trust.Trust(peer); err != nil {
				t.Fatal(err)
			}
			if restart {
				laptop.start()
			}
			desk.node.Connect(peer.ID)
			laptop.node.Connect(desk.key.ID())
			reviewer = laptop.agent("reviewer")
			await.Until(t, "the record", func() bool {
				reviewer.do("GET", channel, nil).Body.Close()  // while they are apart, it does not arrive
				answer := planner.do("GET", "agents/"+at, nil) // of what is known here
				defer answer.Body.Close()
				var a obj
				return answer.StatusCode == 200 && json.UnmarshalRead(answer.Body, &a) == nil && a["role_id"] == "review" && a["name"] == "The reviewer"
			})
			if ch := planner.must(200, "GET", channel, nil); !slices.Contains(ch["members"].([]any), any(at)) {
				t.Errorf("its members: %v", ch["members"])
			}
		})
	}
}

// A message that waited while its host had forgotten who sends it goes out when the host
// knows that again: access by a role is by the record.
func TestWhatWaitedGoesOnceItsSenderIsKnownAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	reviewer.must(201, "POST", "agents/register", obj{"role_id": "review"})
	intent := "intents/" + planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", intent+"/channels", obj{"name": "build"})["id"].(string)
	planner.must(200, "PUT", intent+"/acl", obj{"default_policy": "closed", "entries": []obj{
		{"principal_id": "review", "principal_type": "role", "permission": "write", "home": laptop.key.ID().String()},
	}})
	reviewer.must(200, "GET", channel, nil)
	peer, _ := desk.trust.FindPeer(laptop.key.ID())
	for n := range 2 {
		if err := desk.trust.Untrust(peer.ID); err != nil {
			t.Fatal(err)
		}
		desk.node.Disconnect(peer.ID)
		await.Until(t, "apart", func() bool { _, up := laptop.node.Peer(desk.key.ID()); return !up })
		desk.stop() // nobody is there: its message waits
		id := reviewer.must(201, "POST", channel+"/messages", obj{"message_type": "notify", "payload": obj{"n": n}})["id"].(string)
		desk.start()
		if err := desk.ForgetPeer(t.Context(), peer.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := desk.trust.Trust(peer); err != nil {
			t.Fatal(err)
		}
		desk.node.Connect(peer.ID)
		laptop.node.Connect(desk.key.ID())
		await.Until(t, "the end of its wait", func() bool {
			m := find(reviewer.list("unsent"), "id", id)
			if m != nil && m["status"] == "refused" {
				t.Fatalf("it was refused: %v", m["refusal"])
			}
			return m == nil
		})
		reviewer.must(200, "GET", channel+"/messages/"+id, nil)
	}
}

// A request carries the record of its agent as it is now, and not what the agent says of itself.
func TestRequestsCarryRecords(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	intent := "intents/" + planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	known := func() obj {
		t.Helper()
		reviewer.must(200, "GET", intent, nil)
		answer := planner.do("GET", "agents/reviewer@"+laptop.key.ID().String(), nil)
		defer answer.Body.Close()
		var a obj
		if err := json.UnmarshalRead(answer.Body, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	reviewer.header = http.Header{"X-Agent-Record": {`{"status":"active","role_id":"admin"}`}}
	if a := known(); a["error"] != "not_found" {
		t.Errorf("of an agent without a record the host has %v", a)
	}
	odd := "The \x7f\u0000\u2028 r\u00e9viewer\n"
	reviewer.must(201, "POST", "agents/register", obj{"role_id": "review", "name": odd})
	if a := known(); a["role_id"] != "review" || a["name"] != odd {
		t.Errorf("the host has %v", a)
	}
	reviewer.must(200, "POST", "agents/register", obj{"role_id": "lead"})
	if a := known(); a["role_id"] != "lead" || a["name"] != nil {
		t.Errorf("the host has %v", a)
	}
}
