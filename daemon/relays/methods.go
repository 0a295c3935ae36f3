package relays

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/relay"
)

// Methods returns the methods of the local API for relays.
func (r *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodRelayAdd:    local.ForOwner(r.serveAdd),
		client.MethodRelayRemove: local.ForOwner(r.serveRemove).WithDiskReserve(r.Reserve),
		client.MethodRelayList:   local.ForOwner(r.serveList),
		client.MethodRelayTest:   local.ForOwner(r.serveTest),
		client.MethodRelayNkey:   local.ForOwner(r.serveNkey),
	}
}

func (r *Service) serveList(context.Context, *local.Conn, *local.NoParams) (any, error) {
	return &client.Relays{Relays: r.List()}, nil
}

func (r *Service) serveNkey(context.Context, *local.Conn, *local.NoParams) (any, error) {
	nkey, err := relay.PublicKey(r.Key.DeriveSecret(relay.KeyLabel))
	if err != nil {
		return nil, kinds.Errorf(kinds.Internal, "relay.nkey: %v", err)
	}
	return &client.RelayNkey{Nkey: nkey}, nil
}

// serveAdd keeps a relay, and uses it. It tries the relay first, unless the caller skips that, and adds it only if it
// can be used.
func (r *Service) serveAdd(ctx context.Context, _ *local.Conn, p *client.RelayAddParams) (any, error) {
	const op = "relay.add"
	url, err := identity.ParseRelayURL(p.URL)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: url: %v", op, err)
	}
	s := config.Relay{Name: p.Name, URL: url, Credentials: p.Credentials, Token: config.Secret(p.Token), User: p.User, Password: config.Secret(p.Password), Share: p.Share}
	if s.Credentials != "" && !filepath.IsAbs(s.Credentials) {
		return nil, kinds.Errorf(kinds.Invalid, "%s: credentials: a relative path: write where the file is from / on", op)
	}
	if s.Name == "" {
		s.Name = r.pickName(url)
	}
	if _, err := config.RenderKeptRelays([]config.Relay{s}); err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: %s", op, strings.Replace(ownwords.Of(err), "relays[0]", s.Name, 1))
	}
	if err := r.checkIsNew(s, r.listWanted()); err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: %v", op, err)
	}
	added := &client.RelayAdded{}
	if !p.NoCheck {
		check := r.test(ctx, relaySettings{Relay: s})
		if check.Error != nil {
			return nil, kinds.Errorf(check.Error.Code, "%s: %s is not added, since it cannot be used: %s; --no-check adds it untried", op, s.Name, check.Error.Message)
		}
		added.Steps = check.Steps
	}
	if err := r.keep(s); err != nil {
		return nil, explainError(op, err)
	}
	r.apply()
	for _, u := range r.list() {
		if u.Name == s.Name && u.source == client.RelayKept {
			added.Relay = u.describe()
		}
	}
	return added, nil
}

// pickName returns a name for a relay without one: that of its host. It appends a number if another relay has that
// name, or if it is among taken.
func (r *Service) pickName(url string, taken ...string) string {
	base := identity.MakeRelayName(url)
	name := base
	for _, w := range r.listWanted() {
		taken = append(taken, w.Name)
	}
	for n := 2; slices.Contains(taken, name); n++ {
		number := fmt.Sprintf("-%d", n)
		name = base[:min(len(base), identity.MaxName-len(number))] + number
	}
	return name
}

// checkIsNew returns an error if another relay has the same name or URL, or if there is no room for one more.
func (r *Service) checkIsNew(s config.Relay, wanted []relaySettings) error {
	for _, w := range wanted {
		switch {
		case w.URL == s.URL:
			return ownwords.Errorf("the relay %s has this URL: acpctl relay remove %[1]s first, to change how it is used", w.Name)
		case w.Name == s.Name:
			return ownwords.Errorf("there is a relay %s: choose another name, or acpctl relay remove %[1]s first", s.Name)
		}
	}
	if len(wanted) >= config.MaxRelays {
		return ownwords.Errorf("there are %d relays: remove one first", len(wanted))
	}
	return nil
}

// keep adds a relay to relays.yaml.
func (r *Service) keep(s config.Relay) error {
	return r.changeKept(func(kept []config.Relay) ([]config.Relay, error) {
		for _, k := range kept { // one that came meanwhile
			if k.Name == s.Name || k.URL == s.URL {
				return nil, kinds.Errorf(kinds.Invalid, "there is a relay %s with the same name or URL: acpctl relay remove %[1]s first", k.Name)
			}
		}
		return append(kept, s), nil
	})
}

// serveRemove removes a relay from relays.yaml. Connections on it drain after the answer.
func (r *Service) serveRemove(_ context.Context, _ *local.Conn, p *client.RelayRemoveParams) (any, error) {
	const op = "relay.remove"
	err := r.changeKept(func(kept []config.Relay) ([]config.Relay, error) {
		i := slices.IndexFunc(kept, func(k config.Relay) bool { return k.Name == p.Name })
		if i >= 0 {
			return slices.Delete(kept, i, i+1), nil
		}
		if slices.ContainsFunc(r.Reach().Relays, func(c config.Relay) bool { return c.Name == p.Name }) {
			return nil, kinds.Errorf(kinds.Invalid, "%.64s is in config.yaml: remove it there, then acpctl reload", p.Name)
		}
		return nil, kinds.Errorf(kinds.NotFound, "there is no relay %.64q: acpctl relay list shows those that there are", p.Name)
	})
	if err != nil {
		return nil, explainError(op, err)
	}
	r.work.Go(r.apply)
	return nil, nil
}

// explainError returns an error of relays.yaml as one of the local API.
func explainError(op string, err error) error {
	if known, ok := errors.AsType[*kinds.Error](err); ok {
		return kinds.Errorf(known.Code, "%s: %s", op, known.Message)
	}
	if disk.IsFullError(err) {
		return kinds.Errorf(kinds.Overloaded, "%s: %v: free some space on the disk of the state directory, then try again", op, err)
	}
	return kinds.Errorf(kinds.Internal, "%s: %v", op, err)
}

// serveTest tries one relay, or all.
func (r *Service) serveTest(ctx context.Context, _ *local.Conn, p *client.RelayTestParams) (any, error) {
	var tried []*usedRelay
	for _, u := range r.list() {
		if p.Name == "" && u.unused == nil || u.Name == p.Name {
			tried = append(tried, u)
		}
	}
	switch {
	case len(tried) == 0 && p.Name != "":
		return nil, kinds.Errorf(kinds.NotFound, "relay.test: there is no relay %.64q: acpctl relay list shows those that there are", p.Name)
	case len(tried) == 0:
		return nil, kinds.Errorf(kinds.NotFound, "relay.test: this daemon uses no relay: acpctl relay add URL")
	}
	out := &client.RelayChecks{Checks: make([]client.RelayCheck, len(tried))}
	var tests sync.WaitGroup
	for i, u := range tried {
		tests.Go(func() {
			out.Checks[i] = r.test(ctx, u.relaySettings)
			if u.link != nil {
				u.link.TryAgain() // what the operator has permitted meanwhile
			}
		})
	}
	nat := r.tryNAT(ctx)
	tests.Wait()
	for i := range out.Checks {
		out.Checks[i].Steps = append(out.Checks[i].Steps, nat...)
	}
	return out, nil
}

// test tries a relay on a connection of its own.
func (r *Service) test(ctx context.Context, s relaySettings) client.RelayCheck {
	ctx, cancel := context.WithTimeout(ctx, client.RelayPatience)
	defer cancel()
	out := client.RelayCheck{Name: s.Name, URL: s.URL, Steps: []client.RelayStep{}}
	link, err := r.openLink(relaySettings{Relay: s.Relay, proxy: r.Reach().Proxy}, nil)
	if err != nil {
		out.Error = kinds.Errorf(kinds.Invalid, "%s", trimName(s.Name, ownwords.Of(err)))
		return out
	}
	defer link.Close()
	_ = link.SetName(r.pickNameOn(s)) // which has the form
	for _, c := range link.Test(ctx) {
		step := client.RelayStep{Step: c.Code, Verdict: client.StepVerdict(c.Verdict), What: trimName(s.Name, c.What), Remedy: c.Remedy, TookUS: uint64(c.Took.Microseconds())}
		out.Steps = append(out.Steps, step)
		if c.Verdict != relay.Failed || out.Error != nil {
			continue
		}
		what := step.What
		if step.Remedy != "" {
			what += ": " + step.Remedy
		}
		code := kinds.Unreachable
		switch {
		case c.Refused:
			code = kinds.NotAuthorized
		case c.Invalid:
			code = kinds.Invalid
		}
		out.Error = kinds.Errorf(code, "%s", what)
	}
	return out
}
