// Package roster reads and writes rosters: YAML documents that list machines, to be trusted by
// acpctl trust --file.
//
// A roster is settings with the one key peers, a list. Each entry has an id, a name, and, unless
// discovery finds the machine, addrs or relays.
package roster

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/yamldoc"
)

const (
	// MaxBytes bounds the text of a roster.
	MaxBytes = 1 << 20
	// maxEntries bounds the machines in a roster.
	maxEntries = 1024
)

// Entry is one machine.
type Entry struct {
	ID    identity.ID
	Name  string   // a petname, and no reserved name
	Addrs []string // host:port, at most 8; nil if the roster does not give addrs, empty if it gives an empty list

	// Relays are the URLs of relays at which the machine is, at most 2, as identity.ParseRelayURL
	// returns them.
	Relays []string
}

// Roster is what a document lists.
type Roster struct {
	Entries []Entry

	file  string
	lines map[string]int // of the keys
}

// document is a roster as it is written.
type document struct {
	Peers []entry `yaml:"peers"`
}

type entry struct {
	ID     string   `yaml:"id"`
	Name   string   `yaml:"name"`
	Addrs  []string `yaml:"addrs"`
	Relays []string `yaml:"relays"`
}

// Parse reads a roster. file names it in errors. It returns all mistakes as one error that joins a
// [*yamldoc.Error] for each. Each says where the mistake is and what to write instead.
func Parse(file string, text []byte) (*Roster, error) {
	if len(text) > MaxBytes {
		line := 1 + bytes.Count(text[:MaxBytes], []byte{'\n'})
		return nil, errors.Join(&yamldoc.Error{File: file, Line: line, Problem: "the roster is over 1 MiB", Remedy: "make several of it"})
	}
	var doc document
	p := parser{
		Document: yamldoc.Decode(text, &doc, yamldoc.Options{File: file, LooseText: true}),
		ids:      make(map[identity.ID]string), names: make(map[string]string),
	}
	r := &Roster{file: file, lines: p.ListLines()}
	for i := range doc.Peers {
		if i == maxEntries {
			p.AddValueError(formatKey(i), fmt.Errorf("it is one more than the %d that a roster may have: make several of it", maxEntries))
			break
		}
		r.Entries = append(r.Entries, p.checkEntry(formatKey(i), &doc.Peers[i]))
	}
	if errs := p.ListErrors(); len(errs) > 0 {
		list := make([]error, len(errs))
		for i, e := range errs {
			list[i] = e
		}
		return nil, errors.Join(list...)
	}
	if len(r.Entries) == 0 {
		return nil, errors.Join(&yamldoc.Error{File: file, Problem: "it lists no machine", Remedy: "write peers: and below it what acpctl whoami --roster prints on each"})
	}
	return r, nil
}

// NewError returns an error about the entry with that index.
func (r *Roster) NewError(i int, problem string) error {
	return &yamldoc.Error{File: r.file, Line: r.lines[formatKey(i)], Key: formatKey(i), Problem: problem}
}

// String returns the entry as YAML: a list of one, to be pasted below peers. If Addrs is empty, addrs is an
// empty list; if Addrs is nil, addrs is left out.
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- id: %s\n  name: %s\n", strconv.Quote(e.ID.String()), strconv.Quote(e.Name))
	if e.Addrs != nil {
		fmt.Fprintf(&b, "  addrs: %s\n", formatList(e.Addrs))
	}
	if len(e.Relays) > 0 {
		fmt.Fprintf(&b, "  relays: %s\n", formatList(e.Relays))
	}
	return b.String()
}

func formatList(all []string) string {
	quoted := make([]string, len(all))
	for i, text := range all {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func formatKey(i int) string { return fmt.Sprintf("peers[%d]", i) }

// parser checks the entries of a roster that was decoded.
type parser struct {
	*yamldoc.Document
	ids   map[identity.ID]string // of the entries so far, with their keys
	names map[string]string
}

// checkEntry returns the entry under key, and reports what is wrong with it.
func (p *parser) checkEntry(key string, given *entry) Entry {
	at := func(name string) string { return yamldoc.JoinKey(key, name) }
	var missing []string
	for _, name := range []string{"id", "name"} {
		if !p.IsSet(at(name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		p.AddValueError(key, fmt.Errorf("it has no %s: write what acpctl whoami --roster prints on that machine", strings.Join(missing, " and no ")))
	}
	e := Entry{Name: given.Name, Addrs: given.Addrs}
	id, err := identity.ParseID(strings.ToLower(given.ID))
	if err == nil && id.IsZero() {
		err = identity.ErrNobody
	}
	if err != nil {
		p.AddValueError(at("id"), err)
	} else {
		e.ID = id
		p.checkRepetition(at("id"), p.ids[id])
		p.ids[id] = at("id")
	}
	err = identity.CheckName(given.Name)
	if err == nil && identity.IsReservedName(given.Name) {
		err = fmt.Errorf("a roster gives nobody the reserved name %s: choose another, or use acpctl trust ID --name %[1]s", given.Name)
	}
	if err != nil {
		p.AddValueError(at("name"), err)
	} else {
		p.checkRepetition(at("name"), p.names[given.Name])
		p.names[given.Name] = at("name")
	}
	for i, addr := range given.Addrs {
		p.AddValueError(fmt.Sprintf("%s[%d]", at("addrs"), i), identity.CheckAddr(addr))
	}
	if len(given.Addrs) > identity.MaxAddrs {
		p.AddValueError(at("addrs"), fmt.Errorf("%d addresses: give at most %d", len(given.Addrs), identity.MaxAddrs))
	}
	for i, text := range given.Relays {
		whole, err := identity.ParseRelayURL(text)
		p.AddValueError(fmt.Sprintf("%s[%d]", at("relays"), i), err)
		e.Relays = append(e.Relays, whole)
	}
	if len(given.Relays) > identity.MaxInvitedRelays {
		p.AddValueError(at("relays"), fmt.Errorf("%d relays: give at most %d", len(given.Relays), identity.MaxInvitedRelays))
	}
	return e
}

// checkRepetition reports that the value of key is also that of the key first, unless first is "".
func (p *parser) checkRepetition(key, first string) {
	if first != "" {
		p.AddValueError(key, fmt.Errorf("it is that of %s too, on line %d: change or remove one of them", first, p.FindLine(first)))
	}
}
