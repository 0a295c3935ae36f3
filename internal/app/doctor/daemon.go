package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
)

const subjectDaemon = "daemon"

// makeUpCommand returns the command that starts this daemon, and not another one.
func (x *examination) makeUpCommand() string { return "acpctl up --home " + shellpath.Quote(x.Home) }

// examineDaemon reports whether a daemon runs, since when, and of which version.
func (x *examination) examineDaemon() {
	socket := x.filePath(client.SocketName)
	if x.holder != nil && x.holder.Program == "" {
		x.add("daemon.silent", subjectDaemon, fmt.Sprintf("process %d has the lock of the state directory and does not answer on %s: it starts, hangs or is stopped", x.holder.PID, socket),
			"wait a moment; if it stays so, look at its log, end that process and start acpd again")
		return
	}
	if x.status == nil {
		remedy := x.makeUpCommand()
		if x.holder != nil {
			remedy = fmt.Sprintf("start acpd when %s (process %d) has ended, which works on the state directory", x.holder.Program, x.holder.PID)
		}
		x.add("daemon.down", subjectDaemon, "no daemon runs here: what follows is what files show", remedy)
		if info, err := os.Lstat(socket); err == nil && info.Mode().Type() == fs.ModeSocket {
			f := x.add("daemon.socket", client.SocketName, "a daemon that was killed has left "+socket, "nothing: the next start removes it")
			home := x.Home
			f.fix = func() (string, error) { return "removed " + socket, removeDeadSocket(home, socket) }
		}
		return
	}
	s := x.status
	since := x.Machine.Now().Add(-time.Duration(s.UptimeSecs) * time.Second)
	x.add("daemon.ok", subjectDaemon, fmt.Sprintf("acpd %s runs as process %d since %s, as %s", s.Version, s.Process.PID, since.UTC().Format(time.RFC3339), s.Name), "")
	if s.Version != x.Version {
		x.add("daemon.version", subjectDaemon, fmt.Sprintf("the daemon is acpd %s, and this is acpctl %s", s.Version, x.Version), "start acpd again after an update, or update the older one")
	}
	if s.State == client.DaemonDraining {
		x.add("daemon.draining", subjectDaemon, "the daemon is ending, and finishes what is open", "wait for its end, and look again")
	}
	for _, w := range s.Warnings {
		if strings.HasPrefix(w, "the disk of ") {
			continue // disk.low
		}
		if strings.HasPrefix(w, "pipe:") {
			continue // pipe.dead, if it is so now
		}
		if strings.HasPrefix(w, "config.yaml was not taken over") && x.has("config.broken") {
			continue // that says more
		}
		x.add("daemon.warning", subjectDaemon, w, "do what it says; acpctl status shows whether the warning is gone")
	}
}

// examineServices reports services whose program is gone, as after an update that moved it.
func (x *examination) examineServices() {
	for _, s := range x.Services {
		if _, err := os.Stat(s.Program); errors.Is(err, fs.ErrNotExist) {
			x.add("service.gone", filepath.Base(s.File), fmt.Sprintf("%s starts %s, which is gone", s.File, s.Program), "acpctl service install again, with the flags that it had")
		}
	}
}

// examineIdentity reads the key as acpd does.
func (x *examination) examineIdentity() {
	key, err := identity.LoadKey(x.filePath(statedir.KeyName))
	switch {
	case err == nil:
		x.add("identity.ok", statedir.KeyName, fmt.Sprintf("this daemon is %s; its TLS certificate is made of the key at each start, and does not expire", key.ID()), "")
	case errors.Is(err, fs.ErrNotExist) && (len(x.trusted) > 0 || !x.has("state.none")):
		x.add("identity.missing", statedir.KeyName, "identity.key is not there, and other state is: the next start makes a new identity, which no peer knows", "before acpd starts: acpctl restore FILE, of a backup with the identity; or start it, if a new identity is meant")
	case errors.Is(err, fs.ErrNotExist): // as before the first start
	case x.has("file.open", "file.kind", "file.owner"): // that was said
	default:
		x.add("identity.damaged", statedir.KeyName, fmt.Sprintf("identity.key cannot be used: %v", err), "stop acpd, then acpctl restore FILE, of a backup with the identity")
	}
}

// fewDescriptors is the limit below which peers and agents get so few that it is felt.
const fewDescriptors = 512

// examineDescriptors compares the open descriptors of the daemon with its limit.
func (x *examination) examineDescriptors() {
	const remedy = "raise the limit and start acpd again: ulimit -n 8192, or LimitNOFILE=8192 in its unit"
	most, open, who := x.Machine.MaxDescriptors(), 0, "a process here"
	if x.status != nil {
		most, open, who = x.status.Process.MaxDescriptors, x.status.Process.Descriptors, "the daemon"
	}
	switch {
	case most == 0:
	case open*5 >= most*4:
		x.add("descriptors.near", subjectDaemon, fmt.Sprintf("%d of the %d descriptors that the daemon may have are open", open, most), remedy+"; acpctl peers and acpctl agents show who is connected")
	case most < fewDescriptors:
		x.add("descriptors.few", subjectDaemon, fmt.Sprintf("%s may have %d files and sockets open; peers get less than half of them", who, most), remedy)
	default:
		x.add("descriptors.ok", subjectDaemon, fmt.Sprintf("%s may have %d files and sockets open, and has %d", who, most, open), "")
	}
}

// examineBudget reports bounds that are almost reached, and refusals.
func (x *examination) examineBudget(ctx context.Context) {
	if x.status == nil {
		return
	}
	b, err := x.Daemon.Budget(ctx)
	if err != nil {
		return // askDaemon has found it alive a moment ago
	}
	isNear := func(held, bound int64) bool { return bound > 0 && held >= bound-bound/5 }
	refused := make(map[string]uint64) // by peer
	for _, r := range b.Rows {
		if r.Unit == client.UnitBytesFree {
			continue // examineDisk reports it
		}
		if isNear(r.Held, r.All) {
			x.add("budget.near", r.Name, fmt.Sprintf("all peers together hold %d of the %d that %s allows them", r.Held, r.All, r.Name), "acpctl status --budget shows who holds what")
		}
		for _, u := range b.Usage {
			if u.Row != r.Name {
				continue
			}
			if isNear(u.Held, r.Peer) {
				remedy := "ask its owner what it does"
				if strings.HasPrefix(r.Name, "file") { // budget.Files and budget.FileBytes
					remedy = "acpctl files rm ID removes a file of it"
				}
				x.add("budget.near", r.Name, fmt.Sprintf("%s holds %d of the %d that %s allows a peer", u.Name, u.Held, r.Peer, r.Name), "acpctl status --budget shows all rows; "+remedy)
			}
			if u.Refused > 0 {
				refused[u.Name] += u.Refused
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		x.add("budget.refused", name, fmt.Sprintf("requests of %s that were refused since the daemon's start, by policy or at a bound: %d", name, refused[name]), "acpctl status --budget shows in which row")
	}
	if !x.has("budget.near") {
		x.add("budget.ok", subjectDaemon, "no peer holds four fifths of a bound", "")
	}
}
