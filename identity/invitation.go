package identity

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	maxInvitationBytes = 4 << 10
	invitationScheme   = "acp://"
)

// Invitation is what one person hands another so that their daemons come to trust each
// other. Its text is:
//
//	acp://<id>?addr=<host:port>&addr=…&relay=<url>&name=…&pq=<hash>&token=<token>
//
// The id, the hash and the token are in base64url without padding (RFC 4648, section 5), or in
// lower-case hex digits: acpd 0.1.0 reads only the latter, and knows no parameter relay.
//
// Anybody who has it can redeem its token, for as many keys as it was issued for: it is a secret until it
// expires.
type Invitation struct {
	ID     ID
	Addrs  []string       // at most 8; if empty, discovery or a relay has to find the id
	Relays []InvitedRelay // at most MaxInvitedRelays
	Name   string         // what the inviter calls itself, a claim; may be empty
	PQ     PQHash         // of the inviter's post-quantum key; zero: none given
	Token  [16]byte       // the secret; never zero after ParseInvitation
}

var invitationKeys = []string{"addr", "relay", "name", "pq", "token"}

// ParseInvitation parses an invitation of at most 4 KiB. White space around it is ignored
// and not counted. An unknown, empty or malformed parameter is an error, and so is a
// repeated one except addr and relay. Errors quote nothing of uri: where a character was lost or
// changed, the token may stand anywhere in it.
func ParseInvitation(uri string) (Invitation, error) {
	inv, err := parseInvitationURI(strings.TrimSpace(uri))
	if err != nil {
		return Invitation{}, ownwords.Errorf("invitation: %w: copy the whole line again, or ask for a new one", err)
	}
	return inv, nil
}

// parseInvitationURI parses an invitation without white space around it. The result means
// nothing if there is an error.
func parseInvitationURI(uri string) (inv Invitation, err error) {
	if len(uri) > maxInvitationBytes {
		return inv, ownwords.Errorf("over %d bytes", maxInvitationBytes)
	}
	rest, ok := strings.CutPrefix(uri, invitationScheme)
	if !ok {
		return inv, ownwords.New("does not begin with " + invitationScheme)
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return inv, ownwords.New("contains spaces or characters that must be percent-encoded")
	}
	id, query, found := strings.Cut(rest, "?")
	if err = parseBase64OrHex(inv.ID[:], id); err != nil {
		return inv, ownwords.Errorf("agent id: %w", err)
	}
	if inv.ID.IsZero() {
		return inv, ownwords.New("no id")
	}
	if !found || query == "" {
		return inv, ownwords.New("it ends behind the id, and its token is missing")
	}
	number := 0
	for pair := range strings.SplitSeq(query, "&") {
		number++
		key, escaped, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(escaped)
		switch {
		case err != nil:
			err = ownwords.New("badly encoded")
		case value == "":
			err = ownwords.New("empty")
		default:
			err = inv.setParameter(key, value)
		}
		if err != nil {
			what := fmt.Sprintf("parameter %d", number)
			if slices.Contains(invitationKeys, key) {
				what = key
			}
			return inv, ownwords.Errorf("%s: %w", what, err)
		}
	}
	if inv.Token == [16]byte{} {
		return inv, ownwords.New("no token")
	}
	return inv, nil
}

// setParameter sets the field that key names. A key other than addr and relay may come once. Errors quote
// neither key nor value.
func (inv *Invitation) setParameter(key, value string) error {
	repeated := false
	switch key {
	case "addr":
		if CheckAddr(value) != nil { // whose error quotes it
			return ownwords.New("not an address: expected host:port, like desk.example:7117 or [2001:db8::1]:7117")
		}
		inv.Addrs = append(inv.Addrs, value)
		return CheckAddrs(inv.Addrs) // which quotes nothing more: only their number can be wrong
	case "relay":
		return inv.addRelay(value)
	case "name":
		repeated = inv.Name != ""
		inv.Name = value
		if CleanClaim(value) != value {
			return ownwords.New("over 64 bytes, or with characters that cannot be shown")
		}
	case "pq":
		repeated = !inv.PQ.IsZero()
		if err := parseBase64OrHex(inv.PQ[:], value); err != nil {
			return ownwords.Errorf("post-quantum key hash: %w", err)
		}
	case "token":
		repeated = inv.Token != [16]byte{}
		if err := parseBase64OrHex(inv.Token[:], value); err != nil {
			return err
		}
	default:
		return ownwords.New("not one of " + strings.Join(invitationKeys, ", "))
	}
	if repeated {
		return ownwords.New("it stands there twice")
	}
	return nil
}

// parseBase64OrHex fills dst from base64url without padding, or from hex digits as [parseHex] does. A
// value has one text in each form.
func parseBase64OrHex(dst []byte, s string) error {
	length := base64.RawURLEncoding.EncodedLen(len(dst))
	if len(s) != length && len(s) != 2*len(dst) {
		return ownwords.Errorf("expected %d characters of base64url, or %d hex digits, and there are %d characters", length, 2*len(dst), len(s))
	}
	if len(s) != length {
		return parseHex(dst, s)
	}
	if n, err := base64.RawURLEncoding.Strict().Decode(dst, []byte(s)); err != nil || n != len(dst) { // it skips line breaks
		return ownwords.New("not base64url")
	}
	return nil
}

// String returns the line that [ParseInvitation] reads, token included.
func (inv Invitation) String() string { return inv.compose(base64.RawURLEncoding.EncodeToString) }

// LongString returns the line in hex digits, which acpd 0.1.0 reads too if it names no relay.
func (inv Invitation) LongString() string { return inv.compose(hex.EncodeToString) }

func (inv Invitation) compose(encode func([]byte) string) string {
	var b strings.Builder
	b.WriteString(invitationScheme + encode(inv.ID[:]) + "?")
	for _, addr := range inv.Addrs {
		b.WriteString("addr=" + escapeParameter(addr) + "&")
	}
	for _, r := range inv.Relays {
		b.WriteString("relay=" + escapeParameter(r.String()) + "&")
	}
	if inv.Name != "" {
		b.WriteString("name=" + escapeParameter(inv.Name) + "&")
	}
	if !inv.PQ.IsZero() {
		b.WriteString("pq=" + encode(inv.PQ[:]) + "&")
	}
	b.WriteString("token=" + encode(inv.Token[:]))
	return b.String()
}

// LogValue keeps the token out of logs.
func (inv Invitation) LogValue() slog.Value {
	return slog.StringValue("invitation of " + inv.ID.Label() + " (token not shown)")
}

// escapeParameter percent-encodes a value. It leaves colons as they are, so that people can
// read addresses, and so slashes and @; RFC 3986, section 3.4, allows that.
func escapeParameter(value string) string {
	return strings.NewReplacer("+", "%20", "%3A", ":", "%2F", "/", "%40", "@").Replace(url.QueryEscape(value))
}
