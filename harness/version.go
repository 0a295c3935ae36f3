package harness

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// The names of the programs that can be woken.
const (
	claudeName   = "claude"
	codexName    = "codex"
	opencodeName = "opencode"
)

// version is major, minor, patch.
type version [3]int

// tested says of each program which version was the first that could be woken, and which is the
// newest that was tested. A newer one is woken if it has what waking needs.
var tested = map[string]struct{ first, newest version }{
	claudeName:   {version{2, 1, 330}, version{2, 1, 332}},
	codexName:    {version{0, 169, 0}, version{0, 171, 0}},
	opencodeName: {version{1, 18, 33}, version{1, 18, 33}},
}

// checkVersion returns ErrUnsupported for a version that is too old.
func checkVersion(name, text string) error {
	first := tested[name].first
	v, err := parseVersion(text)
	if err == nil && slices.Compare(v[:], first[:]) >= 0 {
		return nil
	}
	saw := fmt.Sprintf("this needs %s or later: update it", first)
	if err != nil {
		saw = ownwords.Of(err) + "; " + saw
	}
	return &Error{Harness: name, Version: text, Err: ErrUnsupported, Saw: saw}
}

// lacks returns the error of a program without what waking needs, such as "codex 0.180.0 cannot be woken:
// it has no thread/inject_items". what is in words of this program's own.
func lacks(program, version, what string) error {
	return &Error{Harness: program, Version: version, Err: ErrUnsupported, Saw: "it has no " + what}
}

var errNoVersion = ownwords.New("what it says of itself is not a version")

// plainVersion matches a version, perhaps of a pre-release. Any other is a text of the program's choice.
var plainVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)*(-(alpha|beta|rc|pre|dev)(\.?[0-9]+)*)?$`)

// parseVersion reads the three numbers with which a version begins.
func parseVersion(text string) (v version, _ error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), " ")
	parts := strings.Split(number, ".")
	if len(parts) != len(v) {
		return v, errNoVersion
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil { // a pre-release such as 0.172.0-alpha.1 is not a version either
			return v, errNoVersion
		}
		v[i] = int(n)
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// CheckVersion returns an error, [ErrUnsupported] in its chain, if that version of a program is too
// old for its sessions to be woken. It returns nil for a program that cannot be woken at all.
func CheckVersion(program, version string) error {
	if _, known := tested[program]; !known {
		return nil
	}
	return checkVersion(program, version)
}

// NewerThanTested returns "newer than tested (0.171.0)" if no test has seen a version of that program
// which is as new. Otherwise it returns an empty text.
func NewerThanTested(program, version string) string {
	newest := tested[program].newest
	v, err := parseVersion(version)
	if _, known := tested[program]; !known || err != nil || slices.Compare(v[:], newest[:]) <= 0 {
		return ""
	}
	return fmt.Sprintf("newer than tested (%s)", newest)
}
