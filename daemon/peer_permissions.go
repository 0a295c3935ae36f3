package daemon

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// maxBuckets bounds the token buckets. If there are more, the full ones, which limit nobody,
// are dropped.
const maxBuckets = 8192

// permissions decides what a trusted peer may initiate, and how often. Nothing else decides
// that. Replies never come here.
type permissions struct {
	trust              *identity.TrustStore
	forbidden, tooFast *budget.Account // count refusals alone
	refusalLog         *budget.Log

	mu      sync.Mutex // guards the rest; all of it is replaced by set
	config  *config.Config
	buckets map[bucketKey]*rate.Limiter

	holders map[string]identity.ID // whose key each petname last was
}

type bucketKey struct {
	peer identity.ID
	kind string // of the rule: "*" counts all kinds together
}

func newPermissions(trust *identity.TrustStore, cfg *config.Config, book *budget.Book, lines *budget.Log) *permissions {
	g := &permissions{trust: trust, forbidden: book.OpenAccount(budget.Policy), tooFast: book.OpenAccount(budget.Rate), refusalLog: lines, holders: make(map[string]identity.ID)}
	for _, b := range trust.Blocks() {
		g.holders[b.Name] = b.ID
	}
	for _, p := range trust.Peers() {
		g.holders[p.Name] = p.ID
	}
	g.replaceConfig(cfg)
	return g
}

// replaceConfig makes a configuration count; rates start anew.
func (g *permissions) replaceConfig(cfg *config.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config = cfg
	g.buckets = make(map[bucketKey]*rate.Limiter)
}

// recordNameHolder records that a petname is that of p. It returns the id that had the name
// before, zero if none had.
func (g *permissions) recordNameHolder(p identity.Peer) (before identity.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.holders[p.Name]
	g.holders[p.Name] = p.ID
	return before
}

// warnOfNewNameHolder logs and returns a warning if settings that name a peer by this
// petname now count for another key than before. Else it returns "".
func (d *Daemon) warnOfNewNameHolder(p identity.Peer) string {
	before := d.permissions.recordNameHolder(p)
	if before.IsZero() || before == p.ID {
		return ""
	}
	which := d.listSettingsNaming(p.Name)
	if len(which) == 0 {
		return ""
	}
	warning := fmt.Sprintf("%s in config.yaml names %s, which was %s and is %s now: name peers by their ids there if that is not meant",
		strings.Join(which, ", "), p.Name, before.Label(), p.ID.Label())
	d.log.Warn("settings pass to another key", "name", p.Name, "warning", warning)
	return warning
}

// listSettingsNaming returns the settings that name a peer by this petname.
func (d *Daemon) listSettingsNaming(name string) []string {
	return slices.Sorted(maps.Keys(d.config.Load().FindPeerRefs(func(ref string) bool { return ref == name })))
}

// describeKeptName says why a peer that calls itself claim has that name with a number, and how it gets
// the name. It returns "" if nothing but another peer's name keeps the claim from it.
func (d *Daemon) describeKeptName(p identity.Peer, claim string) string {
	claim = strings.ToLower(claim)
	number, isNumbered := strings.CutPrefix(p.Name, claim+"-")
	if !isNumbered || strings.Trim(number, "0123456789") != "" || d.isNameTaken(claim) || !d.trust.IsKeptFromClaims(claim) {
		return ""
	}
	why := "was that of a key that you untrusted"
	if which := d.listSettingsNaming(claim); len(which) > 0 {
		why = "is one that " + strings.Join(which, ", ") + " in config.yaml mentions"
	}
	return fmt.Sprintf("%s calls itself %s, and did not get that name, which %s: if it is that machine, acpctl trust %s --name %s; until then no rule for %s is for it, and it may send what any trusted peer may", p.Name, claim, why, p.ID, claim, claim)
}

// listKeptNames describes the connected peers that have a number in their names because the name
// that they claim is kept from claims.
func (d *Daemon) listKeptNames() (all []string) {
	for _, now := range d.node.Peers() {
		if p, ok := d.trust.FindPeer(now.ID); ok && p.Certificate == nil {
			if why := d.describeKeptName(p, now.Claim); why != "" && len(all) < maxNamesInWarning {
				all = append(all, why)
			}
		}
	}
	return all
}

// decideByPolicy returns the rule that allows or forbids a message.
func (g *permissions) decideByPolicy(peer identity.Peer, kind, domain string) config.Decision {
	g.mu.Lock()
	cfg := g.config
	g.mu.Unlock()
	return cfg.Decide(peer, kind, domain)
}

// checkAllowed returns nil, or the error that refuses the message, which is counted and logged.
// domain is "" if the message has none. Results, errors and cancels of a delegation are
// never subject to the policy.
func (g *permissions) checkAllowed(peer identity.Peer, kind, domain string) error {
	if d := g.decideByPolicy(peer, kind, domain); !d.Allowed {
		g.recordRefusal(g.forbidden, peer, kind, d.Rule)
		return kinds.Errorf(kinds.NotAuthorized, "the receiver's policy does not allow it (%s): its owner may change that", d.Rule)
	}
	err := g.takeToken(peer, kind)
	if err != nil {
		g.recordRefusal(g.tooFast, peer, kind, kinds.AsError(err).Message)
	}
	return err
}

// recordRefusal counts and logs a refusal for the owner of this daemon.
func (g *permissions) recordRefusal(row *budget.Account, peer identity.Peer, kind, reason string) {
	row.CountRefusal(peer.ID)
	g.refusalLog.WriteLimited(peer.ID, slog.LevelWarn, "message refused", "peer", peer.ID.Label(), "name", peer.Name, "kind", kind, "row", row.Row().Name, "reason", reason)
}

// checkStreamPermission returns an error unless a peer may begin a stream of mail or of channels.
func (d *Daemon) checkStreamPermission(from identity.ID, kind string) error {
	p, ok := d.trust.FindPeer(from)
	if !ok {
		return kinds.Errorf(kinds.NotAuthorized, "you are not trusted there any more")
	}
	if err := d.permissions.checkAllowed(p, kind, ""); err != nil {
		return err
	}
	return d.drain.checkTakesWork()
}

// takeToken takes a token from the bucket that counts for the message.
func (g *permissions) takeToken(peer identity.Peer, kind string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.config.Limits.FindRate(peer.ID, peer.Name, kind)
	if i < 0 {
		return nil
	}
	r := g.config.Limits.Rate[i]
	key := bucketKey{peer.ID, r.Kind}
	b := g.buckets[key]
	if b == nil {
		if len(g.buckets) >= maxBuckets {
			g.dropFullBuckets()
		}
		b = rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
		g.buckets[key] = b
	}
	if b.Allow() {
		return nil
	}
	missing := 1 - b.Tokens()
	e := kinds.Errorf(kinds.Overloaded, "over the receiver's rate limit of %g messages a second for kind %s: send fewer", r.PerSecond, r.Kind)
	e.RetryAfterMS = uint64(math.Ceil(missing / r.PerSecond * 1000))
	return e
}

// dropFullBuckets drops the buckets that are full again, or all.
func (g *permissions) dropFullBuckets() {
	now := time.Now()
	maps.DeleteFunc(g.buckets, func(_ bucketKey, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) })
	if len(g.buckets) >= maxBuckets {
		clear(g.buckets)
	}
}

// describe returns the decision about a message, as checkAllowed would make it now, and neither
// takes a token nor counts a refusal.
func (g *permissions) describe(peer identity.Peer, kind, domain string) *client.Policy {
	decision := g.decideByPolicy(peer, kind, domain)
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &client.Policy{Allowed: decision.Allowed, Rule: decision.Rule, Key: decision.Key, Line: g.config.Lines[decision.Key]}
	if p.Key != "" {
		p.Place, p.Rules = g.config.CountRule(p.Key)
	}
	i := g.config.Limits.FindRate(peer.ID, peer.Name, kind)
	if i < 0 {
		return p
	}
	r, key := g.config.Limits.Rate[i], fmt.Sprintf("limits.rate[%d]", i)
	p.Rate = &client.PolicyRate{Key: key, Line: g.config.Lines[key], Peer: r.Peer, Kind: r.Kind, PerSecond: r.PerSecond, Burst: r.Burst, Left: r.Burst}
	if b := g.buckets[bucketKey{peer.ID, r.Kind}]; b != nil {
		p.Rate.Left = max(int(b.Tokens()), 0)
	}
	return p
}
