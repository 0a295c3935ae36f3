package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/internal/ownwords"
)

// MaxCertificate is the length in bytes of the longest certificate, in the binary form of OpenSSH
// (PROTOCOL.certkeys).
const MaxCertificate = 4096

// MaxCertificateFile is the length in bytes of the longest file that [ParseCertificateFile] reads.
const MaxCertificateFile = 8 << 10

// ClockTolerance is by how much the clock of this machine may be wrong when the validity of a
// certificate is checked.
const ClockTolerance = 5 * time.Minute

const (
	certificateType = ssh.CertAlgoED25519v01
	maxGroups       = 16
	pqExtension     = "pq@acpd" // its value is the text of a PQHash

	principalPrefix = "acp:"
	groupPrefix     = principalPrefix + "group:"

	noName = "is not a name that acpd takes: use lower-case letters, digits and hyphens, a letter first, and nothing that looks like the beginning of an id; then have it signed again"
)

// Certificate is an authority's statement about a daemon's key. Its text form is that of OpenSSH's
// host certificates, made with ssh-keygen -s.
type Certificate struct {
	ID        ID
	Name      string    // as in build-7.corp: the authority's name for the key, and that of the authority
	Groups    []string  // as in ci.corp, sorted
	Authority string    // the name that this daemon's owner gave it; "" from InspectCertificate
	Serial    uint64    // 0: none
	KeyID     string    // what the authority wrote for its own log, made fit to be shown
	NotBefore time.Time // UTC; zero: since ever
	NotAfter  time.Time // UTC; zero: for ever
	PQ        PQHash    // of the daemon's post-quantum key; zero: not said

	signer AuthorityKey // as it says, from InspectCertificate
}

// IsValidAt reports whether the certificate is valid at a time, with [ClockTolerance].
func (c *Certificate) IsValidAt(at time.Time) bool {
	return !at.Before(c.NotBefore.Add(-ClockTolerance)) && !c.HasEndedAt(at)
}

// HasEndedAt reports whether the certificate has expired at a time, with [ClockTolerance].
func (c *Certificate) HasEndedAt(at time.Time) bool {
	return !c.NotAfter.IsZero() && !at.Before(c.NotAfter.Add(ClockTolerance))
}

// IsSameAs reports whether two certificates say the same, whoever has signed them when.
func (c *Certificate) IsSameAs(o *Certificate) bool {
	return c.ID == o.ID && c.Name == o.Name && slices.Equal(c.Groups, o.Groups) && c.Serial == o.Serial && c.KeyID == o.KeyID &&
		c.NotBefore.Equal(o.NotBefore) && c.NotAfter.Equal(o.NotAfter) && c.PQ == o.PQ && c.signer == o.signer
}

// Authority signs certificates, which are valid for keys that are neither trusted nor blocked. One
// that changes its key is there twice, under one name.
type Authority struct {
	Name    string
	Key     AuthorityKey
	Revoked *Revocations // nil: none
}

// AuthorityKey is the public key of an authority. The zero value means no key.
type AuthorityKey struct{ wire string } // in the binary form of RFC 4253, section 6.6

// ParseAuthorityKey parses the line of a public key file of OpenSSH. It takes Ed25519 keys, also of
// FIDO tokens, and ECDSA keys on P-256.
func ParseAuthorityKey(line string) (AuthorityKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return AuthorityKey{}, ownwords.New("not a public key of OpenSSH: write the line of its .pub file, like \"ssh-ed25519 AAAA…\"")
	case len(options) > 0 || len(bytes.TrimSpace(rest)) > 0:
		return AuthorityKey{}, ownwords.New("more than a public key: write only the type and the key, like \"ssh-ed25519 AAAA…\"")
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256:
		return AuthorityKey{string(key.Marshal())}, nil
	}
	return AuthorityKey{}, ownwords.Errorf("a key of type %q: make one with ssh-keygen -t ed25519, ed25519-sk or ecdsa -b 256", key.Type())
}

// RenderPublicKey returns the id as a line of a public key file of OpenSSH, which an authority
// signs. It ends without a line break.
func (id ID) RenderPublicKey() string {
	key, err := ssh.NewPublicKey(ed25519.PublicKey(id[:]))
	if err != nil {
		panic("identity: " + err.Error()) // an Ed25519 key has a form in OpenSSH
	}
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal()) + " acpd"
}

// ParseCertificateFile returns the certificate in a file of OpenSSH, which has one line, in its
// binary form.
func ParseCertificateFile(data []byte) ([]byte, error) {
	fields := strings.Fields(string(data[:min(len(data), MaxCertificateFile)]))
	switch {
	case len(data) > MaxCertificateFile:
		return nil, ownwords.Errorf("certificate file: over %d bytes: give it the file that ssh-keygen -s has made", MaxCertificateFile)
	case len(fields) < 2 || fields[0] != certificateType || strings.Contains(strings.TrimSpace(string(data)), "\n"):
		return nil, ownwords.Errorf("certificate file: not one line that begins with %s: give it the file that ssh-keygen -s has made of an Ed25519 key, whose name ends with -cert.pub", certificateType)
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(raw) > MaxCertificate {
		return nil, ownwords.Errorf("certificate file: what follows %s is no base64 of at most %d bytes: have it signed again", certificateType, MaxCertificate)
	}
	return raw, nil
}

// CheckCertificate parses a certificate in its binary form and returns it if one of the authorities
// has signed it, for the key id, and it is valid now and not revoked.
func CheckCertificate(raw []byte, id ID, authorities []Authority, now time.Time) (*Certificate, error) {
	parsed, c, err := parseCertificate(raw)
	if err != nil {
		return nil, err
	}
	if c.ID != id {
		return nil, ownwords.Errorf("certificate: it is for the key %s, and not for %s: have the right key signed", c.ID.Label(), id.Label())
	}
	i := slices.IndexFunc(authorities, func(a Authority) bool { return a.Key == c.signer })
	if i < 0 {
		const unsigned = "no authority that is configured here has signed it: see organisation.authorities in config.yaml"
		if err := c.checkValidity(now); err != nil { // then it does not help to know the authority
			return nil, ownwords.Errorf("%w; and %s", err, unsigned)
		}
		return nil, ownwords.New("certificate: " + unsigned)
	}
	a := authorities[i]
	if c.isRevokedBy(a.Revoked) {
		return nil, ownwords.Errorf("certificate: %s has revoked it: have another one signed", a.Name)
	}
	if err := c.checkValidity(now); err != nil {
		return nil, err
	}
	// The clock has been looked at, with its tolerance: here it is one that the certificate allows.
	checker := ssh.CertChecker{Clock: func() time.Time { return c.clampTime(now) }}
	if err := checker.CheckCert(parsed.ValidPrincipals[0], parsed); err != nil {
		return nil, ownwords.Explain(err, "certificate: its signature does not fit: have it signed again")
	}
	c.Authority = a.Name
	c.Name += "." + a.Name
	for i := range c.Groups {
		c.Groups[i] += "." + a.Name
	}
	return c, nil
}

// InspectCertificate returns what a certificate says, in its binary form. Nothing of it is checked
// but its form: names have no authority.
func InspectCertificate(raw []byte) (*Certificate, error) {
	_, c, err := parseCertificate(raw)
	return c, err
}

// parseCertificate checks the form of a certificate, and all of its content that neither an
// authority nor a clock is needed for.
func parseCertificate(raw []byte) (*ssh.Certificate, *Certificate, error) {
	if len(raw) > MaxCertificate {
		return nil, nil, ownwords.Errorf("certificate: %d bytes are over the limit of %d: leave out groups", len(raw), MaxCertificate)
	}
	if !hasCertificateType(raw) {
		return nil, nil, ownwords.Errorf("certificate: not of type %s: have the daemon's own key signed, which acpctl cert request prints", certificateType)
	}
	key, err := ssh.ParsePublicKey(raw)
	if err != nil {
		return nil, nil, ownwords.Explain(err, "certificate: it is cut off, or its form is not that of OpenSSH: have it signed again")
	}
	parsed := key.(*ssh.Certificate) // by its type
	c := &Certificate{Serial: parsed.Serial, KeyID: CleanClaim(parsed.KeyId), signer: AuthorityKey{string(parsed.SignatureKey.Marshal())}}
	public, ok := parsed.Key.(ssh.CryptoPublicKey).CryptoPublicKey().(ed25519.PublicKey)
	switch {
	case !ok || len(public) != len(c.ID):
		return nil, nil, ownwords.New("certificate: not for an Ed25519 key: have the daemon's own key signed, which acpctl cert request prints")
	case parsed.CertType != ssh.HostCert:
		return nil, nil, ownwords.New("certificate: not of type host: have it signed with ssh-keygen -h")
	case len(parsed.CriticalOptions) > 0:
		return nil, nil, ownwords.New("certificate: it has critical options, and acpd knows none: have it signed without -O critical")
	}
	copy(c.ID[:], public)
	if err := c.readPrincipals(parsed.ValidPrincipals); err != nil {
		return nil, nil, err
	}
	if c.NotBefore, err = readCertificateTime(parsed.ValidAfter, 0); err != nil {
		return nil, nil, err
	}
	if c.NotAfter, err = readCertificateTime(parsed.ValidBefore, ssh.CertTimeInfinity); err != nil {
		return nil, nil, err
	}
	if text, ok := parsed.Extensions[pqExtension]; ok {
		if err := c.PQ.UnmarshalText([]byte(text)); err != nil {
			return nil, nil, ownwords.Errorf("certificate: extension %s: %w", pqExtension, err)
		}
	}
	return parsed, c, nil
}

// hasCertificateType reports whether raw begins with the one type of certificates that acpd accepts, so
// that no other is parsed.
func hasCertificateType(raw []byte) bool {
	return len(raw) >= 4 && int(binary.BigEndian.Uint32(raw)) == len(certificateType) && bytes.HasPrefix(raw[4:], []byte(certificateType))
}

// readPrincipals sets name and groups. It refuses a certificate with a principal of another kind, which is meant for
// something else, such as one of ssh for hosts.
func (c *Certificate) readPrincipals(principals []string) error {
	if len(principals) == 0 {
		return ownwords.New("certificate: it names nobody: have it signed with -n acp:NAME")
	}
	for _, p := range principals {
		group, isGroup := strings.CutPrefix(p, groupPrefix)
		name, isOurs := strings.CutPrefix(p, principalPrefix)
		switch {
		case !isOurs:
			return ownwords.Errorf("certificate: a principal does not begin with %s, so it is not meant for acpd: have it signed with -n acp:NAME, and with no name of hosts or users", principalPrefix)
		case isGroup:
			if CheckName(group) != nil { // whose error quotes it
				return ownwords.Errorf("certificate: a group %s", noName)
			}
			c.Groups = append(c.Groups, group)
		case c.Name != "":
			return ownwords.New("certificate: two names: have it signed with one")
		default:
			if CheckName(name) != nil {
				return ownwords.Errorf("certificate: its name %s", noName)
			}
			if IsReservedName(name) {
				return ownwords.Errorf("certificate: the name %q reads as a person's or a program's: have it signed with another", name)
			}
			c.Name = name
		}
	}
	if c.Name == "" {
		return ownwords.New("certificate: it names only groups: have it signed with -n acp:NAME too")
	}
	slices.Sort(c.Groups)
	if c.Groups = slices.Compact(c.Groups); len(c.Groups) > maxGroups {
		return ownwords.Errorf("certificate: %d groups: have it signed with %d at most", len(c.Groups), maxGroups)
	}
	return nil
}

// readCertificateTime returns a time in seconds since 1970, or the zero time for the value that means
// no bound.
func readCertificateTime(seconds, unbounded uint64) (time.Time, error) {
	const year10000 = 253402300800
	switch {
	case seconds == unbounded:
		return time.Time{}, nil
	case seconds >= year10000 || seconds > math.MaxInt64:
		return time.Time{}, ownwords.New("certificate: its validity is no time before the year 10000: have it signed again, with -V")
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

// checkValidity returns an error unless the certificate is valid now.
func (c *Certificate) checkValidity(now time.Time) error {
	switch {
	case !c.NotAfter.IsZero() && !c.NotBefore.Before(c.NotAfter):
		return ownwords.New("certificate: it ends before it begins: have it signed again")
	case c.HasEndedAt(now):
		return ownwords.Errorf("certificate: it expired at %s, and it is %s here: have the key signed again", formatTime(c.NotAfter), formatTime(now))
	case !c.IsValidAt(now):
		return ownwords.Errorf("certificate: it is not valid before %s, and it is %s here: check the clock, or wait", formatTime(c.NotBefore), formatTime(now))
	}
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// clampTime returns the time within the validity that is nearest to t.
func (c *Certificate) clampTime(t time.Time) time.Time {
	if !c.NotAfter.IsZero() && !t.Before(c.NotAfter) {
		t = c.NotAfter.Add(-time.Second)
	}
	if t.Before(c.NotBefore) {
		t = c.NotBefore
	}
	return t
}
