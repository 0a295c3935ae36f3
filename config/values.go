package config

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	minFree  = 1 << 20
	maxRate  = 1_000_000
	maxAgent = 128 // bytes of an agent's id in channels

	maxFileBytes uint64 = 4 << 30
	maxAskBytes  uint64 = 1 << 40

	overflowUID = 65534 // nobody, and every user that a user namespace does not map
)

// Bridges carry no kinds: each has one word for all that it carries.
const (
	PolicyMail    = "mail"
	PolicyChannel = "channel"
	PolicyFile    = "file"
)

var bridgeWords = []string{PolicyMail, PolicyChannel, PolicyFile}

// A rule may name policedKinds, kinds and words for what a peer initiates. No rule stops
// freeKinds, the kinds of a delegation that is under way. A rate may name limitedKinds.
var (
	policedKinds = slices.Concat(kinds.ListNames(kinds.Policed), bridgeWords)
	freeKinds    = kinds.ListNames(kinds.OfDelegation)
	limitedKinds = slices.Concat(kinds.ListNames(kinds.Policed), freeKinds, bridgeWords, []string{star})
)

// checkValues reports values that their type allows and their meaning does not.
func (p *parser) checkValues(c *Config) {
	p.AddValueError("name", identity.CheckName(c.Name))
	p.AddValueError("listen", checkListenAddr(c.Listen))
	if c.MaxMessage < wire.MinMaxMessage || c.MaxMessage > wire.MaxMaxMessage {
		p.AddValueError("max_message", ownwords.Errorf("%d: use bytes from %d to %d", c.MaxMessage, wire.MinMaxMessage, wire.MaxMaxMessage))
	}
	p.checkOneOf("post_quantum", string(c.PostQuantum), string(Prefer), string(Require))
	p.checkOneOf("discovery.mdns", string(c.Discovery.MDNS), string(On), string(Off))
	p.checkInterfaces("discovery.include", c.Discovery.Include)
	p.checkInterfaces("discovery.exclude", c.Discovery.Exclude)
	p.checkReach(&c.Reach)
	p.checkOrganisation(&c.Organisation)
	p.AddValueError("oacp.home", checkFolderPath(c.OACP.Home))
	p.checkChannels(&c.Channels)
	p.AddValueError("metrics.listen", checkMetricsAddr(c.Metrics))
	if c.Files.Max < 1 || c.Files.Max > maxFileBytes {
		p.AddValueError("files.max", ownwords.Errorf("%d: use bytes from 1 to %d; to accept no file, forbid it with policy", c.Files.Max, maxFileBytes))
	}
	if c.Files.Ask < 1 || c.Files.Ask > maxAskBytes {
		p.AddValueError("files.ask", ownwords.Errorf("%d: use bytes from 1, which asks for every file, to %d", c.Files.Ask, maxAskBytes))
	}
	p.checkUIDs(c.Agents.UIDs)
	p.checkAgents(&c.Agents)
	if p.IsSet("owner.notify") {
		p.AddValueError("owner.notify", CheckCommand(c.Owner.Notify, OwnerNotifyExample))
	}
	if !(c.Spending >= minSpending && c.Spending <= maxSpending) { // also not a number
		p.AddValueError("spending", ownwords.Errorf("%v: use US dollars from %d to %d; to run nothing for a peer, forbid it with policy", c.Spending, minSpending, maxSpending))
	}
	p.checkOneOf("history", string(c.History), string(On), string(Off))
	p.checkOneOf("log.level", string(c.Log.Level), string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError))
	for _, name := range slices.Sorted(maps.Keys(c.Peers)) {
		at := yamldoc.JoinKey("peers", name)
		p.AddValueError(at, checkPetnameOrID(name))
		p.checkPeer(at, c.Peers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policy)) {
		at := yamldoc.JoinKey("policy", name)
		if group, ok := strings.CutPrefix(name, identity.GroupRefPrefix); ok {
			p.AddValueError(at, identity.CheckCertifiedName(group))
		} else if name != star {
			p.AddValueError(at, checkPeerRef(name))
		}
		p.checkRule(at, c.Policy[name])
	}
	if c.Limits.MinFree < minFree {
		p.AddValueError("limits.min_free", ownwords.Errorf("%d: use bytes from %d", c.Limits.MinFree, minFree))
	}
	p.checkRates(c.Limits.Rate)
}

// checkOneOf reports a value that is not among words.
func (p *parser) checkOneOf(key, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	err := ownwords.Errorf("%s: use %s", yamldoc.Quote(value), strings.Join(words, ", "))
	if n := yamldoc.FindNearestWord(value, words); n != "" && len(value) > 2 { // no is near to on
		err = ownwords.Errorf("%s: did you mean %q?", yamldoc.Quote(value), n)
	}
	p.AddValueError(key, err)
}

// checkPeer reports ways to a peer that cannot be gone.
func (p *parser) checkPeer(at string, way Peer) {
	addrs, pipe := yamldoc.JoinKey(at, "addrs"), yamldoc.JoinKey(at, "pipe")
	if !p.IsSet(addrs) && !p.IsSet(pipe) {
		p.AddValueError(at, ownwords.Errorf("no addresses: add addrs or pipe, or remove the entry"))
	}
	if n := len(way.Addrs); p.IsSet(addrs) && (n == 0 || n > identity.MaxAddrs) {
		p.AddValueError(addrs, ownwords.Errorf("%d addresses: give 1 to %d", n, identity.MaxAddrs))
	}
	for i, addr := range way.Addrs {
		p.AddValueError(fmt.Sprintf("%s[%d]", addrs, i), identity.CheckAddr(addr))
	}
	if p.IsSet(pipe) {
		p.AddValueError(pipe, CheckCommand(way.Pipe, "[ssh, planner.example, acpctl, pipe]"))
	}
}

// CheckCommand returns an error unless the words can be a command, which means the same wherever
// the daemon is started. The error shows a command like that as an example.
func CheckCommand(argv []string, like string) error {
	for _, word := range argv {
		if strings.ContainsRune(word, 0) {
			return ownwords.Errorf("%s: a command cannot contain a NUL: leave it out", yamldoc.Quote(word))
		}
	}
	switch {
	case len(argv) == 0:
		return ownwords.Errorf("an empty command: write one, like %s", like)
	case argv[0] == "" || strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]):
		return ownwords.Errorf("%s: use the name of a program, which is looked for in PATH, or a path that begins with /", yamldoc.Quote(argv[0]))
	case len(argv) == 1 && strings.ContainsAny(argv[0], " \t"):
		return ownwords.Errorf("%s: no shell divides it: write a list of words, like %s", yamldoc.Quote(argv[0]), like)
	}
	return nil
}

func (p *parser) checkInterfaces(at string, names []string) {
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, " /") {
			p.AddValueError(fmt.Sprintf("%s[%d]", at, i), ownwords.Errorf("%s: use the name of an interface, like eth0", yamldoc.Quote(name)))
		}
	}
}

func (p *parser) checkChannels(c *Channels) {
	p.AddValueError("channels.listen", checkLoopbackAddr(c.Listen))
	if len(c.Keys) == 0 {
		p.AddValueError("channels.listen", ownwords.Errorf("nobody could come there: add keys"))
	}
	for i, k := range c.Keys {
		at := fmt.Sprintf("channels.keys[%d]", i)
		switch hash, err := hex.DecodeString(k.SHA256); {
		case !p.IsSet(at + ".sha256"):
			p.AddValueError(at, ownwords.Errorf("no key: add sha256"))
		case err != nil || len(hash) != 32 || k.SHA256 != strings.ToLower(k.SHA256):
			p.AddValueError(at+".sha256", ownwords.Errorf("use 64 lower-case hex digits, as printf %%s KEY | sha256sum prints them"))
		}
		if k.Agent == "" || len(k.Agent) > maxAgent {
			p.AddValueError(at+".agent", ownwords.Errorf("%s: use the id of an agent, at most %d bytes", yamldoc.Quote(k.Agent), maxAgent))
		}
	}
	for i, name := range c.OpenTo {
		if name != star {
			p.AddValueError(fmt.Sprintf("channels.open_to[%d]", i), checkPeerRef(name))
		}
	}
}

// checkUIDs reports numbers that are no user, or not one user.
func (p *parser) checkUIDs(uids []int) {
	for i, uid := range uids {
		at := fmt.Sprintf("agents.uids[%d]", i)
		switch {
		case uid < 0 || uint64(uid) >= math.MaxUint32:
			p.AddValueError(at, ownwords.Errorf("%d: use the number of a user, from 0 to %d", uid, uint32(math.MaxUint32-1)))
		case uid == overflowUID:
			p.AddValueError(at, ownwords.Errorf("%d: the system says that of every user that has no number here: run the agents as another user", uid))
		}
	}
}

// checkAgents reports settings of agents that mean nothing, or too much.
func (p *parser) checkAgents(agents *Agents) {
	for _, name := range slices.Sorted(maps.Keys(agents.Named)) {
		a, at := agents.Named[name], yamldoc.JoinKey("agents", name)
		if name != star {
			p.AddValueError(at, identity.CheckAgentName(name))
		} else if p.IsSet(at+".wake") || p.IsSet(at+".answers") {
			p.AddValueError(at, ownwords.Errorf("no session is woken by a setting for every agent: name the agent, and leave only to and turns here"))
		}
		if !p.IsSet(at+".to") && !p.IsSet(at+".wake") && !p.IsSet(at+".answers") && !p.IsSet(at+".turns") {
			p.AddValueError(at, ownwords.Errorf("an empty entry: say something with to, wake, answers or turns"))
		}
		if n := a.Turns.Hour; p.IsSet(at+".turns.hour") && (n < minTurns || n > maxTurns) {
			p.AddValueError(at+".turns.hour", ownwords.Errorf("%d: use a number from %d to %d; nothing wakes an agent for a time after acpctl agents mute", n, minTurns, maxTurns))
		}
		for i, ref := range a.To {
			p.AddValueError(fmt.Sprintf("%s.to[%d]", at, i), checkPeerRef(ref))
		}
		for _, ref := range slices.Sorted(maps.Keys(a.Wake)) {
			key := yamldoc.JoinKey(at, "wake."+ref)
			if ref == star {
				p.AddValueError(key, ownwords.Errorf("no rule lets every peer wake a session: name each peer"))
			}
			p.AddValueError(key, checkPeerRef(ref))
			for i, kind := range a.Wake[ref].Kinds {
				p.checkOneOf(fmt.Sprintf("%s.kinds[%d]", key, i), kind, kinds.ListNames(kinds.Wakes)...)
			}
		}
		if a.Answers != "" {
			p.checkOneOf(at+".answers", string(a.Answers), string(AnswersOff), string(AnswersOn), string(AnswersUnattended))
		}
	}
}

// The smallest and the largest number of turns in an hour: one peer has half of them.
const (
	minTurns = 2
	maxTurns = 2000
)

// The smallest and the largest value of spending, in US dollars.
const (
	minSpending = 1
	maxSpending = 100_000
)

func (p *parser) checkRule(at string, r Rule) {
	if !p.IsSet(at+".kinds") && !p.IsSet(at+".domains") {
		p.AddValueError(at, ownwords.Errorf("an empty rule: say what is allowed with kinds, domains or both"))
	}
	for i, kind := range r.Kinds {
		key := fmt.Sprintf("%s.kinds[%d]", at, i)
		if slices.Contains(freeKinds, kind) {
			p.AddValueError(key, ownwords.Errorf("%q: it belongs to a delegation and is always allowed: remove it", kind))
		}
		p.checkOneOf(key, kind, policedKinds...)
	}
	if len(r.Domains) == 0 {
		p.AddValueError(at+".domains", ownwords.Errorf("an empty list: name a domain, or remove the line to allow all"))
	}
	for i, domain := range r.Domains {
		p.AddValueError(fmt.Sprintf("%s.domains[%d]", at, i), checkDomain(domain))
	}
}

func (p *parser) checkRates(rates []Rate) {
	type bucket struct{ peer, kind string }
	seen := make(map[bucket]bool)
	for i := range rates {
		r, at := &rates[i], fmt.Sprintf("limits.rate[%d]", i)
		if !p.IsSet(at + ".peer") {
			r.Peer = star
		}
		if !p.IsSet(at + ".kind") {
			r.Kind = star
		}
		if r.Peer != star {
			p.AddValueError(at+".peer", checkPeerRef(r.Peer))
		}
		p.checkOneOf(at+".kind", r.Kind, limitedKinds...)
		switch key := at + ".per_second"; {
		case !p.IsSet(key):
			p.AddValueError(at, ownwords.Errorf("no rate: add per_second"))
		case !(r.PerSecond > 0 && r.PerSecond <= maxRate): // also not a number
			p.AddValueError(key, ownwords.Errorf("%v: use a number above 0, at most %d", r.PerSecond, maxRate))
		}
		switch key := at + ".burst"; {
		case !p.IsSet(key):
			r.Burst = int(math.Ceil(min(r.PerSecond, maxRate)))
		case r.Burst < 1 || r.Burst > maxRate:
			p.AddValueError(key, ownwords.Errorf("%d: use a number from 1 to %d", r.Burst, maxRate))
		}
		if b := (bucket{r.Peer, r.Kind}); seen[b] {
			p.AddValueError(at, ownwords.Errorf("a second rate for peer %q and kind %q: remove one", r.Peer, r.Kind))
		} else {
			seen[b] = true
		}
	}
}

// checkPeerRef returns an error unless s can name a peer in a setting.
func checkPeerRef(s string) error {
	if strings.Contains(s, ".") {
		return identity.CheckCertifiedName(s)
	}
	return checkPetnameOrID(s)
}

// checkPetnameOrID returns an error unless s can name a peer without a certificate.
func checkPetnameOrID(s string) error {
	if _, err := identity.ParseID(s); err == nil {
		return nil
	}
	if err := identity.CheckName(s); err != nil {
		return ownwords.Errorf("%w; or write the whole id, 64 lower-case hex digits", err)
	}
	return nil
}

// DefaultPort is the UDP port of a daemon without a setting for it, unless the port is taken.
const DefaultPort = "7117"

// checkListenAddr returns an error unless s is an address to listen on. Unlike an address to
// dial it may have no host, and port 0.
func checkListenAddr(s string) error {
	host, err := splitHost(s, ":7117 or 192.0.2.1:7117")
	if err != nil || host == "" {
		return err
	}
	return identity.CheckAddr(net.JoinHostPort(host, DefaultPort))
}

// splitHost returns the host of a host:port, and an error unless the port is a number. like
// is an example for the error.
func splitHost(s, like string) (host string, err error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", ownwords.Errorf("%s: use host:port, like %s", yamldoc.Quote(s), like)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", ownwords.Errorf("%s: use a port from 0 to 65535", yamldoc.Quote(s))
	}
	return host, nil
}

// checkLoopbackAddr returns an error unless only programs of this host can reach the address.
func checkLoopbackAddr(s string) error {
	host, err := splitHost(s, "127.0.0.1:7118")
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return ownwords.Errorf("%s: use 127.0.0.1 or [::1]; agents of other machines come through the daemon there", yamldoc.Quote(s))
	}
	return nil
}

// checkMetricsAddr returns an error unless metrics may be served there: an address that only
// programs of this host can reach, or another one if that is said.
func checkMetricsAddr(m Metrics) error {
	if m.IsSocket() {
		return nil
	}
	host, err := splitHost(m.Listen, ":7119, 127.0.0.1:7119 or /run/acpd/metrics.sock")
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(cmp.Or(host, loopback))
	switch {
	case err != nil:
		return ownwords.Errorf("%s: write an address, not a name, like 127.0.0.1:7119", yamldoc.Quote(m.Listen))
	case !ip.IsLoopback() && !m.Expose:
		return ownwords.Errorf("%s: other machines can reach it, and whoever does reads all metrics: use 127.0.0.1 or [::1], or add expose: true", yamldoc.Quote(m.Listen))
	}
	return nil
}

// checkFolderPath returns an error unless the path means the same wherever the daemon is
// started.
func checkFolderPath(s string) error {
	if rest, ok := strings.CutPrefix(s, "~/"); ok && rest != "" || filepath.IsAbs(s) {
		return nil
	}
	return ownwords.Errorf("%s: use a path that begins with / or ~/", yamldoc.Quote(s))
}

// checkDomain returns an error unless s is lower-case labels with dots between them.
func checkDomain(s string) error {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	if s == "" || len(s) > kinds.MaxDomain || strings.ContainsFunc(s, bad) || slices.Contains(strings.Split(s, "."), "") {
		return ownwords.Errorf("%s: use lower-case words with dots between them, like code or code.go", yamldoc.Quote(s))
	}
	return nil
}

// makePetname turns a host name into a petname.
func makePetname(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	host = strings.Trim(host, "-")
	if host == "" {
		return "acpd"
	}
	for _, name := range []string{host, "host-" + host} {
		name = strings.TrimRight(name[:min(len(name), identity.MaxName)], "-")
		if identity.CheckName(name) == nil {
			return name
		}
	}
	return "acpd"
}
