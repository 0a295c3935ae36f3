package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

func TestStatusBudget(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodBudget, client.Budget{
		Rows: []client.BudgetRow{
			{Name: "places"},
			{Name: "streams", Peer: 768, All: 8192, Held: 3},
			{Name: "unread", Unit: "bytes", Peer: 64 << 20, All: 256 << 20, Held: 3 << 19},
			{Name: "free_space", Unit: "bytes_free", Peer: 1 << 30, All: 1 << 30, Held: 500},
		},
		Usage: []client.BudgetUsage{
			{Row: "places", Peer: clitest.DeskID, Name: "desk", Held: 1, Refused: 2},
			{Row: "free_space", Peer: clitest.DeskID, Name: "desk", Refused: 7},
		},
	})
	f.WantResult(f.Run("status", "--budget"), 0, "places\t(all)\t0\t-\t2\nplaces\tdesk\t1\t-\t2\n"+
		"streams\t(all)\t3\t8192\t0\n"+
		"unread\t(all)\t1.5 MiB\t256 MiB\t0\n"+
		"free_space\t(all)\t500 bytes free\t1 GiB free\t7\nfree_space\tdesk\t-\t1 GiB free\t7\n", "")
}

// Times name their zone, everywhere: the local one for a person, UTC for a script.
func TestTimesNameTheirZone(t *testing.T) {
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	f := newDaemon(t)
	f.SetAnswer(client.MethodInvitations, client.Invitations{Invitations: []client.OpenInvitation{{ID: "0a1b2c3d", Expires: at}}})
	f.WantResult(f.Run("invite", "--list"), 0, "0a1b2c3d\t2026-11-20T14:00:00Z\t-\t-\t0\n", "")
	if got, want := f.RunInteractive("", "invite", "--list"), at.Local().Format("Jan _2 15:04:05 MST"); !strings.Contains(got.Out, want) {
		t.Errorf("%q, want %q", got.Out, want)
	}
}

func TestStatusShowsWarnings(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodStatus, client.Status{Whoami: client.Whoami{Name: "desk"}, Warnings: []string{"policy in config.yaml names labtop"}})
	if got := f.Run("status"); got.Code != 0 || got.Out[len(got.Out)-len("warning\tpolicy in config.yaml names labtop\n"):] != "warning\tpolicy in config.yaml names labtop\n" {
		t.Errorf("%+v", got)
	}
}

// Delegations given and taken are counted, and those that wait for an answer are named.
func TestStatusCountsOpenDelegations(t *testing.T) {
	f := newDaemon(t)
	for want, s := range map[string]client.Status{
		"delegations\t0 given, 2 taken\n":                                             {TasksActive: 1, TasksTaken: 2},
		"delegations\t3 given, 0 taken; waiting for an answer: 1, see acpctl tasks\n": {TasksGiven: 3, QuestionsOpen: 1},
	} {
		f.SetAnswer(client.MethodStatus, s)
		if got := f.Run("status"); got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
