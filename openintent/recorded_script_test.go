package openintent_test

import (
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/openintent/object"
)

// script is what TestRecorded sends, in order.
func script(r *recorder) {
	for _, part := range []struct {
		name string
		play func(*recorder)
	}{
		{"description", scriptDescription}, {"callers", scriptCallers}, {"paths", scriptPaths}, {"methods", scriptMethods}, {"agents", scriptAgents}, {"intents", scriptIntents},
		{"access", scriptAccess}, {"tasks", scriptTasks}, {"channels", scriptChannels}, {"messages", scriptMessages}, {"lists", scriptLists},
		{"asks", scriptAsks}, {"streams", scriptStreams}, {"homes", scriptHomes}, {"ends", scriptEnds}, {"elsewhere", scriptElsewhere}, {"wrong twice", scriptWrongTwice},
	} {
		r.part, r.sent = part.name, 0 // so that one more request changes the numbers of its part alone
		part.play(r)
	}
}

// scriptDescription is about what needs no caller.
func scriptDescription(r *recorder) {
	r.ops = r.do(nobody, "GET /openapi.json", "").operations()
	r.do(nobody, "GET /.well-known/openintent.json", "")
	r.do(Operator, "GET /.well-known/openintent.json?x=1", "")
	r.do(at(near, "guest"), "GET /.well-known/openintent.json", "")
	r.do(at("keys", "planner"), "GET /.well-known/openintent.json", "")
	for _, line := range []string{"POST /openapi.json", "HEAD /openapi.json", "OPTIONS /openapi.json", "DELETE /.well-known/openintent.json",
		"GET /openapi.json/", "GET /v1/openapi.json", "GET /api/v1/.well-known/openintent.json", "GET /.well-known/", "GET /%6fpenapi.json"} {
		r.do(nobody, line, "")
	}
}

// scriptCallers is about who calls.
func scriptCallers(r *recorder) {
	const path = "GET /v1/intents"
	for _, who := range []caller{nobody, agentRecord("a b"), agentRecord("system"), agentRecord("operator"), agentRecord("role:tester"), agentRecord("*"), agentRecord(strings.Repeat("a", 128)), agentRecord(strings.Repeat("a", 129)), agentRecord("é"), agentRecord(""),
		Operator.with("X-Operator: true"), planner.with("X-Agent-ID: reviewer"), {headers: []string{"X-Operator: yes"}}, {headers: []string{"X-Operator: TRUE"}}, Operator.with("X-Agent-ID: planner"), {headers: []string{"x-agent-id:  planner "}}} {
		r.do(who, path, "")
	}
	for _, who := range []caller{at("agents", "planner"), at("agents", "liar"), {door: "agents"}, {"agents", Operator.headers}, at("agents", "system")} {
		r.do(who, path, "")
	}
	for _, who := range []caller{{door: "keys"}, {"keys", []string{"X-API-Key: guessed"}}, {"keys", []string{"X-API-Key: for planner"}}, at("keys", "planner").with("X-API-Key: for planner"), at("keys", "desk").with("X-API-Key: for planner"),
		{"keys", []string{"X-API-Key: for planner", "X-Operator: true"}}, {"keys", []string{"X-API-Key: for all"}}, {"keys", []string{"X-API-Key: for all", "X-Operator: true"}}, at("keys", "desk").with("X-API-Key: for all")} {
		r.do(who, path, "")
	}
	for _, who := range []caller{{door: near}, {near, Operator.headers}, at(near, "guest"), at(near, "a b"), at(near, "system"), at(near, "operator"), at(full, "guest")} {
		r.do(who, path, "")
	}
	// What is looked at first.
	r.do(nobody, "POST /v1/intents", "not json")
	r.do(nobody, "PUT /v1/intents", "")
	r.do(nobody, "GET /v1/nothing", "")
	r.do(nobody, "GET /v1/intents?limit=0", "")
	r.do(nobody, "GET /v1/intents/"+elsewhere("intent"), "")
	for _, line := range []string{"GET /v1/subscribe/home", "POST /v1/departed"} {
		for _, who := range []caller{planner, Operator, at(near, "guest")} {
			r.do(who, line, "")
		}
	}
}

// scriptPaths is about paths that lead nowhere, or nearly.
func scriptPaths(r *recorder) {
	for _, path := range []string{"/", "/nothing", "/v1", "/v1/", "/api", "/api/v1", "/api/v1/", "/api/v2/intents", "/V1/intents", "/v1/Intents", "/intents", "/v1/portfolios", "/v1/intents/x/y", "/v1/a/b/c/d/e/f/g",
		"/v1/intents", "/api/v1/intents", "/api/v1/v1/intents", "/v1/api/v1/intents", "/v1/intents?", "/v1/intents?#", "/v1/intents;x=1", "http://localhost/v1/intents", "http://elsewhere:80/v1/intents",
		"//v1/intents", "/v1//intents", "///v1/intents", "/v1/intents/", "/v1/intents//", "/v1/intents//events", "/v1/intents/?limit=1", "/./v1/intents", "/v1/./intents", "/v1/intents/.", "/v1/x/../intents", "/../v1/intents", "/v1/intents/..", "/v1/intents/../intents?limit=1", "/api/../v1/intents",
		"/v1/%69ntents", "/%761/intents", "/v1%2Fintents", "/v1/intents%2F", "/v1%2fintents", "/v1/intents%3Flimit=1", "/v1/%2e/intents", "/v1/intents/%2e%2e/intents", "/v1/intents%00", "/v1/intents%0a",
		"/v1/agents/planner", "/v1/agents/pl%61nner", "/v1/agents/planner%2Frecord", "/v1/agents/planner%2frecord", "/v1/agents/planner%252Frecord", "/v1/agents/planner/", "/v1/agents//record", "/v1/agents/%20/record", "/v1/agents/./record", "/v1/agents/../record", "/v1/agents/%2e%2e/record",
		"/v1/agents/%ff", "/v1/agents/a%C3", "/v1/agents/%ed%a0%80", "/v1/agents/%zz", "/v1/agents/%", "/v1/agents/a+b", "/v1/agents/a;b", "/v1/agents/a%00b", "/v1/agents/{agent}", "/v1/agents/a:b", "/v1/agents/a@" + near, "/v1/agents/é",
		"/v1/agents/register", "/v1/intents/x/channels/y/messages", "/v1/subscribe/home", "/v1/subscribe", "/v1/subscribe/x/y",
		"/v1/agents/" + strings.Repeat("a", 512), "/v1/agents/" + strings.Repeat("a", 513), "/v1/agents/" + strings.Repeat("%61", 512), "/v1/" + strings.Repeat("a", 5000), "/v1/" + strings.Repeat("a/", 2000), "/v1/intents?limit=1&x=" + strings.Repeat("a", 5000)} {
		r.do(planner, "GET "+path, "")
	}
	r.do(planner, "POST //v1/intents", `{"title":"work"}`)
	r.do(planner, "POST /v1/intents/", `{"title":"work"}`)
	r.do(planner, "POST /v1/./intents", `{"title":"work"}`)
	r.do(nobody, "GET //v1/intents", "")
}

// scriptMethods asks each path for what it does not have, and for what HTTP alone knows.
func scriptMethods(r *recorder) {
	offers := make(map[string][]string)
	var paths []string
	for _, op := range r.ops {
		if !slices.Contains(paths, op.path) {
			paths = append(paths, op.path)
		}
		offers[op.path] = append(offers[op.path], op.method)
	}
	for _, path := range paths {
		has := offers[path]
		concrete := strings.NewReplacer("{", "", "}", "").Replace(path)
		for _, method := range []string{"PUT", "POST", "DELETE"} {
			if !slices.Contains(has, method) {
				r.do(planner, method+" "+concrete, "{}")
				break
			}
		}
		if slices.Contains(has, "GET") {
			r.do(planner, "HEAD "+concrete, "")
		}
	}
	for _, line := range []string{"OPTIONS *", "OPTIONS /v1/intents", "OPTIONS /v1/channels/x/messages/y", "OPTIONS /v1/nothing", "HEAD /v1/nothing", "TRACE /v1/intents", "CONNECT /v1/intents", "CONNECT //v1/intents", "get /v1/intents", "BREW /v1/intents", "PATCH /v1/intents/x/acl/entries", "PUT /v1/agents/register", "DELETE /v1/agents/register", "GET /v1/agents/register/"} {
		r.do(planner, line, "")
	}
}

// badBodies are bodies that no route that needs one takes.
func badBodies() []string {
	return []string{"", " \n", "not json", "[]", "null", `"text"`, "7", `{"title":"a"} trailing`, `{"title":"a","title":"b"}`, "{\"title\":\"\xff\"}", `{"title":5}`, `{"Title":"a"}`, `{"title":"a"`, "\xef\xbb\xbf{\"title\":\"a\"}",
		`{"state":` + strings.Repeat(`{"a":`, 256) + "1" + strings.Repeat("}", 257), strings.Repeat(" ", object.MaxPayload+320<<10+1)}
}

func scriptIntents(r *recorder) {
	for _, body := range badBodies() {
		r.do(planner, "POST /v1/intents", body)
	}
	for _, body := range []string{`{}`, `{"title":""}`, `{"title":"` + strings.Repeat("a", 1025) + `"}`, `{"title":"a","state":[]}`, `{"title":"a","constraints":"x"}`, `{"title":"a","governance_policy":1}`, `{"title":"a","depends_on":"x"}`,
		`{"title":"a","confidence":1.5}`, `{"title":"a","created_by":"reviewer"}`, `{"title":"a","state":{"a":"` + strings.Repeat("a", 256<<10) + `"}}`} {
		r.do(planner, "POST /v1/intents", body)
	}
	r.do(Operator, "POST /v1/intents", `{"title":"a","created_by":"a b"}`)
	r.do(at(near, "guest"), "POST /v1/intents", `{"title":"a"}`)
	r.do(at(full, "guest"), "POST /v1/intents", `{"title":"a"}`)
	r.work = r.do(planner, "POST /v1/intents", `{"title":"work","description":"to do","state":{"progress":0},"constraints":["cheap"],"confidence":80}`).id()
	r.secret = r.do(reviewer, "POST /api/v1/intents", `{"title":"secret","colour":"red"}`, "Content-Type: text/plain").id()
	r.do(Operator, "POST /v1/intents", `{"title":"for another","created_by":"desk","parent_intent_id":"`+r.work+`","depends_on":["x"],"governance_policy":{"a":1}}`)
	r.do(Operator, "POST /v1/intents", `{"title":"of nobody"}`)
	r.do(planner, "POST /v1/intents", "11\r\n{\"title\":\"chunks\"\r\n1\r\n}\r\n0\r\n\r\n", "Transfer-Encoding: chunked")
	r.do(reviewer, "PUT /v1/intents/"+r.secret+"/acl", `{"default_policy":"closed","entries":[{"principal_id":"desk"}]}`)

	for _, query := range []string{"", "?limit=1", "?limit=2&offset=1", "?offset=100", "?limit=0", "?limit=1001", "?limit=x", "?limit=", "?limit=%31", "?limit=%zz", "?limit=1;offset=2", "?limit=1&limit=2", "?limit=-1", "?limit=99999999999999999999", "?offset=-1", "?offset=x", "?offset=1073741825",
		"?status=draft&limit=1", "?status=completed", "?status=bad", "?status=Draft", "?colour=red&limit=1"} {
		r.do(desk, "GET /v1/intents"+query, "")
	}
	r.do(Operator, "GET /v1/intents?limit=2", "")
	r.do(at(near, "guest"), "GET /v1/intents", "")

	in := "/v1/intents/" + r.work
	r.do(planner, "GET "+in, "")
	r.do(Operator, "GET /api"+in, "")
	r.do(planner, "GET "+strings.Replace(in, "intent_", "inten%74_", 1), "")
	r.do(planner, "GET /v1/intents/"+r.secret, "")
	r.do(desk, "GET /v1/intents/"+r.secret, "")
	r.do(planner, "GET /v1/intents/x", "")
	r.do(planner, "GET /v1/intents/intent_"+self[:10]+"_00VHNCZB00AAAAAAAAAAAAAAAA", "")
	r.do(planner, "GET "+in, "{}") // a body that nobody reads

	set := `{"patches":[{"op":"set","path":"progress","value":1},{"op":"add","path":"/a/b","value":[]},{"op":"remove","path":"none"}]}`
	for _, version := range [][]string{nil, {"If-Match:"}, {"If-Match: x"}, {`If-Match: "x"`}, {"If-Match: *"}, {"If-Match: 7"}, {"If-Match: -1"}, {"If-Match: 1, 2"}, {`If-Match: W/"1"`}, {"If-Match: 1"}, {`If-Match: "2"`}} {
		r.do(planner, "POST "+in+"/state", set, version...)
	}
	for _, body := range append(badBodies()[:4], `{"patches":{}}`, `{"patches":[{"op":"move","path":"a"}]}`, `{"patches":[{"op":"set","path":"a"}]}`, `{"patches":[{"op":"set","path":"/progress/a","value":1}]}`, `{"patches":[{"op":"set","path":"`+strings.Repeat("/a", 33)+`","value":1}]}`,
		`{"state":[]}`, `{"state":null}`, `{"patches":[],"colour":1}`, `{"state":{"progress":2}}`) {
		r.do(planner, "POST "+in+"/state", body, "If-Match: 3")
	}
	r.do(desk, "POST /v1/intents/"+r.secret+"/state", set, "If-Match: 1")
	r.do(planner, "POST /v1/intents/"+r.secret+"/state", set, "If-Match: 1")
	r.do(planner, "POST /v1/intents/x/state", set)

	for _, body := range []string{"", `{}`, `{"status":"bad"}`, `{"status":1}`, `{"status":"active","reason":"` + strings.Repeat("a", 4097) + `"}`, `{"status":"active","reason":"begun"}`, `{"status":"blocked"}`} {
		r.do(planner, "POST "+in+"/status", body, "If-Match: 4")
	}
	r.do(planner, "POST "+in+"/status", `{"status":"active"}`, "If-Match: 5")
	r.do(planner, "POST "+in+"/status", `{"status":"active"}`)
	r.do(desk, "POST /v1/intents/"+r.secret+"/status", `{"status":"active"}`, "If-Match: 1")

	trace := strings.Repeat("0af", 10) + "00"
	for _, body := range []string{"", `{}`, `{"event_type":"Comment"}`, `{"event_type":"status_changed"}`, `{"event_type":"comment","payload":[]}`, `{"event_type":"comment","actor":"reviewer"}`, `{"event_type":"comment","trace_id":"x"}`, `{"event_type":"comment","parent_event_id":"` + strings.Repeat("a", 129) + `"}`,
		`{"event_type":"comment","payload":{"text":"so far"},"trace_id":"` + trace + `","parent_event_id":"none","actor":"planner","colour":1}`, `{"event_type":"comment","payload":null}`} {
		r.do(planner, "POST "+in+"/events", body)
	}
	r.do(Operator, "POST "+in+"/events", `{"event_type":"comment","actor":"desk"}`)
	r.do(desk, "POST /v1/intents/"+r.secret+"/events", `{"event_type":"comment"}`)
	r.do(planner, "POST /v1/intents/x/events", `{"event_type":"comment"}`)
	for _, query := range []string{"", "?limit=2", "?limit=2&offset=1", "?limit=0", "?offset=x", "?event_type=comment", "?event_type=none", "?trace_id=" + strings.ToUpper(trace), "?since=bad", "?since=2000-01-01T00:00:00Z&limit=1", "?since=2099-01-01T00:00:00%2B00:00", "?since=2099-01-01T00:00:00+00:00", "?since="} {
		r.do(planner, "GET "+in+"/events"+query, "")
	}
	r.do(planner, "GET /v1/intents/"+r.secret+"/events", "")
	r.do(planner, "GET "+in+"/events/verify", "")
	r.do(planner, "GET /v1/intents/x/events/verify", "")
	r.do(planner, "GET "+in+"/events/x", "")
}

func scriptAccess(r *recorder) {
	in, secret := "/v1/intents/"+r.work, "/v1/intents/"+r.secret
	for _, body := range []string{"", `{}`, `{"agent_id":"a b"}`, `{"agent_id":"desk","home":"attic"}`, `{"agent_id":"desk@attic"}`, `{"agent_id":"desk","role":7}`, `{"agent_id":"desk","colour":1}`, `{"agent_id":"desk","role":"tester"}`, `{"agent_id":"guest","home":"` + near + `"}`, `{"agent_id":"planner","role":"coordinator"}`} {
		r.do(planner, "POST "+in+"/agents", body)
	}
	r.do(desk, "POST "+in+"/agents", `{"agent_id":"desk","role":"coordinator"}`)
	r.do(desk, "POST "+secret+"/agents", `{"agent_id":"desk"}`)
	r.do(planner, "POST "+secret+"/agents", `{"agent_id":"planner"}`)
	r.do(planner, "GET "+in+"/agents", "")
	r.do(planner, "GET "+secret+"/agents", "")
	r.do(reviewer, "DELETE "+in+"/agents/desk", "")
	r.do(planner, "DELETE "+in+"/agents/none", "")
	r.do(planner, "DELETE "+in+"/agents/guest@attic", "")
	r.do(planner, "DELETE "+in+"/agents/guest@"+near, "")
	r.do(desk, "DELETE "+in+"/agents/desk", "")
	r.do(desk, "DELETE "+in+"/agents/desk", "")

	r.do(planner, "GET "+in+"/acl", "")
	r.do(planner, "GET "+secret+"/acl", "")
	r.do(desk, "GET "+secret+"/acl", "")
	for _, body := range []string{"", `{}`, `{"default_policy":"none"}`, `{"default_policy":"open","policy":"closed"}`, `{"default_policy":"closed","colour":1}`, `{"default_policy":"closed","entries":[{"principal_id":"a b"}]}`, `{"default_policy":"closed","entries":[{"principal_id":"desk","permission":"all"}]}`, `{"default_policy":"closed","entries":{}}`,
		`{"intent_id":"x","default_policy":"closed","policy":"restricted","entries":[{"principal_id":"desk","permission":"read","reason":"asked","expires_at":"2001-01-01T00:00:00Z"}]}`, `{"default_policy":"closed","entries":[{"principal_id":"desk"},{"principal_id":"tester","principal_type":"role","permission":"write"}]}`} {
		r.do(reviewer, "PUT "+secret+"/acl", body)
	}
	r.do(desk, "PUT "+secret+"/acl", `{"default_policy":"open"}`)
	r.do(planner, "PUT "+secret+"/acl", `{"default_policy":"open"}`)
	for _, body := range []string{"", `{}`, `{"principal_id":"x","principal_type":"robot"}`, `{"principal_id":"x","permissions":"read"}`, `{"principal_id":"x","expires_at":"soon"}`, `{"principal_id":"x","home":"attic"}`} {
		r.do(reviewer, "POST "+secret+"/acl/entries", body)
	}
	entry := r.do(reviewer, "POST "+secret+"/acl/entries", `{"principal_id":"guest","home":"`+near+`","permission":"write","expires_at":"2001-01-01T00:00:00.5+01:00"}`).id()
	r.do(desk, "POST "+secret+"/acl/entries", `{"principal_id":"desk","permission":"admin"}`)
	r.do(planner, "POST "+secret+"/acl/entries", `{"principal_id":"planner"}`)
	r.do(at(near, "guest"), "GET "+secret, "")
	r.do(desk, "DELETE "+secret+"/acl/entries/"+entry, "")
	r.do(reviewer, "DELETE "+secret+"/acl/entries/x", "")
	r.do(reviewer, "DELETE "+secret+"/acl/entries/"+entry, "")
	r.do(at(near, "guest"), "GET "+secret, "")
	r.do(at(near, "planner"), "GET "+in, "") // an id that somebody here has
	r.do(at(full, "guest"), "GET "+in, "")
	r.do(at(near, "guest"), "GET "+in, "")

	r.do(planner, "GET "+in+"/homes", "")
	r.do(planner, "GET "+secret+"/homes", "")
	r.do(desk, "DELETE "+in+"/homes/guest", "")
	r.do(planner, "DELETE "+in+"/homes/none", "")
	r.do(planner, "DELETE "+secret+"/homes/guest", "")
	r.do(planner, "DELETE "+in+"/homes/guest@"+near, "")
	r.do(planner, "DELETE "+in+"/homes/guest", "")
}

func scriptTasks(r *recorder) {
	for _, body := range append(badBodies()[:4], `{}`, `{"intent_id":"x"}`, `{"name":"a"}`, `{"intent_id":"x","name":"a"}`, `{"intent_id":"`+r.secret+`","name":"a"}`, `{"intent_id":"`+r.work+`","name":"a","status":"bad"}`, `{"intent_id":"`+r.work+`","name":"a","assigned_agent":"a b"}`,
		`{"intent_id":"`+r.work+`","name":"a","input":[]}`, `{"intent_id":"`+r.work+`","name":"a","depends_on":{}}`, `{"intent_id":"`+r.work+`","name":"a","description":"`+strings.Repeat("a", 64<<10)+`"}`) {
		r.do(planner, "POST /v1/tasks", body)
	}
	r.do(desk, "POST /v1/tasks", `{"intent_id":"`+r.secret+`","name":"a"}`)
	r.task = r.do(planner, "POST /v1/tasks", `{"id":"mine","intent_id":"`+r.work+`","name":"dig","input":{"where":"here"},"assigned_agent":"desk","retry_policy":{"max":3},"depends_on":["x"],"colour":"red"}`).id()
	r.do(at(near, "guest"), "POST /v1/tasks", `{"intent_id":"`+r.work+`","name":"help","status":"ready"}`)
	task := "/v1/tasks/" + r.task
	r.do(desk, "GET "+task, "")
	r.do(desk, "GET /v1/tasks/x", "")
	for _, version := range [][]string{nil, {"If-Match: x"}, {"If-Match: 2"}, {"If-Match: 1"}} {
		r.do(planner, "PATCH "+task, `{"status":"running","id":"x","version":9,"created_at":null}`, version...)
	}
	for _, body := range append(badBodies()[:4], `{"status":"bad"}`, `{"name":""}`, `{"name":7}`, `{"input":"x"}`, `{"output":{"depth":2},"artifacts":["a"]}`) {
		r.do(planner, "PATCH "+task, body, "If-Match: 2")
	}
	r.do(planner, "PATCH /v1/tasks/x", `{"status":"ready"}`, "If-Match: 1")
	in := "/v1/intents/" + r.work
	for _, query := range []string{"", "?status=running", "?status=bad", "?limit=1&offset=1", "?limit=0", "?offset=x"} {
		r.do(planner, "GET "+in+"/tasks"+query, "")
	}
	r.do(planner, "GET /v1/intents/"+r.secret+"/tasks", "")

	for _, body := range []string{"", `{}`, `{"intent_id":"x"}`, `{"intent_id":"` + r.work + `","agent_id":"a b"}`, `{"intent_id":"` + r.work + `","coordinator_type":"bad"}`, `{"intent_id":"` + r.work + `","heartbeat_interval_seconds":0}`, `{"intent_id":"` + r.work + `","metadata":[]}`, `{"intent_id":"` + r.work + `","heartbeat_interval_seconds":"x"}`} {
		r.do(planner, "POST /v1/coordinators", body)
	}
	r.do(desk, "POST /v1/coordinators", `{"intent_id":"`+r.work+`"}`)
	lease := "/v1/coordinators/" + r.do(planner, "POST /v1/coordinators", `{"intent_id":"`+r.work+`","agent_id":"reviewer","heartbeat_interval_seconds":1,"metadata":{"a":1}}`).id()
	r.do(planner, "GET "+lease, "")
	r.do(planner, "GET /v1/coordinators/x", "")
	r.do(planner, "POST "+lease+"/heartbeat", "")
	r.do(reviewer, "POST "+lease+"/heartbeat", "")
	r.do(reviewer, "POST "+lease+"/heartbeat", "not json")
	r.do(reviewer, "POST /v1/coordinators/x/heartbeat", "{}")
	time.Sleep(3 * time.Second)
	r.do(reviewer, "POST "+lease+"/heartbeat", "{}")
	r.do(planner, "GET "+lease, "")
	for _, query := range []string{"", "?limit=0", "?offset=1", "?limit=x"} {
		r.do(planner, "GET "+in+"/coordinators"+query, "")
	}
	r.do(planner, "GET /v1/intents/x/coordinators", "")
}

func scriptAgents(r *recorder) {
	for _, body := range append(badBodies()[:6], `{"agent_id":"a b"}`, `{"agent_id":"system"}`, `{"agent_id":"planner","role_id":"a b"}`, `{"agent_id":"planner","name":7}`, `{"agent_id":"planner","endpoint":7}`, `{"agent_id":"planner","public_key":"x"}`, `{"agent_id":"planner","capacity":[]}`, `{"agent_id":"planner","metadata":"x"}`,
		`{"agent_id":"planner","heartbeat_config":{}}`, `{"agent_id":"planner","capabilities":"x"}`, `{"agent_id":"planner","metadata":{"a":"`+strings.Repeat("a", 32<<10)+`"}}`) {
		r.do(planner, "POST /v1/agents", body)
	}
	r.do(planner, "POST /v1/agents/register", "")
	r.do(planner, "POST /v1/agents/register", `{"agent_id":"a b"}`)
	r.do(planner, "POST /v1/agents/register", `{"agent_id":"planner","role_id":"lead","name":"Plan","capabilities":["plan"],"endpoint":"http://localhost/","metadata":{"a":[1,2]},"colour":1}`)
	r.do(planner, "POST /v1/agents/register", `{}`)
	r.do(reviewer, "POST /v1/agents", `{"role_id":"tester","heartbeat_config":{"interval_seconds":1,"unhealthy_after_seconds":86400,"dead_after_seconds":172800}}`)
	r.do(Operator, "POST /v1/agents", `{"agent_id":"helper","role_id":"tester","heartbeat_config":{"interval_seconds":1,"unhealthy_after_seconds":5,"dead_after_seconds":10}}`)
	r.do(Operator, "POST /v1/agents", `{}`)
	r.do(planner, "POST /v1/agents", `{"agent_id":"reviewer"}`)
	r.do(at(near, "guest"), "POST /v1/agents", `{"agent_id":"guest"}`)
	for _, query := range []string{"", "?limit=1", "?limit=1&offset=1", "?limit=0", "?offset=x", "?status=active", "?status=bad", "?role_id=tester", "?role_id=none"} {
		r.do(planner, "GET /v1/agents"+query, "")
	}
	r.do(Operator, "GET /v1/agents", "")
	r.do(at(near, "guest"), "GET /v1/agents?limit=1", "")
	r.do(at(full, "guest"), "GET /v1/agents", "")
	for _, path := range []string{"/v1/agents/planner", "/v1/agents/planner/record", "/v1/agents/guest", "/v1/agents/guest@" + near, "/v1/agents/none", "/v1/agents/none/record"} {
		r.do(desk, "GET "+path, "")
	}
	r.do(at(near, "guest"), "GET /v1/agents/planner", "")
	r.do(at(full, "guest"), "GET /v1/agents/planner", "")
	for _, body := range []string{"", `{}`, `{"status":"bad"}`, `{"status":"draining","reason":"` + strings.Repeat("a", 4097) + `"}`, `{"status":"draining"}`, `{"status":"active","reason":"back"}`} {
		r.do(planner, "PATCH /v1/agents/planner/status", body)
	}
	r.do(planner, "PATCH /v1/agents/reviewer/status", `{"status":"dead"}`)
	r.do(planner, "PATCH /v1/agents/none/status", `{"status":"dead"}`)
	r.do(Operator, "PATCH /v1/agents/reviewer/status", `{"status":"unhealthy"}`)
	r.do(planner, "POST /v1/agents/planner/heartbeat", "")
	r.do(planner, "POST /v1/agents/planner/heartbeat", "not json")
	r.do(planner, "POST /v1/agents/reviewer/heartbeat", "{}")
	r.do(planner, "POST /v1/agents/none/heartbeat", "{}")
	r.do(Operator, "POST /v1/agents/helper/heartbeat", "{}")
	time.Sleep(6 * time.Second)
	r.do(planner, "GET /v1/agents/helper", "")
	time.Sleep(6 * time.Second)
	r.do(Operator, "POST /v1/agents/helper/heartbeat", "{}")
	r.do(planner, "DELETE /v1/agents/helper", "")
	r.do(planner, "DELETE /v1/agents/none", "")
	r.do(Operator, "DELETE /v1/agents/helper", "{}")
	r.do(Operator, "DELETE /v1/agents/helper", "")
	r.do(Operator, "PATCH /v1/agents/helper/status", `{"status":"active"}`)
	for _, query := range []string{"?after=3&limit=2", "", "?limit=0", "?after=x", "?after=-1"} {
		r.do(planner, "GET /v1/unsent"+query, "")
	}
	r.do(Operator, "GET /v1/unsent", "")
	r.do(at(near, "guest"), "GET /v1/unsent", "")
}

// scriptHomes is about what is for daemons.
func scriptHomes(r *recorder) {
	home := at(near, "system")
	visitor := at(near, "visitor")
	for _, record := range []string{"x", `{"status":"active","role_id":"tester","name":"Guest"}`} {
		r.do(caller{visitor.door, append(slices.Clone(visitor.headers), "X-Agent-Record: "+record)}, "GET /v1/agents/visitor", "")
	}
	r.do(home, "GET /api/v1/agents/planner", "")
	r.do(home, "GET /v1/intents/"+r.work, "")
	for _, body := range append(badBodies()[:4], `{}`, `{"agents":"x"}`, `{"agents":["planner","helper","none"]}`, `{"agents":["`+strings.Repeat(`x","`, 1000)+`x"]}`) {
		r.do(home, "POST /v1/departed", body)
	}
	guest := at(near, "guest")
	r.do(caller{guest.door, append(slices.Clone(guest.headers), `X-Agent-Record: {"status":"deregistered"}`)}, "GET /v1/agents/visitor", "")
	r.do(planner, "GET /v1/channels/"+r.club, "")
	r.do(home, "GET /v1/nothing", "")
}

// scriptEnds is about what is closed or over.
func scriptEnds(r *recorder) {
	in, club, talk := "/v1/intents/"+r.work, "/v1/channels/"+r.club, "/v1/channels/"+r.talk
	brief := "/v1/channels/" + r.do(planner, "POST "+in+"/channels", `{"name":"brief","options":{"ttl_seconds":2}}`).id()
	r.do(planner, "POST "+brief+"/messages", `{"payload":{}}`)
	time.Sleep(3 * time.Second)
	r.do(planner, "GET "+brief, "")
	r.do(planner, "POST "+brief+"/messages", `{"payload":{}}`)

	request := club + "/messages/" + r.do(planner, "POST "+club+"/messages", `{"to":"reviewer","message_type":"request","payload":{}}`, "Idempotency-Key: last").id()
	r.do(desk, "PATCH "+club, `{"status":"closed"}`)
	r.do(planner, "PATCH "+club, `{"status":"closed"}`)
	r.do(planner, "PATCH "+club, `{"status":"closed"}`)
	r.do(planner, "PATCH "+club, `{"status":"open"}`)
	r.do(planner, "PATCH "+club, `{"add_members":["desk"]}`)
	r.do(planner, "POST "+club+"/messages", `{"payload":{}}`)
	r.do(planner, "POST "+club+"/messages", `{"to":"reviewer","message_type":"request","payload":{}}`, "Idempotency-Key: last")
	r.do(planner, "POST "+club+"/ask", `{"to":"reviewer","payload":{},"timeout":1}`)
	r.do(reviewer, "POST "+request+"/reply", `{"payload":{}}`)
	r.do(reviewer, "PATCH "+request, `{"status":"read"}`)
	r.do(reviewer, "GET "+request, "")
	r.do(reviewer, "GET "+club+"/messages?status=expired&wait=5", "")
	r.do(planner, "GET "+in+"/channels", "")
	stream := r.open(reviewer, "GET /v1/subscribe/channels/"+r.club)
	r.do(desk, "DELETE "+club, "")
	r.do(planner, "DELETE "+club, "")
	r.do(planner, "DELETE "+club, "")
	stream.tells()
	for _, line := range []string{"GET " + club, "GET " + club + "/messages", "GET " + request, "GET " + club + "/subscribe"} {
		r.do(planner, line, "")
	}
	r.do(planner, "POST "+club+"/messages", `{"payload":{}}`)
	r.do(planner, "POST "+club+"/messages", `{"to":"reviewer","message_type":"request","payload":{}}`, "Idempotency-Key: last")

	task := "/v1/tasks/" + r.task
	r.do(planner, "PATCH "+task, `{"status":"completed"}`, "If-Match: 3")
	r.do(planner, "PATCH "+task, `{"status":"ready"}`, "If-Match: 4")
	r.do(planner, "POST "+in+"/channels", `{"name":"too late","task_id":"`+r.task+`"}`)
	r.do(planner, "POST "+in+"/channels/of%20the%20task/messages", `{"payload":{}}`)

	r.do(planner, "POST "+in+"/status", `{"status":"completed"}`, "If-Match: 5")
	r.do(planner, "POST "+in+"/status", `{"status":"active"}`, "If-Match: 6")
	r.do(planner, "POST "+in+"/state", `{"state":{"a":1}}`, "If-Match: 6")
	r.do(planner, "POST "+in+"/channels", `{"name":"too late"}`)
	r.do(planner, "POST "+in+"/channels/late/messages", `{"payload":{}}`)
	r.do(planner, "POST "+talk+"/messages", `{"payload":{}}`)
	r.do(planner, "POST "+in+"/agents", `{"agent_id":"desk"}`)
	r.do(planner, "POST /v1/tasks", `{"intent_id":"`+r.work+`","name":"a"}`)
	r.do(planner, "POST /v1/coordinators", `{"intent_id":"`+r.work+`"}`)
	r.do(planner, "POST "+in+"/events", `{"event_type":"comment"}`)
	r.do(planner, "GET "+in+"/events/verify", "")
	r.do(planner, "GET "+in, "")
	r.do(planner, "DELETE "+talk, "")
}

// scriptElsewhere asks for things of another host: for each path that has such a thing first,
// and then with what changes how it is passed on.
func scriptElsewhere(r *recorder) {
	for _, op := range r.ops {
		i := strings.IndexByte(op.path, '{')
		if i < 0 {
			continue
		}
		name, _, _ := strings.Cut(op.path[i+1:], "}")
		kind := map[string]string{"intent": "intent", "channel": "chan", "task": "task", "coordinator": "coord", "agent": "evt"}[name]
		path := strings.Replace(op.path, "{"+name+"}", elsewhere(kind), 1)
		body := ""
		if op.method != "GET" && op.method != "DELETE" {
			body = `{"to":"reviewer","payload":{}}`
		}
		r.do(planner, op.method+" "+strings.NewReplacer("{", "", "}", "").Replace(path), body)
	}
	in, ch := "/v1/intents/"+elsewhere("intent"), "/v1/channels/"+elsewhere("chan")
	r.do(Operator, "GET "+in+"?x=1", "")
	r.do(at(near, "guest"), "GET "+in, "")
	r.do(planner, "GET "+ch+"/messages?wait=5", "")
	r.do(planner, "GET "+ch+"/messages?wait=x", "")
	r.do(planner, "POST "+in+"/state", "not json")
	r.do(planner, "POST "+in+"/state", "")
	r.do(planner, "POST "+ch+"/messages", "not json")
	r.do(planner, "POST "+ch+"/messages", `{"payload":{},"sender":"desk"}`)
	r.do(Operator, "POST "+ch+"/messages", `{"payload":{}}`)
	r.do(Operator, "POST "+ch+"/messages", `{"payload":{},"sender":"desk"}`)
	r.do(planner, "POST "+ch+"/messages", `{"payload":{},"metadata":{"a":1},"expires_at":"2099-01-01T00:00:00Z"}`, "Idempotency-Key: far")
	r.do(planner, "POST "+ch+"/ask", `{"to":"reviewer","payload":{},"timeout":7.5}`)
	r.do(planner, "POST "+ch+"/ask", `{"to":"reviewer","payload":{},"timeout":-1}`)
	r.do(planner, "POST /v1/channels/talk/messages", `{"payload":{},"intent_id":"`+elsewhere("intent")+`"}`)
	r.do(planner, "POST /v1/tasks", `{"name":"a","intent_id":"`+elsewhere("intent")+`"}`)
	r.do(planner, "POST /v1/coordinators", `{"intent_id":"`+elsewhere("intent")+`"}`)
	r.do(nobody, "GET "+in, "")
	r.do(planner, "GET "+in+"/nothing", "")
}
