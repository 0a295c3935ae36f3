package profile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/harness/run"
)

// Program is an agent program as it was found on this machine.
type Program struct {
	Path  string   // without symbolic links
	Files []string // what it needs to run, except the system's files
	dirs  []string // the folders of its interpreters, for PATH
}

// FindProgram looks for the profile's program in PATH, and for the files that it needs: its
// own, those of the package that it is part of, and its interpreter. It never finds it in the
// working directory.
func (p *Profile) FindProgram() (*Program, error) {
	path, err := exec.LookPath(p.Program)
	if err != nil {
		if errors.Is(err, exec.ErrDot) {
			return nil, fmt.Errorf("program: %s was found in the working directory: add its folder to PATH, or name its path", p.Program)
		}
		if strings.Contains(p.Program, "/") {
			return nil, fmt.Errorf("program: there is no %s that can be run: check the path, and its mode", p.Program)
		}
		return nil, fmt.Errorf("program: %s is not in PATH: install it, or add its folder to PATH", p.Program)
	}
	found := &Program{}
	if found.Path, err = realPath(path); err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	seen := []string{""} // a script may be the interpreter of another, or its own
	for at := found.Path; !slices.Contains(seen, at); at = findInterpreter(at) {
		found.add(at)
		if at != found.Path {
			found.dirs = append(found.dirs, filepath.Dir(at))
		}
		seen = append(seen, at)
	}
	return found, nil
}

// add adds a program's file, or the folder of packages that it is in.
func (f *Program) add(path string) {
	const packages = "/node_modules/"
	if i := strings.Index(path, packages); i >= 0 {
		path = path[:i+len(packages)-1]
	}
	if !slices.Contains(f.Files, path) {
		f.Files = append(f.Files, path)
	}
}

// findInterpreter returns the program that the first line of a script names, "" if there is
// none.
func findInterpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	rest, script := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !script || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") })
		if len(words) == 0 {
			return ""
		}
	}
	found, err := exec.LookPath(words[0])
	if err != nil {
		return ""
	}
	found, err = realPath(found)
	if err != nil {
		return ""
	}
	return found
}

// realPath returns an absolute path without symbolic links.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// resolve returns an absolute path without symbolic links for one that may begin with ~/.
func resolve(path string) (string, error) {
	path, err := expandHome(path)
	if err != nil {
		return "", err
	}
	return realPath(path)
}

// expandHome returns an absolute path for one that may begin with ~/.
func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return filepath.Clean(path), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, rest), nil
}

// values are what is chosen for one run.
type values struct {
	session string // of the program; "": a new conversation
	home    string
	model   string
	acpctl  string
	tools   Tools
	files   string // the folder of the message's files; "" if there are none
}

// makeEnv returns the environment of a run, each variable once. The variables of more win over those
// that the profile sets. These win over those that the profile passes on, and those over the ones of
// every run.
func (p *Profile) makeEnv(v *values, program *Program, temp string, more []string) []string {
	path := run.SystemPath
	for _, dir := range program.dirs {
		if !slices.Contains(filepath.SplitList(path), dir) {
			path = dir + ":" + path
		}
	}
	env := map[string]string{"HOME": v.home, "PATH": path, "TMPDIR": temp, "LANG": "C.UTF-8", "TERM": "dumb"}
	for _, name := range p.Pass {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	if p.env != nil {
		maps.Copy(env, p.env(v))
	}
	for _, variable := range more {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// prepareHome makes the files of a run's home and the links to credentials there. It returns
// the files behind these, which the run may read. Files that are there, and the same, stay.
func (p *Profile) prepareHome(v *values) (read []string, err error) {
	home, err := os.OpenRoot(v.home)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	write := func(path, text string) error {
		// A run may have put there what a reader waits for without end, or what is huge.
		if info, err := home.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(text)) {
			if old, err := home.ReadFile(path); err == nil && bytes.Equal(old, []byte(text)) {
				return nil
			}
		}
		if err := home.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := home.RemoveAll(path); err != nil {
			return err
		}
		return home.WriteFile(path, []byte(text), 0o600)
	}
	if p.files != nil {
		for path, text := range p.files(v) {
			if err := write(path, text); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range p.Credentials {
		file, err := resolve(c.File)
		if err != nil {
			continue // the user has not logged in that way
		}
		if err := home.MkdirAll(filepath.Dir(c.As), 0o700); err != nil {
			return nil, err
		}
		if old, err := home.Readlink(c.As); err != nil || old != file {
			if err := home.RemoveAll(c.As); err != nil {
				return nil, err
			}
			if err := home.Symlink(file, c.As); err != nil {
				return nil, err
			}
		}
		read = append(read, file)
	}
	return read, nil
}
