package daemon

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
)

// methods is the local API: every method, the function that serves it, and its callers.
// Nothing else decides who may call a method. Which rows and messages an agent gets from it,
// the method decides.
var methods = map[string]method{
	client.MethodPing:        {newMethodWithParams((*Daemon).servePing), forAgents},
	client.MethodDiscover:    {newMethodWithParams((*Daemon).serveDiscover), forAgents},
	client.MethodQuery:       {serveQuery, forAgents},
	client.MethodDelegate:    {withVerbatimPayloads(newMethodWithParams((*Daemon).serveDelegate)), forAgents},
	client.MethodCancel:      {withVerbatimPayloads(newMethodWithParams((*Daemon).serveCancel)), forAgents},
	client.MethodNotify:      {newMethodWithParams((*Daemon).serveNotify), forAgents},
	client.MethodAnswer:      {newMethodWithParams((*Daemon).serveAnswer), forAgents},
	client.MethodResult:      {newMethodWithParams((*Daemon).serveResult), forAgents},
	client.MethodError:       {newMethodWithParams((*Daemon).serveError), forAgents},
	client.MethodWhoami:      {newMethodWithParams((*Daemon).serveWhoami), forAgents},
	client.MethodStatus:      {newMethodWithParams((*Daemon).serveStatus), forOwner},
	client.MethodBudget:      {newMethodWithParams((*Daemon).serveBudget), forOwner},
	client.MethodPeers:       {newMethodWithParams((*Daemon).servePeers), forAgents},
	client.MethodTasks:       {newMethodWithParams((*Daemon).serveTasks), forAgents},
	client.MethodTask:        {withVerbatimPayloads(newMethodWithParams((*Daemon).serveTask)), forAgents},
	client.MethodWait:        {withVerbatimPayloads(newMethodWithParams((*Daemon).serveWait)), forAgents},
	client.MethodInbox:       {withVerbatimPayloads(newMethodWithParams((*Daemon).serveInbox)), forAgents},
	client.MethodShown:       {newMethodWithParams((*Daemon).serveShown), forAgents},
	client.MethodAck:         {withDiskReserve(newMethodWithParams((*Daemon).serveAck)), forAgents},
	client.MethodInvite:      {newMethodWithParams((*Daemon).serveInvite), forOwner},
	client.MethodJoin:        {newMethodWithParams((*Daemon).serveJoin), forOwner},
	client.MethodTrust:       {newMethodWithParams((*Daemon).serveTrust), forOwner},
	client.MethodUntrust:     {newMethodWithParams((*Daemon).serveUntrust), forOwner},
	client.MethodPending:     {newMethodWithParams((*Daemon).servePending), forOwner},
	client.MethodProbe:       {newMethodWithParams((*Daemon).serveProbe), forOwner},
	client.MethodCertificate: {newMethodWithParams((*Daemon).serveCertificate), forOwner},
	client.MethodPolicy:      {newMethodWithParams((*Daemon).servePolicy), forOwner},
	client.MethodAttach:      {newMethodWithParams((*Daemon).serveAttach), forAgents},
	client.MethodSpeak:       {newMethodWithParams((*Daemon).serveSpeak), forAgents},
	client.MethodSubscribe:   {newMethodWithParams((*Daemon).serveSubscribe), forOwner},
	client.MethodTraffic:     {withVerbatimPayloads(newMethodWithParams((*Daemon).serveTraffic)), forOwner},

	client.MethodSession:       {newMethodWithParams((*Daemon).serveSession), forAgents},
	client.MethodUnposted:      {newMethodWithParams((*Daemon).serveUnposted), forAgents},
	client.MethodWakeAllow:     {newMethodWithParams((*Daemon).serveWakeAllow), forOwner},
	client.MethodWakeList:      {newMethodWithParams((*Daemon).serveWakeList), forOwner},
	client.MethodWakeRevoke:    {newMethodWithParams((*Daemon).serveWakeRevoke), forOwner},
	client.MethodWakeAnswers:   {newMethodWithParams((*Daemon).serveWakeAnswers), forOwner},
	client.MethodApprovals:     {newMethodWithParams((*Daemon).serveApprovals), forOwner},
	client.MethodApprove:       {newMethodWithParams((*Daemon).serveApprove), forOwner},
	client.MethodAgents:        {newMethodWithParams((*Daemon).serveAgents), forOwner},
	client.MethodMuteAgent:     {newMethodWithParams((*Daemon).serveMuteAgent), forOwner},
	client.MethodWakeTest:      {newMethodWithParams((*Daemon).serveWakeTest), forOwner},
	client.MethodWakeNotify:    {newMethodWithParams((*Daemon).serveOwnerNotify), forOwner},
	client.MethodBudgetReserve: {newMethodWithParams((*Daemon).serveBudgetReserve), forAgents},
	client.MethodBudgetSettle:  {withDiskReserve(newMethodWithParams((*Daemon).serveBudgetSettle)), forAgents},
	client.MethodBudgetSpent:   {newMethodWithParams((*Daemon).serveBudgetSpent), forOwner},

	client.MethodReload:      {newMethodWithParams((*Daemon).serveReload), forOwner},
	client.MethodLogLevel:    {newMethodWithParams((*Daemon).serveLogLevel), forOwner},
	client.MethodDrain:       {serveDrain, forOwner},
	client.MethodPprof:       {newMethodWithParams((*Daemon).servePprof), forOwner},
	client.MethodBackup:      {newMethodWithParams((*Daemon).serveBackup), forOwner},
	client.MethodPipe:        {servePipe, forOwner},
	client.MethodInvitations: {newMethodWithParams((*Daemon).serveInvitations), forOwner},
	client.MethodRevoke:      {newMethodWithParams((*Daemon).serveRevoke), forOwner},
	client.MethodTrustRoster: {newMethodWithParams((*Daemon).serveTrustRoster), forOwner},

	client.MethodRelayAdd:    {newMethodWithParams((*Daemon).serveRelayAdd), forOwner},
	client.MethodRelayRemove: {withDiskReserve(newMethodWithParams((*Daemon).serveRelayRemove)), forOwner},
	client.MethodRelayList:   {newMethodWithParams((*Daemon).serveRelayList), forOwner},
	client.MethodRelayTest:   {newMethodWithParams((*Daemon).serveRelayTest), forOwner},
	client.MethodRelayNkey:   {newMethodWithParams((*Daemon).serveRelayNkey), forOwner},

	client.MethodOACPBind:     {newMethodWithParams((*Daemon).serveOACPBind), forOwner},
	client.MethodOACPUnbind:   {withDiskReserve(newMethodWithParams((*Daemon).serveOACPUnbind)), forOwner},
	client.MethodOACPBindings: {newMethodWithParams((*Daemon).serveOACPBindings), forOwner},
	client.MethodOACPQueue:    {newMethodWithParams((*Daemon).serveOACPQueue), forOwner},
	client.MethodOACPDrop:     {withDiskReserve(newMethodWithParams((*Daemon).serveOACPDrop)), forOwner},
}

type method struct {
	methodFunc
	callers callers
}

// callers names those that may call a method.
type callers int

const (
	forOwner  callers = iota // the owner, on acp.sock of the state directory, where all methods may be called
	forAgents                // also guests, on acp.sock of the agents' folder
)

type methodFunc func(context.Context, *localConn, *jsonrpc.Request) (any, error)

// noParams is the type of the params of a method that has none.
type noParams = struct{}

// newMethodWithParams returns a method that reads its params and calls f with them.
func newMethodWithParams[P any](f func(*Daemon, context.Context, *localConn, *P) (any, error)) methodFunc {
	return func(ctx context.Context, s *localConn, r *jsonrpc.Request) (any, error) {
		p := new(P)
		if err := r.ReadParams(p); err != nil {
			return nil, err
		}
		return f(s.daemon, ctx, s, p)
	}
}

// withVerbatimPayloads returns f, but the payloads in its result keep the text that their senders
// wrote.
func withVerbatimPayloads(f methodFunc) methodFunc {
	return func(ctx context.Context, s *localConn, r *jsonrpc.Request) (any, error) {
		result, err := f(ctx, s, r)
		if err != nil {
			return nil, err
		}
		return marshalVerbatimJSON(result)
	}
}

func marshalVerbatimJSON(v any) (jsontext.Value, error) {
	return json.Marshal(v, jsontext.PreserveRawStrings(true))
}

// maxListBytes returns how many bytes of a line the rows of one answer may fill. The rest is
// for what stands around them.
func (d *Daemon) maxListBytes() int { return d.config.Load().MaxMessage + jsonrpc.LineMargin/2 }
