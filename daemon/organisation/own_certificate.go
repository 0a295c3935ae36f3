package organisation

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
	expiryNotice = 14 * 24 * time.Hour // before the end of this daemon's certificate, when the warnings begin
	expiryRepeat = 24 * time.Hour      // between two lines of the log about it
)

// ownCertificate is what this daemon shows of itself to others.
type ownCertificate struct {
	raw  []byte                // or nil to show no certificate
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

// readOwnCertificate reads this daemon's certificate. If it is for this key, it is shown even if others should
// refuse it: they may have another clock.
func (s *Service) readOwnCertificate(o *config.Organisation) (own ownCertificate) {
	raw, says, err := o.ReadCertificate(s.Dir)
	if err == nil && says.ID != s.Self {
		err = ownwords.Errorf("organisation.certificate: %s: certificate: it is for the key %s, and not for that of this daemon: have the line signed that acpctl cert request prints", o.Certificate, says.ID.Label())
	}
	if err != nil {
		return ownCertificate{err: err}
	}
	return ownCertificate{raw: raw, says: says}
}

// Certificate returns the certificate that the daemon shows to others, and what it says. Both are
// nil if it shows none.
func (s *Service) Certificate() (raw []byte, says *identity.Certificate) {
	own := s.own.Load()
	return own.raw, own.says
}

// IsOwnName reports whether the daemon has the name by its own certificate.
func (s *Service) IsOwnName(name string) bool {
	_, says := s.Certificate()
	short, authority, _ := strings.Cut(name, ".")
	return says != nil && short == says.Name && slices.Contains(s.Trust.ListAuthorityKeys(authority), says.Signer())
}

// DescribeOwn returns what the owner should know of this daemon's certificate, "" if nothing.
func (s *Service) DescribeOwn(now time.Time) string {
	own := s.own.Load()
	switch {
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
			verb = "expired" // and stays valid for identity.ClockTolerance
		}
		return fmt.Sprintf("the certificate of this daemon %s at %s: have it signed again, and reload", verb, own.says.NotAfter.Format(time.RFC3339))
	}
	return ""
}

// CheckOwn returns what the owner should know of this daemon's certificate when a person looks: what
// [Service.DescribeOwn] returns, or that none of the authorities here has signed it, if there are some.
func (s *Service) CheckOwn(now time.Time) string {
	own, authorities := s.own.Load(), s.Trust.Authorities()
	notice := s.DescribeOwn(now)
	if notice != "" || own.says == nil || len(authorities) == 0 {
		return notice
	}
	if _, err := identity.CheckCertificate(own.raw, s.Self, authorities, now); err != nil {
		return fmt.Sprintf("the certificate of this daemon is not valid here: %v", err)
	}
	return ""
}

// watchOwnCertificate logs what DescribeOwn returns once a day, and at once when that
// changes, until ctx ends.
func (s *Service) watchOwnCertificate(ctx context.Context) error {
	var told string
	var at time.Time
	for {
		now := time.Now()
		if notice := s.DescribeOwn(now); notice != told || notice != "" && now.Sub(at) >= expiryRepeat {
			if told, at = notice, now; notice != "" {
				s.Log.Warn("certificate", "warning", notice)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-time.After(time.Minute):
		}
	}
}

// serveCertificate returns what this daemon shows to others, and whose certificates are valid here. If the
// caller gives a file, it describes the certificate in that instead.
func (s *Service) serveCertificate(_ context.Context, _ *local.Conn, p *client.CertificateParams) (any, error) {
	if len(p.File) > identity.MaxCertificateFile {
		return nil, kinds.Errorf(kinds.Invalid, "certificate: file: over %d bytes: give the text of the file that ssh-keygen -s has made", identity.MaxCertificateFile)
	}
	answer := &client.Certificates{Request: s.Self.RenderPublicKey(), Authorities: []client.Authority{}}
	now := time.Now()
	authorities := s.Trust.Authorities()
	raw, says := s.Certificate()
	if p.File == "" {
		answer.Problem = s.CheckOwn(now)
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
		answer.Certificate = DescribeCertificate(says)
		if checked, err := identity.CheckCertificate(raw, s.Self, authorities, now); err == nil {
			answer.Certificate = DescribeCertificate(checked)
		} else if p.File != "" {
			answer.Problem = ownwords.Of(err)
		}
	}
	certified := s.Trust.CertifiedPeers()
	for i, a := range authorities {
		if i > 0 && authorities[i-1].Name == a.Name { // its next key
			continue
		}
		row := client.Authority{Name: a.Name, Allow: s.Config().Organisation.Authorities[a.Name].ListAllowed()}
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

// DescribeCertificate returns what a certificate says, as the local API shows it.
func DescribeCertificate(c *identity.Certificate) *client.Certificate {
	out := &client.Certificate{ID: c.ID, Name: c.Name, Groups: append([]string{}, c.Groups...), Authority: c.Authority, Serial: c.Serial, KeyID: c.KeyID}
	if !c.NotBefore.IsZero() {
		out.NotBefore = client.Time{Time: c.NotBefore}
	}
	if !c.NotAfter.IsZero() {
		out.NotAfter = client.Time{Time: c.NotAfter}
	}
	return out
}
