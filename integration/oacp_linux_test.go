package integration

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// queued returns what the queue says of a file; zero if it is not there.
func (m *machine) queued(file string) client.OACPQueued {
	m.T.Helper()
	all, err := m.Client.OACPQueue(await.NewContext(m.T), "demo")
	if err != nil {
		m.T.Fatal(err)
	}
	if i := slices.IndexFunc(all, func(q client.OACPQueued) bool { return q.File == file }); i >= 0 {
		return all[i]
	}
	return client.OACPQueued{}
}

// TestMailOnAFullDisk: where there is no space a message waits at its sender, which
// learns why, and arrives when there is some again. A sender without space sends.
func TestMailOnAFullDisk(t *testing.T) {
	t.Parallel()
	desk, laptop := correspondents(t)
	inbox := laptop.mailInbox("reviewer")
	desk.mail("before.yaml", "P2", "x")
	await.Until(t, "a message arrives", func() bool { return len(mailIn(t, inbox)) == 1 })

	for _, blocks := range []uint64{0, 16 << 10} { // nothing at all; the ledger, but not a large message
		laptop.limitFiles(blocks)
		name := "waits-" + string(rune('a'+blocks>>14)) + ".yaml"
		desk.mail(name, "P2", strings.Repeat("x", 100_000))
		await.Until(t, "the sender knows why", func() bool {
			q := desk.queued(name)
			return q.State == client.MailWaiting && strings.Contains(q.Reason, "laptop says: it could not be stored there: "+unix.EFBIG.Error()) && !strings.Contains(q.Reason, laptop.Home)
		})
		if got := mailIn(t, inbox); got[name] != "" {
			t.Errorf("%s is there", name)
		}
		if left := debris(t, inbox); left != nil {
			t.Errorf("debris: %v", left)
		}
		laptop.limitFiles(unix.RLIM_INFINITY)
		await.Until(t, "it arrives", func() bool { return mailIn(t, inbox)[name] != "" && desk.queued(name).State == client.MailDelivered })
	}
	desk.limitFiles(0)
	// The test writes, not the daemon: a full disk would keep tools from sending.
	desk.mail("after.yaml", "P2", "x")
	await.Until(t, "it arrives", func() bool { return mailIn(t, inbox)["after.yaml"] != "" })
	await.Until(t, "the sender knows", func() bool { return desk.queued("after.yaml").State == client.MailDelivered })
	desk.limitFiles(unix.RLIM_INFINITY)
	desk.KillDaemon()
	desk.StartDaemon()
	desk.connected(laptop)
	await.Until(t, "the sender knows again", func() bool { return desk.queued("after.yaml").State == client.MailDelivered })
	if got := mailIn(t, inbox); len(got) != 4 {
		t.Errorf("%d messages in the inbox", len(got))
	}
}
