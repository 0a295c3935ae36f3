// Package config reads config.yaml, the settings that people write. Nothing
// here writes it: what the daemon learns goes into trust.yaml and state.db.
//
// [Config] is the one documented struct. Its tags are the documentation, from
// which [RenderReferenceFile] makes the commented reference file; its zero value is what
// a missing file gives. [LoadConfig] is strict: unknown and repeated keys, values of
// a wrong type or out of range, keys without a value, anchors and further
// documents are errors, each an [*Error] with its file, line and remedy, and
// all of them are reported at once.
//
// The two decisions that depend only on settings are here too, as pure
// functions: [Policy.Decide] and [Limits.FindRate].
package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// star means every peer, or every kind.
const star = "*"

// Config holds every setting. LoadConfig returns it with the defaults filled in.
// A program that makes its own may leave anything zero; zero means default.
type Config struct {
	Name         string          `yaml:"name" example:"desk" doc:"What this daemon calls itself. Others see it as a claim and may take it as its name: lower-case letters, digits and hyphens, a letter first, at most 32. Default: the host name, made to fit."`
	Listen       string          `yaml:"listen" example:"0.0.0.0:7117" doc:"The UDP address to listen on, as host:port; without a host, on all addresses. If it is taken, the daemon does not start. On Linux it may be an address that the machine gets later, as of a VPN. Default: port 7117, or a free port if that is taken, chosen once and kept."`
	MaxMessage   int             `yaml:"max_message" example:"1048576" doc:"The largest message to accept and to send, in bytes, from 65536 (64 KiB) to 16777216 (16 MiB). Default: 1048576 (1 MiB)."`
	PostQuantum  PostQuantum     `yaml:"post_quantum" example:"prefer" doc:"prefer: use post-quantum key exchange and signatures wherever the peer has them. require: refuse peers that do not. Default: prefer."`
	Discovery    Discovery       `yaml:"discovery" doc:"How this daemon and others on the local network find each other. It trusts nobody whom it finds."`
	Reach        Reach           `yaml:"reach" doc:"How this daemon and its peers reach each other where their networks do not let them."`
	Peers        map[string]Peer `yaml:"peers" key:"planner" doc:"Fixed ways to trusted peers, by name or id, for where discovery does not reach. An entry here trusts nobody."`
	Limits       Limits          `yaml:"limits" doc:"Limits beyond those that are built in."`
	Policy       Policy          `yaml:"policy" key:"reviewer" doc:"What a trusted peer may initiate, by its name or id; \"*\" (in quotes) is for every peer without a rule of its own. One rule decides: that of the id, else of the name, else of \"*\". For a peer with a certificate it is that of the id, else of the name, as in build-7.corp, else those of its groups together, as in group:ci.corp, else allow of the authority. Replies, and results, errors and cancels of a delegation, are always allowed. Default: no rule; trusted peers may initiate everything."`
	Organisation Organisation    `yaml:"organisation" doc:"Daemons that are known by certificates, so that the owner does not have to trust each one. Without an authority, no daemon is."`
	OACP         OACP            `yaml:"oacp" doc:"OACP mailboxes whose mail is carried to and from other machines."`
	Channels     Channels        `yaml:"channels" doc:"OpenIntent channels (RFC-0021), which http.sock in the state directory serves."`
	Files        Files           `yaml:"files" doc:"Files that trusted peers send with acpctl send."`
	Agents       Agents          `yaml:"agents" doc:"The folder agent in the state directory, whose sockets serve agents and nothing that administers this daemon; and what single agents may do, by their names."`
	Owner        Owner           `yaml:"owner" doc:"How you are told that something waits for you."`
	Spending     float64         `yaml:"spending" example:"5" doc:"What headless runs of agent programs (acpctl serve --profile) for one peer may cost on one day of the local calendar, in US dollars from 1 to 100000. For each dollar there are also 10 runs and 400000 tokens, which bound programs that name no cost. All peers together may cost four times as much. Default: 5."`
	History      Switch          `yaml:"history" example:"on" doc:"on: keep the last 1000 messages that have passed, at most 4 MiB of them, in memory and never on disk, so that acpctl web and acpctl tail can show what passed before they were started. off: keep none while neither runs. Default: on."`
	Metrics      Metrics         `yaml:"metrics" doc:"What this daemon does, counted, as text for Prometheus, and whether it is well, over HTTP."`
	Log          Log             `yaml:"log" doc:"The daemon's log, on standard error."`

	Lines   Lines    `yaml:"-"` // of the file; no setting
	Skipped []string `yaml:"-"` // a message to the owner for each setting that is gone and was skipped; no setting
}

// Lines has the line of each key of a configuration file, from 1. A key is written as in
// limits.rate[0].burst.
type Lines map[string]int

// PostQuantum is the setting for peers without post-quantum cryptography.
type PostQuantum string

const (
	Prefer  PostQuantum = "prefer"
	Require PostQuantum = "require"
)

// Discovery holds the settings of discovery on the local network.
type Discovery struct {
	MDNS    Switch   `yaml:"mdns" example:"on" doc:"on: announce this daemon by multicast DNS and look for others. off: neither. Default: on."`
	Include []string `yaml:"include" example:"[eth0]" doc:"The only interfaces to use, by name. Default: all that are up and can do multicast."`
	Exclude []string `yaml:"exclude" example:"[docker0]" doc:"Interfaces that are not used, by name. Default: none."`
}

// Switch turns something on or off.
type Switch string

const (
	On  Switch = "on"
	Off Switch = "off"
)

// Peer holds the fixed ways to a trusted peer. At least one is given.
type Peer struct {
	Addrs []string `yaml:"addrs" example:"[\"planner.example:7117\"]" doc:"Where it may be reached, as host:port, at most 8. They are tried in addition to those that discovery finds."`
	Pipe  []string `yaml:"pipe" example:"[ssh, planner.example, acpctl, pipe]" doc:"A command whose standard input and output lead to acpctl pipe on the peer's machine, as a list of words: no shell reads it. It runs while calls need it, and has no terminal to ask anything. Default: none."`
}

// Organisation holds the settings of certificates (docs/reach.md).
type Organisation struct {
	Certificate string               `yaml:"certificate" example:"acpd-cert.pub" doc:"The certificate of this daemon, as ssh-keygen -s makes it of the line that acpctl cert request prints: a file in the state directory, or a path that begins with / or ~/. It is shown to every daemon that this one dials. Default: none."`
	Authorities map[string]Authority `yaml:"authorities" key:"corp" doc:"Authorities whose certificates are valid here, at most 16. A daemon whose certificate an authority has signed is a peer under the name NAME.AUTHORITY for as long as it is valid, unless its key is trusted or blocked. The name of an authority is chosen here: lower-case letters, digits and hyphens, a letter first."`
}

// Authority is a key that signs certificates.
type Authority struct {
	Key     string   `yaml:"key" example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICWWUXJxLQJe24EA1pwijSLOFOwyH2Z7MGuvQG6G0rUR" doc:"Its public key, as ssh-keygen writes it into a .pub file: ed25519, ed25519-sk or ecdsa on P-256. Use a key of its own, and not one that signs for ssh. Required."`
	NextKey string   `yaml:"next_key" example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpnsMAaO+YCpzmsiS1Hkw5iKPVoALkcmPBiF9cjuLcN" doc:"A second public key whose certificates are valid under the same name, while it replaces key. Default: none."`
	Revoked string   `yaml:"revoked" example:"revoked.txt" doc:"Certificates that are no longer valid although they have not expired: a file in the state directory, or a path that begins with / or ~/, with lines like id and 64 hex digits, name build-7 or serial 17. It is read again on reload. Default: none."`
	Allow   []string `yaml:"allow" example:"[ping, discover, query]" doc:"What its peers may initiate where policy has no rule for their id, their name or a group of theirs: ping, discover, query, delegate and notify. The rule of \"*\" is not for them. Default: ping and discover."`
}

// ListAllowed returns the kinds that the authority's peers may initiate without a rule.
func (a Authority) ListAllowed() []string {
	if a.Allow == nil {
		return defaultAllow
	}
	return a.Allow
}

// Limits bounds what trusted peers may send.
type Limits struct {
	MinFree int `yaml:"min_free" example:"1073741824" doc:"Free space on the disk, in bytes, below which peers are refused what would be kept there, as overloaded; from 1048576 (1 MiB). Default: 5 % of the disk or 1 GiB, whichever is less, but at least 134217728 (128 MiB)."`

	Rate []Rate `yaml:"rate" doc:"Message rates. One entry applies to a message: that of the peer's id, else of its name, else of \"*\"; and among these the one of the message's kind before that of \"*\". Over the rate a message is refused as overloaded. Default: none."`
}

// Rate is a token bucket.
type Rate struct {
	Peer      string  `yaml:"peer" example:"\"*\"" doc:"A peer's name or id, or \"*\": every peer, each with a count of its own. Default: \"*\"."`
	Kind      string  `yaml:"kind" example:"query" doc:"ping, discover, query, delegate, cancel, notify, result or error; mail (OACP), channel (OpenIntent) or file, where every offer is one; or \"*\": all of these together. Default: \"*\"."`
	PerSecond float64 `yaml:"per_second" example:"10" doc:"Messages per second in the long run, above 0 and at most 1000000. Required."`
	Burst     int     `yaml:"burst" example:"20" doc:"Messages that may come at once, from 1 to 1000000. Default: per_second, rounded up."`
}

// Policy maps a peer's name or id, or "*", to what that peer may initiate.
type Policy map[string]Rule

// Rule is one entry of a policy; of its two fields at least one is given.
type Rule struct {
	Kinds   []string `yaml:"kinds" example:"[ping, query, notify]" doc:"Any of ping, discover, query, delegate, notify, and the words mail (OACP), channel (OpenIntent) and file. [] allows none. Default: all."`
	Domains []string `yaml:"domains" example:"[code, docs.api]" doc:"Domains that its messages may name: code allows code and code.go, not codec. A message that names no domain is then refused, and so is every kind that cannot name one. Default: any domain, and none."`
}

// OACP holds the settings of OACP mailboxes.
type OACP struct {
	Home string `yaml:"home" example:"\"~/oacp\"" doc:"Their home, an absolute path, or one below the user's home that begins with ~/. Default: $OACP_HOME of the daemon's environment, else ~/oacp."`
}

// Channels holds the settings of channels.
type Channels struct {
	Listen  string       `yaml:"listen" example:"127.0.0.1:7118" doc:"A loopback TCP address to serve them on too, for programs that cannot use a unix socket. A program that connects there needs a key. Default: none."`
	Keys    []ChannelKey `yaml:"keys" doc:"Who may come to listen."`
	OpenTo  []string     `yaml:"open_to" example:"[laptop]" doc:"Trusted daemons, by name or id, or \"*\" (in quotes) for all of them, whose agents may come to every open intent here, and see the agents here. Agents of others come where an access entry or an assignment names them with their home. Default: none."`
	Lenient bool         `yaml:"lenient" example:"true" doc:"true: for agents written for the reference server, answer options as they were sent, accept requests without to, and replies to messages that are not requests. Default: false."`
}

// Files holds the settings of files that peers send.
type Files struct {
	Max uint64 `yaml:"max" example:"1073741824" doc:"The largest file to accept, in bytes, from 1 to 4294967296 (4 GiB). To accept none, forbid file with policy. Default: 1073741824 (1 GiB)."`
	Ask uint64 `yaml:"ask" example:"67108864" doc:"How many bytes of files a peer may send on one day of the local calendar before acpctl approvals asks for each further file; from 1, which asks for every file, to 1099511627776. It asks for the first file of a peer in any case, and for none after the answer always. Default: 67108864 (64 MiB)."`
}

// Agents holds the settings of the agents' folder, and those of single agents.
type Agents struct {
	UIDs []int `yaml:"uids" example:"[100999]" doc:"Other users, besides the one that runs this daemon, who may open its sockets, by the number that they have on this host: of a container, what ps -o uid shows outside of it. The folder and its sockets are then open to whom they are mounted for, and each connection is judged by its user. Default: none."`

	Named map[string]Agent `yaml:",inline" key:"claude" doc:"An agent, by the name under which it attaches. The name \"*\" (in quotes), which takes only to and turns, is for agents without an entry of their own, and its to for callers that are no agent."`
}

// Agent holds the settings of an agent.
type Agent struct {
	To      []string        `yaml:"to" example:"[desk]" doc:"The peers that it may call, by name or id. [] allows none. It still answers whoever may call it. Default: all."`
	Wake    map[string]Wake `yaml:"wake" key:"desk" doc:"Peers whose messages may wake it, by name or id, in addition to those of acpctl wake allow. Only a session is woken: an agent that answers with turns of a model. Default: none."`
	Answers Answers         `yaml:"answers" example:"on" doc:"on: the final result or error of what it asked of a peer wakes it, and a question about that, once each. unattended: also if nobody is there to be asked for permissions. off: it does not, even if acpctl wake allows it for every session. Default: as set with acpctl wake."`
	Turns   Turns           `yaml:"turns" doc:"How many turns of a session peers may cause; one peer may cause half of them. A session sends at most five times that many messages in such turns, and all sessions together five times the largest of these numbers. Default: as under \"*\"."`
}

// Turns bounds the turns of a session that peers cause.
type Turns struct {
	Hour int `yaml:"hour" example:"20" doc:"In an hour, from 2 to 2000; in 24 hours five times that many. Default: 20."`
}

// Wake says for what a peer may wake a session.
type Wake struct {
	Kinds      []string `yaml:"kinds" example:"[query, notify]" doc:"Any of query, delegate, notify, result and error. Partial results never wake. Default: all of them."`
	Ask        bool     `yaml:"ask" example:"true" doc:"true: acpctl approvals asks before a message begins a turn. Default: false."`
	Unattended bool     `yaml:"unattended" example:"true" doc:"true: also if nobody is there to be asked for permissions. Default: false."`
}

// Owner has the command that notifies the owner.
type Owner struct {
	Notify []string `yaml:"notify" example:"[notify-send, acpd, 'An agent needs you: acpctl approvals']" doc:"A command that starts when a message begins to wait for acpctl approvals, and when one did not wake a session because a person is needed there. Word by word: no shell reads it. acpctl wake notify --help says what is in its environment, and how often it starts. Default: as acpctl wake notify says."`
}

// OwnerNotifyExample is a command that tells the owner, as errors show it.
const OwnerNotifyExample = "[notify-send, acpd, An agent needs you]"

// Answers is whether a session is woken by the answers to what it asked.
type Answers string

// The values of Answers.
const (
	AnswersOff        Answers = "off"
	AnswersOn         Answers = "on"
	AnswersUnattended Answers = "unattended"
)

// ChannelKey is an API key, without the key itself.
type ChannelKey struct {
	SHA256 string `yaml:"sha256" example:"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" doc:"The hash of the key: printf %s KEY | sha256sum. Make keys with openssl rand -hex 32. Required."`
	Agent  string `yaml:"agent" example:"planner" doc:"The agent that the key is for. Default: any that its user names, and everything an operator may do."`
}

// IsOpenTo reports whether open_to names a peer. Its name may be empty. "*" is not for a peer that has
// no more than a certificate.
func (c *Channels) IsOpenTo(peer identity.Peer) bool {
	if len(c.OpenTo) == 0 {
		return false // the usual case: no id as text
	}
	id := peer.ID.String()
	return slices.ContainsFunc(c.OpenTo, func(s string) bool {
		return s == star && peer.Certificate == nil || s == peer.Name && s != "" || s == id
	})
}

// Metrics holds the settings of metrics and of the checks of health.
type Metrics struct {
	Listen string `yaml:"listen" example:"127.0.0.1:7119" doc:"Where /metrics, /healthz and /readyz are served: a TCP address, on loopback if it has no host, or the absolute path of a unix socket, only for this user. It asks for no key. Default: nowhere, and nothing is counted for it."`
	Expose bool   `yaml:"expose" example:"true" doc:"true: listen may be an address that other machines reach. It shows to everybody who reaches it how much is sent and received, the kinds, times and outcomes, but no payload and no key. Default: false."`
}

// loopback is where metrics are served if no host is named.
const loopback = "127.0.0.1"

// IsSocket reports whether listen is the path of a unix socket.
func (m Metrics) IsSocket() bool { return filepath.IsAbs(m.Listen) }

// Addr returns the TCP address that listen means, as host:port.
func (m Metrics) Addr() string {
	if strings.HasPrefix(m.Listen, ":") {
		return loopback + m.Listen
	}
	return m.Listen
}

// Log holds the settings of the log.
type Log struct {
	Level Level `yaml:"level" example:"info" doc:"The least level to log: debug, info, warn or error. Default: info."`
}

// Level is the least level that is logged; slog reads the same words.
type Level string

const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// FindRate returns the index in Rate of the entry that applies to messages of kind from a trusted
// peer, or -1. name is its petname and may be empty.
func (l Limits) FindRate(peer identity.ID, name, kind string) int {
	if len(l.Rate) == 0 {
		return -1 // the usual case, on every message: no id as text
	}
	for _, who := range []string{peer.String(), name, star} {
		for _, what := range []string{kind, star} {
			i := slices.IndexFunc(l.Rate, func(r Rate) bool { return r.Peer == who && r.Kind == what && who != "" })
			if i >= 0 {
				return i
			}
		}
	}
	return -1
}

// setDefaults sets the settings that are zero to their defaults.
func (c *Config) setDefaults() {
	if c.Name == "" {
		host, _ := os.Hostname() // without one it is "acpd"
		c.Name = makePetname(host)
	}
	c.MaxMessage = cmp.Or(c.MaxMessage, wire.DefaultMaxMessage)
	c.PostQuantum = cmp.Or(c.PostQuantum, Prefer)
	c.Discovery.MDNS = cmp.Or(c.Discovery.MDNS, On)
	c.Reach.Direct = cmp.Or(c.Reach.Direct, On)
	if c.Reach.Proxy.Text == "" && len(c.Reach.Proxy.Command) == 0 {
		c.Reach.Proxy.Text = ProxyEnvironment
	}
	c.Files.Max = cmp.Or(c.Files.Max, 1<<30)
	c.Files.Ask = cmp.Or(c.Files.Ask, 64<<20)
	c.Spending = cmp.Or(c.Spending, 5)
	c.History = cmp.Or(c.History, On)
	c.Log.Level = cmp.Or(c.Log.Level, LevelInfo)
}
