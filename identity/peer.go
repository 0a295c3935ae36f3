package identity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// Peer is a trusted key, with its petname and addresses.
type Peer struct {
	ID    ID        `yaml:"id"`
	Name  string    `yaml:"name"`                 // petname, unique in the store
	Addrs []string  `yaml:"addrs,omitempty,flow"` // host:port, at most 8; shared with the store, not to be modified
	PQ    PQHash    `yaml:"pq,omitempty"`         // zero: not pinned yet
	Since time.Time `yaml:"since"`                // UTC, whole seconds

	// Certificate is set if the key is not in the store, and is a peer only by its certificate. It must
	// not be modified.
	Certificate *Certificate `yaml:"-"`
}

func (p Peer) isEqual(q Peer) bool {
	return p.ID == q.ID && p.Name == q.Name && slices.Equal(p.Addrs, q.Addrs) && p.PQ == q.PQ && p.Since.Equal(q.Since)
}

// Block is a key that was untrusted, with the name and addresses that it gets back when it
// is trusted again. A pinned post-quantum key is forgotten.
type Block struct {
	ID    ID       `yaml:"id"`
	Name  string   `yaml:"name,omitempty"`       // "" where it was never trusted; that of its certificate, which is blocked too, where it counted by one
	Addrs []string `yaml:"addrs,omitempty,flow"` // shared with the store, not to be modified
}

func (b Block) checkFields() error {
	check := CheckName
	if strings.Contains(b.Name, ".") {
		check = CheckCertifiedName
	}
	if b.Name != "" {
		if err := check(b.Name); err != nil {
			return err
		}
	}
	return CheckAddrs(b.Addrs)
}

// withDefaults returns p with its zero fields set to those of old.
func (p Peer) withDefaults(old Peer) Peer {
	p.Name, p.PQ = cmp.Or(p.Name, old.Name), cmp.Or(p.PQ, old.PQ)
	if p.Addrs == nil {
		p.Addrs = old.Addrs
	}
	if p.Since.IsZero() {
		p.Since = old.Since
	}
	return p
}

// prepareToStore returns p as the store keeps it: with a time, and addresses of its own.
func (p Peer) prepareToStore() Peer {
	if p.Since.IsZero() {
		p.Since = time.Now()
	}
	p.Since = p.Since.UTC().Truncate(time.Second)
	p.Addrs = slices.Clip(slices.Clone(p.Addrs))
	return p
}

// ErrNobody says that an id is the zero one.
var ErrNobody = ownwords.New("an id of only zeros belongs to nobody: copy it again from where it is shown")

func (p Peer) checkFields() error {
	if p.ID.IsZero() {
		return ErrNobody
	}
	if err := CheckName(p.Name); err != nil {
		return err
	}
	if year := p.Since.Year(); year < 1 || year > 9999 {
		return ownwords.Errorf("since: year %d", year)
	}
	return CheckAddrs(p.Addrs)
}

// CheckAddrs returns an error if one peer cannot have these addresses: see [CheckAddr],
// and 8 at most.
func CheckAddrs(addrs []string) error {
	if len(addrs) > MaxAddrs {
		return ownwords.Errorf("%d addresses: give at most %d", len(addrs), MaxAddrs)
	}
	for _, addr := range addrs {
		if err := CheckAddr(addr); err != nil {
			return err
		}
	}
	return nil
}
