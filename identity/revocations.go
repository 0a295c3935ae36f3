package identity

import (
	"strconv"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
)

// MaxRevocationFile bounds a file of revocations, in bytes.
const MaxRevocationFile = 4 << 20

// Revocations is what an authority has taken back before it expired: keys, names and serial
// numbers. It does not change.
type Revocations struct {
	ids     map[ID]bool
	names   map[string]bool
	serials map[uint64]bool
}

// ParseRevocations parses a file of revocations. Each line is "id" and 64 hex digits, "name" and a
// name without the authority, or "serial" and a number from 1; empty lines and those that begin
// with # say nothing. Errors name the line.
func ParseRevocations(data []byte) (*Revocations, error) {
	if len(data) > MaxRevocationFile {
		return nil, ownwords.Errorf("over %d bytes: leave out what has expired by itself", MaxRevocationFile)
	}
	r := &Revocations{ids: make(map[ID]bool), names: make(map[string]bool), serials: make(map[uint64]bool)}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := r.addLine(line); err != nil {
			return nil, ownwords.Errorf("line %d: %w", number, err)
		}
	}
	return r, nil
}

func (r *Revocations) addLine(line string) error {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return ownwords.Errorf("%.64q: write \"id\", \"name\" or \"serial\", and what is revoked", CleanClaim(line))
	}
	switch what := fields[1]; fields[0] {
	case "id":
		id, err := ParseID(what)
		if err != nil {
			return err
		}
		r.ids[id] = true
	case "name":
		if err := CheckName(what); err != nil {
			return ownwords.Errorf("%w, without the name of the authority", err)
		}
		r.names[what] = true
	case "serial":
		n, err := strconv.ParseUint(what, 10, 64)
		if err != nil || n == 0 {
			return ownwords.New("serial: use a number from 1: 0 is what ssh-keygen gives every certificate without -z")
		}
		r.serials[n] = true
	default:
		return ownwords.Errorf("%.64q: write \"id\", \"name\" or \"serial\"", CleanClaim(fields[0]))
	}
	return nil
}

// Len returns how many entries there are.
func (r *Revocations) Len() int { return len(r.ids) + len(r.names) + len(r.serials) }

// isRevokedBy reports whether r names the key, the name or the serial number of a certificate.
func (c *Certificate) isRevokedBy(r *Revocations) bool {
	name, _, _ := strings.Cut(c.Name, ".")
	return r != nil && (r.ids[c.ID] || r.names[name] || r.serials[c.Serial])
}
