package localapi

import (
	"reflect"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// call is a row of the tables below: a method, and the types of its params and its result.
type call struct {
	name    string
	callers callers
	params  *shape // nil: it has none
	result  *shape
	summary string
}

// callers names those that may call a method of the daemon.
type callers string

const (
	owner  callers = "owner"  // on acp.sock of the state directory, where all methods may be called
	agents callers = "agents" // also on acp.sock of the agents' folder
)

// shape is a Go type as one method uses it. A payload says which one its field payload holds.
type shape struct {
	name    string // of its schema; "": that of the type
	goType  reflect.Type
	payload reflect.Type // nil: the type has no such field, or any payload may be there
	list    bool         // a list of the same may be there instead
	empty   bool         // an object without members
}

func of[T any]() *shape { return &shape{goType: reflect.TypeFor[T]()} }

// with returns the shape of a T whose payload is a P, under a name of its own.
func with[T, P any](name string) *shape {
	return &shape{name: name, goType: reflect.TypeFor[T](), payload: reflect.TypeFor[P]()}
}

func orList(s *shape) *shape { return &shape{goType: s.goType, list: true} }

var nothing = &shape{empty: true}

// daemonCalls is the local API: what programs call. TestEveryMethodIsDescribed holds it and the
// daemon's own table together.
var daemonCalls = []call{
	{client.MethodPing, agents, of[client.PingParams](), with[client.PingAnswer, kinds.Pong]("PingAnswer"), "asks a peer's daemon for a sign of life"},
	{client.MethodDiscover, agents, of[client.DiscoverParams](), with[client.Answer, kinds.Capabilities]("DiscoverAnswer"), "asks what a peer's agents can do"},
	{client.MethodQuery, agents, with[client.QueryParams, kinds.Query]("QueryParams"), with[client.Answer, kinds.Response]("QueryAnswer"), "asks a peer's agent a question, and waits for the response"},
	{client.MethodDelegate, agents, with[client.DelegateParams, kinds.Delegate]("DelegateParams"), with[client.DelegateAnswer, kinds.Ack]("DelegateAnswer"), "gives a peer's agent a task, and waits for its ack; wait waits for the end"},
	{client.MethodCancel, agents, with[client.CancelParams, kinds.Cancel]("CancelParams"), with[client.CancelAnswer, kinds.Ack]("CancelAnswer"), "asks a peer's agent to end a delegation, and waits for its ack"},
	{client.MethodAnswer, agents, with[client.AnswerParams, kinds.Response]("AnswerParams"), of[client.Answered](), "answers a question that the agent which works on a delegation has asked back"},
	{client.MethodNotify, agents, with[client.NotifyParams, kinds.Notify]("NotifyParams"), orList(of[client.Receipt]()), "sends a message to one peer or to several, and waits for the receipts; a list of peers is answered by a list"},
	{client.MethodResult, agents, with[client.ResultParams, kinds.Result]("ResultParams"), of[client.Receipt](), "sends a partial or the final result of a delegation that this daemon's agents have taken"},
	{client.MethodError, agents, with[client.ResultParams, kinds.Error]("ErrorParams"), of[client.Receipt](), "ends a delegation that this daemon's agents have taken with an error"},
	{client.MethodWhoami, agents, nil, of[client.Whoami](), "says who this daemon is"},
	{client.MethodStatus, owner, nil, of[client.Status](), "says what whoami does, and the daemon's load, attached agents, counts of messages and warnings"},
	{client.MethodBudget, owner, of[client.BudgetParams](), of[client.Budget](), "says what peers may use of the daemon, and what each uses now"},
	{client.MethodReload, owner, nil, of[client.Reloaded](), "reads config.yaml again, and says what has changed; if the file is not valid, what counted before counts on"},
	{client.MethodDrain, owner, of[client.DrainParams](), of[client.Drained](), "takes no new work, waits until what is under way has ended, and ends the daemon"},
	{client.MethodBudgetReserve, agents, of[client.ReserveParams](), of[client.Reserved](), "takes from the day's budget of a peer what a headless run may cost; overloaded if the budget does not hold it"},
	{client.MethodBudgetSettle, agents, of[client.SettleParams](), nothing, "says what a run has cost that budget.reserve has reserved"},
	{client.MethodBudgetSpent, owner, of[client.SpentParams](), of[client.Spent](), "says what headless runs have cost, and what they may cost on one day"},
	{client.MethodPeers, agents, nil, of[client.Peers](), "lists the peers: to agents the trusted ones, without addresses"},
	{client.MethodTasks, agents, of[client.TasksParams](), of[client.Tasks](), "lists delegations, given and taken, the newest first"},
	{client.MethodTask, agents, of[client.TaskParams](), of[client.Task](), "returns one delegation, with its payloads"},
	{client.MethodWait, agents, of[client.WaitParams](), of[client.Task](), "waits until a delegation is final, has more partial results than after_partials, or a question beyond the first after_questions waits for an answer"},
	{client.MethodInbox, agents, of[client.InboxParams](), of[client.Inbox](), "returns a page of the messages that the inbox holds, and removes none"},
	{client.MethodShown, agents, of[client.ShownParams](), nothing, "says that messages which inbox has returned with peek were shown: from then on ack may remove them"},
	{client.MethodAck, agents, of[client.AckParams](), of[client.Acked](), "removes messages from the inbox that inbox has returned"},
	{client.MethodInvite, owner, of[client.InviteParams](), of[client.Invitation](), "makes an invitation, which one stranger can use until it expires"},
	{client.MethodInvitations, owner, nil, of[client.Invitations](), "lists the open invitations, without their secrets"},
	{client.MethodRevoke, owner, of[client.RevokeParams](), of[client.Revoked](), "ends open invitations"},
	{client.MethodJoin, owner, of[client.JoinParams](), of[client.NamedPeer](), "uses an invitation of another daemon: afterwards the two trust each other"},
	{client.MethodTrust, owner, of[client.TrustParams](), of[client.NamedPeer](), "trusts a peer from now on, or changes its name and addresses"},
	{client.MethodTrustRoster, owner, of[client.RosterParams](), of[client.Roster](), "says what a list of peers would change; with apply, trusts all of them by one write, or none"},
	{client.MethodUntrust, owner, of[client.UntrustParams](), of[client.Untrusted](), "ends trust in a peer, closes its connections and blocks its key"},
	{client.MethodPending, owner, nil, of[client.Pending](), "lists the strangers that have called and wait for a decision"},
	{client.MethodProbe, owner, of[client.ProbeParams](), of[client.Probe](), "says what answers at each address of a trusted peer, to which it sends no message"},
	{client.MethodCertificate, owner, of[client.CertificateParams](), of[client.Certificates](), "says what this daemon shows as its certificate, or what a certificate file says, and whose certificates count"},
	{client.MethodPolicy, owner, of[client.PolicyParams](), of[client.Policy](), "says whether the configuration allows a peer to send a kind of message, and which rule decides"},
	{client.MethodAttach, agents, of[client.AttachParams](), of[client.Attached](), "makes this connection that of an agent: the daemon calls it from now on, and its calls count as the agent's"},
	{client.MethodSpeak, agents, of[client.SpeakParams](), nothing, "makes this connection call as an agent that another connection has attached"},
	{client.MethodSubscribe, owner, of[client.SubscribeParams](), nothing, "asks for copies of messages, and for events, as notifications"},
	{client.MethodTraffic, owner, of[client.TrafficParams](), of[client.TrafficAnswer](), "returns messages that have passed, when they have their outcome, and on demand the calls that are open; the first call on a connection begins to watch"},
	{client.MethodUnposted, agents, of[client.UnpostedParams](), nothing, "says that the session that calls, which has answered wake with posted, was not woken for that message after all: no turn counts for it"},
	{client.MethodSession, agents, nil, of[client.SessionState](), "says what waits for the agent that calls, and what the daemon's owner should know of it"},
	{client.MethodWakeAllow, owner, of[client.WakeAllowParams](), of[client.WakeRules](), "lets messages of a peer wake sessions; the result has the rules of that peer"},
	{client.MethodWakeList, owner, nil, of[client.WakeRules](), "lists what may wake sessions"},
	{client.MethodWakeRevoke, owner, of[client.WakeRevokeParams](), of[client.Revoked](), "takes back what wake.allow gave"},
	{client.MethodWakeAnswers, owner, of[client.WakeAnswersParams](), of[client.WakeRules](), "says whether answers to what sessions asked wake them"},
	{client.MethodApprovals, owner, nil, of[client.Approvals](), "lists the messages that wait for the owner's word before they wake a session"},
	{client.MethodApprove, owner, of[client.ApproveParams](), of[client.Approval](), "says what becomes of such a message"},
	{client.MethodAgents, owner, nil, of[client.Agents](), "lists the attached agents, and who woke those that are sessions"},
	{client.MethodWakeTest, owner, of[client.WakeTestParams](), of[client.WakeTested](), "wakes a session for the owner, to see whether that works"},
	{client.MethodWakeNotify, owner, of[client.OwnerNotifyParams](), of[client.OwnerNotify](), "returns the command that tells the owner what waits for him, and sets or tries it before"},
	{client.MethodMuteAgent, owner, of[client.MuteAgentParams](), of[client.Muted](), "keeps anything from waking a session for a time"},
	{client.MethodPipe, owner, nil, nothing, "makes the connection a pipe for packets of another daemon (docs/protocol.md): behind the answer it carries no lines any more"},
	{client.MethodBackup, owner, nil, of[client.StateCopy](), "copies state.db, as it is when the call begins, into a file that lasts as long as the connection; one at a time"},
	{client.MethodRelayAdd, owner, of[client.RelayAddParams](), of[client.RelayAdded](), "uses a relay from now on, a server that passes packets on between daemons; tries it first, unless told otherwise"},
	{client.MethodRelayRemove, owner, of[client.RelayRemoveParams](), nothing, "uses a relay no more that relay.add or join has added"},
	{client.MethodRelayList, owner, nil, of[client.Relays](), "lists the relays, and how the daemon stands to each"},
	{client.MethodRelayTest, owner, of[client.RelayTestParams](), of[client.RelayChecks](), "tries relays, and says what is wrong with each"},
	{client.MethodRelayNkey, owner, nil, of[client.RelayNkey](), "returns the public half of the nkey with which the daemon logs in at relays"},
	{client.MethodOACPBind, owner, of[client.OACPBindParams](), of[client.OACPBinding](), "says that an agent lives at a peer from now on, where its OACP mail goes"},
	{client.MethodOACPUnbind, owner, of[client.OACPUnbindParams](), of[client.OACPBinding](), "says that an agent lives here again"},
	{client.MethodOACPBindings, owner, of[client.OACPBindingsParams](), of[client.OACPBindings](), "lists the bindings"},
	{client.MethodOACPQueue, owner, of[client.OACPQueueParams](), of[client.OACPQueue](), "lists what lies in the inboxes of bound agents"},
	{client.MethodOACPDrop, owner, of[client.OACPDropParams](), of[client.OACPDropped](), "gives up a file that is for another machine"},
}

// agentCalls is what the daemon calls at an agent that has attached.
var agentCalls = []call{
	{client.MethodQuery, agents, with[client.Inbound, kinds.Query]("InboundQuery"), of[kinds.Response](), "a question; the result is the payload of the response"},
	{client.MethodDelegate, agents, with[client.Inbound, kinds.Delegate]("InboundDelegate"), of[kinds.Ack](), "a task; the result says whether the agent takes it, and result or error follow later"},
	{client.MethodCancel, agents, with[client.Inbound, kinds.Cancel]("InboundCancel"), of[kinds.Ack](), "the end of a task that the agent has taken, by its ref; the result says whether the agent gives it up"},
	{client.MethodNotify, agents, with[client.Inbound, kinds.Notify]("InboundNotify"), nothing, "a message; the result confirms that the agent has it"},
	{client.MethodResult, agents, with[client.Inbound, kinds.Result]("InboundResult"), nothing, "a result of what the agent has delegated; the result confirms that the agent has it"},
	{client.MethodError, agents, with[client.Inbound, kinds.Error]("InboundError"), nothing, "the error that ended what the agent has delegated; the result confirms that the agent has it"},
	{client.MethodWake, agents, of[client.Inbound](), of[client.WakeAnswer](), "for sessions alone: a message that now lies in the inbox for the session"},
}

// daemonNotifications is what the daemon tells those that have subscribed.
var daemonNotifications = []call{
	{client.NotificationMessage, owner, of[client.Message](), nil, "a copy of a message that came or went"},
	{client.NotificationEvent, owner, of[client.Event](), nil, "something that happened to a peer, or to a relay"},
}

// cancelNotification is the notification, both ways, that a request is given up.
const cancelNotification = "rpc.cancel"

// The Go types do not say these things.
var (
	// schemaNames are names of types that mean something else without their package.
	schemaNames = map[reflect.Type]string{
		reflect.TypeFor[kinds.Error](): "ErrorData",
	}
	// oneOf lists the values of texts that have no type of their own.
	oneOf = map[string][]string{
		"Pong.status":       {"idle", "busy", "overloaded"},
		"Delegate.priority": {"normal", "urgent"},
		"Result.status":     {"completed", "failed", "partial"},
		"Notify.importance": {"low", "medium", "high"},
		"BudgetRow.unit":    {"", "bytes", "bytes_free"},

		"ApproveParams.answer":   {"yes", "always", "no"},
		"WakeRule.source":        {"wake.yaml", "config.yaml"},
		"WakeAnswersRule.source": {"wake.yaml", "config.yaml"},
	}
	// objects are values that may not be anything.
	objects = map[string]bool{"Delegate.context": true, "ErrorData.details": true, "Event.details": true}
	// optional fields may be left out, though their Go tags do not say so.
	optional = map[string]bool{"ErrorData.retryable": true, "CancelParams.payload": true}
	// nullable fields may be null, though their Go tags do not say so.
	nullable = map[string]bool{"Result.error": true}
	// fieldPayloads says which payloads stand in a field.
	fieldPayloads = map[string][]reflect.Type{
		"Task.partial": {reflect.TypeFor[kinds.Result]()},
		"Task.result":  {reflect.TypeFor[kinds.Result](), reflect.TypeFor[kinds.Error]()},
	}
	// values are what names of constants mean that are no literals.
	values = map[string]string{"MaxInvitation": "24 h", "MaxMute": "30 days", "MaxDrain": "24 h", "MaxTrafficWait": "30 s"}
)
