package doctor

// Code names what a finding says. It never changes its meaning.
type Code string

// CodeInfo is a row of the table of codes.
type CodeInfo struct {
	Code     Code
	Severity Severity
	Says     string
}

// ListCodes returns the table of codes, in the order of the findings. docs/operate.md has it.
func ListCodes() []CodeInfo { return codeTable[:] }

func (c Code) info() *CodeInfo {
	for i := range codeTable {
		if codeTable[i].Code == c {
			return &codeTable[i]
		}
	}
	panic("doctor: the table has no code " + string(c))
}

var codeTable = [...]CodeInfo{
	{"home.ok", OK, "only its owner can open the state directory"},
	{"home.missing", Failure, "there is no state directory"},
	{"home.owner", Failure, "the state directory belongs to another user"},
	{"home.open", Failure, "other users can open the state directory"},
	{"home.incomplete", Failure, "a restore was interrupted"},
	{"home.path", Failure, "the path of the state directory is too long for its sockets"},
	{"file.ok", OK, "only their owner can open the files in it"},
	{"file.open", Failure, "other users can open a file"},
	{"file.owner", Failure, "a file belongs to another user"},
	{"file.kind", Failure, "a link or folder is where a file must be"},
	{"disk.ok", OK, "the disk has room"},
	{"disk.near", Warning, "less than twice the required space is free"},
	{"disk.low", Failure, "too few bytes or inodes are free, or the disk is read-only: peers are refused"},
	{"disk.later", Note, "`limits.min_free` has changed in config.yaml since the daemon's start"},

	{"config.ok", OK, "config.yaml is valid or absent"},
	{"config.broken", Failure, "an error in config.yaml, or a list of revoked certificates that cannot be read"},
	{"config.file", Warning, "a file that config.yaml names cannot be read and is not used"},
	{"record.ok", OK, "the trust store or the wake rules are sound, both copies"},
	{"record.copy", Warning, "the main file is damaged or missing: its copy is used"},
	{"record.copy_damaged", Warning, "the copy is damaged: the main file is used"},
	{"record.lost", Failure, "neither file can be believed: nobody is trusted, or may wake a session"},
	{"record.newer", Failure, "a newer acpd wrote the file"},
	{"record.kept", Note, "damaged files of before were kept"},
	{"state.ok", OK, "state.db begins as a database does"},
	{"state.none", Note, "there is no state.db yet"},
	{"state.newer", Failure, "a newer acpd wrote state.db: this version does not start"},
	{"state.damaged", Failure, "state.db is damaged: acpd does not start"},

	{"daemon.ok", OK, "the daemon runs: since when, which version"},
	{"daemon.down", Failure, "no daemon runs"},
	{"daemon.silent", Failure, "a daemon has the lock and does not answer"},
	{"daemon.socket", Note, "a killed daemon has left its socket"},
	{"daemon.version", Warning, "the daemon and acpctl have different versions"},
	{"daemon.draining", Note, "the daemon is ending"},
	{"daemon.warning", Warning, "a warning that `acpctl status` shows too"},
	{"service.gone", Failure, "a service starts an acpd that is gone"},
	{"identity.ok", OK, "the key is there; its certificate is made at each start and does not expire"},
	{"identity.missing", Failure, "the key is missing: the next start makes a new identity, unknown to peers"},
	{"identity.damaged", Failure, "the key cannot be read: acpd does not start"},

	{"port.ok", OK, "the UDP port is the daemon's, or free"},
	{"port.taken", Failure, "another program has the configured UDP port"},
	{"port.other", Note, "another program has UDP port 7117, so the daemon uses another one"},
	{"port.forbidden", Failure, "this user may not use the configured port"},
	{"port.absent", Warning, "this machine does not have the configured address now"},
	{"port.address", Failure, "nothing can listen on the configured address"},
	{"port.loopback", Note, "the daemon listens only on loopback: no other machine reaches it"},
	{"buffers.ok", OK, "the UDP socket may buffer enough"},
	{"buffers.small", Note, "the system lets a UDP socket buffer little: packets are lost under load"},
	{"multicast.ok", OK, "on this interface multicast is heard"},
	{"multicast.off", Note, "discovery is off, in config.yaml or by --no-mdns"},
	{"multicast.none", Warning, "no interface can do multicast"},
	{"multicast.deaf", Warning, "multicast sent on this interface is not received"},
	{"multicast.taken", Warning, "another program does not share UDP port 5353"},
	{"clock.ok", OK, "the system keeps the clock synchronised, or does not say"},
	{"clock.unsynchronised", Warning, "nothing synchronises the clock"},
	{"clock.wrong", Failure, "the clock is earlier than the key, or at a time when no certificate is valid"},
	{"descriptors.ok", OK, "there are descriptors left"},
	{"descriptors.near", Warning, "four fifths of the descriptors are open"},
	{"descriptors.few", Warning, "the daemon may open few files and sockets"},
	{"budget.ok", OK, "no peer is near a bound"},
	{"budget.near", Warning, "four fifths of a bound are used"},
	{"budget.refused", Note, "a peer was refused something since the start, by policy or at a bound"},

	{"peer.ok", OK, "the peer is connected: where, which version"},
	{"peer.none", Note, "nobody is trusted"},
	{"peer.unasked", Note, "no daemon runs, so who is in reach is not known"},
	{"peer.away", Note, "the peer does not answer, or has no address"},
	{"peer.unreached", Failure, "the peer that you named does not answer, or has no address"},
	{"peer.refuses", Failure, "the peer does not trust this daemon"},
	{"peer.conflict", Failure, "another key answers at its address, or another process has this daemon's key"},
	{"peer.incompatible", Failure, "there is no common version, or the peer demands what this daemon lacks"},
	{"peer.forbids", Note, "the peer answers, and its policy forbids a ping"},
	{"peer.waiting", Note, "a stranger has called and waits for a decision"},
	{"peer.version", Note, "the peer runs another version"},
	{"peer.clock", Warning, "the peer's clock differs by over a minute"},
	{"peer.pinned", OK, "its post-quantum key is pinned"},
	{"peer.unpinned", Note, "no post-quantum key of it is pinned yet"},
	{"address.ok", OK, "at this address the peer has proved its key"},
	{"address.dead", Warning, "the peer does not answer at this address"},
	{"address.wrong", Failure, "another key answers at this address"},
	{"address.none", Warning, "no address of the peer is known"},
	{"pipe.ok", OK, "through this command the peer has proved its key"},
	{"pipe.dead", Warning, "the peer's command does not lead to it"},
	{"policy.here", OK, "what the peer may send here"},
	{"policy.there", Note, "what the peer takes from here, as far as it has shown"},

	{"relay.ok", OK, "a relay is connected"},
	{"relay.limited", Warning, "something does not work at a connected relay, such as names"},
	{"relay.down", Warning, "a relay cannot be reached"},
	{"relay.refused", Failure, "a relay refuses the login, or something else that the daemon needs"},
	{"relay.unused", Failure, "a relay has wrong settings, or another's name or URL"},
	{"relay.file", Failure, "relays.yaml cannot be read"},
	{"relay.clone", Failure, "another process uses a relay with this identity"},
	{"relay.snoop", Note, "the account at a relay may listen to what is for others"},

	{"owner.ok", OK, "the command that tells you what waits for you works: it was started once, as a test"},
	{"owner.failed", Warning, "the command that tells you what waits does not work"},
	{"agent.ok", OK, "an agent is attached"},
	{"agent.none", Note, "no agent is attached: questions are refused, notices are kept"},
	{"agent.away", Warning, "an agent that has accepted delegations is not attached"},
	{"message.kept", Warning, "messages for a peer have been kept for more than a day"},
	{"program.ok", OK, "an agent program is connected by `acpctl setup`"},
	{"program.absent", Note, "an agent program is here and not connected"},
	{"program.broken", Failure, "the configuration of an agent program cannot be read, or names an acpctl that is gone"},
	{"program.foreign", Warning, "the server `acp` of an agent program is not acpctl"},
	{"program.elsewhere", Warning, "an agent program is connected to another daemon"},
	{"program.untested", Note, "this version is too old for its sessions to be woken"},
	{"mailbox.ok", OK, "the mailboxes (OACP) are sound or absent"},
	{"mailbox.open", Warning, "other users can read mail, or write it in any name"},
	{"mailbox.elsewhere", Warning, "the daemon and the tools here use different mailboxes"},
	{"mailbox.parked", Warning, "mail for a peer is not carried"},
	{"mailbox.twin", Warning, "an agent is both here and at a peer"},
	{"channel.ok", OK, "channels answer, and nothing waits"},
	{"channel.silent", Failure, "the socket of channels does not answer"},
	{"channel.unsent", Note, "messages to channels wait for their machine, or were refused"},
}
