package meet

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
func (v *Verbs) trustRoster(ctx context.Context, flags *rosterFlags) error {
	asks := !flags.yes && !flags.dryRun
	if flags.file == "-" && asks {
		return frame.UsageErrorf("--file -: standard input is the roster, so nobody can be asked: add --dry-run or --yes")
	}
	file, err := v.readRoster(ctx, flags.file)
	if err != nil {
		return err
	}
	p := client.RosterParams{}
	for _, e := range file.Entries {
		p.Peers = append(p.Peers, client.RosterEntry(e))
	}
	plan, err := v.Daemon.TrustRoster(ctx, p)
	if err != nil {
		return err
	}
	if err := checkNoneRefused(file, plan); err != nil {
		return err
	}
	if flags.dryRun {
		return v.PrintData(plan, func() { v.printRoster(&v.Terminal, plan) })
	}
	if asks {
		if err := v.confirmRoster(ctx, plan); err != nil {
			return err
		}
	}
	p.Apply = true
	done, err := v.Daemon.TrustRoster(ctx, p)
	if err != nil {
		return err
	}
	v.SetDoneNote("the roster is applied: acpctl peers lists whom this daemon trusts")
	return v.PrintData(done, func() {
		if !asks { // else it was shown before
			v.printRoster(&v.Terminal, done)
		}
		v.tellOfRoster(done)
	})
}

// readRoster reads and checks a roster.
func (v *Verbs) readRoster(ctx context.Context, path string) (*roster.Roster, error) {
	text, err := v.ReadFile(ctx, path, roster.MaxBytes+1) // of a longer one the first byte too many
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
	if more := len(refused) - maxListed; more > 0 {
		refused = append(refused[:maxListed], fmt.Errorf("and %d more", more))
	}
	return frame.UsageErrorf("nothing was changed:\n%w", errors.Join(refused...))
}

// confirmRoster shows what a roster changes, and returns an error unless yes is typed. If nothing
// changes it does not ask.
func (v *Verbs) confirmRoster(ctx context.Context, plan *client.Roster) error {
	at := v.Terminal
	if v.JSON {
		at.Out, at.OutTTY = v.Err, v.ErrTTY
	}
	v.printRoster(&at, plan)
	changes := countChanges(plan)
	if changes[client.RosterNew]+changes[client.RosterChanged] == 0 {
		return nil
	}
	if !v.InTTY {
		return frame.UsageErrorf("standard input is not a terminal, so acpctl cannot ask: --yes trusts what is shown above")
	}
	yes, err := v.Confirm(ctx, fmt.Sprintf("Trust %d new, and change %d that are trusted already?", changes[client.RosterNew], changes[client.RosterChanged]))
	switch {
	case err != nil:
		return err
	case !yes:
		return errors.New("nothing was changed: the answer was not yes")
	}
	return nil
}

// printRoster prints a line for each entry.
func (v *Verbs) printRoster(at *ui.Terminal, r *client.Roster) {
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
func (v *Verbs) tellOfRoster(r *client.Roster) {
	for _, p := range r.Peers {
		if p.Warning != "" {
			v.Warn("%s", p.Warning)
		}
	}
	for _, url := range r.Relays {
		v.Warn("the relay %s is not used here, and peers of the roster are at it: acpctl relay add %[1]s", url)
	}
	n := countChanges(r)
	if n[client.RosterNew]+n[client.RosterChanged] == 0 {
		v.TellLine("Nothing changes.")
		return
	}
	v.TellLine(fmt.Sprintf("%d new, %d changed, %d unchanged. A roster removes nobody: acpctl untrust NAME does.", n[client.RosterNew], n[client.RosterChanged], n[client.RosterUnchanged]))
	v.TellLine("Messages pass between two machines when both have applied it.")
}

// printRosterEntry prints the daemon's own entry for a roster.
func (v *Verbs) printRosterEntry(ctx context.Context, who *client.Whoami) error {
	used, err := v.Daemon.Relays(ctx)
	if err != nil {
		return err
	}
	addrs := who.Listen[:min(len(who.Listen), identity.MaxAddrs)]
	e := roster.Entry{ID: who.ID, Name: strings.ToLower(who.Name), Addrs: addrs}
	if identity.CheckName(e.Name) != nil || identity.IsReservedName(e.Name) {
		e.Name = "peer-" + who.ID.Label()
		v.Warn("--roster: the name %q cannot be a peer's: the entry says %s, change it as you like", who.Name, e.Name)
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
		v.Warn("--roster: the daemon listens only on loopback (%s): no other machine can reach it there", strings.Join(addrs, ", "))
	}
	return v.PrintData(client.RosterEntry(e), func() { fmt.Fprint(v.Out, e.String()) })
}
