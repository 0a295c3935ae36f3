package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

const (
	expiryNotice = 14 * 24 * time.Hour // before the end of this daemon's certificate, from which on the owner is told
	expiryRepeat = 24 * time.Hour      // between two lines of the log about it
)

// ownCertificate is what this daemon shows of itself to others.
type ownCertificate struct {
	raw  []byte                // nil: none is shown
	says *identity.Certificate // what raw says
	err  error                 // what is wrong with the file that is configured
}

// describe returns whose certificate it is, and until when, on one line.
func (c *ownCertificate) describe() string {
	if c.says.NotAfter.IsZero() {
		return c.says.Name + ", for ever"
	}
	return c.says.Name + ", until " + c.says.NotAfter.Format(time.RFC3339)
}

// readOwnCertificate reads this daemon's certificate. One that others would refuse is shown all the
// same if it is for this key: they may have another clock.
func (d *Daemon) readOwnCertificate(o *config.Organisation) (own ownCertificate) {
	raw, says, err := o.ReadCertificate(string(d.home))
	if err == nil && says.ID != d.id {
		err = ownwords.Errorf("organisation.certificate: %s: certificate: it is for the key %s, and not for that of this daemon: have the line signed that acpctl cert request prints", o.Certificate, says.ID.Label())
	}
	if err != nil {
		return ownCertificate{err: err}
	}
	return ownCertificate{raw: raw, says: says}
}

// showCertificate returns the certificate that this daemon shows to others, and what it says. Both are
// nil if it shows none.
func (d *Daemon) showCertificate() (raw []byte, says *identity.Certificate) {
	if own := d.ownCertificate.Load(); own != nil {
		return own.raw, own.says
	}
	return nil, nil
}

// isOwnCertifiedName reports whether this daemon has the name by its own certificate.
func (d *Daemon) isOwnCertifiedName(name string) bool {
	_, says := d.showCertificate()
	short, authority, _ := strings.Cut(name, ".")
	return says != nil && short == says.Name && slices.Contains(d.trust.ListAuthorityKeys(authority), says.Signer())
}

// describeOwnCertificate returns what the owner should know of this daemon's certificate, "" if
// nothing.
func (d *Daemon) describeOwnCertificate(now time.Time) string {
	own := d.ownCertificate.Load()
	switch {
	case own == nil:
		return ""
	case own.err != nil:
		return ownwords.Of(own.err)
	case own.says == nil:
		return ""
	case own.says.HasEndedAt(now):
		return fmt.Sprintf("the certificate of this daemon expired at %s, so that it is a stranger where only that counted: have it signed again, and reload", own.says.NotAfter.Format(time.RFC3339))
	case !own.says.IsValidAt(now):
		return fmt.Sprintf("the certificate of this daemon is not valid before %s: check the clock", own.says.NotBefore.Format(time.RFC3339))
	case !own.says.NotAfter.IsZero() && own.says.NotAfter.Sub(now) < expiryNotice && own.says.NotAfter.Sub(now) < own.says.NotAfter.Sub(own.says.NotBefore)/3:
		verb := "expires"
		if now.After(own.says.NotAfter) {
			verb = "expired" // and counts on for identity.ClockTolerance
		}
		return fmt.Sprintf("the certificate of this daemon %s at %s: have it signed again, and reload", verb, own.says.NotAfter.Format(time.RFC3339))
	}
	return ""
}

// checkOwnCertificate returns what the owner should know of this daemon's certificate when a person looks: what
// describeOwnCertificate says, or that none of the authorities here has signed it, if there are some.
func (d *Daemon) checkOwnCertificate(now time.Time) string {
	own, authorities := d.ownCertificate.Load(), d.trust.Authorities()
	notice := d.describeOwnCertificate(now)
	if notice != "" || own.says == nil || len(authorities) == 0 {
		return notice
	}
	if _, err := identity.CheckCertificate(own.raw, d.id, authorities, now); err != nil {
		return fmt.Sprintf("the certificate of this daemon is not valid here: %v", err)
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
func (d *Daemon) serveCertificate(_ context.Context, _ *local.Conn, p *client.CertificateParams) (any, error) {
	if len(p.File) > identity.MaxCertificateFile {
		return nil, kinds.Errorf(kinds.Invalid, "certificate: file: over %d bytes: give the text of the file that ssh-keygen -s has made", identity.MaxCertificateFile)
	}
	answer := &client.Certificates{Request: d.id.RenderPublicKey(), Authorities: []client.Authority{}}
	now := time.Now()
	authorities := d.trust.Authorities()
	raw, says := d.ownCertificate.Load().raw, d.ownCertificate.Load().says
	if p.File == "" {
		answer.Problem = d.checkOwnCertificate(now)
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
			answer.Problem = ownwords.Of(err)
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
