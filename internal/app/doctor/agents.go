package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
)

// examineAgents lists the attached agents. The daemon's warnings have what is wrong with one.
func (x *examination) examineAgents() {
	if x.status == nil {
		return
	}
	if len(x.status.Agents) == 0 {
		x.add("agent.none", "agents", "no agent is attached: questions of peers are refused, notices are kept", kinds.RemedyNoAgent)
	}
	for _, a := range x.status.Agents[:min(len(x.status.Agents), maxListed)] {
		name, what := client.Line(a.Name), "answers by itself"
		if s := a.Session; s != nil {
			what = addNewer(client.Line(fmt.Sprintf("is a session of %s %s", s.Harness, s.Version)), s.Harness, s.Version)
		}
		x.add("agent.ok", name, fmt.Sprintf("%s is attached, and %s", name, what), "")
	}
}

// addNewer adds to a sentence about a version of an agent program that it is newer than those that were
// tested, if it is.
func addNewer(what, program, version string) string {
	if newer := harness.NewerThanTested(program, version); newer != "" {
		return what + "; this version is " + newer
	}
	return what
}

// examinePrograms looks at the agent programs that setup can connect.
func (x *examination) examinePrograms(ctx context.Context) {
	if x.Setup.Home == "" {
		return
	}
	for _, s := range setup.FindStatus(ctx, x.Setup) {
		again := "acpctl setup " + s.Program
		switch {
		case s.Connected == setup.Broken:
			x.add("program.broken", s.Program, fmt.Sprintf("%s: %s", s.Title, s.Problem), again+"; if it cannot read the file, fix that first")
		case s.Connected == setup.Foreign:
			x.add("program.foreign", s.Program, fmt.Sprintf("%s: %s", s.Title, s.Problem), "give that one another name, then: "+again)
		case s.Connected == setup.Connected && s.Problem != "":
			x.add("program.elsewhere", s.Program, fmt.Sprintf("%s is connected by %s to another daemon than this one", s.Title, s.Config), again+" if it should not be")
		case s.Connected == setup.Connected:
			x.add("program.ok", s.Program, addNewer(fmt.Sprintf("%s %s is connected by %s, which starts %s", s.Title, s.Version, s.Config, s.Command[0]), s.Program, s.Version), "")
		case s.Path != "":
			x.add("program.absent", s.Program, strings.TrimSpace(s.Title+" "+s.Version)+" is here, and not connected", again+" if it shall have the tools")
		}
		if s.Connected != setup.Connected || s.Version == "" {
			continue
		}
		if err := harness.CheckVersion(s.Program, s.Version); errors.Is(err, harness.ErrUnsupported) {
			x.add("program.untested", s.Program, fmt.Sprintf("%s: its sessions take messages, and are not woken: %v", s.Title, err), "update the program")
		}
	}
}

// examineMailboxes looks at the mailboxes of OACP that tools use here, and at what the daemon
// carries.
func (x *examination) examineMailboxes(ctx context.Context) {
	home, err := mailbox.FindHome(x.OACPHome)
	if err != nil {
		return
	}
	projects, _ := home.ListProjects()
	for _, project := range projects[:min(len(projects), maxListed)] {
		open, writable := mailbox.Project{Home: home, Name: project}.FindOpenFolders()
		if len(open) == 0 {
			continue
		}
		access := "read mail"
		if writable {
			access = "write mail in any name"
		}
		x.add("mailbox.open", project, fmt.Sprintf("other users of this machine can %s in %d folders of project %s, for example %s", access, len(open), project, open[0]),
			"chmod go= "+shellpath.Quote(string(home)))
	}
	if x.status != nil {
		x.examineCarriedMail(ctx, home)
	}
	if !x.has("mailbox.open", "mailbox.elsewhere", "mailbox.parked", "mailbox.twin") {
		x.add("mailbox.ok", "mailboxes", fmt.Sprintf("%d projects have mailboxes in %s", len(projects), home), "")
	}
}

func (x *examination) examineCarriedMail(ctx context.Context, home mailbox.Home) {
	meant, err := filepath.Abs(string(home))
	carried, errCarried := x.Daemon.OACPHome(ctx)
	if err == nil && errCarried == nil && carried != "" && !isSameFolder(meant, carried) {
		x.add("mailbox.elsewhere", "mailboxes", fmt.Sprintf("the daemon carries mail of %s, and the tools here use %s", carried, meant),
			fmt.Sprintf("OACP_HOME=%s for the tools; or oacp.home in config.yaml, and start acpd again", carried))
	}
	twins, _ := x.Daemon.OACPTwins(ctx, "")
	for _, t := range twins[:min(len(twins), maxListed)] {
		x.add("mailbox.twin", t.Agent, fmt.Sprintf("%s of project %s lives here and at %s: mail for it stays where it is sent", t.Agent, t.Project, t.Peer), fmt.Sprintf("give one of the two another name; if it only lives at %s: acpctl oacp bind %s %s %[1]s --take", t.Peer, t.Project, t.Agent))
	}
	parked := make(map[string]int)
	queue, _ := x.Daemon.OACPQueue(ctx, "")
	for _, q := range queue {
		if q.State == client.MailParked {
			parked[q.Peer]++
		}
	}
	for peer, n := range parked {
		x.add("mailbox.parked", peer, fmt.Sprintf("%d files of mail for %s are not carried", n, peer), "acpctl oacp queue says why")
	}
}

// isSameFolder reports whether two paths lead to one folder, or are equal if no folder exists.
func isSameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errX == nil && errY == nil && os.SameFile(x, y)
}

// examineChannels asks the socket of channels what has not left.
func (x *examination) examineChannels(ctx context.Context) {
	if x.status == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	unsent, err := x.Channels.Unsent(ctx)
	waiting := 0
	for _, m := range unsent {
		if m.Status == channels.StatusPending {
			waiting++
		}
	}
	switch {
	case err != nil:
		x.add("channel.silent", client.HTTPSocketName, fmt.Sprintf("channels do not answer: %v", err), "look at the daemon's log, and start acpd again")
	case len(unsent) > 0:
		x.add("channel.unsent", "channels", fmt.Sprintf("%d messages wait for their machine, and %d were refused there", waiting, len(unsent)-waiting), "acpctl channel unsent lists them; start the daemons that they are for")
	default:
		x.add("channel.ok", "channels", "channels answer, and no message waits", "")
	}
}
