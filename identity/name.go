package identity

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/internal/ownwords"
)

// MaxName is the length in bytes of the longest petname.
const MaxName = 32

const (
	maxClaimBytes = 64
	minHex        = 6 // digits from which a reference is read as an id

	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	hostChars    = lowerLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
)

// CheckName returns an error unless name can be a petname: a lower-case letter, then up
// to 31 lower-case letters, digits and hyphens; but not six or more hex digits
// and nothing else, which would read as the beginning of an id.
func CheckName(name string) error {
	switch {
	case name == "":
		return ownwords.New("name: empty: choose one like \"desk\"")
	case len(name) > MaxName:
		return ownwords.Errorf("name: %d bytes long: use at most %d", len(name), MaxName)
	case strings.IndexByte(lowerLetters, name[0]) < 0 || !consistsOnlyOf(name, lowerLetters+"0123456789-"):
		return ownwords.Errorf("name %q: use lower-case letters, digits and hyphens, a letter first", name)
	case isHexPrefix(name):
		return ownwords.Errorf("name %q: reads as the beginning of an id: use a letter after f or a hyphen in it", name)
	}
	return nil
}

// GroupRefPrefix begins what names a group in a policy, as in group:ci.corp.
const GroupRefPrefix = "group:"

// CheckCertifiedName returns an error unless name is one that a certificate gives: a petname, a dot
// and the name of the authority, as in build-7.corp.
func CheckCertifiedName(name string) error {
	own, authority, ok := strings.Cut(name, ".")
	if !ok {
		return ownwords.Errorf("name %q: no authority: write NAME.AUTHORITY, as in build-7.corp", CleanClaim(name))
	}
	if err := CheckName(own); err != nil {
		return err
	}
	return CheckName(authority)
}

// MatchesClaim reports whether ref means a stranger that calls itself claim. With a dot in it ref means none: it is a
// name that an authority gives, and who calls itself so has not shown its certificate.
func MatchesClaim(ref, claim string) bool {
	return ref != "" && ref == claim && !strings.Contains(ref, ".")
}

// roleNames are the names that a model or a person could take for who is at the keyboard, or for a
// role in a conversation. They are in lower case.
var roleNames = []string{
	"user", "human", "owner", "me", "self", "system", "admin", "operator", "root", "assistant", "model",
}

// programNames are the names of programs that a peer could pretend to be, and those by which acpctl and people
// mean this machine. They are in lower case.
var programNames = []string{
	"claude", "codex", "gemini", "opencode", "anthropic", "openai", "acpd", "localhost", "here",
}

// fillerWords are words that leave a name reading as the one that it is without them: your-user.
var fillerWords = []string{"the", "your", "my", "a", "notice", "code", "agent", "message"}

// IsRoleName reports whether a name reads as a role's, also with a number, like user-2, or with
// words that make it no other one, like your-user.
func IsRoleName(name string) bool { return readsAs(name, roleNames) }

// IsReservedName reports whether a name is one that a peer gets only if the owner gives it,
// never by calling itself so: user, system, claude and such, also with a number, like user-2, or with
// words that make it no other one, like the-owner and claude-code.
func IsReservedName(name string) bool { return readsAs(name, roleNames, programNames) }

// readsAs reports whether the parts of a name, without numbers and filler words, are all of some words,
// and one is left.
func readsAs(name string, words ...[]string) bool {
	found := false
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("._- ", r) }) {
		part = strings.TrimRight(part, "0123456789")
		switch {
		case part == "" || slices.Contains(fillerWords, part):
		case slices.ContainsFunc(words, func(list []string) bool { return slices.Contains(list, part) }):
			found = true
		default:
			return false
		}
	}
	return found
}

// isHexPrefix reports whether s is read as an id or the beginning of one.
func isHexPrefix(s string) bool {
	return len(s) >= minHex && len(s) <= 2*len(ID{}) && consistsOnlyOf(s, hexDigits)
}

// isShortHexPrefix reports whether s looks like the beginning of an id, and is too short for one: it has
// a digit, which a word has not.
func isShortHexPrefix(s string) bool {
	s = strings.ToLower(s)
	return len(s) < minHex && consistsOnlyOf(s, hexDigits) && strings.ContainsAny(s, "0123456789")
}

func consistsOnlyOf(s, ascii string) bool { return strings.Trim(s, ascii) == "" }

// CleanClaim makes the name that a peer says of itself fit to be shown: valid UTF-8 of at most
// 64 bytes, without control characters, line breaks, characters that reorder text or that
// cannot be seen, and without space around it. The result may be empty. It is still a
// claim and proves nothing.
func CleanClaim(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		invalid := r == utf8.RuneError && size == 1
		unseen := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		if invalid || unseen || !unicode.IsPrint(r) || r == ' ' && b.Len() == 0 {
			continue
		}
		if b.Len()+size > maxClaimBytes {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// CheckAgentName returns an error unless an agent can have the name.
func CheckAgentName(name string) error {
	if name == "" || strings.Contains(name, "/") || CleanClaim(name) != name {
		return ownwords.Errorf("%.64q: use the name of an agent, 1 to %d printable bytes without a slash", name, maxClaimBytes)
	}
	return nil
}

// CheckAddr returns an error unless addr is host:port with an IP address (IPv6 in
// brackets) or a host name, and a port from 1 to 65535. It resolves nothing.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || len(host) > 253 {
		return ownwords.Errorf("address %q: use host:port, like desk.example:7117 or [2001:db8::1]:7117", CleanClaim(addr))
	}
	// A zone may hold anything, so netip does not make the text safe.
	_, err = netip.ParseAddr(host)
	isIP := err == nil && consistsOnlyOf(host, hostChars+":%")
	isName := host != "" && consistsOnlyOf(host, hostChars)
	if !isIP && !isName {
		return ownwords.Errorf("address %q: the host is neither an IP address nor a host name", CleanClaim(addr))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return ownwords.Errorf("address %q: use a port from 1 to 65535", CleanClaim(addr))
	}
	return nil
}
