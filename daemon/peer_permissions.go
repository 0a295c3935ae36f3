package daemon

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// maxBuckets bounds the counts of rate limits; over it the fullest, which limit
// nobody, are dropped.
const maxBuckets = 8192

// permissions decides what a trusted peer may initiate and how often. It is the one
// place that does. Replies never come here.
type permissions struct {
	trust           *identity.TrustStore
	forbidden, fast *budget.Account // count refusals alone
	lines           *budget.Log

	mu      sync.Mutex // guards the rest; all of it is replaced by set
	policy  config.Policy
	limits  config.Limits
	buckets map[bucketKey]*rate.Limiter

	holders map[string]identity.ID // whose key each petname last was
}

type bucketKey struct {
	peer identity.ID
	kind string // of the rule: "*" counts all kinds together
}

func newPermissions(trust *identity.TrustStore, cfg *config.Config, book *budget.Book, lines *budget.Log) *permissions {
	g := &permissions{trust: trust, forbidden: book.Open(budget.Policy), fast: book.Open(budget.Rate), lines: lines, holders: make(map[string]identity.ID)}
	for _, b := range trust.Blocks() {
		g.holders[b.Name] = b.ID
	}
	for _, p := range trust.Peers() {
		g.holders[p.Name] = p.ID
	}
	g.set(cfg)
	return g
}

// set makes a configuration count; rates start anew.
func (g *permissions) set(cfg *config.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policy, g.limits = cfg.Policy, cfg.Limits
	g.buckets = make(map[bucketKey]*rate.Limiter)
}

// noteNameHolder notes whose key a petname is, and returns whose it was before: that one's
// own, or zero, where it was nobody else's.
func (g *permissions) noteNameHolder(p identity.Peer) (before identity.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.holders[p.Name]
	g.holders[p.Name] = p.ID
	return before
}

// warnNameHeir says, to the log and as the result, that settings which name a peer by its
// petname pass to another key with that name; "": they do not.
func (d *Daemon) warnNameHeir(p identity.Peer) string {
	before := d.permissions.noteNameHolder(p)
	if before.IsZero() || before == p.ID {
		return ""
	}
	var which []string
	cfg := d.config.Load()
	if _, ok := cfg.Policy[p.Name]; ok {
		which = append(which, "policy")
	}
	if slices.ContainsFunc(cfg.Limits.Rate, func(r config.Rate) bool { return r.Peer == p.Name }) {
		which = append(which, "limits.rate")
	}
	if _, ok := cfg.Peers[p.Name]; ok {
		which = append(which, "peers")
	}
	if slices.Contains(cfg.Channels.OpenTo, p.Name) {
		which = append(which, "channels.open_to")
	}
	if len(which) == 0 {
		return ""
	}
	warning := fmt.Sprintf("%s in config.yaml names %s, which was %s and is %s now: name peers by their ids there if that is not meant",
		strings.Join(which, ", "), p.Name, before.Label(), p.ID.Label())
	d.log.Warn("settings pass to another key", "name", p.Name, "warning", warning)
	return warning
}

// decide names the rule that allows or forbids a message.
func (g *permissions) decide(peer identity.Peer, kind, domain string) config.Decision {
	g.mu.Lock()
	policy := g.policy
	g.mu.Unlock()
	return policy.Decide(peer.ID, peer.Name, kind, domain)
}

// check returns nil, or the error that refuses the message, which is counted and told
// to the log. domain is "" where the message has none. Results, errors and cancels of
// a delegation are free of the policy.
func (g *permissions) check(peer identity.Peer, kind, domain string) error {
	if d := g.decide(peer, kind, domain); !d.Allowed {
		g.noteRefusal(g.forbidden, peer, kind, d.Rule)
		return kinds.Errorf(kinds.NotAuthorized, "the receiver's policy does not allow it (%s): its owner may change that", d.Rule)
	}
	err := g.takeToken(peer, kind)
	if err != nil {
		g.noteRefusal(g.fast, peer, kind, kinds.AsError(err).Message)
	}
	return err
}

// noteRefusal leaves a trace of a refusal on this side, where the owner looks for it.
func (g *permissions) noteRefusal(row *budget.Account, peer identity.Peer, kind, reason string) {
	row.Refuse(peer.ID)
	g.lines.Add(peer.ID, slog.LevelWarn, "message refused", "peer", peer.ID.Label(), "name", peer.Name, "kind", kind, "row", row.Row().Name, "reason", reason)
}

// checkStream checks what a peer begins on a stream of mail or of channels.
func (d *Daemon) checkStream(from identity.ID, kind string) error {
	p, ok := d.trust.Get(from)
	if !ok {
		return kinds.Errorf(kinds.NotAuthorized, "you are not trusted there any more")
	}
	return d.permissions.check(p, kind, "")
}

// takeToken takes a token from the bucket that counts for the message.
func (g *permissions) takeToken(peer identity.Peer, kind string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.limits.Rate) == 0 {
		return nil
	}
	r, ok := g.limits.RateFor(peer.ID, peer.Name, kind)
	if !ok {
		return nil
	}
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
	for key, b := range g.buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(g.buckets, key)
		}
	}
	if len(g.buckets) >= maxBuckets {
		clear(g.buckets)
	}
}
