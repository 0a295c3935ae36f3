package sessions

import (
	"testing"
	"time"

	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/identity"
)

// The owner sees of an approved message why it is kept back, and until when.
func TestDescribeApproval(t *testing.T) {
	s := &Service{Deps: Deps{PeerName: identity.ID.String}}
	until := time.Unix(1e9, 0)
	if kept := s.describeApproval(waking.Approval{Approved: true, KeptBy: "budget: x", KeptUntil: until}); !kept.Approved || kept.KeptBy != "budget: x" || !kept.KeptUntil.Equal(until) {
		t.Errorf("%+v", kept)
	}
}
