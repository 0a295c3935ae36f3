package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Obeyed are the names of files and folders that the owner's programs obey where they find them: git,
// agent programs, editors, direnv. A folder that git takes for a repository is obeyed too, whatever its name.
var Obeyed = []string{
	".git", ".hg", ".jj", ".claude", ".codex", ".opencode", ".agents", ".gemini", ".vscode", ".envrc", ".mcp.json", "opencode.json", "opencode.jsonc",
	"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md",
}

const (
	maxEntries = 1_000_000 // of a project that is looked through before a run
	maxKept    = 1_000     // obeyed files and folders of a project: bwrap takes long for many mounts
	maxDepth   = 100       // of folders in each other that are looked through after a run

	lookForLock = 100 * time.Millisecond
)

// project is the folder of a Spec's Project, and what is obeyed in it.
type project struct {
	dir    string
	root   *os.Root
	keep   []string         // absolute paths of what is obeyed, without symbolic links
	were   map[fileID]thing // what was there before the run
	places []place          // where it was
}

// thing is what a path is, and where it leads if it is a symbolic link.
type thing struct {
	is, leads fileID
	link      string // the text of the link
}

type place struct {
	path string
	was  thing
}

type fileID struct{ device, inode uint64 }

func idOf(info fs.FileInfo) fileID {
	stat := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(stat.Dev), stat.Ino}
}

// CheckProject returns an error if a folder can be no Spec's Project.
func CheckProject(dir string) error {
	p, err := openProject(dir)
	if err != nil {
		return err
	}
	return p.root.Close()
}

// openProject looks for what is obeyed in a folder. The caller closes the root.
func openProject(dir string) (*project, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	p := &project{dir: dir, root: root, were: make(map[fileID]thing)}
	if err := p.scan(); err != nil {
		root.Close()
		return nil, err
	}
	return p, nil
}

func (p *project) scan() error {
	entries := 0
	for folders := []string{"."}; len(folders) > 0; folders = folders[1:] {
		at := folders[0]
		all, err := p.list(at)
		switch {
		case errors.Is(err, fs.ErrPermission): // a run of the same user could take the right to look into it
			p.keepPath(at)
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		if entries += len(all); entries > maxEntries {
			return fmt.Errorf("%s has over %d files and folders: name one with fewer", p.dir, maxEntries)
		}
		if isRepository(all) {
			p.keepPath(at)
			continue
		}
		for _, e := range all {
			path := filepath.Join(at, e.Name())
			switch {
			case isObeyed(e.Name()):
				p.keepPath(path)
			case e.IsDir():
				folders = append(folders, path)
			}
		}
		if len(p.keep) > maxKept {
			return fmt.Errorf("%s has over %d repositories and other folders and files that programs obey, such as .git and AGENTS.md: name one with fewer", p.dir, maxKept)
		}
	}
	return nil
}

// isObeyed reports whether a name is obeyed. On macOS the case of letters makes no other file.
func isObeyed(name string) bool {
	return slices.ContainsFunc(Obeyed, func(o string) bool { return o == name || runtime.GOOS == "darwin" && strings.EqualFold(o, name) })
}

// isRepository reports whether git takes a folder with these entries for a repository.
func isRepository(entries []fs.DirEntry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}

func (p *project) list(folder string) ([]fs.DirEntry, error) {
	f, err := p.root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func (p *project) identify(path string) (thing, error) {
	info, err := p.root.Lstat(path)
	if err != nil {
		return thing{}, err
	}
	id := idOf(info)
	if info.Mode()&fs.ModeSymlink == 0 {
		return thing{is: id, leads: id}, nil
	}
	t := thing{is: id}
	if info, err := os.Stat(filepath.Join(p.dir, path)); err == nil {
		t.leads = idOf(info)
	}
	t.link, err = p.root.Readlink(path)
	return t, err
}

// wasThere reports whether a path is what was noted before the run, wherever that was.
func (p *project) wasThere(path string) bool {
	t, err := p.identify(path)
	return err == nil && p.were[t.is] == t
}

// rename gives a new name to what a run has left, and returns the new path.
func (p *project) rename(folder, name string) (path string, err error) {
	path = filepath.Join(folder, name)
	renamed := path + ".left-by-a-run-" + rand.Text()[:6]
	err = p.root.Rename(path, renamed)
	if errors.Is(err, fs.ErrPermission) {
		p.root.Chmod(folder, 0o700)
		err = p.root.Rename(path, renamed)
	}
	return renamed, err
}

// keepPath notes what is obeyed, and that no run may change it.
func (p *project) keepPath(path string) {
	if t, err := p.identify(path); err == nil {
		p.were[t.is] = t
		p.places = append(p.places, place{path, t})
	}
	real, err := filepath.EvalSymlinks(filepath.Join(p.dir, path))
	if err != nil {
		return // it leads nowhere
	}
	if rel, err := filepath.Rel(p.dir, real); err == nil && filepath.IsLocal(rel) && !slices.Contains(p.keep, real) {
		p.keep = append(p.keep, real)
	}
}

// disarm renames what a run has left that is obeyed, so that it is not. It returns the new paths, and
// what it could not look through, both below the project's folder. No run changes the folder meanwhile.
func (p *project) disarm() (left, unseen []string) {
	type folder struct {
		path  string
		below bool // something that is in left
	}
	for folders := []folder{{path: "."}}; len(folders) > 0; folders = folders[1:] {
		at := folders[0]
		if p.wasThere(at.path) {
			continue
		}
		all, err := p.list(at.path)
		if errors.Is(err, fs.ErrPermission) { // a run can take rights from its own folders
			p.root.Chmod(at.path, 0o700)
			all, err = p.list(at.path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || strings.Count(at.path, string(filepath.Separator)) >= maxDepth {
			unseen = append(unseen, at.path)
			continue
		}
		repository := isRepository(all)
		for _, e := range all {
			path, below := filepath.Join(at.path, e.Name()), at.below
			if isObeyed(e.Name()) || repository && e.Name() == "HEAD" {
				if p.wasThere(path) {
					continue
				}
				renamed, err := p.rename(at.path, e.Name())
				if err != nil {
					unseen = append(unseen, path)
					continue
				}
				if path = renamed; !below {
					left = append(left, path)
				}
				below = true
			}
			if e.IsDir() {
				folders = append(folders, folder{path, below})
			}
		}
	}
	return left, unseen
}

// restore makes the symbolic links anew that a run has removed, if they lead where they did. It returns what is
// obeyed and not in its place any more.
func (p *project) restore() (gone []string) {
	for _, at := range p.places {
		t, err := p.identify(at.path)
		if errors.Is(err, fs.ErrNotExist) && at.was.link != "" && p.root.Symlink(at.was.link, at.path) == nil {
			if t, err = p.identify(at.path); err == nil && t.leads == at.was.leads {
				continue
			}
			p.root.Remove(at.path)
		}
		if err != nil || t != at.was {
			gone = append(gone, at.path)
		}
	}
	return gone
}

// projects has a place for one run by folder.
var projects sync.Map

// LockProject waits until no other run changes a folder, by any process of this machine. Until the
// caller calls unlock, no other run changes it. On a file system without locks of folders, such as NFS, it
// waits only for runs of this process.
func LockProject(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	place, _ := projects.LoadOrStore(dir, make(chan struct{}, 1))
	free := place.(chan struct{})
	select {
	case free <- struct{}{}:
	case <-ctx.Done():
		f.Close()
		return nil, context.Cause(ctx)
	}
	unlock = func() {
		f.Close()
		<-free
	}
	again := time.NewTicker(lookForLock)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return unlock, nil
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}
