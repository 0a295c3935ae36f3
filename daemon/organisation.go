package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	expiryNotice       = 14 * 24 * time.Hour // before the end of this daemon's certificate, from which on the owner is told
	expiryRepeat       = 24 * time.Hour      // between two lines of the log about it
	maxCertificateFile = 8 << 10
	maxIntroduced      = 8 // keys that are dialled for a name that no peer has yet
)

// ownCertificate is what this daemon shows of itself to others.
type ownCertificate struct {
	raw  []byte                // nil: none is shown
	says *identity.Certificate // what raw says
	err  error                 // what is wrong with the file that is configured
}

// readOrganisation reads the files that the settings of certificates name. The error is of those of
// authorities: what they have revoked must be known.
func (d *Daemon) readOrganisation(cfg *config.Config) (authorities []identity.Authority, own ownCertificate, err error) {
	o := &cfg.Organisation
	for _, name := range slices.Sorted(maps.Keys(o.Authorities)) {
		a := identity.Authority{Name: name}
		if file := o.Authorities[name].Revoked; file != "" {
			at := fmt.Sprintf("organisation.authorities.%s.revoked", name)
			data, err := d.readStateFile(file, identity.MaxRevocationFile)
			if err != nil {
				return nil, own, fmt.Errorf("%s: %w; write it, or remove the setting", at, err)
			}
			if a.Revoked, err = identity.ParseRevocations(data); err != nil {
				return nil, own, fmt.Errorf("%s: %s: %w", at, file, err)
			}
		}
		for _, line := range []string{o.Authorities[name].Key, o.Authorities[name].NextKey} {
			if line == "" {
				continue
			}
			if a.Key, err = identity.ParseAuthorityKey(line); err != nil {
				return nil, own, fmt.Errorf("organisation.authorities.%s: %w", name, err)
			}
			authorities = append(authorities, a)
		}
	}
	if o.Certificate != "" {
		own = d.readOwnCertificate(o.Certificate)
	}
	return authorities, own, nil
}

// readOwnCertificate reads this daemon's certificate. One that others would refuse is shown all the
// same if it is for this key: they may have another clock.
func (d *Daemon) readOwnCertificate(file string) (own ownCertificate) {
	data, err := d.readStateFile(file, maxCertificateFile)
	if err != nil {
		own.err = fmt.Errorf("organisation.certificate: %w; have the line signed that acpctl cert request prints, and reload", err)
		return own
	}
	raw, err := identity.ParseCertificateFile(data)
	if err == nil {
		own.says, err = identity.InspectCertificate(raw)
	}
	if err == nil && own.says.ID != d.id {
		err = fmt.Errorf("certificate: it is for the key %s, and not for that of this daemon: have the line signed that acpctl cert request prints", own.says.ID.Label())
	}
	if err != nil {
		own.err = fmt.Errorf("organisation.certificate: %s: %w", file, err)
		return own
	}
	own.raw = raw
	return own
}

// readStateFile reads a file of the state directory, or at another path, of at most so many bytes.
func (d *Daemon) readStateFile(name string, most int64) ([]byte, error) {
	path := name
	switch rest, inHome := strings.CutPrefix(name, "~/"); {
	case inHome:
		user, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(user, rest)
	case !filepath.IsAbs(name):
		path = d.home.filePath(name)
	}
	info, err := os.Stat(path) // first: to open a named pipe waits for its other end
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s", path)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is over %d bytes", path, most)
	}
	return data, err
}

// applyOrganisation makes what readOrganisation has read count. Connections of peers that lose their
// certificate by it end soon after. In the place of a certificate that cannot be read, as one that is
// being written, this daemon shows the one that it showed before: to show none would end connections.
func (d *Daemon) applyOrganisation(cfg *config.Config, authorities []identity.Authority, own ownCertificate) {
	if before := d.ownCertificate.Load(); own.err != nil && before != nil && before.raw != nil {
		own.raw, own.says = before.raw, before.says
		own.err = fmt.Errorf("%w; until then the one before is shown", own.err)
	}
	d.ownCertificate.Store(&own)
	d.trust.SetAuthorities(authorities)
	d.node.SetCertificate(own.raw)
	for ref := range cfg.Peers { // keys that show at those addresses that they are peers
		if id, err := identity.ParseID(ref); err == nil {
			d.updateAddrTable(id)
		}
	}
	d.nameRelays()
	d.organisationChanged.Set()
}

// handleDecertified forgets what is kept in memory of a key that has lost its certificate. What it has
// sent stays, as the work of a peer does that is not connected, and so do the outcomes for its repeats:
// it may renew its certificate, and repeat a message whose receipt was lost.
func (d *Daemon) handleDecertified(id identity.ID) {
	d.refusalLog.WriteLimited(id, slog.LevelInfo, "certificate ended", "peer", id.Label())
	d.budget.ForgetRefusals(id)
	d.refusers.Delete(id)
	d.capabilities.forgetPeer(id)
	d.shownChains.forgetPeer(id)
	d.updateAddrTable(id)
}

// isTrustedByOwner reports whether the owner trusts a key, and not an authority alone.
func (d *Daemon) isTrustedByOwner(id identity.ID) bool {
	p, ok := d.trust.FindPeer(id)
	return ok && p.Certificate == nil
}

// findFleetName is [budget.Book.Certified]: it reports whether a key is that of another daemon which the
// owner does not trust, and the name in its certificate, "" if it has none now.
func (d *Daemon) findFleetName(id identity.ID) (name string, ok bool) {
	if budget.AreStrangers(id) || id == d.id || d.isTrustedByOwner(id) {
		return "", false
	}
	name, _ = d.trust.IsCertified(id)
	return name, true
}

// resolveOrIntroduce returns the peer that ref means. If none is known, it dials those keys that could
// be it by a certificate: the one with that id, those that have an address in config.yaml, those
// on the network that call themselves so, and the one that has that name on a relay. It blocks as a call
// does, until one is the peer.
func (d *Daemon) resolveOrIntroduce(ctx context.Context, ref string) (identity.Peer, error) {
	p, err := d.trust.Resolve(ref)
	if err == nil && p.Certificate != nil && p.Name == ref {
		if err = d.names.CheckShared(ref); err != nil {
			return identity.Peer{}, err
		}
	}
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown || !d.trust.HasAuthorities() {
		return p, err
	}
	candidates, ask := d.listCandidates(ref), d.mayAskForName(ref)
	if len(candidates) == 0 && !ask {
		return p, err
	}
	dialling, stop := context.WithCancel(ctx)
	defer stop()
	var dials errgroup.Group
	failures := make([]error, len(candidates))
	for i, id := range candidates {
		dials.Go(func() error {
			failures[i] = d.node.Introduce(dialling, id)
			if _, err := d.trust.Resolve(ref); err == nil {
				stop()
			}
			return nil
		})
	}
	var named identity.Peer
	var namedErr error
	if ask {
		dials.Go(func() error {
			if named, namedErr = d.introduceByName(dialling, ref); namedErr == nil {
				stop()
			}
			return nil
		})
	}
	_ = dials.Wait()
	if !named.ID.IsZero() {
		return named, nil
	}
	p, err = d.trust.Resolve(ref)
	if _, unknown := errors.AsType[*identity.UnknownPeerError](err); !unknown {
		return p, err
	}
	if namedErr != nil {
		return p, namedErr
	}
	for _, failure := range failures { // one may be the peer that is meant, and not be there
		if failure != nil && kinds.AsError(failure).Code != kinds.UnknownPeer {
			return p, kinds.Errorf(kinds.Unreachable, "no peer %q is known, and one that could be it does not answer: %s", identity.CleanClaim(ref), kinds.AsError(failure).Message).WithDelivered(kinds.DeliveredNo)
		}
	}
	return p, err
}

// isNameOfAuthority reports whether a configured authority could give that name.
func (d *Daemon) isNameOfAuthority(ref string) bool {
	_, authority, ok := strings.Cut(ref, ".")
	_, known := d.config.Load().Organisation.Authorities[authority]
	return ok && known
}

// listCandidates returns the keys that are no peers, and could be the one that ref means by a
// certificate: an id, or the name of one.
func (d *Daemon) listCandidates(ref string) (all []identity.ID) {
	add := func(id identity.ID) {
		_, known := d.trust.FindPeer(id)
		if !known && !d.trust.IsBlocked(id) && id != d.id && !slices.Contains(all, id) && len(all) < maxIntroduced {
			all = append(all, id)
		}
	}
	entries := d.table.Entries()
	if id, err := identity.ParseID(strings.ToLower(ref)); err == nil {
		if d.node.HasLinkTo(id) || slices.ContainsFunc(entries, func(e discovery.Entry) bool { return e.ID == id }) {
			add(id)
		}
		return all
	}
	if !d.isNameOfAuthority(ref) {
		return nil
	}
	claim, _, _ := strings.Cut(ref, ".")
	configured := d.config.Load().Peers
	for _, id := range listIDsForName(entries, claim, func(id identity.ID) bool { _, ok := configured[id.String()]; return ok }) {
		add(id)
	}
	return all
}

// listIDsForName returns the keys to which the owner has given an address, and then those that call
// themselves so, as anybody on the network may.
func listIDsForName(entries []discovery.Entry, claim string, isConfigured func(identity.ID) bool) (ids []identity.ID) {
	var callThemselves []identity.ID
	for _, e := range entries {
		if isConfigured(e.ID) {
			ids = append(ids, e.ID)
		} else if strings.EqualFold(e.Claim, claim) {
			callThemselves = append(callThemselves, e.ID)
		}
	}
	return append(ids, callThemselves...)
}

// describeOwnCertificate returns what the owner should know of this daemon's certificate, "" if
// nothing.
func (d *Daemon) describeOwnCertificate(now time.Time) string {
	own := d.ownCertificate.Load()
	switch {
	case own == nil:
		return ""
	case own.err != nil:
		return own.err.Error()
	case own.says == nil:
		return ""
	case own.says.HasEndedAt(now):
		return fmt.Sprintf("the certificate of this daemon expired at %s, so that it is a stranger where only that counted: have it signed again, and reload", own.says.NotAfter.Format(time.RFC3339))
	case !own.says.IsValidAt(now):
		return fmt.Sprintf("the certificate of this daemon is not valid before %s: check the clock", own.says.NotBefore.Format(time.RFC3339))
	case !own.says.NotAfter.IsZero() && own.says.NotAfter.Sub(now) < expiryNotice && own.says.NotAfter.Sub(now) < own.says.NotAfter.Sub(own.says.NotBefore)/3:
		return fmt.Sprintf("the certificate of this daemon expires at %s: have it signed again, and reload", own.says.NotAfter.Format(time.RFC3339))
	}
	return ""
}

// watchOwnCertificate logs once a day what describeOwnCertificate says, and at once when that is
// something else than before, until ctx ends.
func (d *Daemon) watchOwnCertificate(ctx context.Context) error {
	var told string
	var at time.Time
	for {
		now := time.Now()
		if notice := d.describeOwnCertificate(now); notice != told || notice != "" && now.Sub(at) >= expiryRepeat {
			if told, at = notice, now; notice != "" {
				d.log.Warn("certificate", "warning", notice)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.organisationChanged:
		case <-time.After(time.Minute):
		}
	}
}

// serveCertificate says what this daemon shows to others, and whose certificates count here. With a
// file, it says what that would be.
func (d *Daemon) serveCertificate(_ context.Context, _ *localConn, p *client.CertificateParams) (any, error) {
	if len(p.File) > maxCertificateFile {
		return nil, kinds.Errorf(kinds.Invalid, "certificate: file: over %d bytes: give the text of the file that ssh-keygen -s has made", maxCertificateFile)
	}
	answer := &client.Certificates{Request: d.id.RenderPublicKey(), Authorities: []client.Authority{}}
	now := time.Now()
	authorities := d.trust.Authorities()
	raw, says := d.ownCertificate.Load().raw, d.ownCertificate.Load().says
	if p.File == "" {
		answer.Problem = d.describeOwnCertificate(now)
	} else {
		var err error
		if raw, err = identity.ParseCertificateFile([]byte(p.File)); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "%s", err)
		}
		if says, err = identity.InspectCertificate(raw); err != nil {
			return nil, kinds.Errorf(kinds.Invalid, "%s", err)
		}
	}
	if says != nil {
		answer.Certificate = describeCertificate(says)
		if checked, err := identity.CheckCertificate(raw, d.id, authorities, now); err == nil {
			answer.Certificate = describeCertificate(checked)
		} else if p.File != "" {
			answer.Problem = err.Error()
		}
	}
	certified := d.trust.CertifiedPeers()
	for i, a := range authorities {
		if i > 0 && authorities[i-1].Name == a.Name { // its next key
			continue
		}
		row := client.Authority{Name: a.Name, Allow: d.config.Load().Organisation.Authorities[a.Name].ListAllowed()}
		if a.Revoked != nil {
			row.Revoked = a.Revoked.Len()
		}
		for _, peer := range certified {
			if peer.Certificate.Authority == a.Name {
				row.Peers++
			}
		}
		answer.Authorities = append(answer.Authorities, row)
	}
	return answer, nil
}

// describeCertificate returns what a certificate says.
func describeCertificate(c *identity.Certificate) *client.Certificate {
	out := &client.Certificate{ID: c.ID, Name: c.Name, Groups: append([]string{}, c.Groups...), Authority: c.Authority, Serial: c.Serial, KeyID: c.KeyID}
	if !c.NotBefore.IsZero() {
		out.NotBefore = client.Time{Time: c.NotBefore}
	}
	if !c.NotAfter.IsZero() {
		out.NotAfter = client.Time{Time: c.NotAfter}
	}
	return out
}
