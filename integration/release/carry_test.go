//go:build interop

package release

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// initMailboxes makes the project demo on both machines: the planner lives at the desk, the reviewer
// at the laptop.
func initMailboxes(desk, laptop *side) {
	desk.T.Helper()
	desk.MustOutput("oacp", "init", "demo", "--agents", "planner")
	laptop.MustOutput("oacp", "init", "demo", "--agents", "reviewer")
	desk.MustOutput("oacp", "bind", "demo", "reviewer", "laptop")
	laptop.MustOutput("oacp", "bind", "demo", "planner", "desk")
}

// mail sends a mail from one agent to the other. The flags are further ones of oacp send.
func (s *side) mail(from, to, subject string, flags ...string) {
	s.T.Helper()
	s.MustOutput(append([]string{"oacp", "send", "demo", "--from", from, "--to", to, "--type", "question", "--subject", subject, "--body", "x"}, flags...)...)
}

// inboxListing is what is needed here of what oacp inbox prints.
type inboxListing struct {
	Agents []struct {
		Messages []struct {
			File    string `json:"file"`
			Subject string `json:"subject"`
		} `json:"messages"`
	} `json:"agents"`
}

// awaitMail waits until an agent's inbox folder has a mail with that subject, and returns its file name.
func awaitMail(t *testing.T, s *side, agent, subject string) (file string) {
	t.Helper()
	await.Until(t, agent+" has the mail "+subject, func() bool {
		listed := parse[inboxListing](t, s.MustOutput("oacp", "inbox", "demo", "--agent", agent, "--json"))
		for _, m := range listed.Agents[0].Messages {
			if m.Subject == subject {
				file = m.File
			}
		}
		return file != ""
	})
	return file
}

// awaitNoMail waits until the queue of a machine is empty: all its mail was delivered and dealt with.
func awaitNoMail(t *testing.T, s *side) {
	t.Helper()
	await.Until(t, s.Name+" has no mail for others", func() bool {
		return !strings.Contains(s.MustOutput("oacp", "queue", "--json"), `"file"`)
	})
}

// Mail goes both ways, and what its reader is done with leaves the sender's queue.
func TestMail(t *testing.T) {
	t.Parallel()
	forEachPairing(t, func(t *testing.T, desk, laptop *side) {
		initMailboxes(desk, laptop)
		desk.mail("planner", "reviewer", "there", "--wait-delivered")
		laptop.mail("reviewer", "planner", "back", "--wait-delivered")
		laptop.MustOutput("oacp", "done", "demo", "reviewer", awaitMail(t, laptop, "reviewer", "there"))
		desk.MustOutput("oacp", "done", "demo", "planner", awaitMail(t, desk, "planner", "back"))
		awaitNoMail(t, desk)
		awaitNoMail(t, laptop)
	})
}

// Daemons of the two versions carry no requests about channels for each other, and say what to do. A channel
// works for the agents of its own host.
func TestChannels(t *testing.T) {
	t.Parallel()
	forEachPairing(t, func(t *testing.T, desk, laptop *side) {
		channel := strings.TrimSpace(desk.MustOutput("channel", "create", "review", "--title", "Ship it", "--as", "planner"))
		desk.MustOutput("channel", "send", channel, "from the desk", "--as", "planner")
		said := laptop.RunAcpctl(kinds.Unreachable.Info().Exit, "channel", "send", channel, "from the laptop", "--as", "reviewer")
		if !strings.Contains(said.Stderr.String(), "desk does not offer") || !strings.Contains(said.Stderr.String(), "update it") {
			t.Errorf("the laptop says %q", &said.Stderr)
		}
		if seen := desk.MustOutput("channel", "tail", channel, "--as", "planner"); !strings.Contains(seen, "from the desk") {
			t.Errorf("the desk sees %s", seen)
		}
	})
}
