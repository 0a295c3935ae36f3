package budget

// The rows. Honest use never reaches a peer's bound. The sum is what a daemon can bear on a
// small machine, so that one that trusts thousands of peers stays up.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// NewEnvelopesRow are the bytes of envelopes that are being read, or handled. Two of
// the largest messages pass at a time, whatever their size.
func NewEnvelopesRow(maxMessage int) Row {
	two := 2 * int64(maxMessage)
	return Row{Name: "envelopes", Unit: Bytes, Peer: max(4*mib, two), All: max(64*mib, two),
		What: "messages that are being read or handled"}
}

// NewRepliesRow are the bytes of replies to calls from here that are being read: every
// call that may be open with 64 KiB, or two of the largest. They have a row of their own,
// because a peer's requests that wait here for its replies must not take their room.
func NewRepliesRow(maxMessage int) Row {
	peer := max(16*mib, 2*int64(maxMessage))
	return Row{Name: "replies", Unit: Bytes, Peer: peer, All: 4 * peer,
		What: "replies to calls from here that are being read"}
}

// NewInboxBytesRow returns the row for the bytes in [Inbox]. The largest message always fits.
func NewInboxBytesRow(maxMessage int) Row {
	return Row{Name: "inbox_bytes", Unit: Bytes, Peer: max(16*mib, 2*int64(maxMessage)), All: 64 * mib,
		What: "their bytes", Remedy: "as inbox"}
}

// NewResultsBytesRow returns the row for the bytes in [Results].
func NewResultsBytesRow(maxMessage int) Row {
	return Row{Name: "results_bytes", Unit: Bytes, Peer: max(8*mib, 2*int64(maxMessage)), All: 64 * mib,
		What: "their bytes", Remedy: "as results"}
}

var (
	// Unread are bytes in QUIC's buffers that nobody has read. A connection's window is 64
	// streams of 128 KiB and 256 KiB of control items.
	Unread = Row{Name: "unread", Unit: Bytes, Peer: 64 * mib, All: 256 * mib,
		What: "what has come and nobody has read yet, in QUIC's buffers"}

	// Connections are those that said hello. Two are in use where both sides dialled
	// at once; the others drain.
	Connections = Row{Name: "connections", Peer: 4,
		What: "connections, those that drain among them"}

	// Greeting are connections before hello, each of which may hold 64 KiB.
	Greeting = Row{Name: "greeting", Peer: 4,
		What: "connections that have not said hello yet"}

	// Streams are those that a handler serves: 512 exchanges and 256 messages, what
	// one connection could have by itself.
	Streams = Row{Name: "streams", Peer: 512 + 256, All: 8192,
		What: "requests, messages and mail that are being served"}

	// Answers are the bytes of responses that asks collect, of answers in channels that
	// a peer has not taken yet, of what it says for lists that are put together here,
	// and of its answers that are read whole on their way to an agent here: four of the
	// largest lists.
	Answers = Row{Name: "answers", Unit: Bytes, Peer: 32 * mib, All: 128 * mib,
		What: "answers in channels that are being collected, or that agents have not taken yet"}

	// StreamEntries are the bytes of entries that wait for slow readers of event
	// streams. The stream of a reader that falls behind is ended; it resumes from the store.
	StreamEntries = Row{Name: "stream_entries", Unit: Bytes, Peer: 8 * mib, All: 64 * mib,
		What: "entries of channels that wait for slow readers of event streams", Remedy: "end the programs that read too slowly; they resume from the store"}

	// Repeats are the messages whose outcome is remembered; the oldest go.
	Repeats = Row{Name: "repeats", Peer: 8192, All: 262144,
		What: "messages whose outcome is remembered for 10 minutes"}

	// Inbox are held messages that nobody asked for; a quarter of the inbox for a peer.
	Inbox = Row{Name: "inbox", Peer: 2500, All: 10000,
		What: "messages that no agent has taken", Remedy: "acpctl inbox shows them, and --ack N removes those up to number N; an attached agent takes them"}

	// Results are held results of delegations that were given from here. They are
	// kept aside: a full inbox must not lose what was asked for.
	Results = Row{Name: "results", Peer: 1000, All: 10000,
		What: "results and errors of delegations from here that no agent has taken", Remedy: "acpctl inbox shows them, and --ack N removes them; acpctl wait ID takes one"}

	// Places are those of an attached agent, where a peer has one less than there are
	// while another one is connected. The agent says how many there are.
	Places = Row{Name: "places",
		What: "queries and delegations on which an agent works", Remedy: "they end with their work, at their deadline, or if their sender cancels them; agents that take more at a time raise the bound"}

	// SlowTakers are bytes of messages that one agent has confirmed and others still
	// have their time for. Beyond, the sender's receipt waits for these.
	SlowTakers = Row{Name: "slow_takers", Unit: Bytes, Peer: 4 * mib, All: 64 * mib,
		What: "messages that one agent has confirmed and slower ones still have", Remedy: "end the agents that do not confirm: acpctl agents lists them"}

	// Delegations are those that were taken here and are not final.
	Delegations = Row{Name: "delegations", Peer: 256, All: 1024,
		What: "delegations that were taken here and are not over", Remedy: "acpctl tasks lists them, acpctl reply ID ends one, and so does its deadline"}

	// Questions are the bytes of what agents that work for agents here ask back, and of the
	// answers, on disk until the delegation ends.
	Questions = Row{Name: "questions", Unit: Bytes, Peer: 8 * mib, All: 64 * mib,
		What: "questions of agents that work for agents here, and the answers", Remedy: "acpctl tasks lists them, and acpctl reply ID answers one; they go when the delegation ends"}

	// Partials are the partial results that come too fast, or are too long. It bounds nothing: each
	// delegation has a pace of its own.
	Partials = Row{Name: "partials",
		What: "partial results that come too fast or are too long, which are refused"}

	// MailUnderWay are messages of OACP that are being received.
	MailUnderWay = Row{Name: "mail_under_way", Peer: 16, All: 256,
		What: "mail that is being received"}

	// MailFiles and MailBytes are what was stored in inboxes and nobody has read.
	MailFiles = Row{Name: "mail_files", Peer: 1000, All: 100_000,
		What: "mail that agents have not read", Remedy: "acpctl oacp inbox shows it, and acpctl oacp done puts it away"}
	MailBytes = Row{Name: "mail_bytes", Unit: Bytes, Peer: 128 * mib, All: gib,
		What: "its bytes", Remedy: "as mail_files"}

	// MailLedger are the rows by which a repeated mail is known, for 90 days.
	MailLedger = Row{Name: "mail_ledger", Peer: 100_000, All: 1_000_000,
		What: "mail of the last 90 days, by which a repeat is known", Remedy: "it frees itself after 90 days"}

	// FileTransfers are files that are being received, and those that wait for the owner.
	FileTransfers = Row{Name: "file_transfers", Peer: 2, All: 8,
		What: "files that are being received, or wait for approval", Remedy: "acpctl approvals answers those that wait; acpctl files rm ID ends one"}

	// Files and FileBytes are the files that have come, and those that have not come whole.
	Files = Row{Name: "files", Peer: 1000, All: 10_000,
		What: "files that have come", Remedy: "acpctl files lists them, and acpctl files rm ID removes one; they go after 30 days"}
	FileBytes = Row{Name: "file_bytes", Unit: Bytes, Peer: 4 * gib, All: 16 * gib,
		What: "their bytes", Remedy: "as files"}

	// ChannelBytes are messages, events and log entries in channels, and the objects of
	// channels and tasks, on disk.
	ChannelBytes = Row{Name: "channel_bytes", Unit: Bytes, Peer: 256 * mib, All: 2 * gib,
		What: "messages, events and objects of channels, on disk", Remedy: "acpctl channel close CHANNEL --delete removes a channel at once"}

	// ChannelAgents, Channels and Tasks are what a peer's agents have made here: records
	// of themselves, channels and tasks, each of some KiB in memory and on disk.
	ChannelAgents = Row{Name: "channel_agents", Peer: 1000, All: 10_000,
		What: "records of its agents in channels here", Remedy: "they go when the peer is untrusted: acpctl untrust"}
	// ChannelAgentBytes are the bytes of these records, which are in memory.
	ChannelAgentBytes = Row{Name: "channel_agent_bytes", Unit: Bytes, Peer: 4 * mib, All: 64 * mib,
		What: "their bytes", Remedy: "as channel_agents"}

	Channels = Row{Name: "channels", Peer: 2000, All: 50_000,
		What: "channels that its agents have created", Remedy: "acpctl channel close CHANNEL --delete removes one at once"}
	Tasks = Row{Name: "tasks", Peer: 2000, All: 25_000,
		What: "tasks that its agents have created in channels", Remedy: "they go with their intent, or when the peer is untrusted: acpctl untrust"}

	// ChannelRequests are requests in channels that are under way.
	ChannelRequests = Row{Name: "channel_requests", Peer: 128, All: 2048,
		What: "requests about channels that are under way"}

	// Descriptors are the files and sockets that are open for peers. The sum is half
	// of the process's limit, given by WithSum.
	Descriptors = Row{Name: "descriptors", Peer: 32,
		What: "files that are open for its mail", Remedy: "a larger ulimit -n raises the bound of all"}

	// FreeSpace is the space on the disk below which peers are refused what would be
	// kept there, whatever else they hold; see package disk.
	FreeSpace = Row{Name: "free_space", Unit: BytesFree,
		What: "the space that is left on the disk of the state directory", Remedy: "free some space on that disk, or lower limits.min_free"}

	// Policy and Rate are refusals by the configuration. They bound nothing: the
	// policy and limits.rate do.
	Policy = Row{Name: "policy",
		What: "messages that policy in config.yaml forbids", Remedy: "acpctl policy PEER KIND says which rule decides"}
	Rate = Row{Name: "rate",
		What: "messages over limits.rate in config.yaml", Remedy: "acpctl policy PEER KIND says which rate applies, and how much is left"}

	// LogLines are lines that peers cause in the log, and events for subscribers, in
	// a minute; beyond, one line a minute says how many there were.
	LogLines = Row{Name: "log_lines", Peer: 10, All: 20 * 60,
		What: "lines in the log and events that peers cause, in this minute", Remedy: "it frees itself after a minute"}
)

// Bounds of one intent on disk, for all peers and agents together.
const (
	IntentBytes  = 64 * mib
	IntentEvents = 100_000
)

// WithSum returns the row with another sum, for rows whose sum depends on the machine.
func (r Row) WithSum(all int64) Row {
	r.All = all
	return r
}
