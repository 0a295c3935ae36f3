package setup

import "slices"

// jsonServer says where and how a program's JSON configuration has the server acp.
type jsonServer struct {
	relaxed     bool   // the file may have comments
	list        string // the object that has all servers
	kind        string // the type of a server that is a command
	splits      bool   // the command is a string, and its arguments are in args
	environment string // the member that has the variables
	enabled     bool   // a server says whether it is enabled
}

// parse reads the server of a configuration file.
func (s *jsonServer) parse(text []byte) (serverEntry, error) {
	d, err := newJSONText(text, s.relaxed)
	if err != nil {
		return serverEntry{}, err
	}
	return s.read(d)
}

func (s *jsonServer) read(d *jsonText) (e serverEntry, err error) {
	server, found, err := d.findValue(s.list, serverName)
	if err != nil || !found {
		return e, err
	}
	e.found = true
	if d.kindOf(server) != '{' {
		return e, nil
	}
	for _, name := range []string{"command", "args", "enabled"} {
		v, found, err := d.findValue(s.list, serverName, name)
		switch {
		case err != nil:
			return e, err
		case !found:
		case name == "enabled":
			e.disabled = s.enabled && !d.isEqual(v, true)
		case name == "command" && s.splits:
			word, _ := d.readString(v)
			e.command = []string{word}
		case name == "command" || s.splits:
			words, _ := d.readStrings(v)
			e.command = append(e.command, words...)
		}
	}
	return e, s.readEnvironment(d, &e)
}

// readEnvironment reads the server's ACP_SOCKET, and whether there is more than that.
func (s *jsonServer) readEnvironment(d *jsonText, e *serverEntry) error {
	env, found, err := d.findValue(s.list, serverName, s.environment)
	if err != nil || !found || d.kindOf(env) != '{' {
		e.hasMore = found
		return err
	}
	for _, v := range d.readEntries(env.start).entries {
		e.hasMore = e.hasMore || v.name != socketVariable
	}
	v, found, err := d.findValue(s.list, serverName, s.environment, socketVariable)
	if err != nil || !found {
		return err
	}
	e.socket, _ = d.readString(v)
	return nil
}

// listCommand returns the members that say what is run.
func (s *jsonServer) listCommand(o *Options) object {
	command := o.command()
	if s.splits {
		return object{{"command", command[0]}, {"args", command[1:]}}
	}
	return object{{"command", command}}
}

// set writes the server, and returns the paths of the objects that it makes. What else the user has
// put into its entry stays.
func (s *jsonServer) set(d *jsonText, o *Options) (made [][]string, err error) {
	e, err := s.read(d)
	switch {
	case err != nil:
		return nil, err
	case e.found && !e.isOurs(o):
		return nil, errForeign
	}
	members := s.listCommand(o)
	if !e.found {
		members = slices.Concat(object{{"type", s.kind}}, members)
		if s.enabled {
			members = append(members, member{"enabled", true})
		}
		if o.Socket != "" {
			members = append(members, member{s.environment, object{{socketVariable, o.Socket}}})
		}
		return d.set(members, s.list, serverName)
	}
	if e.disabled {
		members = append(members, member{"enabled", true})
	}
	for _, m := range members {
		if _, err := d.set(m.value, s.list, serverName, m.name); err != nil {
			return nil, err
		}
	}
	if o.Socket != "" {
		_, err = d.set(o.Socket, s.list, serverName, s.environment, socketVariable)
	} else if e.socket != "" {
		err = d.remove(s.list, serverName, s.environment, socketVariable)
	}
	return nil, err
}
