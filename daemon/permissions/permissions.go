// Package permissions decides what trusted peers may initiate, and how often.
//
// It leaves to package config what a rule means, and to others what becomes of a message that is allowed.
package permissions

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
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

// Permissions decides what a trusted peer may initiate, and how often. Nothing else decides
// that. Replies never come here.
type Permissions struct {
	trust              *identity.TrustStore
	forbidden, tooFast *budget.Account // only for refusals
	refusalLog         *budget.Log

	mu      sync.Mutex // guards the rest
	config  *config.Config
	buckets map[bucketKey]*rate.Limiter
}

type bucketKey struct {
	peer identity.ID
	kind string // of the rule: "*" counts all kinds together
}

// New returns the permissions under a configuration.
func New(trust *identity.TrustStore, cfg *config.Config, book *budget.Book, lines *budget.Log) *Permissions {
	g := &Permissions{trust: trust, forbidden: book.OpenAccount(budget.Policy), tooFast: book.OpenAccount(budget.Rate), refusalLog: lines}
	g.ReplaceConfig(cfg)
	return g
}

// ReplaceConfig makes a configuration take effect. All rates start anew.
func (g *Permissions) ReplaceConfig(cfg *config.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config = cfg
	g.buckets = make(map[bucketKey]*rate.Limiter)
}

// Decide returns the rule that allows or forbids a message.
func (g *Permissions) Decide(peer identity.Peer, kind, domain string) config.Decision {
	g.mu.Lock()
	cfg := g.config
	g.mu.Unlock()
	return cfg.Decide(peer, kind, domain)
}

// MayDiscover reports whether a peer may know which agents there are.
func (g *Permissions) MayDiscover(peer identity.Peer) bool {
	return g.Decide(peer, kinds.KindDiscover, "").Allowed
}

// MayUseBridge reports whether a bridge has to do with a peer: the owner trusts it, or a rule of policy
// that is for its certificate allows it what the bridge carries.
func (g *Permissions) MayUseBridge(id identity.ID, kind string) bool {
	p, ok := g.trust.FindPeer(id)
	return ok && (p.Certificate == nil || g.Decide(p, kind, "").Allowed)
}

// CheckAllowed returns nil if the message is allowed. Otherwise it returns the error that refuses it, and counts
// and logs the refusal. domain is "" if the message has no domain. Results, errors and cancels of a delegation
// are never subject to the policy.
func (g *Permissions) CheckAllowed(peer identity.Peer, kind, domain string) error {
	if d := g.Decide(peer, kind, domain); !d.Allowed {
		g.RecordRefusal(g.forbidden, peer, kind, d.Rule)
		return kinds.Errorf(kinds.NotAuthorized, "the receiver's policy does not allow it (%s): its owner may change that", d.Rule)
	}
	err := g.takeToken(peer, kind)
	if err != nil {
		g.RecordRefusal(g.tooFast, peer, kind, kinds.AsError(err).Message)
	}
	return err
}

// RecordRefusal adds to the refusals of a peer, and logs the refusal for the owner of this daemon.
func (g *Permissions) RecordRefusal(row *budget.Account, peer identity.Peer, kind, reason string) {
	row.CountRefusal(peer.ID)
	g.refusalLog.WriteLimited(peer.ID, slog.LevelWarn, "message refused", "peer", peer.ID.Label(), "name", peer.Name, "kind", kind, "row", row.Row().Name, "reason", reason)
}

// takeToken takes a token from the bucket for the message.
func (g *Permissions) takeToken(peer identity.Peer, kind string) error {
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
func (g *Permissions) dropFullBuckets() {
	now := time.Now()
	maps.DeleteFunc(g.buckets, func(_ bucketKey, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) })
	if len(g.buckets) >= maxBuckets {
		clear(g.buckets)
	}
}

// Describe returns the decision about a message, as CheckAllowed would make it now. It neither takes a token nor
// records a refusal.
func (g *Permissions) Describe(peer identity.Peer, kind, domain string) *client.Policy {
	decision := g.Decide(peer, kind, domain)
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
