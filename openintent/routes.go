package openintent

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acpd/acpd/openintent/chain"
)

// route is one line of the API's table, which is also its description.
type route struct {
	method, path string // path: below a prefix; {x} is an argument
	does         string
	do           func(*Engine, *call) (int, any, error)
	in, out      any      // zero values of the bodies; nil: none
	query        []string // names of parameters
	status       int      // of success
	room         int      // bytes that the answer may have beyond its request's, where that is more than answerRoom
	hosted       bool     // the first argument may be the id of something on another host
	public       bool     // needs no caller
	stream       bool     // answers with an event stream
	home         bool     // is for daemons
}

type table []route

func routes() table {
	page := []string{"limit", "offset"}
	return table{
		{method: "GET", path: "/.well-known/openintent.json", does: "Say what is offered and what is not", do: (*Engine).wellKnown, out: WellKnown{}, status: 200, public: true},
		{method: "GET", path: "/openapi.json", does: "Describe the API", do: (*Engine).openAPI, out: map[string]any{}, status: 200, public: true},

		{method: "POST", path: "intents", does: "Create an intent", do: (*Engine).createIntent, in: createIntent{}, out: Intent{}, status: 201},
		{method: "GET", path: "intents", does: "List intents, the newest first", do: (*Engine).listIntents, out: intentList{}, query: append([]string{"status"}, page...), status: 200},
		{method: "GET", path: "intents/{intent}", does: "Get an intent", do: (*Engine).getIntent, out: Intent{}, status: 200, hosted: true},
		{method: "POST", path: "intents/{intent}/state", does: "Change an intent's state; If-Match names its version", do: (*Engine).patchState, in: statePatch{}, out: Intent{}, status: 200, hosted: true, room: maxIntent},
		{method: "POST", path: "intents/{intent}/status", does: "Change an intent's status; If-Match names its version", do: (*Engine).setStatus, in: statusChange{}, out: Intent{}, status: 200, hosted: true, room: maxIntent},
		{method: "GET", path: "intents/{intent}/events", does: "List the log, the newest first", do: (*Engine).listEvents, out: []chain.Event{}, query: append([]string{"event_type", "since", "trace_id"}, page...), status: 200, hosted: true},
		{method: "POST", path: "intents/{intent}/events", does: "Log an event", do: (*Engine).postEvent, in: postEvent{}, out: chain.Event{}, status: 201, hosted: true},
		{method: "GET", path: "intents/{intent}/events/verify", does: "Recompute the log's hash chain", do: (*Engine).verifyEvents, out: ChainVerification{}, status: 200, hosted: true},
		{method: "GET", path: "intents/{intent}/agents", does: "List assignments", do: (*Engine).listAssignments, out: []Assignment{}, status: 200, hosted: true},
		{method: "POST", path: "intents/{intent}/agents", does: "Assign an agent", do: (*Engine).assignAgent, in: assign{}, out: Assignment{}, status: 201, hosted: true},
		{method: "DELETE", path: "intents/{intent}/agents/{agent}", does: "Take an assignment back", do: (*Engine).unassignAgent, status: 204, hosted: true},
		{method: "GET", path: "intents/{intent}/acl", does: "Get the access list", do: (*Engine).getACL, out: ACL{}, status: 200, hosted: true},
		{method: "PUT", path: "intents/{intent}/acl", does: "Replace the access list", do: (*Engine).putACL, in: setACL{}, out: ACL{}, status: 200, hosted: true},
		{method: "POST", path: "intents/{intent}/acl/entries", does: "Grant access", do: (*Engine).addEntry, in: grantEntry{}, out: Entry{}, status: 201, hosted: true},
		{method: "DELETE", path: "intents/{intent}/acl/entries/{entry}", does: "Revoke access", do: (*Engine).dropEntry, status: 204, hosted: true},
		{method: "GET", path: "intents/{intent}/homes", does: "List which daemon speaks for which agent", do: (*Engine).listHomes, out: []Home{}, status: 200, hosted: true},
		{method: "DELETE", path: "intents/{intent}/homes/{agent}", does: "Free an agent id for another daemon", do: (*Engine).freeHome, status: 204, hosted: true},
		{method: "GET", path: "intents/{intent}/tasks", does: "List tasks", do: (*Engine).listTasks, out: []Task{}, query: append([]string{"status"}, page...), status: 200, hosted: true},
		{method: "GET", path: "intents/{intent}/coordinators", does: "List coordinators", do: (*Engine).listCoordinators, out: []Coordinator{}, query: page, status: 200, hosted: true},
		{method: "GET", path: "intents/{intent}/channels", does: "List channels, the open ones first", do: (*Engine).listChannels, out: []Channel{}, query: page, status: 200, hosted: true},
		{method: "POST", path: "intents/{intent}/channels", does: "Create a channel", do: (*Engine).createChannel, in: createChannel{}, out: Channel{}, status: 201, hosted: true},
		{method: "POST", path: "intents/{intent}/channels/{name}/messages", does: "Send to a channel by its name; create it if there is none", do: sending((*Engine).postByName), in: sendMessage{}, out: Message{}, status: 201, hosted: true},
		{method: "GET", path: "intents/{intent}/subscribe", does: "Follow an intent; event names in capitals", do: (*Engine).streamIntent, status: 200, hosted: true, stream: true},

		{method: "GET", path: "channels/{channel}", does: "Get a channel", do: (*Engine).getChannel, out: Channel{}, status: 200, hosted: true},
		{method: "PATCH", path: "channels/{channel}", does: "Change a channel", do: (*Engine).patchChannel, in: patchChannel{}, out: Channel{}, status: 200, hosted: true},
		{method: "DELETE", path: "channels/{channel}", does: "Close and delete a channel", do: (*Engine).deleteChannel, out: closedChannel{}, status: 200, hosted: true},
		{method: "POST", path: "channels/{channel}/messages", does: "Send a message", do: sending((*Engine).postMessage), in: sendMessage{}, out: Message{}, status: 201, hosted: true},
		{method: "GET", path: "channels/{channel}/messages", does: "List messages", do: (*Engine).listMessages, out: []Message{}, query: []string{"since", "to", "types", "status", "limit", "wait"}, status: 200, hosted: true},
		{method: "GET", path: "channels/{channel}/messages/{message}", does: "Get a message", do: (*Engine).getMessage, out: Message{}, status: 200, hosted: true},
		{method: "PATCH", path: "channels/{channel}/messages/{message}", does: "Mark a message as read", do: (*Engine).markRead, in: statusChange{}, out: Message{}, status: 200, hosted: true},
		{method: "POST", path: "channels/{channel}/messages/{message}/reply", does: "Respond to a request", do: sending((*Engine).reply), in: sendMessage{}, out: Message{}, status: 201, hosted: true},
		{method: "POST", path: "channels/{channel}/ask", does: "Send a request and wait for its responses", do: (*Engine).ask, in: askMessage{}, out: Message{}, status: 200, hosted: true},
		{method: "GET", path: "unsent", does: "List what of the caller's messages waits for its host, or was refused by it", do: (*Engine).listUnsent, out: []Unsent{}, query: []string{"limit", "after"}, status: 200},

		{method: "POST", path: "agents", does: "Register an agent", do: (*Engine).registerAgent, in: register{}, out: Agent{}, status: 201},
		{method: "POST", path: "agents/register", does: "Register an agent", do: (*Engine).registerAgent, in: register{}, out: Agent{}, status: 201},
		{method: "GET", path: "agents", does: "List agents", do: (*Engine).listAgents, out: []Agent{}, query: append([]string{"status", "role_id"}, page...), status: 200},
		{method: "GET", path: "agents/{agent}", does: "Get an agent's record", do: (*Engine).getAgent, out: Agent{}, status: 200},
		{method: "DELETE", path: "agents/{agent}", does: "Deregister an agent", do: (*Engine).deregisterAgent, out: Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/record", does: "Get an agent's record", do: (*Engine).getAgent, out: Agent{}, status: 200},
		{method: "PUT", path: "agents/{agent}/record", does: "Say who an agent of another daemon is", do: (*Engine).takeRecord, in: guest{}, status: 204, home: true},
		{method: "PATCH", path: "agents/{agent}/status", does: "Change an agent's status", do: (*Engine).setAgentStatus, in: statusChange{}, out: Agent{}, status: 200},
		{method: "POST", path: "agents/{agent}/heartbeat", does: "Say that an agent lives", do: (*Engine).heartbeat, in: map[string]any{}, out: Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/subscribe", does: "Follow what concerns an agent; event names in capitals", do: (*Engine).streamAgent, status: 200, stream: true},

		{method: "POST", path: "tasks", does: "Create a task", do: (*Engine).createTask, in: Task{}, out: Task{}, status: 201},
		{method: "GET", path: "tasks/{task}", does: "Get a task", do: (*Engine).getTask, out: Task{}, status: 200, hosted: true},
		{method: "PATCH", path: "tasks/{task}", does: "Change a task; If-Match names its version", do: (*Engine).patchTask, in: Task{}, out: Task{}, status: 200, hosted: true},
		{method: "POST", path: "coordinators", does: "Appoint a coordinator", do: (*Engine).createCoordinator, in: appoint{}, out: Coordinator{}, status: 201},
		{method: "GET", path: "coordinators/{coordinator}", does: "Get a coordinator", do: (*Engine).getCoordinator, out: Coordinator{}, status: 200, hosted: true},
		{method: "POST", path: "coordinators/{coordinator}/heartbeat", does: "Say that a coordinator lives", do: (*Engine).beatCoordinator, in: map[string]any{}, out: Coordinator{}, status: 200, hosted: true},

		{method: "GET", path: "subscribe/intents/{intent}", does: "Follow an intent", do: (*Engine).streamIntent, status: 200, hosted: true, stream: true},
		{method: "GET", path: "subscribe/channels/{channel}", does: "Follow a channel", do: (*Engine).streamChannel, status: 200, hosted: true, stream: true},
		{method: "GET", path: "subscribe/agents/{agent}", does: "Follow what concerns an agent", do: (*Engine).streamAgent, status: 200, stream: true},
		{method: "POST", path: "departed", does: "Say which agents of this daemon are deregistered", do: (*Engine).listDeparted, in: listOf{}, out: listOf{}, status: 200, home: true},
		{method: "GET", path: "records", does: "Say of which agents of another daemon there are records", do: (*Engine).listRecords, out: listOf{}, status: 200, home: true},
		{method: "GET", path: "subscribe/home", does: "Follow what concerns the agents of another daemon", do: (*Engine).streamHome, status: 200, stream: true, home: true},
		{method: "GET", path: "channels/{channel}/subscribe", does: "Follow a channel; event names in capitals", do: (*Engine).streamChannel, status: 200, hosted: true, stream: true},
	}
}

// find returns the route of a request and its arguments.
func (t table) find(r *http.Request) (*route, []string, *Error) {
	path := r.URL.EscapedPath()
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(path, p); ok {
			path = rest
			break
		}
	}
	parts := strings.Split(path, "/")
	var allow []string
	for i := range t {
		rt := &t[i]
		args, ok := rt.match(path, parts)
		if !ok {
			continue
		}
		if rt.method == r.Method {
			return rt, args, nil
		}
		if !slices.Contains(allow, rt.method) {
			allow = append(allow, rt.method)
		}
	}
	if allow != nil {
		methods := strings.Join(allow, ", ")
		return nil, nil, refuse(http.StatusMethodNotAllowed, "bad_method", "this path has %s", methods).with("allow", methods)
	}
	return nil, nil, refuse(http.StatusNotFound, "not_found", "there is no such path: /openapi.json lists those that there are")
}

func (rt *route) match(path string, parts []string) ([]string, bool) {
	if rt.path == path {
		return nil, true
	}
	if rt.path[0] == '/' || strings.Count(rt.path, "/") != len(parts)-1 {
		return nil, false
	}
	var args []string
	rest := rt.path
	for _, part := range parts {
		var want string
		want, rest, _ = strings.Cut(rest, "/")
		if want[0] != '{' {
			if want != part {
				return nil, false
			}
			continue
		}
		arg, err := url.PathUnescape(part)
		if err != nil || arg == "" || len(arg) > 512 || !utf8.ValidString(arg) {
			return nil, false
		}
		args = append(args, arg)
	}
	return args, true
}
