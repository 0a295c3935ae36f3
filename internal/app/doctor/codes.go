package doctor

// Code names what a finding says. It never changes its meaning.
type Code string

// CodeInfo is a row of the table of codes.
type CodeInfo struct {
	Code     Code
	Severity Severity
	Says     string
	Do       string // "": nothing
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
	{"home.ok", OK, "only its owner can open the state directory", ""},
	{"home.missing", Failure, "there is no state directory: no daemon was started with it", "`acpctl up`, or name another directory with `--home`"},
	{"home.owner", Failure, "the state directory belongs to another user", "run acpctl as that user"},
	{"home.open", Failure, "other users can open the state directory: acpd does not start", "`chmod 700`; `--fix` does it"},
	{"home.incomplete", Failure, "a restore into the state directory was interrupted: acpd does not start", "`acpctl restore FILE`, again"},
	{"home.path", Failure, "the path is too long for its sockets", "choose a shorter `--home`"},
	{"file.ok", OK, "only their owner can open the files in it", ""},
	{"file.open", Failure, "other users can open a file", "`chmod 600`; `--fix` does it"},
	{"file.owner", Failure, "a file belongs to another user", "`chown` it"},
	{"file.kind", Failure, "a link or folder stands where a file must be", "put the file itself there"},
	{"disk.ok", OK, "the disk has room", ""},
	{"disk.near", Warning, "the disk has less than twice what must be left", "free some space"},
	{"disk.low", Failure, "the disk has too few bytes or inodes left, or is read-only, so that peers are refused", "free some space or inodes, or mount it for writing; the finding says which"},
	{"disk.later", Note, "`limits.min_free` has changed in config.yaml since the daemon's start", "start acpd again"},

	{"config.ok", OK, "config.yaml is valid or absent", ""},
	{"config.broken", Failure, "config.yaml is not valid, or what an authority has revoked cannot be read; one finding for each error, with its line", "fix the line"},
	{"config.file", Warning, "a file that config.yaml names cannot be read, and acpd does not use what it is for", "do what the finding says, then `acpctl reload`"},
	{"record.ok", OK, "the trust store or the wake rules are sound, both copies", ""},
	{"record.copy", Warning, "the main file is damaged or missing: its copy is used", "check that the last change is in it; look at the disk"},
	{"record.copy_damaged", Warning, "the copy is damaged: the main file is used", "nothing is lost; look at the disk"},
	{"record.lost", Failure, "neither file can be believed: nobody is trusted, or may wake a session", "restore both from a backup, or trust and allow anew"},
	{"record.newer", Failure, "a newer acpd wrote the file", "use that acpd"},
	{"record.kept", Note, "damaged files of before were kept", "remove them when nothing is missed"},
	{"state.ok", OK, "state.db begins as a database does, and is whole", ""},
	{"state.none", Note, "there is no state.db yet", ""},
	{"state.newer", Failure, "a newer acpd wrote state.db: one of this version does not start", "use that acpd, or restore the backup from before the upgrade"},
	{"state.damaged", Failure, "state.db is damaged: acpd does not start", "move it away, or restore it"},

	{"daemon.ok", OK, "the daemon runs: since when, which version", ""},
	{"daemon.down", Failure, "no daemon runs", "`acpctl up`"},
	{"daemon.silent", Failure, "a daemon holds the lock and does not answer", "look at its log; end that process"},
	{"daemon.socket", Note, "a killed daemon has left its socket", "the next start removes it; so does `--fix`"},
	{"daemon.version", Warning, "the daemon and acpctl are of different versions", "start acpd again, or update the older one"},
	{"daemon.draining", Note, "the daemon is ending", "wait, and look again"},
	{"daemon.warning", Warning, "a warning of the daemon, as `acpctl status` has it", "do what the warning says"},
	{"service.gone", Failure, "a service of yours starts an acpd that is gone: it will not start again", "`acpctl service install` again, with its flags; the finding names the file"},
	{"identity.ok", OK, "the key is there; its certificate is made at each start and does not expire", ""},
	{"identity.missing", Failure, "the key is missing, but the state is there: the next start makes a new identity that no peer knows", "`acpctl restore FILE`, of a backup with the identity"},
	{"identity.damaged", Failure, "the key cannot be read: acpd does not start", "`acpctl restore FILE`, of a backup with the identity"},

	{"port.ok", OK, "the UDP port is the daemon's, or free", ""},
	{"port.taken", Failure, "another program has the configured UDP port: acpd does not start", "stop that program, or choose another port with `listen`"},
	{"port.other", Note, "another program has UDP port 7117, so the daemon uses another one", "let that one in where there is a firewall"},
	{"port.forbidden", Failure, "this user may not use the configured port", "choose one from 1024 up"},
	{"port.absent", Warning, "this machine does not have the configured address now", "nothing, if it comes later; else correct `listen`"},
	{"port.address", Failure, "nothing can listen on the configured address: acpd does not start", "correct `listen`"},
	{"port.loopback", Note, "the daemon listens only on loopback: no other machine reaches it", "change `listen` if that is not meant"},
	{"buffers.ok", OK, "the UDP socket may buffer enough", ""},
	{"buffers.small", Note, "the system lets a UDP socket buffer little: packets are lost under load", "raise net.core.rmem_max and wmem_max; the finding has the line"},
	{"multicast.ok", OK, "on this interface multicast is heard", ""},
	{"multicast.off", Note, "discovery is off, in config.yaml or by --no-mdns", "give peers addresses, or turn it on"},
	{"multicast.none", Warning, "no interface can do multicast: peers are not found by themselves", "look at the network and at `discovery`; or give addresses"},
	{"multicast.deaf", Warning, "what is sent to the group on this interface is not heard, not even here", "let UDP port 5353 in; or exclude the interface"},
	{"multicast.taken", Warning, "a program holds UDP port 5353 and does not share it", "stop that program; or give addresses"},
	{"clock.ok", OK, "the system keeps the clock synchronised, or does not say", ""},
	{"clock.unsynchronised", Warning, "the kernel says that nothing synchronises the clock", "run chrony, ntpd or systemd-timesyncd"},
	{"clock.wrong", Failure, "the clock shows a time before the key was made, or one at which no certificate is valid", "set the clock"},
	{"descriptors.ok", OK, "there are descriptors left", ""},
	{"descriptors.near", Warning, "four fifths of the descriptors are open", "raise the limit (ulimit -n, LimitNOFILE=), and look at what is connected"},
	{"descriptors.few", Warning, "the daemon may open few files and sockets", "raise the limit (ulimit -n, LimitNOFILE=)"},
	{"budget.ok", OK, "no peer is near a bound", ""},
	{"budget.near", Warning, "a peer, or all together, hold four fifths of a bound", "`acpctl status --budget`"},
	{"budget.refused", Note, "a peer was refused something since the start, by policy or at a bound", "`acpctl status --budget`"},

	{"peer.ok", OK, "the peer is connected: where, which version", ""},
	{"peer.none", Note, "nobody is trusted", "`acpctl up` on both machines"},
	{"peer.unasked", Note, "no daemon runs, so who is in reach is not known", "`acpctl up`"},
	{"peer.away", Note, "the peer does not answer, or has no address", "start its daemon; `acpctl doctor PEER` tries each address"},
	{"peer.unreached", Failure, "the same, of the PEER of `acpctl doctor PEER`", "do what the finding says, and start its daemon if it does not run"},
	{"peer.refuses", Failure, "the peer does not trust this daemon", "trust it there, or have this daemon's certificate signed anew; the finding has the command"},
	{"peer.conflict", Failure, "another key answers at its address, or another process has this daemon's key", "do what the finding says; `acpctl ping PEER` shows whether that was enough"},
	{"peer.incompatible", Failure, "the peer and this daemon speak no common version, or it demands what this one lacks", "update the older side"},
	{"peer.forbids", Note, "the peer answers, and its policy forbids a ping", ""},
	{"peer.waiting", Note, "a stranger has called and waits for a decision", "`acpctl trust`, or leave it"},
	{"peer.version", Note, "the peer runs another version", "update the older side when it suits"},
	{"peer.clock", Warning, "the peer's clock differs by over a minute", "synchronise both clocks"},
	{"peer.pinned", OK, "its post-quantum key is pinned", ""},
	{"peer.unpinned", Note, "no post-quantum key of it is pinned yet", "it is pinned when the peer connects and has one"},
	{"address.ok", OK, "at this address the peer has proved its key", ""},
	{"address.dead", Warning, "at this address the peer does not answer", "do what the finding says; where nothing answers, look for an MTU below 1,280, and for a firewall: the finding names the ports"},
	{"address.wrong", Failure, "at this address another key answers", "correct the address: `acpctl trust PEER --addr HOST:PORT`, or config.yaml"},
	{"address.none", Warning, "no address of the peer is known", "`acpctl trust PEER --addr HOST:PORT`"},
	{"pipe.ok", OK, "through this command the peer has proved its key", ""},
	{"pipe.dead", Warning, "the peer's command in config.yaml does not lead to it", "`acpctl ping PEER` shows what the command said; [reach.md](reach.md#pipe) has what it may say"},
	{"policy.here", OK, "what the peer may send here", ""},
	{"policy.there", Note, "what the peer takes from here, as far as it has shown", "`acpctl doctor` there says the rest"},

	{"relay.ok", OK, "a relay is connected", ""},
	{"relay.limited", Warning, "a relay is connected, and something does not work there, such as to be found by name", "`acpctl relay test`"},
	{"relay.down", Warning, "a relay cannot be reached: peers that are reached in another way stay", "`acpctl relay test`"},
	{"relay.refused", Failure, "a relay refuses the login, or what the daemon has to do there", "`acpctl relay test`"},
	{"relay.unused", Failure, "a relay is not used: its settings cannot be, or another one has its name or URL", "correct it, or remove it where it stands: config.yaml, or `acpctl relay remove NAME`"},
	{"relay.file", Failure, "relays.yaml cannot be read: none of its relays is used", "fix or remove it, then `acpctl reload`"},
	{"relay.clone", Failure, "another process uses a relay with this daemon's identity", "stop one of the two for good"},
	{"relay.snoop", Note, "the account at a relay may listen to what is for others", "permissions for each daemon: [reach.md](reach.md#a-server-for-a-company)"},

	{"owner.ok", OK, "the command that tells you what waits for you works: it was started once, as a test", ""},
	{"owner.failed", Warning, "the command that tells you what waits for you does not work", "fix it: `acpctl wake notify`, or `owner.notify` in config.yaml"},
	{"agent.ok", OK, "an agent is attached", ""},
	{"agent.none", Note, "no agent is attached: questions are refused, notices are kept", "start a program that `acpctl setup` has connected, or `acpctl serve`"},
	{"agent.away", Warning, "an agent that has accepted delegations is not attached: since when, and until when they wait for it", "`acpctl serve` under its name again, which reports them as failed; or `acpctl cancel ID`, where they were given"},
	{"program.ok", OK, "an agent program is connected by `acpctl setup`", ""},
	{"program.absent", Note, "an agent program is here and not connected", "`acpctl setup PROGRAM`"},
	{"program.broken", Failure, "its configuration names an acpctl that is gone, or cannot be read", "`acpctl setup PROGRAM`"},
	{"program.foreign", Warning, "its server acp is not acpctl", "give that one another name, then `acpctl setup` again"},
	{"program.elsewhere", Warning, "it is connected to another daemon", "`acpctl setup PROGRAM`"},
	{"program.untested", Note, "this version is too old for its sessions to be woken", "update the program"},
	{"mailbox.ok", OK, "the mailboxes (OACP) are as they should be, or absent", ""},
	{"mailbox.open", Warning, "other users of this machine can read mail, or write it in any name", "`chmod go= ~/oacp`"},
	{"mailbox.elsewhere", Warning, "the daemon carries mail of other mailboxes than the tools use here", "set `oacp.home`, or OACP_HOME"},
	{"mailbox.parked", Warning, "mail for a peer is not carried", "`acpctl oacp queue` says why"},
	{"mailbox.twin", Warning, "an agent lives here and at a peer too", "give one of them another name"},
	{"channel.ok", OK, "channels answer, and nothing waits", ""},
	{"channel.silent", Failure, "the socket of channels does not answer", "look at the daemon's log"},
	{"channel.unsent", Note, "messages to channels wait for their machine, or were refused", "`acpctl channel unsent`"},
}
