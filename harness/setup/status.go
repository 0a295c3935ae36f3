package setup

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// Connection says whether a program starts acpctl as its MCP server.
type Connection string

const (
	Connected    Connection = "yes"
	NotConnected Connection = "no"
	Foreign      Connection = "other" // the server acp is something else
	Broken       Connection = "broken"
)

// Status is what is known of one program on this machine.
type Status struct {
	Program       string     `json:"program"`
	Title         string     `json:"title"`
	Path          string     `json:"path,omitempty"`    // of the executable; "" if it is not installed
	Version       string     `json:"version,omitempty"` // as it says
	Connected     Connection `json:"connected"`
	Config        string     `json:"config,omitempty"`         // the file from which that is known
	Command       []string   `json:"command,omitempty"`        // of its MCP server acp
	Project       string     `json:"project,omitempty"`        // a file of the present folder that has a server acp too
	Problem       string     `json:"problem,omitempty"`        // and what to do
	ProjectServer Connection `json:"project_server,omitempty"` // what the server of that file is
}

// FindStatus returns the status of each program. It starts those that are installed, to ask for
// their versions: in the root folder, with few variables, for five seconds at most. o.Project is
// the present folder.
func FindStatus(ctx context.Context, o Options) []Status {
	all := make([]Status, len(programs))
	var versions sync.WaitGroup
	for i, p := range programs {
		s := &all[i]
		*s = Status{Program: p.name, Title: p.title, Path: findExecutable(p, &o)}
		if s.Path != "" {
			versions.Go(func() { s.Version = readVersion(ctx, s.Path, &o) })
		}
		p.findConnection(s, o)
	}
	versions.Wait()
	return all
}

// findConnection reads the configuration of a program: the user's, and then that of the present folder.
func (p *program) findConnection(s *Status, o Options) {
	project := o.Project
	o.Project = ""
	s.Connected = NotConnected
	if err := o.check(); err != nil {
		s.Connected, s.Problem = Broken, err.Error()
		return
	}
	config, e, err := p.findEntry(&o)
	switch {
	case err != nil:
		s.Connected, s.Problem = Broken, at(config, err).Error()
	case !e.found:
	case !e.isOurs(&o):
		s.Connected, s.Problem = Foreign, at(config, errForeign).Error()
	default:
		s.Connected, s.Problem = o.checkEntry(p, e)
	}
	if config != "" {
		s.Config, s.Command = config, e.command
	}
	if project == "" || filepath.Clean(project) == filepath.Clean(o.Home) {
		return
	}
	o.Project = project
	config, e, err = p.findEntry(&o)
	if err != nil || !e.found {
		return // a folder that has nothing of acpd's
	}
	s.Project, s.ProjectServer = config, Foreign
	if !e.isOurs(&o) {
		return
	}
	s.ProjectServer, _ = o.checkEntry(p, e)
	if s.ProjectServer == Connected && s.Connected == NotConnected && e.command[0] == o.Command {
		s.Connected, s.Config, s.Command, s.Problem = Connected, config, e.command, "in this folder alone"
	}
}

// checkEntry says whether an entry of setup's works.
func (o *Options) checkEntry(p *program, e serverEntry) (Connection, string) {
	again := "run acpctl setup " + p.name
	switch info, err := os.Stat(e.command[0]); {
	case !filepath.IsAbs(e.command[0]):
	case err != nil || info.Mode()&0o111 == 0:
		return Broken, e.command[0] + " is no program any more: " + again
	}
	if e.disabled {
		return NotConnected, "its configuration has the server acp, and that it is not enabled: " + again
	}
	if e.socket != o.Socket {
		return Connected, "it uses another daemon than acpctl does here: if it should not, " + again
	}
	return Connected, ""
}

// findEntry returns the server acp of the first configuration file that has one, and the file's path.
func (p *program) findEntry(o *Options) (path string, e serverEntry, err error) {
	parts, err := p.listParts(o)
	if err != nil {
		return "", e, err
	}
	for _, q := range parts {
		if !q.hasServer {
			continue
		}
		f, err := readFile(q.place)
		if err == nil && f.exists && len(f.text) > 0 {
			e, err = p.server.parse(f.text)
		}
		if err != nil || e.found {
			return q.place.path, e, err
		}
	}
	return "", e, nil
}

// findExecutable returns the path of a program's executable, "" if it is not installed.
func findExecutable(p *program, o *Options) string {
	path, err := exec.LookPath(p.name)
	if err == nil && filepath.IsAbs(path) {
		return path
	}
	for _, name := range p.executables {
		path := filepath.Join(o.Home, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

const (
	versionPatience = 5 * time.Second
	maxVersion      = 4 << 10 // bytes of what a program says of its version
)

var versionNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[0-9A-Za-z.+-]*`)

// readVersion asks a program for its version, and returns "" if it does not say.
func readVersion(ctx context.Context, path string, o *Options) string {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + o.Home, "PATH=" + o.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "DISABLE_AUTOUPDATER=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { out.Close() })() // what it has started may hold it open
	said, _ := io.ReadAll(io.LimitReader(out, maxVersion))
	out.Close() // who has more to say fails
	if cmd.Wait() != nil {
		return ""
	}
	return versionNumber.FindString(string(said))
}
