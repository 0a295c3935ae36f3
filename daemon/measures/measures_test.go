package measures

import (
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// What counting one call costs a daemon.
func BenchmarkCountCall(b *testing.B) {
	m := New()
	row, _ := kinds.FindKind(kinds.KindQuery)
	p := &peer.Passing{Checked: kinds.Checked{Envelope: &wire.Envelope{Kind: kinds.KindQuery}, Spec: row}, Inbound: true, Began: time.Now()}
	for b.Loop() {
		m.Ended(p)
	}
}
