package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// route is one line of the API's table, which is also its description.
type route struct {
	method, path string
	does         string
	host         func(*request) (id string, err error) // reads the id that names the host that answers; nil: this daemon answers
	class        openintent.RequestClass               // of the request on its way to another host
	handler      handler
	in, out      any      // zero values of the bodies; may be nil
	query        []string // names of parameters
	status       int      // of success
	room         int      // bytes by which the answer may be longer than the request, if more than AnswerRoom
	strict       bool     // the body has no members but those of in: a mistyped name must not grant what its absence grants
	public       bool     // needs no caller
	stream       bool     // answers with an event stream
	home         bool     // is for daemons
}

type routeTable []route

// newRouteTable returns the table. Its handlers call e; nil: the table is only for the description.
func newRouteTable(e *openintent.Engine) routeTable {
	page := []string{"limit", "offset"}
	return routeTable{
		{method: "GET", path: "/.well-known/openintent.json", does: "Say what is offered and what is not", handler: getWellKnownDocument, out: wellKnown{}, status: 200, public: true},
		{method: "GET", path: "/openapi.json", does: "Describe the API", handler: getOpenAPIDocument, out: map[string]any{}, status: 200, public: true},

		{method: "POST", path: "intents", does: "Create an intent", handler: newBodyHandler(e.CreateIntent), in: object.CreateIntent{}, out: object.Intent{}, status: 201},
		{method: "GET", path: "intents", does: "List intents, the newest first", handler: listIntents, out: object.IntentList{}, query: append([]string{"status"}, page...), status: 200},
		{method: "GET", path: "intents/{intent}", does: "Get an intent", handler: newIDHandler(e.GetIntent), out: object.Intent{}, status: 200, host: getPathID, class: openintent.OwnRequest},
		{method: "POST", path: "intents/{intent}/state", does: "Change an intent's state; If-Match names its version", handler: newVersionedChangeHandler(e.PatchState), in: object.StatePatch{}, out: object.Intent{}, status: 200, host: getPathID, room: object.MaxIntent},
		{method: "POST", path: "intents/{intent}/status", does: "Change an intent's status; If-Match names its version", handler: newVersionedChangeHandler(e.SetIntentStatus), in: object.StatusChange{}, out: object.Intent{}, status: 200, host: getPathID, room: object.MaxIntent},
		{method: "GET", path: "intents/{intent}/events", does: "List the log, the newest first", handler: listEvents, out: []chain.Event{}, query: append([]string{"event_type", "since", "trace_id"}, page...), status: 200, host: getPathID},
		{method: "POST", path: "intents/{intent}/events", does: "Log an event", handler: newIDAndBodyHandler(e.LogEvent), in: object.PostEvent{}, out: chain.Event{}, status: 201, host: getPathID},
		{method: "GET", path: "intents/{intent}/events/verify", does: "Recompute the log's hash chain", handler: newIDHandler(e.VerifyEvents), out: object.ChainVerification{}, status: 200, host: getPathID},
		{method: "GET", path: "intents/{intent}/agents", does: "List assignments", handler: newIDHandler(e.ListAssignments), out: []object.Assignment{}, status: 200, host: getPathID},
		{method: "POST", path: "intents/{intent}/agents", does: "Assign an agent", handler: newIDAndBodyHandler(e.AssignAgent), in: object.Assign{}, out: object.Assignment{}, status: 201, host: getPathID},
		{method: "DELETE", path: "intents/{intent}/agents/{agent}", does: "Take an assignment back", handler: newIDPairHandler(e.UnassignAgent), status: 204, host: getPathID},
		{method: "GET", path: "intents/{intent}/acl", does: "Get the access list", handler: newIDHandler(e.GetACL), out: object.ACL{}, status: 200, host: getPathID},
		{method: "PUT", path: "intents/{intent}/acl", does: "Replace the access list", handler: newIDAndBodyHandler(e.SetACL), strict: true, in: object.SetACL{}, out: object.ACL{}, status: 200, host: getPathID},
		{method: "POST", path: "intents/{intent}/acl/entries", does: "Grant access", handler: newIDAndBodyHandler(e.GrantAccess), strict: true, in: object.GrantEntry{}, out: object.Entry{}, status: 201, host: getPathID},
		{method: "DELETE", path: "intents/{intent}/acl/entries/{entry}", does: "Revoke access", handler: newIDPairHandler(e.RevokeAccess), status: 204, host: getPathID},
		{method: "GET", path: "intents/{intent}/homes", does: "List which daemon speaks for which agent", handler: newIDHandler(e.ListIntentUsers), out: []object.Home{}, status: 200, host: getPathID},
		{method: "DELETE", path: "intents/{intent}/homes/{agent}", does: "Free an agent id for another daemon", handler: newIDPairHandler(e.ForgetIntentUser), status: 204, host: getPathID},
		{method: "GET", path: "intents/{intent}/tasks", does: "List tasks", handler: listTasks, out: []object.Task{}, query: append([]string{"status"}, page...), status: 200, host: getPathID},
		{method: "GET", path: "intents/{intent}/coordinators", does: "List coordinators", handler: listCoordinators, out: []object.Coordinator{}, query: page, status: 200, host: getPathID},
		{method: "GET", path: "intents/{intent}/channels", does: "List channels, the open ones first", handler: listChannels, out: []object.Channel{}, query: page, status: 200, host: getPathID, class: openintent.OwnListRequest},
		{method: "POST", path: "intents/{intent}/channels", does: "Create a channel", handler: newIDAndBodyHandler(e.CreateChannel), in: object.CreateChannel{}, out: object.Channel{}, status: 201, host: getPathID, class: openintent.OwnRequest},
		{method: "POST", path: "intents/{intent}/channels/{name}/messages", does: "Send to a channel by its name; create it if it does not exist", handler: sendToNamedChannel, in: object.SendMessage{}, out: Message{}, status: 201, host: decodeNamedMessageForRouting},
		{method: "GET", path: "intents/{intent}/subscribe", does: "Follow an intent; event names in capitals", handler: newStreamHandler(e.StreamIntent), status: 200, host: getPathID, stream: true},

		{method: "GET", path: "channels/{channel}", does: "Get a channel", handler: newIDHandler(e.GetChannel), out: object.Channel{}, status: 200, host: getPathID, class: openintent.OwnRequest},
		{method: "PATCH", path: "channels/{channel}", does: "Change a channel", handler: newIDAndBodyHandler(e.PatchChannel), in: object.PatchChannel{}, out: object.Channel{}, status: 200, host: getPathID, class: openintent.OwnRequest},
		{method: "DELETE", path: "channels/{channel}", does: "Close and delete a channel", handler: newIDHandler(e.DeleteChannel), out: object.ClosedChannel{}, status: 200, host: getPathID, class: openintent.OwnRequest},
		{method: "POST", path: "channels/{channel}/messages", does: "Send a message", handler: sendMessage, in: object.SendMessage{}, out: Message{}, status: 201, host: decodeMessageForRouting},
		{method: "GET", path: "channels/{channel}/messages", does: "List messages", handler: listMessages, out: []Message{}, query: []string{"since", "to", "types", "status", "limit", "wait"}, status: 200, host: getPathID, class: openintent.MessageListRequest},
		{method: "GET", path: "channels/{channel}/messages/{message}", does: "Get a message", handler: getMessage, out: Message{}, status: 200, host: getPathID, class: openintent.MessageRequest},
		{method: "PATCH", path: "channels/{channel}/messages/{message}", does: "Mark a message as read", handler: newDecodingHandler(setMessageStatus), in: object.StatusChange{}, out: Message{}, status: 200, host: getPathID},
		{method: "POST", path: "channels/{channel}/messages/{message}/reply", does: "Respond to a request", handler: replyToRequest, in: object.SendMessage{}, out: Message{}, status: 201, host: decodeReplyForRouting},
		{method: "POST", path: "channels/{channel}/ask", does: "Send a request and wait for its responses", handler: newDecodingHandler(askForResponses), in: object.AskMessage{}, out: Message{}, status: 200, host: decodeAskForRouting, class: openintent.AskRequest},
		{method: "GET", path: "unsent", does: "List what of the caller's messages waits for its host, or was refused by it", handler: listUnsent, out: []unsent{}, query: []string{"limit", "after"}, status: 200},

		{method: "POST", path: "agents", does: "Register an agent", handler: newDecodingHandler(registerAgent), in: object.Register{}, out: object.Agent{}, status: 201},
		{method: "POST", path: "agents/register", does: "Register an agent", handler: newDecodingHandler(registerAgent), in: object.Register{}, out: object.Agent{}, status: 201},
		{method: "GET", path: "agents", does: "List agents", handler: listAgents, out: []object.Agent{}, query: append([]string{"status", "role_id"}, page...), status: 200},
		{method: "GET", path: "agents/{agent}", does: "Get an agent's record", handler: newIDHandler(e.GetAgent), out: object.Agent{}, status: 200},
		{method: "DELETE", path: "agents/{agent}", does: "Deregister an agent", handler: newIDHandler(e.DeregisterAgent), out: object.Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/record", does: "Get an agent's record", handler: newIDHandler(e.GetAgent), out: object.Agent{}, status: 200},
		{method: "PATCH", path: "agents/{agent}/status", does: "Change an agent's status", handler: newIDAndBodyHandler(e.SetAgentStatus), in: object.StatusChange{}, out: object.Agent{}, status: 200},
		{method: "POST", path: "agents/{agent}/heartbeat", does: "Say that an agent lives", handler: newIDHandler(e.RecordAgentHeartbeat), in: map[string]any{}, out: object.Agent{}, status: 200},
		{method: "GET", path: "agents/{agent}/subscribe", does: "Follow what concerns an agent; event names in capitals", handler: newStreamHandler(e.StreamAgent), status: 200, stream: true},

		{method: "POST", path: "tasks", does: "Create a task", handler: newBodyHandler(e.CreateTask), host: decodeTaskForRouting, in: object.Task{}, out: object.Task{}, status: 201},
		{method: "GET", path: "tasks/{task}", does: "Get a task", handler: newIDHandler(e.GetTask), out: object.Task{}, status: 200, host: getPathID},
		{method: "PATCH", path: "tasks/{task}", does: "Change a task; If-Match names its version", handler: patchTask, in: object.Task{}, out: object.Task{}, status: 200, host: getPathID},
		{method: "POST", path: "coordinators", does: "Appoint a coordinator", handler: newBodyHandler(e.AppointCoordinator), host: decodeAppointmentForRouting, in: object.Appoint{}, out: object.Coordinator{}, status: 201},
		{method: "GET", path: "coordinators/{coordinator}", does: "Get a coordinator", handler: newIDHandler(e.GetCoordinator), out: object.Coordinator{}, status: 200, host: getPathID},
		{method: "POST", path: "coordinators/{coordinator}/heartbeat", does: "Say that a coordinator lives", handler: newIDHandler(e.RecordCoordinatorHeartbeat), in: map[string]any{}, out: object.Coordinator{}, status: 200, host: getPathID},

		{method: "GET", path: "subscribe/intents/{intent}", does: "Follow an intent", handler: newStreamHandler(e.StreamIntent), status: 200, host: getPathID, stream: true},
		{method: "GET", path: "subscribe/channels/{channel}", does: "Follow a channel", handler: newStreamHandler(e.StreamChannel), status: 200, host: getPathID, stream: true},
		{method: "GET", path: "subscribe/agents/{agent}", does: "Follow what concerns an agent", handler: newStreamHandler(e.StreamAgent), status: 200, stream: true},
		{method: "POST", path: "departed", does: "Tell the status and role of agents of this daemon", handler: newDecodingHandler(listAgentStates), in: object.ListOf{}, out: object.AgentStates{}, status: 200, home: true},
		{method: "GET", path: "missed", does: "List what a stream of the caller, or of an intent or channel, has missed", handler: listMissedEntries, out: map[string]any{}, query: []string{"after", "intent", "channel"}, status: 200},
		{method: "GET", path: "subscribe/home", does: "Follow what concerns the agents of another daemon", handler: streamHomeEvents, status: 200, stream: true, home: true},
		{method: "GET", path: "channels/{channel}/subscribe", does: "Follow a channel; event names in capitals", handler: newStreamHandler(e.StreamChannel), status: 200, host: getPathID, stream: true},
	}
}

// findRoute returns the route of a request and its arguments. An [http.ServeMux] would clean
// and redirect paths, decode their literal parts and answer HEAD.
func (t routeTable) findRoute(r *http.Request) (*route, []string, *object.Error) {
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
		args, ok := t[i].matchPath(parts)
		switch method := t[i].method; {
		case !ok || slices.Contains(allow, method):
		case method == r.Method:
			return &t[i], args, nil
		default:
			allow = append(allow, method)
		}
	}
	if allow != nil {
		methods := strings.Join(allow, ", ")
		return nil, nil, object.NewError("bad_method", "this path has %s", methods).WithMember("allow", methods)
	}
	return nil, nil, object.NewError("not_found", "there is no such path: /openapi.json lists those that there are")
}

// matchPath returns the arguments in a path with these parts, and reports whether the path is the
// route's. Parts are as they were sent: %61gents is not agents, and .. may be an argument.
func (rt *route) matchPath(parts []string) (args []string, ok bool) {
	if strings.Count(rt.path, "/") != len(parts)-1 {
		return nil, false
	}
	rest := rt.path
	for _, part := range parts {
		var want string
		want, rest, _ = strings.Cut(rest, "/")
		if !strings.HasPrefix(want, "{") {
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
