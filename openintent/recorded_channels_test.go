package openintent_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/openintent/object"
)

func scriptChannels(r *recorder) {
	in := "/v1/intents/" + r.work
	for _, body := range append(badBodies()[:4], `{}`, `{"name":""}`, `{"name":"`+strings.Repeat("a", 129)+`"}`, `{"name":"a","member_policy":"bad"}`, `{"name":"a","members":"x"}`, `{"name":"a","members":["a b"]}`, `{"name":"a","members":[7]}`, `{"name":"a","members":[{"agent_id":"guest","home":"attic"}]}`, `{"name":"a","options":[]}`, `{"name":"a","options":{"ttl_seconds":0}}`, `{"name":"a","options":{"max_messages":10001}}`, `{"name":"a","options":{"audit":"yes"}}`,
		`{"name":"a","options":{"x":"`+strings.Repeat("a", 32<<10)+`"}}`, `{"name":"a","task_id":7}`) {
		r.do(planner, "POST "+in+"/channels", body)
	}
	r.talk = r.do(planner, "POST "+in+"/channels", `{"name":"talk","options":{"x":[1],"max_messages":50},"colour":1}`).id()
	r.do(planner, "POST "+in+"/channels", `{"name":"talk"}`)
	r.club = r.do(planner, "POST "+in+"/channels", `{"name":"club","members":["planner",{"agent_id":"reviewer"},{"agent_id":"guest","home":"`+near+`"}],"member_policy":"explicit","options":{"audit":true}}`).id()
	r.dark = r.do(planner, "POST "+in+"/channels", `{"name":"dark","member_policy":"explicit","options":{"discoverable":false}}`).id()
	r.do(planner, "POST "+in+"/channels", `{"name":"of the task","task_id":"`+r.task+`"}`)
	r.do(desk, "POST /v1/intents/"+r.secret+"/channels", `{"name":"a"}`)
	r.do(planner, "POST /v1/intents/"+r.secret+"/channels", `{"name":"a"}`)
	for _, query := range []string{"", "?limit=1", "?limit=1&offset=3", "?limit=0", "?offset=-1"} {
		r.do(desk, "GET "+in+"/channels"+query, "")
	}
	r.do(planner, "GET /v1/intents/x/channels", "")
	r.do(Operator, "GET "+in+"/channels?limit=2", "")

	talk, club, dark := "/v1/channels/"+r.talk, "/v1/channels/"+r.club, "/v1/channels/"+r.dark
	for _, who := range []caller{planner, desk, Operator} {
		for _, ch := range []string{talk, club, dark} {
			r.do(who, "GET "+ch, "")
		}
	}
	r.do(at(near, "guest"), "GET "+club, "")
	r.do(planner, "GET /v1/channels/x", "")
	r.do(planner, "GET /v1/channels/talk", "")
	for _, body := range append(badBodies()[:4], `{"status":"bad"}`, `{"add_members":["a b"]}`, `{"member_policy":"bad"}`, `{"options":7}`, `{"options":{"ttl_seconds":"x"}}`, `{"members":null}`, `{}`, `{"colour":1}`,
		`{"add_members":["desk"],"remove_members":["reviewer"],"options":{"x":null,"y":1}}`, `{"members":["planner","reviewer"],"member_policy":"intent"}`, `{"members":["planner","reviewer",{"agent_id":"guest","home":"`+near+`"}],"member_policy":"explicit"}`) {
		r.do(planner, "PATCH "+club, body)
	}
	r.do(desk, "PATCH "+club, `{"add_members":["desk"]}`)
	r.do(desk, "PATCH "+dark, `{"add_members":["desk"]}`)
	r.do(desk, "DELETE "+dark, "")
	r.do(desk, "POST "+in+"/channels", `{"name":"dark"}`)
	r.do(planner, "PATCH /v1/channels/x", `{}`)
}

func scriptMessages(r *recorder) {
	talk, club, dark := "/v1/channels/"+r.talk, "/v1/channels/"+r.club, "/v1/channels/"+r.dark
	for _, body := range append(badBodies()[:4], `{}`, `{"payload":null}`, `{"payload":[]}`, `{"payload":{},"metadata":null}`, `{"payload":{},"metadata":"x"}`, `{"payload":{},"message_type":"shout"}`, `{"payload":{},"to":"a b"}`, `{"payload":{},"to":7}`, `{"payload":{},"to":"role:"}`, `{"payload":{},"to":"reviewer","home":"attic"}`, `{"payload":{},"home":"`+near+`"}`, `{"payload":{},"to":"reviewer@attic"}`,
		`{"payload":{},"message_type":"request"}`, `{"payload":{},"message_type":"request","to":"*"}`, `{"payload":{},"message_type":"broadcast","to":"reviewer"}`, `{"payload":{},"message_type":"response"}`, `{"payload":{},"correlation_id":"x"}`, `{"payload":{},"message_type":"response","correlation_id":"x"}`, `{"payload":{},"expires_at":"soon"}`, `{"payload":{},"expires_at":5}`,
		`{"payload":{},"sender":"reviewer"}`, `{"payload":{},"intent_id":"x"}`, `{"payload":{"a":"`+strings.Repeat("a", object.MaxPayload)+`"}}`, `{"payload":{},"metadata":{"proof":{"type":"x"}}}`, `{"payload":{},"metadata":{"proof":{"type":"Ed25519Signature2026","signature":"x"}}}`) {
		r.do(planner, "POST "+talk+"/messages", body)
	}
	r.note = r.do(planner, "POST "+talk+"/messages", `{"payload":{"text":"é \u2028 <&>","n":1.0,"big":12345678901234567890},"colour":1}`).id()
	r.do(planner, "POST "+talk+"/messages", `{"sender":"planner","to":"reviewer","message_type":"message","payload":{},"metadata":{"a":1},"expires_at":"2099-12-31T23:59:59.999999999-01:00"}`)
	r.do(planner, "POST "+talk+"/messages", `{"message_type":"message","payload":{"to":"all"},"intent_id":"`+r.work+`"}`)
	r.do(planner, "POST "+talk+"/messages", `{"to":"role:tester","payload":{}}`)
	r.do(planner, "POST "+talk+"/messages", `{"to":"someone@`+near+`","payload":{}}`)
	r.do(planner, "POST "+talk+"/messages", `{"to":"guest","home":"`+near+`","payload":{}}`)
	r.do(Operator, "POST "+talk+"/messages", `{"sender":"desk","to":"*","payload":{"by":"the operator"}}`)
	r.do(Operator, "POST "+talk+"/messages", `{"sender":"a b","payload":{}}`)
	r.do(Operator, "POST "+talk+"/messages", `{"payload":{}}`)
	r.do(desk, "POST "+club+"/messages", `{"payload":{}}`)
	r.do(desk, "POST "+dark+"/messages", `{"payload":{}}`)
	r.do(planner, "POST "+club+"/messages", `{"to":"desk","payload":{}}`)
	r.do(planner, "POST "+club+"/messages", `{"to":"guest","home":"`+near+`","payload":{"z":1,"a":2}}`)
	r.do(at(near, "guest"), "POST "+club+"/messages", `{"payload":{}}`, "X-Message-ID: mine")
	r.do(at(near, "guest"), "POST "+club+"/messages", `{"payload":{"from":"near"}}`, "X-Message-ID: "+elsewhere("msg"))
	given := "msg_" + near[:10] + "_00VHNCZB0000000000AAAAAAAA" // of time and no number
	for range 2 {
		r.do(at(near, "guest"), "POST "+club+"/messages", `{"payload":{"from":"near"}}`, "X-Message-ID: "+given)
	}
	r.do(at(near, "guest"), "POST "+club+"/messages", `{"payload":{"from":"elsewhere"}}`, "X-Message-ID: "+given)
	r.do(at(full, "guest"), "POST "+club+"/messages", `{"payload":{}}`)
	r.do(planner, "POST "+club+"/messages", `{"payload":{}}`, "X-Message-ID: "+given)

	for _, body := range []string{`{"payload":{"n":1}}`, `{"payload":{"n":1}}`, `{"payload":{"n":2}}`, `{"payload": {"n":1}}`} {
		r.do(planner, "POST "+talk+"/messages", body, "Idempotency-Key: once")
	}
	r.do(planner, "POST "+club+"/messages", `{"payload":{"n":1}}`, "Idempotency-Key: once")
	r.do(reviewer, "POST "+talk+"/messages", `{"payload":{"n":1}}`, "Idempotency-Key: once")
	r.do(planner, "POST /api"+talk+"/messages", `{"payload":{"n":1}}`, "Idempotency-Key: once")
	r.do(planner, "POST "+talk+"/messages", `{"payload":{}}`, "Idempotency-Key: "+strings.Repeat("a", 129))
	r.do(planner, "POST "+talk+"/messages", `{"payload":{}}`, "Idempotency-Key:")
	r.do(planner, "PATCH "+talk, `{}`, "Idempotency-Key: once") // of no meaning here

	// A message that its sender has signed.
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	r.do(desk, "POST /v1/agents", `{"public_key":"ed25519:`+base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))+`"}`)
	sign := func(payload string) string {
		text := fmt.Sprintf(`{"channel_id":%q,"correlation_id":null,"expires_at":null,"message_type":"notify","metadata":{},"payload":%s,"sender":"desk","to":null}`, r.talk, payload)
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
	}
	for _, signed := range []string{`{"a":1}`, `{"a":2}`} {
		r.do(desk, "POST "+talk+"/messages", `{"payload":{"a":1},"metadata":{"proof":{"type":"Ed25519Signature2026","signature":"`+sign(signed)+`"}}}`)
	}

	// Channels by their names.
	in := "/v1/intents/" + r.work
	for _, path := range []string{in + "/channels/talk/messages", in + "/channels/to%20do%2Fnow/messages", in + "/channels/to%20do%2fnow/messages", in + "/channels/+/messages", in + "/channels/é/messages", in + "/channels/%ff/messages", in + "/channels//messages", in + "/channels/" + strings.Repeat("a", 129) + "/messages", "/v1/intents/x/channels/talk/messages", "/v1/intents/" + r.secret + "/channels/talk/messages", in + "/channels/dark/messages"} {
		r.do(desk, "POST "+path, `{"payload":{"by":"name"}}`)
	}
	r.do(desk, "POST "+in+"/channels/talk/messages", "")
	for range 2 {
		r.do(desk, "POST "+in+"/channels/new/messages", `{"payload":{}}`, "Idempotency-Key: new")
	}
	r.do(desk, "POST /v1/channels/newer/messages", `{"payload":{},"intent_id":"`+r.work+`"}`)
	r.do(desk, "POST /v1/channels/newer/messages", `{"payload":{}}`)
	r.do(desk, "POST /v1/channels/"+strings.Replace(r.talk, "chan_", "cha_", 1)+"/messages", `{"payload":{},"intent_id":"`+r.work+`"}`)

	// One message.
	note := talk + "/messages/" + r.note
	asked := r.do(planner, "POST "+talk+"/messages", `{"to":"reviewer","message_type":"request","payload":{"how":"far?"},"expires_at":"2000-01-01T06:00:00Z"}`).id()
	soon := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
	late := talk + "/messages/" + r.do(planner, "POST "+talk+"/messages", `{"to":"reviewer","message_type":"request","payload":{},"expires_at":"`+soon+`"}`).id()
	request := talk + "/messages/" + asked
	r.do(reviewer, "GET "+note, "")
	r.do(desk, "GET "+request, "")
	r.do(Operator, "GET "+request, "")
	r.do(reviewer, "GET "+talk+"/messages/x", "")
	r.do(reviewer, "GET "+club+"/messages/"+r.note, "")
	r.do(desk, "GET "+club+"/messages/"+r.note, "")
	r.do(reviewer, "GET /v1/channels/x/messages/"+r.note, "")
	time.Sleep(time.Second)
	r.do(reviewer, "GET "+late, "")
	for _, body := range []string{"", `{}`, `{"status":"delivered"}`, `{"status":7}`, `{"status":"read"}`, `{"status":"read"}`} {
		r.do(reviewer, "PATCH "+request, body)
	}
	r.do(reviewer, "PATCH "+note, `{"status":"read"}`)
	r.do(desk, "PATCH "+note, `{"status":"read"}`)
	r.do(planner, "PATCH "+note, `{"status":"read"}`)
	r.do(desk, "PATCH "+request, `{"status":"read"}`)
	r.do(Operator, "PATCH "+request, `{"status":"read"}`)
	r.do(reviewer, "PATCH "+late, `{"status":"read"}`)
	r.do(reviewer, "PATCH "+talk+"/messages/x", `{"status":"read"}`)
	r.do(desk, "PATCH "+club+"/messages/x", `{"status":"read"}`)
	for _, body := range append(badBodies()[:4], `{}`, `{"payload":{},"sender":"desk"}`) {
		r.do(reviewer, "POST "+request+"/reply", body)
	}
	r.do(planner, "POST "+request+"/reply", `{"payload":{}}`)
	r.do(desk, "POST "+request+"/reply", `{"payload":{}}`)
	r.do(Operator, "POST "+request+"/reply", `{"payload":{}}`)
	r.do(reviewer, "POST "+late+"/reply", `{"payload":{}}`)
	r.do(reviewer, "POST "+note+"/reply", `{"payload":{}}`)
	r.do(reviewer, "POST "+talk+"/messages/x/reply", `{"payload":{}}`)
	r.do(reviewer, "POST /v1/channels/x/messages/x/reply", `{"payload":{}}`)
	for range 2 {
		r.do(reviewer, "POST "+request+"/reply", `{"payload":{"so":"far"},"to":"desk","message_type":"notify","correlation_id":"x"}`, "Idempotency-Key: reply")
	}
	r.do(Operator, "POST "+request+"/reply", `{"sender":"reviewer","payload":{"more":1}}`)
	r.do(reviewer, "POST "+talk+"/messages", `{"payload":{},"message_type":"response","correlation_id":"`+asked+`"}`)
	r.do(planner, "GET "+request, "")
}

func scriptLists(r *recorder) {
	talk := "GET /v1/channels/" + r.talk + "/messages"
	for _, query := range []string{"", "?limit=2", "?since=" + r.note + "&limit=2", "?since=2000-01-01T00:00:00Z&limit=1", "?since=2000-01-01T00:00:00+00:00&limit=1", "?since=bad", "?since=msg_x", "?since=" + r.talk, "?since=" + elsewhere("msg") + "&limit=1", "?limit=0", "?limit=1001", "?limit=x", "?to=reviewer&limit=1", "?to=a%20b", "?to=nobody",
		"?types=response&limit=1", "?types=request,response&limit=1&status=read", "?types=shout", "?types=request,", "?status=expired", "?status=bad", "?wait=0&limit=1", "?wait=-1", "?wait=61", "?wait=x", "?wait=NaN", "?wait=0.5&since=2099-01-01T00:00:00Z", "?limit=%zz", "?offset=1&limit=1"} {
		r.do(reviewer, talk+query, "")
	}
	r.do(desk, "GET /v1/channels/"+r.club+"/messages", "")
	r.do(desk, "GET /v1/channels/"+r.dark+"/messages", "")
	r.do(planner, "GET /v1/channels/x/messages", "")
	r.do(Operator, "GET /v1/channels/"+r.club+"/messages?limit=2", "")
	r.do(at(near, "guest"), "GET /v1/channels/"+r.club+"/messages", "")
	// One that waits for a message, and the plain list of who has asked something.
	last := r.do(planner, "POST /v1/channels/"+r.talk+"/messages", `{"payload":{}}`).id()
	wait := r.begin(reviewer, talk+"?wait=5&types=broadcast&since="+last, "")
	time.Sleep(time.Second)
	last = r.do(planner, "POST /v1/channels/"+r.talk+"/messages", `{"message_type":"broadcast","payload":{}}`).id()
	wait.end()
	r.do(reviewer, talk+"?wait=5&to=reviewer&since="+last, "")
	r.do(planner, "POST /v1/channels/"+r.club+"/messages", `{"to":"reviewer","message_type":"request","payload":{}}`)
	r.do(planner, "GET /v1/channels/"+r.club+"/messages", "")
}

func scriptAsks(r *recorder) {
	ask := "POST /v1/channels/" + r.talk + "/ask"
	for _, body := range append(badBodies()[:4], `{}`, `{"payload":{}}`, `{"to":"*","payload":{}}`, `{"to":"reviewer"}`, `{"to":"reviewer","payload":{},"timeout":-1}`, `{"to":"reviewer","payload":{},"timeout":3601}`, `{"to":"reviewer","payload":{},"timeout":"x"}`, `{"to":"reviewer","payload":{},"min_responses":-1}`, `{"to":"reviewer","payload":{},"sender":"desk"}`) {
		r.do(planner, ask, body)
	}
	r.do(planner, ask, `{"to":"reviewer","payload":{}}`, "Idempotency-Key: ask")
	r.do(planner, "POST /v1/channels/x/ask", `{"to":"reviewer","payload":{}}`)
	r.do(desk, "POST /v1/channels/"+r.club+"/ask", `{"to":"reviewer","payload":{}}`)
	r.do(planner, "POST /v1/channels/"+r.club+"/ask", `{"to":"desk","payload":{}}`)
	r.do(planner, ask, `{"to":"reviewer","payload":{"n":1},"timeout":2.5}`)
	last := func() string { // the path of the last request to the reviewer
		x := r.do(reviewer, "GET /v1/channels/"+r.talk+"/messages?types=request&to=reviewer&status=delivered&since=2000-01-01T00:00:00Z", "")
		id := string(x.body[strings.LastIndex(string(x.body), `{"id":"`)+len(`{"id":"`):])
		return "POST /v1/channels/" + r.talk + "/messages/" + id[:strings.IndexByte(id, '"')] + "/reply"
	}
	asked := r.begin(planner, ask, `{"to":"reviewer","payload":{"n":2},"metadata":{"a":1},"timeout":60}`)
	synctest.Wait()
	r.do(reviewer, last(), `{"payload":{"n":"two"}}`)
	asked.end()
	asked = r.begin(planner, ask, `{"to":"role:tester","payload":{"n":3},"timeout":2,"min_responses":2}`)
	synctest.Wait()
	r.do(reviewer, last(), `{"payload":{"n":"three"}}`)
	asked.end()
	asked = r.begin(planner, ask, `{"to":"role:tester","payload":{"n":4},"timeout":2,"all":true}`)
	synctest.Wait()
	r.do(reviewer, last(), `{"payload":{"n":"four"}}`)
	asked.end()
	r.do(planner, ask, `{"to":"role:none","payload":{"n":5},"timeout":1,"all":true}`)
	passing := r.do(planner, "POST /v1/intents/"+r.work+"/channels", `{"name":"passing"}`).id()
	asked = r.begin(planner, "POST /v1/channels/"+passing+"/ask", `{"to":"reviewer","payload":{},"timeout":60}`)
	synctest.Wait()
	r.do(planner, "DELETE /v1/channels/"+passing, "")
	asked.end()
}

func scriptStreams(r *recorder) {
	in, talk := r.work, r.talk
	all := []string{"/v1/subscribe/channels/" + talk, "/v1/channels/" + talk + "/subscribe", "/v1/subscribe/intents/" + in, "/api/v1/intents/" + in + "/subscribe", "/v1/subscribe/agents/reviewer", "/v1/agents/reviewer/subscribe"}
	var open []*exchange
	for _, path := range all {
		open = append(open, r.open(reviewer, "GET "+path))
	}
	open = append(open, r.open(at(near, "system"), "GET /v1/subscribe/home"))
	r.do(planner, "POST /v1/intents/"+in+"/agents", `{"agent_id":"reviewer"}`)
	r.do(at(near, "guest"), "GET /v1/intents/"+in, "")
	r.do(planner, "POST /v1/channels/"+talk+"/messages", `{"to":"reviewer","payload":{"text":"\u2028 and \u0085"}}`)
	r.do(planner, "POST /v1/channels/"+talk+"/messages", `{"message_type":"broadcast","payload":{}}`)
	r.do(planner, "POST /v1/intents/"+in+"/events", `{"event_type":"comment.made","payload":{"a":1}}`)
	for _, x := range open {
		x.tells()
	}
	r.open(reviewer, "GET /v1/subscribe/channels/"+talk, "Last-Event-ID: 0").tells()
	r.open(reviewer, "GET /v1/subscribe/agents/reviewer?x=1", "Last-Event-ID: x").tells()
	r.open(Operator, "GET /v1/subscribe/agents/reviewer", "Accept: text/event-stream").tells()
	quiet := r.open(Operator, "GET /v1/subscribe/intents/"+in, "Last-Event-ID: 9999")
	time.Sleep(16 * time.Second)
	quiet.tells()
	r.open(at(near, "system"), "GET /v1/subscribe/home", "Last-Event-ID: 0").tells()
	for _, query := range []string{"?after=0", "?after=0&channel=" + talk, "?after=0&intent=" + in, "?after=9999", "", "?after=-1", "?after=0&channel=x", "?after=0&intent=" + r.secret} {
		r.do(reviewer, "GET /v1/missed"+query, "")
	}
	for range 3 { // each refusal is held longer
		r.do(reviewer, "GET /v1/subscribe/channels/x", "")
	}
	r.do(reviewer, "GET /v1/channels/x/subscribe", "")
	r.do(desk, "GET /v1/subscribe/channels/"+r.club, "")
	r.do(desk, "GET /v1/channels/"+r.dark+"/subscribe", "")
	r.do(planner, "GET /v1/subscribe/intents/"+r.secret, "")
	r.do(planner, "GET /v1/intents/"+r.secret+"/subscribe", "")
	r.do(planner, "GET /v1/subscribe/agents/reviewer", "")
	r.do(planner, "GET /v1/agents/reviewer/subscribe", "")
	r.do(Operator, "GET /v1/agents/a%20b/subscribe", "")
	r.do(nobody, "GET /v1/subscribe/agents/reviewer", "")
	r.do(planner, "GET /v1/subscribe/home", "")
	r.do(planner, "HEAD /v1/subscribe/agents/planner", "")
}
