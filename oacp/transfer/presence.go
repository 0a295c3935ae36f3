package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

// The statuses of an agent that OACP knows.
const (
	available = "available"
	busy      = "busy"
	offline   = "offline"
)

const (
	statusFile = "status.yaml"
	maxStatus  = 64 << 10
	maxGreeted = 256 // agents that a peer is told of
)

// present notes how an agent is that lives at a peer. Word from the peer is also a
// reason to offer it again what it has refused.
func (c *Carrier) present(from identity.ID, p place, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := false
	for q, s := range c.spools {
		if s.Peer != from || q.project != p.project {
			continue
		}
		known = true
		if q == p && (status == available || status == busy || status == offline) {
			s.status = status
			c.touch(p, names{})
		}
	}
	if !known {
		return
	}
	c.offerRefused(from)
	if c.residing[from] == nil {
		c.residing[from] = make(map[place]struct{})
	}
	if len(c.residing[from]) < maxGreeted {
		c.residing[from][p] = struct{}{}
	}
}

// Twin is an agent that lives here and, by its word, at a connected peer too. Mail for it
// stays on the machine where it is sent.
type Twin struct {
	Project string
	Agent   string
	Peer    identity.ID
}

// maxTwins is how many are told of: the first show what is wrong.
const maxTwins = 64

// Twins returns twins of a project, or of all for "".
func (c *Carrier) Twins(project string) []Twin {
	c.mu.Lock()
	var all []Twin
	for peer, agents := range c.residing {
		for p := range agents {
			if _, bound := c.spools[p]; !bound && (project == "" || p.project == project) {
				all = append(all, Twin{p.project, p.agent, peer})
			}
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b Twin) int {
		return cmp.Or(place{a.Project, a.Agent}.compare(place{b.Project, b.Agent}), bytes.Compare(a.Peer[:], b.Peer[:]))
	})
	var here []Twin
	for _, t := range all {
		if len(here) < maxTwins && c.checkSpelling(place{t.Project, t.Agent}) == nil {
			here = append(here, t)
		}
	}
	return here
}

// greet tells a peer of the agents that live here, in projects in which it has
// agents too, where it does not know yet.
func (c *Carrier) greet(ctx context.Context, k *courier) {
	c.mu.Lock()
	if k.greeted != nil && time.Since(k.greetedAt) < greetEvery {
		c.mu.Unlock()
		return
	}
	linked := c.linked[k.peer]
	projects := make(map[string]struct{})
	for p, s := range c.spools {
		if s.Peer == k.peer {
			projects[p.project] = struct{}{}
		}
	}
	told, reason := k.greeted, k.greetings
	k.greetedAt = time.Now()
	c.mu.Unlock()
	if !linked || len(projects) == 0 {
		return
	}
	next := make(map[place]string)
	for project := range projects {
		for _, p := range c.residents(project) {
			if len(next) == maxGreeted {
				break
			}
			status := c.statusOf(p)
			if told[p] != status {
				reply, err := c.ask(ctx, k.peer, &wire.MailRequest{
					Op: wire.MailPresence, Project: p.project, Agent: p.agent, Status: status, UpdatedAt: message.Stamp(time.Now()),
				})
				if err != nil || reply.Result != wire.MailOK {
					continue // the next greeting tries again
				}
			}
			next[p] = status
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.greetings == reason {
		k.greeted = next
	}
}

// regreet has the peer told of all agents. The caller holds Carrier.mu.
func (k *courier) regreet() {
	k.greeted = nil
	k.greetings++
	k.signal()
}

// residents are the agents of a project that are hosted here.
func (c *Carrier) residents(project string) (all []place) {
	root, err := c.open(path.Join("projects", project, "agents"))
	if err != nil {
		return nil
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	for _, e := range entries {
		p := place{project, e.Name()}
		if _, bound := c.bound(p); e.IsDir() && !bound && message.LegalAgent(p.agent) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, place.compare)
	return all
}

// statusOf reads how an agent says that it is: available, unless it says otherwise.
func (c *Carrier) statusOf(p place) string {
	dir, err := c.openAgent(p)
	if err != nil {
		return available
	}
	defer dir.Close()
	text, _ := readStatus(dir)
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		if word, ok := strings.CutPrefix(in.Text(), "status:"); ok {
			switch word = strings.ToLower(strings.Trim(strings.TrimSpace(word), `"'`)); word {
			case busy, offline:
				return word
			}
		}
	}
	return available
}

func readStatus(dir *os.Root) ([]byte, error) {
	info, err := dir.Lstat(statusFile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := dir.Open(statusFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxStatus))
}

// feed keeps the status.yaml of a bound agent in step with what its peer says and
// with the link to it, so that senders are warned of one that is offline. A file
// that somebody else wrote is left alone.
func (c *Carrier) feed(p place) {
	c.mu.Lock()
	s := c.spools[p]
	if s == nil {
		c.mu.Unlock()
		return
	}
	status := offline
	if c.linked[s.Peer] {
		status = available
		if s.status != "" {
			status = s.status
		}
	}
	fresh := s.fed == status && time.Since(s.fedAt) < statusEvery
	if since := time.Since(s.fedAt); !fresh && since < feedEvery {
		if fresh = true; !s.feeding {
			s.feeding = true
			time.AfterFunc(feedEvery-since, func() { c.feedAgain(s) })
		}
	}
	if !fresh {
		s.fed, s.fedAt = status, time.Now()
	}
	c.mu.Unlock()
	if fresh {
		return
	}
	if err := c.writeStatus(p, status); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Debug("mail: a status is not written", "project", p.project, "agent", p.agent, "err", err)
	}
	c.mu.Lock()
	bound := c.spools[p] != nil
	c.mu.Unlock()
	if !bound { // meanwhile: whoever unbound it may have found no file yet
		c.unfeed(p)
	}
}

// unfeed removes the status.yaml that feed has written of an agent which is bound no
// more: nobody would change it again, and the agent writes its own.
func (c *Carrier) unfeed(p place) {
	dir, err := c.openAgent(p)
	if err == nil {
		defer dir.Close()
		var old []byte
		if old, err = readStatus(dir); err == nil && bytes.HasPrefix(old, []byte(message.StatusMark)) {
			err = dir.Remove(statusFile)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("mail: the status that was kept of an agent is not removed: remove it, or the agent seems to be as it was", "project", p.project, "agent", p.agent, "err", err)
	}
}

// feedAgain has a status written that changed too soon after the last.
func (c *Carrier) feedAgain(s *spool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.feeding = false
	c.touch(s.place(), names{})
}

// feedOffline says at the end that nobody is reached any more.
func (c *Carrier) feedOffline() {
	c.mu.Lock()
	clear(c.linked)
	c.mu.Unlock()
	for _, b := range c.Bindings("") {
		c.mu.Lock()
		if s := c.spools[b.place()]; s != nil {
			s.fedAt = time.Time{}
		}
		c.mu.Unlock()
		c.feed(b.place())
	}
}

func (c *Carrier) writeStatus(p place, status string) error {
	dir, err := c.openAgent(p)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch old, err := readStatus(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !bytes.HasPrefix(old, []byte(message.StatusMark)):
		return nil
	}
	const temp = "." + statusFile + ".tmp-acpd"
	text := fmt.Sprintf("%sruntime: unknown\nmodel: unknown\nstatus: %s\ncapabilities: []\nupdated_at: %q\n", message.StatusMark, status, message.Stamp(time.Now()))
	if err := dir.WriteFile(temp, []byte(text), fileMode); err != nil {
		return err
	}
	return dir.Rename(temp, statusFile)
}
