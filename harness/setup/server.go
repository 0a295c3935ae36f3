package setup

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// serverForm says where and how a program's configuration has the server acp.
type serverForm struct {
	open        openFunc
	list        string // the object that has all servers
	kind        string // the type of a server that is a command, "" if servers have no types
	splits      bool   // the command is a string, and its arguments are in args
	environment string // the member that has the variables
}

// serverEntry is the MCP server acp, as a program's configuration has it.
type serverEntry struct {
	found    bool
	command  []string
	socket   string
	disabled bool // the program does not start it
	hasMore  bool // its environment has more than the socket
}

// isOurs reports whether setup can have written the entry: whether it runs `acpctl mcp`. In a project's
// folder, which may be of others, an entry is setup's only if it runs this very program, as setup has it
// run, with the socket of this user's daemon.
func (e serverEntry) isOurs(o *Options) bool {
	switch {
	case len(e.command) < 2 || e.command[1] != "mcp":
		return false
	case o.Project == "":
		return e.command[0] == o.Command || filepath.Base(e.command[0]) == "acpctl"
	}
	args := e.command[2:]
	isSetups := slices.Equal(args, []string{"--attach"}) || len(args) == 3 && slices.Equal(args[:2], []string{"--attach", "--name"})
	return isSetups && !e.hasMore && (e.socket == "" || e.socket == o.Socket) && leadsTo(e.command[0], o.Command)
}

// leadsTo reports whether a command, a path or a name in PATH, runs the program at a path.
func leadsTo(command, program string) bool {
	found, err := exec.LookPath(command)
	if err != nil || !filepath.IsAbs(found) {
		return command == program
	}
	a, errA := filepath.EvalSymlinks(found)
	b, errB := filepath.EvalSymlinks(program)
	return command == program || errA == nil && errB == nil && a == b
}

// errForeign is the error of an entry of the same name that setup has not written.
var errForeign = fmt.Errorf("it has a server %q that is not acpctl as setup starts it: remove it or give it another name, then run setup again", serverName)

// parse reads the server of a configuration file.
func (s *serverForm) parse(text []byte) (serverEntry, error) {
	d, _, err := openText(text, s.open)
	if err != nil {
		return serverEntry{}, err
	}
	return s.read(d)
}

func (s *serverForm) read(d document) (e serverEntry, err error) {
	value, found, err := d.get(s.list, serverName)
	if err != nil || !found {
		return e, err
	}
	server, _ := value.(map[string]any)
	e.found = true
	e.command = slices.Concat(listStrings(server["command"]), listStrings(server["args"]))
	if enabled, isSet := server["enabled"]; isSet {
		e.disabled = enabled != true
	}
	if value, isSet := server[s.environment]; isSet {
		variables, isObject := value.(map[string]any)
		e.socket, _ = variables[socketVariable].(string)
		e.hasMore = !isObject
		for name := range variables {
			e.hasMore = e.hasMore || name != socketVariable
		}
	}
	return e, nil
}

// set writes the server. It leaves what else the user has put into its entry.
func (s *serverForm) set(d document, o *Options) error {
	e, err := s.read(d)
	switch {
	case err != nil:
		return err
	case e.found && !e.isOurs(o):
		return errForeign
	}
	command := o.command()
	members := object{{"command", command}}
	if s.splits {
		members = object{{"command", command[0]}, {"args", command[1:]}}
	}
	if e.disabled {
		members = append(members, member{"enabled", true})
	}
	if !e.found {
		if s.kind != "" {
			members = slices.Concat(object{{"type", s.kind}}, members)
		}
		if o.Socket != "" {
			members = append(members, member{s.environment, object{{socketVariable, o.Socket}}})
		}
		return d.set(members, s.list, serverName)
	}
	for _, m := range members {
		if err := d.set(m.value, s.list, serverName, m.name); err != nil {
			return err
		}
	}
	switch o.Socket {
	case e.socket:
		return nil
	case "":
		return d.remove(s.list, serverName, s.environment, socketVariable)
	}
	return d.set(o.Socket, s.list, serverName, s.environment, socketVariable)
}

// removeOurs removes the server if setup can have written it. ok is false if somebody else's is there.
func (s *serverForm) removeOurs(d document, o *Options) (ok bool, err error) {
	e, err := s.read(d)
	if err != nil || e.found && !e.isOurs(o) {
		return false, err
	}
	return true, d.remove(s.list, serverName)
}
