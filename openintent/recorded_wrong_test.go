package openintent_test

import "strings"

// scriptWrongTwice is about requests that are wrong in two ways: which of them is answered,
// and who has used an intent by what was refused.
func scriptWrongTwice(r *recorder) {
	long := strings.Repeat("k", 129)
	in := "/v1/intents/" + r.do(planner, "POST /v1/intents", `{"title":"order"}`).id()
	secret := "/v1/intents/" + r.secret
	talk := "/v1/channels/" + r.do(planner, "POST "+in+"/channels", `{"name":"talk"}`).id()
	dark := "/v1/channels/" + r.do(planner, "POST "+in+"/channels", `{"name":"dark","member_policy":"explicit","options":{"discoverable":false}}`).id()
	hidden := "/v1/channels/" + r.do(reviewer, "POST "+secret+"/channels", `{"name":"hidden"}`).id()
	task := "/v1/tasks/" + r.do(planner, "POST /v1/tasks", `{"intent_id":"`+strings.TrimPrefix(in, "/v1/intents/")+`","name":"dig"}`).id()

	for _, list := range []string{"tasks", "coordinators", "channels", "events"} {
		for _, query := range []string{"?limit=0", "?limit=x", "?offset=-1", "?since=bad", "?limit=0&offset=x", "?offset=x&since=bad"} {
			r.do(planner, "GET /v1/intents/x/"+list+query, "")
			r.do(planner, "GET "+secret+"/"+list+query, "")
			r.do(agentRecord("lister-of-"+list), "GET "+in+"/"+list+query, "")
			r.do(at(near, "lister-of-"+list), "GET "+in+"/"+list+query, "")
		}
		r.do(planner, "GET "+in+"/homes", "")
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?wait=x", "?wait=61", "?status=bad", "?types=bad", "?since=bad", "?since=msg_bad", "?to=a%20b", "?offset=x", "?limit=0&to=a%20b", "?wait=x&to=a%20b", "?limit=0&status=bad", "?limit=0&types=bad", "?wait=x&status=bad", "?wait=x&types=bad",
		"?limit=0&wait=x", "?limit=0&since=bad", "?wait=x&since=bad", "?to=a%20b&status=bad", "?status=bad&types=bad", "?types=bad&since=bad"} {
		for _, ch := range []string{"/v1/channels/x", hidden} {
			r.do(planner, "GET "+ch+"/messages"+query, "")
		}
		r.do(agentRecord("lister-of-messages"), "GET "+talk+"/messages"+query, "")
		r.do(at(near, "lister-of-messages"), "GET "+talk+"/messages"+query, "")
		r.do(desk, "GET "+dark+"/messages"+query, "")
	}
	r.do(planner, "GET "+in+"/homes", "")
	for _, line := range []string{"intents?limit=0&status=bad", "intents?offset=x&status=bad", "agents?limit=0&status=bad", "agents?offset=x&status=bad", "unsent?limit=0&after=x", "unsent?offset=x&after=x"} {
		r.do(planner, "GET /v1/"+line, "")
		r.do(at(near, "guest"), "GET /v1/"+line, "")
	}

	// Each path with a body: of what is not there, and of what the caller cannot see.
	for _, op := range r.ops {
		if op.method == "GET" || strings.Count(op.path, "{") == 0 {
			continue
		}
		paths := []string{strings.NewReplacer("{", "", "}", "").Replace(op.path)}
		for name, id := range map[string]string{"{intent}": r.secret, "{channel}": strings.TrimPrefix(hidden, "/v1/channels/")} {
			if strings.Contains(op.path, name) {
				paths = append(paths, strings.NewReplacer("{", "", "}", "").Replace(strings.Replace(op.path, name, id, 1)))
			}
		}
		for _, path := range paths {
			for _, body := range []string{"", "not json", "{}", `{"status":"bad","to":"a b","message_type":"shout","payload":[],"state":[],"timeout":-1}`} {
				r.do(planner, op.method+" "+path, body)
				r.do(planner, op.method+" "+path, body, "If-Match: x", "Idempotency-Key: "+long)
			}
		}
	}

	for _, key := range []string{"k", long} {
		for _, body := range []string{"not json", `{}`, `{"to":"reviewer","payload":{},"timeout":-1}`, `{"to":"reviewer","payload":{},"min_responses":-1}`, `{"to":"reviewer","payload":[]}`, `{"payload":{}}`, `{"to":"reviewer","payload":{},"sender":"desk"}`, `{"to":"reviewer","payload":{},"timeout":1}`,
			`{"to":"reviewer","payload":{},"sender":"desk","timeout":-1,"min_responses":-1}`, `{"to":"reviewer","payload":[],"sender":"desk","min_responses":-1}`, `{"to":"reviewer","payload":[],"sender":"desk"}`} {
			for _, ch := range []string{"/v1/channels/x", hidden, talk} {
				r.do(planner, "POST "+ch+"/ask", body, "Idempotency-Key: "+key)
			}
			r.do(desk, "POST "+dark+"/ask", body, "Idempotency-Key: "+key)
		}
	}
	for _, body := range []string{"not json", `{}`, `{"payload":[],"sender":"desk"}`, `{"payload":{},"sender":"desk"}`, `{"payload":{},"intent_id":"x"}`, `{"payload":{}}`} {
		for _, path := range []string{talk + "/messages", dark + "/messages", hidden + "/messages", "/v1/channels/x/messages", in + "/channels/" + long + "/messages", secret + "/channels/talk/messages", talk + "/messages/x/reply", hidden + "/messages/x/reply"} {
			r.do(planner, "POST "+path, body, "Idempotency-Key: "+long)
			r.do(planner, "POST "+path, body)
			r.do(at(near, "guest"), "POST "+path, body, "Idempotency-Key: "+long, "X-Message-ID: mine")
		}
	}
	for _, version := range [][]string{nil, {"If-Match: x"}, {"If-Match: 7"}} {
		for _, body := range []string{"not json", "[]", `{"status":"bad","state":[]}`, `{"status":"active","state":{}}`} {
			for _, path := range []string{in, secret, "/v1/intents/x"} {
				r.do(planner, "POST "+path+"/state", body, version...)
				r.do(planner, "POST "+path+"/status", body, version...)
			}
			r.do(planner, "PATCH "+task, body, version...)
			r.do(planner, "PATCH /v1/tasks/x", body, version...)
		}
	}
	for _, intent := range []string{"x", r.secret, strings.TrimPrefix(in, "/v1/intents/")} {
		r.do(planner, "POST /v1/tasks", `{"intent_id":"`+intent+`","name":"","status":"bad"}`)
		r.do(planner, "POST /v1/tasks", `{"intent_id":"`+intent+`","name":"a","assigned_agent":"a b"}`)
		r.do(planner, "POST /v1/coordinators", `{"intent_id":"`+intent+`","agent_id":"a b","coordinator_type":"bad"}`)
		r.do(planner, "POST /v1/coordinators", `{"intent_id":"`+intent+`","metadata":[]}`)
	}
	r.do(at(near, "guest"), "POST /v1/intents", "not json")
	r.do(at(near, "guest"), "POST /v1/intents", `{"created_by":"desk"}`)
	r.do(planner, "POST /v1/intents", `{"created_by":"desk"}`)
	r.do(planner, "POST "+in+"/events", `{"event_type":"status_changed","actor":"desk"}`)
	r.do(planner, "GET "+in+"/homes", "")
}
