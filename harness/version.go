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

// tested are the versions of each program that were seen to be woken: from the first, and
// before the second. What waking needs there is internal or experimental, so other versions
// are left alone.
var tested = map[string][2]version{
	claudeName:   {{2, 1, 330}, {2, 2, 0}},
	codexName:    {{0, 169, 0}, {0, 172, 0}},
	opencodeName: {{1, 18, 33}, {1, 19, 0}},
}

// checkVersion returns ErrUnsupported for a version that was not tested.
func checkVersion(name, text string) error {
	limits := tested[name]
	v, err := parseVersion(text)
	if err == nil && slices.Compare(v[:], limits[0][:]) >= 0 && slices.Compare(v[:], limits[1][:]) < 0 {
		return nil
	}
	saw := fmt.Sprintf("tested are %s up to, and without, %s", limits[0], limits[1])
	if err != nil {
		saw = ownwords.Of(err) + "; " + saw
	}
	return &Error{Harness: name, Version: text, Err: ErrUnsupported, Saw: saw}
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
		if err != nil { // so a pre-release, 0.172.0-alpha.1, is none either
			return v, errNoVersion
		}
		v[i] = int(n)
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// CheckVersion returns an error, [ErrUnsupported] in its chain, if sessions of that version of a
// program are not woken. Of a program that cannot be woken at all it returns none.
func CheckVersion(program, version string) error {
	if _, known := tested[program]; !known {
		return nil
	}
	return checkVersion(program, version)
}
