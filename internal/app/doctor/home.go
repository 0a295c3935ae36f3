package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
)

// The files of a state directory that only its owner may read and write.
var privateFiles = append([]string{statedir.StateName, statedir.StateLogName, statedir.StateIndexName, statedir.LockName, statedir.ConfigName, statedir.ReserveName}, strictFiles...)

// strictFiles are those of privateFiles that acpd refuses if others can open them. The mode of
// the rest does no harm in a directory of mode 0700.
var strictFiles = []string{statedir.KeyName, statedir.TrustName, statedir.TrustCopyName, statedir.RulesName, statedir.RulesCopyName, statedir.RelaysName}

// filePath returns the path of a file in the state directory.
func (x *examination) filePath(name string) string { return filepath.Join(x.Home, name) }

const subjectHome = "state directory"

// examineHome looks at the state directory itself, and reports whether there is one that can be
// looked into.
func (x *examination) examineHome() bool {
	longest := x.filePath(filepath.Join(client.AgentFolder, client.HTTPSocketName))
	if len(longest) > x.Machine.MaxSocketPath {
		x.add("home.path", subjectHome, fmt.Sprintf("the socket's path %s has %d bytes, and this system takes %d", longest, len(longest), x.Machine.MaxSocketPath),
			"choose a shorter directory with --home or ACP_HOME")
	}
	info, err := os.Stat(x.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.add("home.missing", subjectHome, x.Home+" is not there: no daemon was started with it", x.makeUpCommand()+", or name another directory with --home or ACP_HOME")
		return false
	case err != nil:
		x.add("home.owner", subjectHome, fmt.Sprintf("%s cannot be looked at: %v", x.Home, err), "run acpctl as the user whose directory it is")
		return false
	case !info.IsDir():
		x.add("home.missing", subjectHome, x.Home+" is no directory", "name another one with --home or ACP_HOME")
		return false
	}
	if owner := x.Machine.OwnerOf(info); owner != x.Machine.UID {
		x.add("home.owner", subjectHome, fmt.Sprintf("%s belongs to user %d, and this is user %d", x.Home, owner, x.Machine.UID),
			fmt.Sprintf("run acpctl as user %d, or name a directory of your own with --home", owner))
		return false
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		f := x.add("home.open", subjectHome, fmt.Sprintf("%s is open to other users (mode %04o): acpd does not start", x.Home, mode), "chmod 700 "+shellpath.Quote(x.Home))
		home := x.Home
		f.fix = func() (string, error) { return "chmod 700 " + home, os.Chmod(home, 0o700) }
	}
	if _, ok := errors.AsType[*statedir.IncompleteError](statedir.CheckComplete(x.Home)); ok {
		x.add("home.incomplete", subjectHome, fmt.Sprintf("a restore into %s was interrupted, and its files are not whole: acpd does not start", x.Home),
			fmt.Sprintf("acpctl --home %s restore FILE, again", shellpath.Quote(x.Home)))
	}
	if !x.has("home.path", "home.open", "home.incomplete") {
		x.add("home.ok", subjectHome, x.Home+" is yours alone", "")
	}
	return true
}

// examineFiles looks at the owner, the type and the mode of the files that only their owner may read.
func (x *examination) examineFiles() {
	seen := 0
	for _, name := range privateFiles {
		path := x.filePath(name)
		info, err := os.Lstat(path)
		if err != nil {
			continue // a check that needs the file reports it
		}
		seen++
		switch mode := info.Mode(); {
		case name == statedir.ConfigName && mode&fs.ModeSymlink != 0: // acpd follows it
		case !mode.IsRegular():
			x.add("file.kind", name, fmt.Sprintf("%s is no regular file (%s)", path, mode.Type()), "put the file itself there")
		case x.Machine.OwnerOf(info) != x.Machine.UID:
			x.add("file.owner", name, fmt.Sprintf("%s belongs to user %d, and this is user %d", path, x.Machine.OwnerOf(info), x.Machine.UID), fmt.Sprintf("chown %d %s", x.Machine.UID, shellpath.Quote(path)))
		case slices.Contains(strictFiles, name) && mode.Perm()&0o177 != 0:
			f := x.add("file.open", name, fmt.Sprintf("%s is open to other users (mode %04o)", path, mode.Perm()), "chmod 600 "+shellpath.Quote(path))
			f.fix = func() (string, error) { return "chmod 600 " + path, chmodFile(x.Home, name, 0o600) }
		}
	}
	if seen > 0 && !x.has("file.open", "file.owner", "file.kind") {
		x.add("file.ok", subjectHome, fmt.Sprintf("its %d files are yours alone", seen), "")
	}
}

// chmodFile changes the mode of a file in the folder dir. It follows no link out of there.
func chmodFile(dir, name string, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Chmod(name, mode)
}

// examineDisk compares the space with the floor below which peers are refused: the one that the daemon has
// taken at its start, if one runs.
func (x *examination) examineDisk(ctx context.Context) {
	short, free, bound := disk.NewFloor(x.Home, uint64(x.config.Limits.MinFree), x.Machine.MeasureSpace).Measure()
	if bound == 0 { // the system does not say
		return
	}
	if taken := x.askFloor(ctx); taken > 0 && taken != bound {
		isTold := slices.ContainsFunc(x.status.Warnings, func(w string) bool {
			return strings.Contains(w, "take effect at the next start: ") && strings.Contains(w, "limits.min_free")
		})
		if !isTold { // after a reload, as daemon.warning
			x.add("disk.later", subjectHome, fmt.Sprintf("limits.min_free was %d bytes when the daemon started, and is %d by config.yaml now", taken, bound), "start acpd again for it")
		}
		bound = taken
	}
	have := fmt.Sprintf("%d MiB are free", free>>20)
	switch {
	case short == disk.OfWrites:
		x.add("disk.low", subjectHome, "its disk is read-only: acpd does not start, and one that runs refuses what peers send", "mount it for writing; if an error made it so, look at the disk")
	case short == disk.OfFiles:
		x.add("disk.low", subjectHome, "its disk has almost no inodes free: what peers send is refused", "remove files there: df -i counts them")
	case free < bound:
		x.add("disk.low", subjectHome, fmt.Sprintf("%s on its disk: below %d MiB (limits.min_free) what peers send is refused", have, bound>>20), "free some space, or lower limits.min_free in config.yaml and start acpd again")
	case free < 2*bound:
		x.add("disk.near", subjectHome, fmt.Sprintf("%s on its disk: below %d MiB (limits.min_free) what peers send is refused", have, bound>>20), "free some space before it comes to that, or lower limits.min_free in config.yaml and start acpd again")
	default:
		x.add("disk.ok", subjectHome, fmt.Sprintf("%s on its disk, and %d MiB must be left", have, bound>>20), "")
	}
}

// askFloor returns the bytes that must be free for the daemon to take what peers send; 0: none runs.
func (x *examination) askFloor(ctx context.Context) uint64 {
	if x.status == nil {
		return 0
	}
	b, err := x.Daemon.Budget(ctx)
	if err != nil {
		return 0 // askDaemon has found it alive a moment ago
	}
	i := slices.IndexFunc(b.Rows, func(r client.BudgetRow) bool { return r.Unit == client.UnitBytesFree })
	if i < 0 {
		return 0
	}
	return uint64(b.Rows[i].All)
}

// removeDeadSocket removes the socket that a killed daemon has left. It holds the lock meanwhile, so
// no daemon has just made it.
func removeDeadSocket(home, socket string) error {
	lock, err := statedir.LockDir(home, "acpctl doctor")
	if err != nil {
		return fmt.Errorf("a daemon is starting: %w", err)
	}
	defer lock.Close()
	info, err := os.Lstat(socket)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = errors.New("it is no socket")
	}
	if err != nil {
		return err
	}
	return os.Remove(socket)
}
