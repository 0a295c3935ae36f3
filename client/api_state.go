package client

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Whoami is the result of whoami, which has no params.
type Whoami struct {
	ID         identity.ID `json:"id"`
	Name       string      `json:"name"`
	Version    string      `json:"version"`
	UptimeSecs uint64      `json:"uptime_secs"`
	Listen     []string    `json:"listen"`               // host:port
	HidesAddrs bool        `json:"hides_addrs,omitzero"` // peers get none of Listen: reach.direct is off, and there is a relay
	Home       string      `json:"home"`
}

// DaemonState says how busy a daemon is.
type DaemonState string

// The states of a daemon.
const (
	DaemonIdle       DaemonState = "idle"       // no query or delegation is open with agents here
	DaemonBusy       DaemonState = "busy"       // some are
	DaemonOverloaded DaemonState = "overloaded" // each attached agent works on as many as it takes
	DaemonDraining   DaemonState = "draining"   // it ends, and finishes what is open
)

// Status is the result of status, which has no params.
type Status struct {
	Whoami
	State          DaemonState  `json:"state"`
	PeersConnected int          `json:"peers_connected"`
	Agents         []Agent      `json:"agents"`
	TasksActive    int          `json:"tasks_active"`   // queries and delegations on which agents here work
	TasksGiven     int          `json:"tasks_given"`    // delegations given that are not over
	TasksTaken     int          `json:"tasks_taken"`    // delegations taken that are not over
	QuestionsOpen  int          `json:"questions_open"` // delegations given whose agent waits for an answer
	Messages       MessageCount `json:"messages"`
	Relays         []Relay      `json:"relays"`
	Warnings       []string     `json:"warnings"`       // for the daemon's owner: what is wrong, and what to do
	Ready          bool         `json:"ready"`          // it does its work: see Unready
	Unready        []string     `json:"unready"`        // what keeps it from its work, and what to do; [] if it is ready
	Drain          *Drain       `json:"drain,omitzero"` // while it drains; nil: it takes new work, or ends already
	Process        Process      `json:"process"`
}

// Process is what the daemon's process uses of its machine. 0 means that the system does
// not report it.
type Process struct {
	PID             int    `json:"pid"`
	Goroutines      int    `json:"goroutines"`
	HeapBytes       uint64 `json:"heap_bytes"`  // of live objects, and of dead ones that are not swept yet
	Descriptors     int    `json:"descriptors"` // that are open
	MaxDescriptors  int    `json:"max_descriptors"`
	UDPReceiveBytes int    `json:"udp_receive_bytes"` // that the system keeps for the UDP socket until they are read
	UDPSendBytes    int    `json:"udp_send_bytes"`    // that it keeps until they are sent
}

// BudgetParams are the params of budget.
type BudgetParams struct {
	Peer string `json:"peer,omitzero"` // to list only its usage; "" lists that of all
}

// Budget is the result of budget: the limits on what peers may use of this daemon, and what each
// uses now.
type Budget struct {
	Rows  []BudgetRow   `json:"rows"`
	Usage []BudgetUsage `json:"usage"` // row by row, the peer that holds most first; without peers that hold nothing and were refused nothing
}

// The units of rows that are not plain numbers.
const (
	UnitBytes     = "bytes"
	UnitBytesFree = "bytes_free"
)

// BudgetRow is the limit on what peers may hold of one thing, such as memory or rows of the
// store.
type BudgetRow struct {
	Name string `json:"name"`
	Unit string `json:"unit"` // bytes; "" for a plain number; bytes_free: Held bytes of the disk are free, and All must be left
	Peer int64  `json:"peer"` // one peer at most; 0: no bound of its own
	All  int64  `json:"all"`  // all together at most; 0: no sum
	Held int64  `json:"held"` // by all together

	What   string `json:"what"`            // is counted, for people
	Remedy string `json:"remedy,omitzero"` // how it is freed, for people; "": it frees itself
}

// BudgetUsage says how much of a row one peer holds.
type BudgetUsage struct {
	Row     string      `json:"row"`
	Peer    identity.ID `json:"peer"` // all digits 0: strangers, on the link that the name says
	Name    string      `json:"name"`
	Held    int64       `json:"held"`
	Refused uint64      `json:"refused"` // how often it was refused more, since the daemon's start
}

// Agent is one attached agent.
type Agent struct {
	Name          string    `json:"name"`
	Kinds         []string  `json:"kinds"`
	Domains       []string  `json:"domains"`
	Topics        []string  `json:"topics"`
	MaxConcurrent int       `json:"max_concurrent"`
	Active        int       `json:"active"` // queries and delegations that it works on
	Since         time.Time `json:"since"`

	Session *SessionInfo `json:"session,omitzero"` // of a live session, which answers only while it has a turn
	About   string       `json:"about,omitzero"`   // what it says that it is for
}

// MessageCount is how many messages of a kind passed since the daemon's start.
type MessageCount struct {
	In  map[string]uint64 `json:"in"`
	Out map[string]uint64 `json:"out"`
}

// PeerState says how a daemon stands to a peer now.
type PeerState string

// The states of a peer.
const (
	PeerConnected  PeerState = "connected"  // and trusted
	PeerTrusted    PeerState = "trusted"    // and not connected
	PeerDiscovered PeerState = "discovered" // a stranger that was found on the network: nothing is proven
	PeerPending    PeerState = "pending"    // a stranger that called: its id is proven
	PeerBlocked    PeerState = "blocked"    // its key is
)

// Path says how packets travel between a daemon and a peer that is connected.
type Path string

// The paths, the best first.
const (
	PathDirect Path = "direct" // from one UDP socket to the other
	PathPipe   Path = "pipe"   // through the standard input and output of a command
	PathRelay  Path = "relay"  // through a server that passes packets on
)

// AddrSource says from where a daemon knows an address.
type AddrSource string

// The sources of an address.
const (
	SourceWorked AddrSource = "worked" // the peer was connected there
	SourceStatic AddrSource = "static" // config.yaml, the trust store
	SourceMDNS   AddrSource = "mdns"   // somebody on the network claims it
	SourceCall   AddrSource = "call"   // a stranger called from there
	SourceRelay  AddrSource = "relay"  // it is a relay that this daemon uses, and the peer may use too
	SourcePipe   AddrSource = "pipe"   // config.yaml has a command that leads to the peer
)

// Time is a time that may be none: the zero value, null in JSON.
type Time struct{ time.Time }

// MarshalJSONTo writes RFC 3339 or null.
func (t Time) MarshalJSONTo(enc *jsontext.Encoder) error {
	if t.IsZero() {
		return enc.WriteToken(jsontext.Null)
	}
	return json.MarshalEncode(enc, t.UTC())
}

// UnmarshalJSONFrom reads RFC 3339 or null.
func (t *Time) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	return json.UnmarshalDecode(dec, &t.Time)
}

// Peer is one row of peers.
type Peer struct {
	ID           identity.ID `json:"id"`
	Name         string      `json:"name"` // petname; trusted peers have one, and blocked ones that had
	State        PeerState   `json:"state"`
	Addrs        []string    `json:"addrs"`
	RTTUS        *uint64     `json:"rtt_us"`        // nil: not connected
	Path         Path        `json:"path,omitzero"` // "": not connected
	Source       AddrSource  `json:"source"`        // where the first address comes from; "" without an address
	LastSeen     Time        `json:"last_seen"`
	Claim        string      `json:"claim,omitzero"`         // what it calls itself: no proof
	NameConflict bool        `json:"name_conflict,omitzero"` // the claim is a trusted peer's name
	Software     string      `json:"software,omitzero"`      // of a connected one, the name and version of its program: no proof
	Pinned       bool        `json:"pinned,omitzero"`        // a trusted one must show the post-quantum key that it showed first
	Refuses      bool        `json:"refuses,omitzero"`       // a trusted one has said that it does not trust this daemon, and was not connected since

	Certificate *Certificate `json:"certificate,omitzero"` // of a peer that the owner does not trust, and an authority vouches for; else nil
}

// Certificate is what an authority says of a key.
type Certificate struct {
	ID        identity.ID `json:"id"`
	Name      string      `json:"name"`               // as in build-7.corp; without an authority here, as in build-7
	Groups    []string    `json:"groups"`             // likewise
	Authority string      `json:"authority,omitzero"` // "": none here has signed it
	Serial    uint64      `json:"serial,omitzero"`
	KeyID     string      `json:"key_id,omitzero"` // what the authority wrote for itself
	NotBefore Time        `json:"not_before"`      // null: since ever
	NotAfter  Time        `json:"not_after"`       // null: for ever
}

// CertificateParams are the params of certificate.
type CertificateParams struct {
	File string `json:"file,omitzero"` // the text of a certificate file to look at; "": what this daemon shows
}

// Certificates is the result of certificate.
type Certificates struct {
	Request     string       `json:"request"`              // the line that an authority signs
	Certificate *Certificate `json:"certificate,omitzero"` // may be nil
	Problem     string       `json:"problem,omitzero"`     // what is wrong with it, or will be soon
	Authorities []Authority  `json:"authorities"`          // whose certificates are valid here
}

// Authority is an entry of organisation.authorities.
type Authority struct {
	Name    string   `json:"name"`
	Allow   []string `json:"allow"`   // what its peers may initiate without a rule
	Revoked int      `json:"revoked"` // entries of its file of revocations
	Peers   int      `json:"peers"`   // that have a valid certificate of it, and are known
}

// Peers is the result of peers, which has no params.
type Peers struct {
	Peers []Peer `json:"peers"`
}

// ProbeParams are the params of probe.
type ProbeParams struct {
	Peer string `json:"peer"` // a trusted one
}

// Probe is the result of probe: what answers at the addresses at which a trusted peer may be,
// those that peers lists. No message goes there.
type Probe struct {
	Addrs []ProbedAddr `json:"addrs"`
}

// ProbedAddr says what answers at one address.
type ProbedAddr struct {
	Addr   string       `json:"addr"` // host:port
	Source AddrSource   `json:"source"`
	RTTUS  uint64       `json:"rtt_us,omitzero"` // that of a handshake, in which the peer has proved its key; 0: it has not
	Error  *kinds.Error `json:"error,omitzero"`  // why it has not
}

// TaskDirection tells who delegated, and so who works.
type TaskDirection string

// The directions of a delegation.
const (
	Given TaskDirection = "given" // this daemon's agents delegated it
	Taken TaskDirection = "taken" // a peer delegated it to this daemon's agents
)

// TaskState says how far a delegation, or a message that is kept, has come.
type TaskState string

// The states of a delegation, and of a message that is kept for a peer. Sent, accepted, unknown and kept
// are not final; a kept message that is unknown is over all the same, and stays so (see Task.Over).
const (
	TaskSent      TaskState = "sent"
	TaskAccepted  TaskState = "accepted"
	TaskUnknown   TaskState = "unknown" // no ack came
	TaskRefused   TaskState = "refused"
	TaskCompleted TaskState = "completed"
	TaskFailed    TaskState = "failed"
	TaskCancelled TaskState = "cancelled"
	TaskExpired   TaskState = "expired"

	TaskKept      TaskState = "kept"      // it did not arrive, and is sent when the peer or its agent is there
	TaskHanded    TaskState = "handed"    // a notify that was kept: see Handed
	TaskHeld      TaskState = "held"      // a notify that was kept: see Held
	TaskWithdrawn TaskState = "withdrawn" // cancel has ended it while it was kept
)

// MaxBeginning bounds Task.Task, Task.Outcome and Approval.Text, in bytes. A longer text ends
// there, at a character, with an ellipsis.
const MaxBeginning = 256

// ClipText returns the beginning of a text, of at most so many bytes: what is longer ends at a character, with an
// ellipsis. most has room for that.
func ClipText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = "…"
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// Task is one delegation, or a message that is or was kept: a row of tasks, and the result of task and wait. Only the
// results carry payloads.
type Task struct {
	ID        wire.MessageID `json:"id"`
	Kind      string         `json:"kind,omitzero"` // of a message that is or was kept: query, delegate or notify; "": a delegation
	Peer      string         `json:"peer"`          // petname, or the id if it has no petname any more
	Direction TaskDirection  `json:"direction"`
	FromAgent string         `json:"from_agent,omitzero"` // taken: the agent that delegated, as the peer claims; Peer/FromAgent names it in a message to it
	ToAgent   string         `json:"to_agent,omitzero"`   // given: the agent of the peer that it is for; "": any
	Agent     string         `json:"agent,omitzero"`      // taken and accepted: the agent that works on it or, if it is final, that has worked on it
	Task      string         `json:"task"`                // its beginning
	State     TaskState      `json:"state"`
	Over      bool           `json:"over,omitzero"`  // nothing is owed or expected any more: it is final, or accepted and no report is wanted
	Began     Time           `json:"began,omitzero"` // null, and left out: the daemon is older than 0.2.0
	Deadline  Time           `json:"deadline"`
	Outcome   string         `json:"outcome"`           // its beginning; the whole is in Result
	Partials  uint64         `json:"partials,omitzero"` // how many have come
	Partial   wire.Payload   `json:"partial,omitzero"`  // payload of the last partial result, until there is Result
	Result    wire.Payload   `json:"result,omitzero"`   // payload of the final result or error

	// The last partial result, until Result is set.
	Progress *float64 `json:"progress,omitzero"` // how much is done, 0 to 1; nil: none said
	Message  string   `json:"message,omitzero"`  // what is being done

	// Of one with an Agent that is not attached: since when, and until when the daemon waits for an agent
	// of that name, before the delegation fails or its deadline has passed. Null, and left out, while one is
	// attached. A restart of the daemon begins anew.
	AgentAwaySince    Time `json:"agent_away_since,omitzero"`
	AgentAwaitedUntil Time `json:"agent_awaited_until,omitzero"`

	Kept *Kept `json:"kept,omitzero"` // nil: it is not kept

	Questions uint64        `json:"questions,omitzero"` // given: how many the agent that works on it has asked
	Question  *QuestionBack `json:"question,omitzero"`  // given: the one that waits for an answer; nil: none does
}

// IsAbandoned reports whether a delegation that was given has ended only here, as its peer sent no ack of
// the cancel: the agent there may still work.
func (t *Task) IsAbandoned() bool {
	return t.Direction == Given && t.State == TaskCancelled && (t.Outcome == "abandoned" || strings.HasPrefix(t.Outcome, "abandoned: "))
}

// QuestionBack is what the agent that works on a delegation asks the one that delegated. The
// method answer answers it.
type QuestionBack struct {
	ID    wire.MessageID `json:"id"`
	Text  string         `json:"text"` // its beginning, in a row of tasks and with other messages
	Since Time           `json:"since"`
}

// IsFinal reports whether the state can no longer change.
func (s TaskState) IsFinal() bool {
	return slices.Contains([]TaskState{TaskRefused, TaskCompleted, TaskFailed, TaskCancelled, TaskExpired, TaskHanded, TaskHeld, TaskWithdrawn}, s)
}

// TasksParams are the params of tasks.
type TasksParams struct {
	Limit int    `json:"limit,omitzero"` // 0: the daemon's default
	After uint64 `json:"after,omitzero"` // Next of the answer that this one continues
}

// Tasks is the result of tasks, the newest first.
type Tasks struct {
	Tasks []Task `json:"tasks"`
	Next  uint64 `json:"next"` // the After that continues; 0: there is no more
}

// TaskParams are the params of task.
type TaskParams struct {
	ID wire.MessageID `json:"id"`
}

// WaitParams are the params of wait, which returns when the delegation is over.
type WaitParams struct {
	ID            wire.MessageID `json:"id"`
	TimeoutMS     uint64         `json:"timeout_ms,omitzero"`     // 0: no limit; else the error is timeout
	AfterPartials *uint64        `json:"after_partials,omitzero"` // return as well when Task.Partials is over it

	AfterQuestions *uint64 `json:"after_questions,omitzero"` // return as well when Task.Questions is over it and there is a Question
}

// InboxParams are the params of inbox. Empty filters match everything.
type InboxParams struct {
	Limit int              `json:"limit,omitzero"` // 0: the daemon's default
	After uint64           `json:"after,omitzero"` // only what has a higher sequence number
	Kinds []string         `json:"kinds,omitempty"`
	Peers []string         `json:"peers,omitempty"`
	IDs   []wire.MessageID `json:"ids,omitempty"`
	Peek  bool             `json:"peek,omitzero"`  // ack may remove what is returned only when shown has named it
	Taken bool             `json:"taken,omitzero"` // instead, messages for any agent that agents have acknowledged in the last 7 days
}

// Inbox is the result of inbox.
type Inbox struct {
	Messages []HeldMessage `json:"messages"`
	Next     uint64        `json:"next"` // the After that continues; 0: there is no more
}

// HeldMessage is a message that waits in the inbox, or one that an agent took from it.
type HeldMessage struct {
	Seq      uint64        `json:"seq"`
	Envelope wire.Envelope `json:"envelope"`
	Agent    string        `json:"agent,omitzero"`    // the agent that it is for, or that took it; "": any
	TakenAt  Time          `json:"taken_at,omitzero"` // zero: it was not taken
	Origin   string        `json:"origin,omitzero"`   // OriginDaemon: this daemon has made it, as for a file or the end of a message that was kept; "": the peer has sent it
}

// OriginDaemon is the origin of a held message that the daemon itself has made: the report of a file, whose sender is
// the peer, or the end of a message that was kept. The sender of an end is the peer if it has answered a query, and else
// this daemon.
const OriginDaemon = "daemon"

// ShownParams are the params of shown: what the caller was returned with Peek, and has
// shown or dealt with.
type ShownParams struct {
	Seqs []uint64 `json:"seqs"` // sequence numbers, at most 1,000; those that the caller's inbox lacks are ignored
}

// AckParams are the params of ack: either IDs, or UpTo, or Ref. If Peers are named, IDs are of their
// messages alone. UpTo comes with the filter that inbox was called with. IDs and UpTo remove only what
// inbox has returned before. Ref removes the result or error of a delegation that the caller gave;
// the caller has it from wait.
type AckParams struct {
	IDs   []wire.MessageID `json:"ids,omitempty"`
	UpTo  uint64           `json:"up_to,omitzero"` // sequence number, inclusive
	Kinds []string         `json:"kinds,omitempty"`
	Peers []string         `json:"peers,omitempty"`
	Ref   wire.MessageID   `json:"ref,omitzero"` // of a delegation
}

// Acked is the result of ack. IDs and NotShown answer an ack by IDs.
type Acked struct {
	Removed int `json:"removed"` // how many messages

	IDs      []wire.MessageID `json:"ids,omitempty"`       // of the messages that were removed
	NotShown []wire.MessageID `json:"not_shown,omitempty"` // of the messages that stay, because the caller was not shown them
}

// PolicyParams are the params of policy: whether the configuration allows Peer to send a
// message of Kind that names Domain, or none.
type PolicyParams struct {
	Peer   string `json:"peer"`
	Kind   string `json:"kind"`
	Domain string `json:"domain,omitzero"`
}

// Policy is the result of policy.
type Policy struct {
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule"` // the rule that decides, and why

	Key   string      `json:"key,omitzero"`   // of the rule in config.yaml, as in policy.laptop; "": no rule decides
	Line  int         `json:"line,omitzero"`  // of it there
	Place int         `json:"place,omitzero"` // of it among the Rules of policy, in the order of the file
	Rules int         `json:"rules,omitzero"`
	Rate  *PolicyRate `json:"rate,omitzero"` // that applies to the message; may be nil
}

// PolicyRate is an entry of limits.rate, and what is left of it for a peer.
type PolicyRate struct {
	Key       string  `json:"key"`  // in config.yaml, as in limits.rate[0]
	Line      int     `json:"line"` // of it there
	Peer      string  `json:"peer"` // as in config.yaml
	Kind      string  `json:"kind"` // as in config.yaml: "*" counts all kinds together
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
	Left      int     `json:"left"` // messages that the peer may send at once now
}
