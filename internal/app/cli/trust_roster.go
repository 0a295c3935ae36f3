package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/roster"
)

// rosterFlags are the flags of trust that are for a roster.
type rosterFlags struct {
	file   string // "-": standard input
	yes    bool
	dryRun bool
}

// trustRoster shows what a roster changes, and trusts all its peers, or none.
func (a *app) trustRoster(ctx context.Context, flags *rosterFlags) error {
	asks := !flags.yes && !flags.dryRun
	if flags.file == "-" && asks {
		return frame.UsageErrorf("--file -: standard input is the roster, so nobody can be asked: add --dry-run or --yes")
	}
	file, err := a.readRoster(ctx, flags.file)
	if err != nil {
		return err
	}
	p := client.RosterParams{}
	for _, e := range file.Entries {
		p.Peers = append(p.Peers, client.RosterEntry(e))
	}
	plan, err := a.Daemon.TrustRoster(ctx, p)
	if err != nil {
		return err
	}
	if err := checkNoneRefused(file, plan); err != nil {
		return err
	}
	if flags.dryRun {
		return a.PrintData(plan, func() { a.printRoster(&a.Terminal, plan) })
	}
	if asks {
		if err := a.confirmRoster(ctx, plan); err != nil {
			return err
		}
	}
	p.Apply = true
	done, err := a.Daemon.TrustRoster(ctx, p)
	if err != nil {
		return err
	}
	a.SetDoneNote("the roster is applied: acpctl peers lists whom this daemon trusts")
	return a.PrintData(done, func() {
		if !asks { // else it was shown before
			a.printRoster(&a.Terminal, done)
		}
		a.tellOfRoster(done)
	})
}

// readRoster reads and checks a roster.
func (a *app) readRoster(ctx context.Context, path string) (*roster.Roster, error) {
	text, err := a.ReadFile(ctx, path, roster.MaxBytes+1) // of a longer one the first byte too many
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	if path == "-" {
		path = "standard input"
	}
	file, err := roster.Parse(path, text)
	if err != nil {
		return nil, frame.UsageErrorf("nothing was changed:\n%w", err)
	}
	return file, nil
}

// checkNoneRefused returns an error with a line for each entry that the daemon refuses, or nil if it
// refuses nothing.
func checkNoneRefused(file *roster.Roster, plan *client.Roster) error {
	var refused []error
	for i, p := range plan.Peers {
		if p.Change == client.RosterRefused {
			refused = append(refused, file.NewError(i, p.Name+": "+p.Problem))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	if more := len(refused) - maxRefusedListed; more > 0 {
		refused = append(refused[:maxRefusedListed], fmt.Errorf("and %d more", more))
	}
	return frame.UsageErrorf("nothing was changed:\n%w", errors.Join(refused...))
}

// maxRefusedListed bounds the refused entries that an error lists.
const maxRefusedListed = 20

// confirmRoster shows what a roster changes, and returns an error unless yes is typed. If nothing
// changes it does not ask.
func (a *app) confirmRoster(ctx context.Context, plan *client.Roster) error {
	at := a.Terminal
	if a.JSON {
		at.Out, at.OutTTY = a.Err, a.ErrTTY
	}
	a.printRoster(&at, plan)
	changes := countChanges(plan)
	if changes[client.RosterNew]+changes[client.RosterChanged] == 0 {
		return nil
	}
	if !a.InTTY {
		return frame.UsageErrorf("standard input is not a terminal, so acpctl cannot ask: --yes trusts what is shown above")
	}
	yes, err := a.Confirm(ctx, fmt.Sprintf("Trust %d new, and change %d that are trusted already?", changes[client.RosterNew], changes[client.RosterChanged]))
	switch {
	case err != nil:
		return err
	case !yes:
		return errors.New("nothing was changed: the answer was not yes")
	}
	return nil
}

// printRoster prints a line for each entry.
func (a *app) printRoster(at *ui.Terminal, r *client.Roster) {
	var rows [][]string
	for _, p := range r.Peers {
		rows = append(rows, []string{p.Name, p.ID.Label(), describeRosterChange(&p), ui.DashIfEmpty(strings.Join(p.Addrs, " "))})
	}
	at.PrintTable([]string{"NAME", "ID", "CHANGE", "ADDRESSES"}, rows)
}

// describeRosterChange says what becomes of an entry.
func describeRosterChange(p *client.RosterPeer) string {
	switch {
	case p.Change == client.RosterSelf:
		return "none: this daemon"
	case p.Change != client.RosterChanged || p.Was == nil:
		return string(p.Change)
	}
	var changes []string
	if p.Was.Name != p.Name {
		changes = append(changes, "renamed, was "+p.Was.Name)
	}
	if !slices.Equal(p.Was.Addrs, p.Addrs) {
		changes = append(changes, "new addresses, were "+ui.DashIfEmpty(strings.Join(p.Was.Addrs, " ")))
	}
	return strings.Join(changes, "; ")
}

// countChanges counts the entries by what becomes of them.
func countChanges(r *client.Roster) map[client.RosterChange]int {
	counts := make(map[client.RosterChange]int)
	for _, p := range r.Peers {
		counts[p.Change]++
	}
	return counts
}

// tellOfRoster prints what was changed, what was not, and what to do next. It does so also if no
// person reads: a roster is often applied through ssh.
func (a *app) tellOfRoster(r *client.Roster) {
	for _, p := range r.Peers {
		if p.Warning != "" {
			a.Warn("%s", p.Warning)
		}
	}
	for _, url := range r.Relays {
		a.Warn("the relay %s is not used here, and peers of the roster are at it: acpctl relay add %[1]s", url)
	}
	n := countChanges(r)
	if n[client.RosterNew]+n[client.RosterChanged] == 0 {
		a.TellLine("Nothing changes.")
		return
	}
	a.TellLine(fmt.Sprintf("%d new, %d changed, %d unchanged. A roster removes nobody: acpctl untrust NAME does.", n[client.RosterNew], n[client.RosterChanged], n[client.RosterUnchanged]))
	a.TellLine("Messages pass between two machines when both have applied it.")
}

// printRosterEntry prints the daemon's own entry for a roster.
func (a *app) printRosterEntry(ctx context.Context, who *client.Whoami) error {
	used, err := a.Daemon.Relays(ctx)
	if err != nil {
		return err
	}
	addrs := who.Listen[:min(len(who.Listen), identity.MaxAddrs)]
	e := roster.Entry{ID: who.ID, Name: strings.ToLower(who.Name), Addrs: addrs}
	if identity.CheckName(e.Name) != nil || identity.IsReservedName(e.Name) {
		e.Name = "peer-" + who.ID.Label()
		a.Warn("--roster: the name %q cannot be a peer's: the entry says %s, change it as you like", who.Name, e.Name)
	}
	for _, r := range used {
		if r.State != client.RelayUnused && len(e.Relays) < identity.MaxInvitedRelays {
			e.Relays = append(e.Relays, r.URL)
		}
	}
	if who.HidesAddrs && len(e.Relays) > 0 {
		e.Addrs = []string{} // who applies it forgets those that it knew
	}
	if isLoopbackOnly(addrs) && len(e.Relays) == 0 {
		a.Warn("--roster: the daemon listens only on loopback (%s): no other machine can reach it there", strings.Join(addrs, ", "))
	}
	return a.PrintData(client.RosterEntry(e), func() { fmt.Fprint(a.Out, e.String()) })
}
