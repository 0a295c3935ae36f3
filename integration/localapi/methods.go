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
	params  *shape // or nil
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
	{client.MethodDelegate, agents, with[client.DelegateParams, kinds.Delegate]("DelegateParams"), with[client.DelegateAnswer, kinds.Ack]("DelegateAnswer"), "gives a peer's agent a task, and waits for its ack; call wait to wait for the end"},
	{client.MethodCancel, agents, with[client.CancelParams, kinds.Cancel]("CancelParams"), with[client.CancelAnswer, kinds.Ack]("CancelAnswer"), "asks a peer's agent to end a delegation, and waits for its ack"},
	{client.MethodAnswer, agents, with[client.AnswerParams, kinds.Response]("AnswerParams"), of[client.Answered](), "answers a question that the agent working on a delegation has asked back"},
	{client.MethodNotify, agents, with[client.NotifyParams, kinds.Notify]("NotifyParams"), orList(of[client.Receipt]()), "sends a message to one peer or to several, and waits for the receipts; a list of peers is answered by a list"},
	{client.MethodResult, agents, with[client.ResultParams, kinds.Result]("ResultParams"), of[client.Receipt](), "sends a partial or the final result of a delegation that this daemon's agents have taken"},
	{client.MethodError, agents, with[client.ResultParams, kinds.Error]("ErrorParams"), of[client.Receipt](), "ends a delegation that this daemon's agents have taken with an error"},
	{client.MethodWhoami, agents, nil, of[client.Whoami](), "returns who this daemon is"},
	{client.MethodStatus, owner, nil, of[client.Status](), "returns what whoami returns, and the daemon's load, attached agents, numbers of messages and warnings"},
	{client.MethodBudget, owner, of[client.BudgetParams](), of[client.Budget](), "returns how much peers may use of the daemon's resources, and how much each uses now"},
	{client.MethodReload, owner, nil, of[client.Reloaded](), "reads config.yaml again, and returns what has changed; if the file is not valid, the old settings stay in effect"},
	{client.MethodDrain, owner, of[client.DrainParams](), of[client.Drained](), "stops taking new work, waits until the work under way has ended, and ends the daemon"},
	{client.MethodBudgetReserve, agents, of[client.ReserveParams](), of[client.Reserved](), "reserves what a headless run may cost from the day's budget of a peer; returns overloaded if not enough is left"},
	{client.MethodBudgetSettle, agents, of[client.SettleParams](), nothing, "reports the cost of a run for which budget.reserve was called"},
	{client.MethodBudgetSpent, owner, of[client.SpentParams](), of[client.Spent](), "returns what headless runs have cost, and what they may cost on one day"},
	{client.MethodPeers, agents, nil, of[client.Peers](), "lists the peers; agents get only the trusted ones, without addresses"},
	{client.MethodTasks, agents, of[client.TasksParams](), of[client.Tasks](), "lists delegations, given and taken, the newest first"},
	{client.MethodTask, agents, of[client.TaskParams](), of[client.Task](), "returns one delegation, with its payloads"},
	{client.MethodWait, agents, of[client.WaitParams](), of[client.Task](), "waits until a delegation is final, has more partial results than after_partials, or a question beyond the first after_questions waits for an answer"},
	{client.MethodInbox, agents, of[client.InboxParams](), of[client.Inbox](), "returns a page of the messages in the inbox, and removes nothing"},
	{client.MethodShown, agents, of[client.ShownParams](), nothing, "confirms that messages were shown that inbox has returned with peek; from then on ack may remove them"},
	{client.MethodAck, agents, of[client.AckParams](), of[client.Acked](), "removes messages that inbox has returned from the inbox"},
	{client.MethodInvite, owner, of[client.InviteParams](), of[client.Invitation](), "creates an invitation, which one stranger can use until it expires"},
	{client.MethodInvitations, owner, nil, of[client.Invitations](), "lists the open invitations, without their secrets"},
	{client.MethodRevoke, owner, of[client.RevokeParams](), of[client.Revoked](), "ends open invitations"},
	{client.MethodJoin, owner, of[client.JoinParams](), of[client.NamedPeer](), "uses an invitation of another daemon: afterwards the two trust each other"},
	{client.MethodTrust, owner, of[client.TrustParams](), of[client.NamedPeer](), "trusts a peer from now on, or changes its name and addresses"},
	{client.MethodTrustRoster, owner, of[client.RosterParams](), of[client.Roster](), "returns what a list of peers would change; with apply, trusts all of them in one write, or changes nothing"},
	{client.MethodUntrust, owner, of[client.UntrustParams](), of[client.Untrusted](), "ends trust in a peer, closes its connections and blocks its key"},
	{client.MethodPending, owner, nil, of[client.Pending](), "lists the strangers that have called and wait for a decision"},
	{client.MethodProbe, owner, of[client.ProbeParams](), of[client.Probe](), "returns what answers at each address of a trusted peer, without sending the peer a message"},
	{client.MethodCertificate, owner, of[client.CertificateParams](), of[client.Certificates](), "returns this daemon's certificate, or the content of a certificate file, and the authorities whose certificates are valid"},
	{client.MethodPolicy, owner, of[client.PolicyParams](), of[client.Policy](), "returns whether the configuration allows a peer to send a kind of message, and which rule decides"},
	{client.MethodAttach, agents, of[client.AttachParams](), of[client.Attached](), "makes this connection that of an agent: from now on the daemon calls it, and its calls are those of the agent"},
	{client.MethodSpeak, agents, of[client.SpeakParams](), nothing, "makes this connection call as an agent that another connection has attached"},
	{client.MethodSubscribe, owner, of[client.SubscribeParams](), nothing, "subscribes to copies of messages and to events, which come as notifications"},
	{client.MethodTraffic, owner, of[client.TrafficParams](), of[client.TrafficAnswer](), "returns messages that have passed, once they have their outcome, and on demand the calls that are open; the first call on a connection starts watching"},
	{client.MethodUnposted, agents, of[client.UnpostedParams](), nothing, "reports that the calling session, which has answered wake with posted, was not woken for that message after all; no turn is charged for it"},
	{client.MethodSession, agents, nil, of[client.SessionState](), "returns what waits for the calling agent, and what the daemon's owner should know about it"},
	{client.MethodWakeAllow, owner, of[client.WakeAllowParams](), of[client.WakeRules](), "lets messages of a peer wake sessions; the result has the rules of that peer"},
	{client.MethodWakeList, owner, nil, of[client.WakeRules](), "lists what may wake sessions"},
	{client.MethodWakeRevoke, owner, of[client.WakeRevokeParams](), of[client.Revoked](), "removes rules that wake.allow has added"},
	{client.MethodWakeAnswers, owner, of[client.WakeAnswersParams](), of[client.WakeRules](), "sets whether sessions are woken by answers to what they have asked"},
	{client.MethodApprovals, owner, nil, of[client.Approvals](), "lists the messages that need the owner's approval before they wake a session"},
	{client.MethodApprove, owner, of[client.ApproveParams](), of[client.Approval](), "approves or declines a message that needs the owner's approval"},
	{client.MethodAgents, owner, nil, of[client.Agents](), "lists the attached agents, and who woke those that are sessions"},
	{client.MethodWakeTest, owner, of[client.WakeTestParams](), of[client.WakeTested](), "wakes a session for the owner, to test whether that works"},
	{client.MethodWakeNotify, owner, of[client.OwnerNotifyParams](), of[client.OwnerNotify](), "returns the command that notifies the owner of what waits for them, and can set or try it first"},
	{client.MethodMuteAgent, owner, of[client.MuteAgentParams](), of[client.Muted](), "prevents everything from waking a session for a time"},
	{client.MethodPipe, owner, nil, nothing, "makes the connection a pipe for packets of another daemon (docs/protocol.md); after the answer it carries packets, not lines"},
	{client.MethodFileSend, agents, of[client.FileSendParams](), nothing, "sends a file to a peer; after the answer the connection carries FileSendLines, and what they ask for (docs/local-api.md, Files)"},
	{client.MethodFileTake, agents, of[client.FileTakeParams](), of[client.File](), "returns a file that came; after the answer the connection carries its bytes, and ends"},
	{client.MethodFiles, agents, of[client.FilesParams](), of[client.Files](), "lists the files that came, come or are being sent, the oldest first"},
	{client.MethodFileRemove, owner, of[client.FileRemoveParams](), of[client.File](), "removes a file that came, or what there is of one that comes"},
	{client.MethodFileAsk, owner, of[client.FileAskParams](), nothing, "has the owner asked again before files of a peer are taken"},
	{client.MethodBackup, owner, nil, of[client.StateCopy](), "copies state.db, as it is when the call begins, into a file that exists as long as the connection; one copy at a time"},
	{client.MethodRelayAdd, owner, of[client.RelayAddParams](), of[client.RelayAdded](), "adds a relay, a server that forwards packets between daemons; tries it first by default"},
	{client.MethodRelayRemove, owner, of[client.RelayRemoveParams](), nothing, "removes a relay that relay.add or join has added"},
	{client.MethodRelayList, owner, nil, of[client.Relays](), "lists the relays, and the state of each"},
	{client.MethodRelayTest, owner, of[client.RelayTestParams](), of[client.RelayChecks](), "tries relays, and returns what is wrong with each"},
	{client.MethodRelayNkey, owner, nil, of[client.RelayNkey](), "returns the public half of the nkey with which the daemon logs in at relays"},
	{client.MethodOACPBind, owner, of[client.OACPBindParams](), of[client.OACPBinding](), "binds an agent to a peer: from now on its OACP mail is sent there"},
	{client.MethodOACPUnbind, owner, of[client.OACPUnbindParams](), of[client.OACPBinding](), "removes the binding of an agent, which lives here again"},
	{client.MethodOACPBindings, owner, of[client.OACPBindingsParams](), of[client.OACPBindings](), "lists the bindings"},
	{client.MethodOACPQueue, owner, of[client.OACPQueueParams](), of[client.OACPQueue](), "lists the mail in the inboxes of bound agents"},
	{client.MethodOACPDrop, owner, of[client.OACPDropParams](), of[client.OACPDropped](), "gives up the delivery of a file that is for another machine"},
}

// agentCalls is what the daemon calls at an agent that has attached.
var agentCalls = []call{
	{client.MethodQuery, agents, with[client.Inbound, kinds.Query]("InboundQuery"), of[kinds.Response](), "a question; the result is the payload of the response"},
	{client.MethodDelegate, agents, with[client.Inbound, kinds.Delegate]("InboundDelegate"), of[kinds.Ack](), "a task; the answer is whether the agent takes it, and result or error follow later"},
	{client.MethodCancel, agents, with[client.Inbound, kinds.Cancel]("InboundCancel"), of[kinds.Ack](), "a request to end a task that the agent has taken, by its ref; the answer is whether the agent gives it up"},
	{client.MethodNotify, agents, with[client.Inbound, kinds.Notify]("InboundNotify"), nothing, "a message; the result confirms that the agent has it"},
	{client.MethodResult, agents, with[client.Inbound, kinds.Result]("InboundResult"), nothing, "a result of what the agent has delegated; the result confirms that the agent has it"},
	{client.MethodError, agents, with[client.Inbound, kinds.Error]("InboundError"), nothing, "the error that ended what the agent has delegated; the result confirms that the agent has it"},
	{client.MethodWake, agents, of[client.Inbound](), of[client.WakeAnswer](), "only for sessions: a message that is now in the inbox for the session"},
}

// daemonNotifications is what the daemon tells those that have subscribed.
var daemonNotifications = []call{
	{client.NotificationMessage, owner, of[client.Message](), nil, "a copy of a message that was received or sent"},
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
	// fieldPayloads lists the payloads that a field may hold.
	fieldPayloads = map[string][]reflect.Type{
		"Task.partial": {reflect.TypeFor[kinds.Result]()},
		"Task.result":  {reflect.TypeFor[kinds.Result](), reflect.TypeFor[kinds.Error]()},
	}
	// values are what names of constants mean that are no literals.
	values = map[string]string{"MaxInvitation": "24 h", "MaxMute": "30 days", "MaxDrain": "24 h", "MaxTrafficWait": "30 s", "MaxFileText": "4,096"}
)
