package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/chain"
)

// route is one line of the API's table, which is also its description.
type route struct {
	method, path string // path: below a prefix; {x} is an argument
	does         string
	read         func(*request) (id string, err error) // reads a body that names its host by an id; nil: it names none
	do           handler
	in, out      any       // zero values of the bodies; nil: none
	query        []string  // names of parameters
	status       int       // of success
	room         int       // bytes that the answer may have beyond its request's, where that is more than AnswerRoom
	host         hostNamed // what says which host answers
	sends        sendsWhat
	public       bool // needs no caller
	stream       bool // answers with an event stream
	home         bool // is for daemons
}

// hostNamed says what names the host that answers a request, by an id that it has made.
type hostNamed int

const (
	hostNone   hostNamed = iota // nothing does: this daemon answers
	hostInPath                  // the first argument of the path
	hostInBody                  // the body
)

type table []route

func routes() table {
	page := []string{"limit", "offset"}
	return table{
		{method: "GET", path: "/.well-known/openintent.json", does: "Say what is offered and what is not", do: wellKnown, out: WellKnown{}, status: 200, public: true},
		{method: "GET", path: "/openapi.json", does: "Describe the API", do: describeItself, out: map[string]any{}, status: 200, public: true},

		{method: "POST", path: "intents", does: "Create an intent", do: decoded(createIntent), in: openintent.CreateIntent{}, out: openintent.Intent{}, status: 201},
		{method: "GET", path: "intents", does: "List intents, the newest first", do: listIntents, out: openintent.IntentList{}, query: append([]string{"status"}, page...), status: 200},
		{method: "GET", path: "intents/{intent}", does: "Get an intent", do: getIntent, out: openintent.Intent{}, status: 200, host: hostInPath},
		{method: "POST", path: "intents/{intent}/state", does: "Change an intent's state; If-Match names its version", do: decoded(patchState), in: openintent.StatePatch{}, out: openintent.Intent{}, status: 200, host: hostInPath, room: openintent.MaxIntent},
		{method: "POST", path: "intents/{intent}/status", does: "Change an intent's status; If-Match names its version", do: decoded(setIntentStatus), in: openintent.StatusChange{}, out: openintent.Intent{}, status: 200, host: hostInPath, room: openintent.MaxIntent},
		{method: "GET", path: "intents/{intent}/events", does: "List the log, the newest first", do: listEvents, out: []chain.Event{}, query: append([]string{"event_type", "since", "trace_id"}, page...), status: 200, host: hostInPath},
		{method: "POST", path: "intents/{intent}/events", does: "Log an event", do: decoded(logEvent), in: openintent.PostEvent{}, out: chain.Event{}, status: 201, host: hostInPath},
		{method: "GET", path: "intents/{intent}/events/verify", does: "Recompute the log's hash chain", do: verifyEvents, out: openintent.ChainVerification{}, status: 200, host: hostInPath},
		{method: "GET", path: "intents/{intent}/agents", does: "List assignments", do: listAssignments, out: []openintent.Assignment{}, status: 200, host: hostInPath},
		{method: "POST", path: "intents/{intent}/agents", does: "Assign an agent", do: decoded(assignAgent), in: openintent.Assign{}, out: openintent.Assignment{}, status: 201, host: hostInPath},
		{method: "DELETE", path: "intents/{intent}/agents/{agent}", does: "Take an assignment back", do: unassignAgent, status: 204, host: hostInPath},
		{method: "GET", path: "intents/{intent}/acl", does: "Get the access list", do: getACL, out: openintent.ACL{}, status: 200, host: hostInPath},
		{method: "PUT", path: "intents/{intent}/acl", does: "Replace the access list", do: decodedStrictly(setACL), in: openintent.SetACL{}, out: openintent.ACL{}, status: 200, host: hostInPath},
		{method: "POST", path: "intents/{intent}/acl/entries", does: "Grant access", do: decodedStrictly(grantAccess), in: openintent.GrantEntry{}, out: openintent.Entry{}, status: 201, host: hostInPath},
		{method: "DELETE", path: "intents/{intent}/acl/entries/{entry}", does: "Revoke access", do: revokeAccess, status: 204, host: hostInPath},
		{method: "GET", path: "intents/{intent}/homes", does: "List which daemon speaks for which agent", do: listHomes, out: []openintent.Home{}, status: 200, host: hostInPath},
		{method: "DELETE", path: "intents/{intent}/homes/{agent}", does: "Free an agent id for another daemon", do: freeHome, status: 204, host: hostInPath},
		{method: "GET", path: "intents/{intent}/tasks", does: "List tasks", do: listTasks, out: []openintent.Task{}, query: append([]string{"status"}, page...), status: 200, host: hostInPath},
		{method: "GET", path: "intents/{intent}/coordinators", does: "List coordinators", do: listCoordinators, out: []openintent.Coordinator{}, query: page, status: 200, host: hostInPath},
		{method: "GET", path: "intents/{intent}/channels", does: "List channels, the open ones first", do: listChannels, out: []openintent.Channel{}, query: page, status: 200, host: hostInPath},
		{method: "POST", path: "intents/{intent}/channels", does: "Create a channel", do: decoded(createChannel), in: openintent.CreateChannel{}, out: openintent.Channel{}, status: 201, host: hostInPath},
		{method: "POST", path: "intents/{intent}/channels/{name}/messages", does: "Send to a channel by its name; create it if there is none", do: sendByName, sends: sendsToName, in: openintent.SendMessage{}, out: Message{}, status: 201, host: hostInPath},
		{method: "GET", path: "intents/{intent}/subscribe", does: "Follow an intent; event names in capitals", do: streaming(streamIntent), status: 200, host: hostInPath, stream: true},

		{method: "GET", path: "channels/{channel}", does: "Get a channel", do: getChannel, out: openintent.Channel{}, status: 200, host: hostInPath},
		{method: "PATCH", path: "channels/{channel}", does: "Change a channel", do: decoded(patchChannel), in: openintent.PatchChannel{}, out: openintent.Channel{}, status: 200, host: hostInPath},
		{method: "DELETE", path: "channels/{channel}", does: "Close and delete a channel", do: deleteChannel, out: openintent.ClosedChannel{}, status: 200, host: hostInPath},
		{method: "POST", path: "channels/{channel}/messages", does: "Send a message", do: sendMessage, read: readMessage, sends: sendsToID, in: openintent.SendMessage{}, out: Message{}, status: 201, host: hostInPath},
		{method: "GET", path: "channels/{channel}/messages", does: "List messages", do: listMessages, out: []Message{}, query: []string{"since", "to", "types", "status", "limit", "wait"}, status: 200, host: hostInPath},
		{method: "GET", path: "channels/{channel}/messages/{message}", does: "Get a message", do: getMessage, out: Message{}, status: 200, host: hostInPath},
		{method: "PATCH", path: "channels/{channel}/messages/{message}", does: "Mark a message as read", do: decoded(setMessageStatus), in: openintent.StatusChange{}, out: Message{}, status: 200, host: hostInPath},
		{method: "POST", path: "channels/{channel}/messages/{message}/reply", does: "Respond to a request", do: replyToRequest, sends: sendsReply, in: openintent.SendMessage{}, out: Message{}, status: 201, host: hostInPath},
		{method: "POST", path: "channels/{channel}/ask", does: "Send a request and wait for its responses", do: decoded(askForResponses), sends: sendsAsk, in: openintent.AskMessage{}, out: Message{}, status: 200, host: hostInPath},
		{method: "GET", path: "unsent", does: "List what of the caller's messages waits for its host, or was refused by it", do: listUnsent, out: []Unsent{}, query: []string{"limit", "after"}, status: 200},

		{method: "POST", path: "agents", does: "Register an agent", do: decoded(registerAgent), in: openintent.Register{}, out: openintent.Agent{}, status: 201},
		{method: "POST", path: "agents/register", does: "Register an agent", do: decoded(registerAgent), in: openintent.Register{}, out: openintent.Agent{}, status: 201},
		{method: "GET", path: "agents", does: "List agents", do: listAgents, out: []openintent.Agent{}, query: append([]string{"status", "role_id"}, page...), status: 200},
		{method: "GET", path: "agents/{agent}", does: "Get an agent's record", do: getAgent, out: openintent.Agent{}, status: 200},
		{method: "DELETE", path: "agents/{agent}", does: "Deregister an agent", do: deregisterAgent, out: openintent.Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/record", does: "Get an agent's record", do: getAgent, out: openintent.Agent{}, status: 200},
		{method: "PUT", path: "agents/{agent}/record", does: "Say who an agent of another daemon is", do: decoded(takeRecord), in: openintent.Guest{}, status: 204, home: true},
		{method: "PATCH", path: "agents/{agent}/status", does: "Change an agent's status", do: decoded(setAgentStatus), in: openintent.StatusChange{}, out: openintent.Agent{}, status: 200},
		{method: "POST", path: "agents/{agent}/heartbeat", does: "Say that an agent lives", do: beatAgent, in: map[string]any{}, out: openintent.Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/subscribe", does: "Follow what concerns an agent; event names in capitals", do: streaming(streamAgent), status: 200, stream: true},

		{method: "POST", path: "tasks", does: "Create a task", do: createTask, read: readTask, host: hostInBody, in: openintent.Task{}, out: openintent.Task{}, status: 201},
		{method: "GET", path: "tasks/{task}", does: "Get a task", do: getTask, out: openintent.Task{}, status: 200, host: hostInPath},
		{method: "PATCH", path: "tasks/{task}", does: "Change a task; If-Match names its version", do: patchTask, in: openintent.Task{}, out: openintent.Task{}, status: 200, host: hostInPath},
		{method: "POST", path: "coordinators", does: "Appoint a coordinator", do: appointCoordinator, read: readAppointment, host: hostInBody, in: openintent.Appoint{}, out: openintent.Coordinator{}, status: 201},
		{method: "GET", path: "coordinators/{coordinator}", does: "Get a coordinator", do: getCoordinator, out: openintent.Coordinator{}, status: 200, host: hostInPath},
		{method: "POST", path: "coordinators/{coordinator}/heartbeat", does: "Say that a coordinator lives", do: beatCoordinator, in: map[string]any{}, out: openintent.Coordinator{}, status: 200, host: hostInPath},

		{method: "GET", path: "subscribe/intents/{intent}", does: "Follow an intent", do: streaming(streamIntent), status: 200, host: hostInPath, stream: true},
		{method: "GET", path: "subscribe/channels/{channel}", does: "Follow a channel", do: streaming(streamChannel), status: 200, host: hostInPath, stream: true},
		{method: "GET", path: "subscribe/agents/{agent}", does: "Follow what concerns an agent", do: streaming(streamAgent), status: 200, stream: true},
		{method: "POST", path: "departed", does: "Say which agents of this daemon are deregistered", do: decoded(listDeparted), in: openintent.ListOf{}, out: openintent.ListOf{}, status: 200, home: true},
		{method: "GET", path: "records", does: "Say of which agents of another daemon there are records", do: listRecords, out: openintent.ListOf{}, status: 200, home: true},
		{method: "GET", path: "subscribe/home", does: "Follow what concerns the agents of another daemon", do: streaming(streamHome), status: 200, stream: true, home: true},
		{method: "GET", path: "channels/{channel}/subscribe", does: "Follow a channel; event names in capitals", do: streaming(streamChannel), status: 200, host: hostInPath, stream: true},
	}
}

// find returns the route of a request and its arguments.
func (t table) find(r *http.Request) (*route, []string, *openintent.Error) {
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
		return nil, nil, openintent.Refuse("bad_method", "this path has %s", methods).With("allow", methods)
	}
	return nil, nil, openintent.Refuse("not_found", "there is no such path: /openapi.json lists those that there are")
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
