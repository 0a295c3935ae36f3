package profile

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
)

const (
	// maxConversations bounds the conversations of one peer with one profile. The one that was
	// used longest ago goes first.
	maxConversations = 64

	// conversationLife is how long a conversation is kept after it was last used.
	conversationLife = 7 * 24 * time.Hour

	conversationFile = "conversation.json"
	lockFile         = "lock"
)

// Conversations are the conversations that runs of one profile had with peers. Each has a folder,
// with a home, a folder to work in, and one for temporary files, which the run may change, and
// a file next to them, which it may not.
type Conversations struct {
	root    string // without symbolic links
	profile string
	lock    *os.File
	now     func() time.Time

	mu   sync.Mutex
	busy map[string]chan struct{} // by folder; closed when it is free again
}

// conversationKey names a conversation. Each part is of the peer's choice but the first two.
type conversationKey struct {
	profile string
	peer    identity.ID
	agent   string
	thread  string
}

// folder returns the name of the conversation's folder, below that of the peer.
func (k *conversationKey) folder() string {
	h := sha256.New()
	for _, part := range []string{k.profile, k.peer.String(), k.agent, k.thread} {
		size := sha256.Sum256([]byte(part)) // so that no two keys make one text
		h.Write(size[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// conversationState is what is remembered of a conversation.
type conversationState struct {
	Session string    `json:"session"` // id of the program's
	Trust   string    `json:"trust"`   // as the daemon said
	Tokens  uint64    `json:"tokens"`  // that the program has counted in all
	Used    time.Time `json:"used"`
}

// OpenConversations opens the conversations of a profile in a folder, which it makes. One process
// at a time has them. It removes those that are over.
func OpenConversations(folder, profile string) (*Conversations, error) {
	root := filepath.Join(folder, profile)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	root, err := realPath(root)
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(root, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("conversations: %s is in use: another acpctl serve runs with this profile: end it, or give this one a folder of its own with --runs", root)
	}
	s := &Conversations{root: root, profile: profile, lock: lock, now: time.Now, busy: make(map[string]chan struct{})}
	s.RemovePeersUnless(func(identity.ID) bool { return true })
	return s, nil
}

// Folder returns where the conversations are, for files next to them whose names begin with agent.
func (s *Conversations) Folder() string { return s.root }

// Close lets another process have the conversations.
func (s *Conversations) Close() error { return s.lock.Close() }

// conversation is a conversation that a run has for itself.
type conversation struct {
	conversationState
	of     *Conversations
	folder string // absolute
	keep   bool   // there is a thread that can come back to it
	isNew  bool
}

func (c *conversation) home() string { return filepath.Join(c.folder, "home") }
func (c *conversation) dir() string  { return filepath.Join(c.folder, "dir") }
func (c *conversation) temp() string { return filepath.Join(c.folder, "tmp") }

// files is the folder of the files of a message, which the run may only read.
func (c *conversation) files() string { return filepath.Join(c.folder, "files") }

// begin returns the conversation of a key, or a new one if none exists, or if the key has no
// thread. It waits while another run has it. trust is the daemon's record of the peer now:
// conversations of another trust end. The caller ends it.
func (s *Conversations) begin(ctx context.Context, k conversationKey, trust string) (*conversation, error) {
	s.endOtherTrust(k.peer, trust)
	keep := k.thread != ""
	name := k.folder()
	if !keep {
		name = "once-" + rand.Text()
	}
	c := &conversation{of: s, folder: filepath.Join(s.root, k.peer.String(), name), keep: keep}
	if err := s.acquire(ctx, c.folder); err != nil {
		return nil, err
	}
	// The run can change what is below the folder, but not the file.
	state, err := readState(c.folder)
	if err == nil && state.Trust == trust && s.isAlive(state) && c.hasFolders() {
		c.conversationState = state
		err = c.makeFolders()
	} else {
		if keep {
			s.makeRoom(k.peer)
		}
		c.Trust = trust
		err = c.restart()
	}
	if err != nil {
		c.end(false)
		return nil, fmt.Errorf("conversations: %w", err)
	}
	return c, nil
}

// hasFolders reports whether the folders that the run may change are folders still: under some
// confinements a run can replace them by a link, which the next run would follow.
func (c *conversation) hasFolders() bool {
	for _, dir := range []string{c.home(), c.dir()} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

func (c *conversation) makeFolders() error {
	c.of.mu.Lock() // nobody removes the peer's empty folder meanwhile
	defer c.of.mu.Unlock()
	if err := removeTree(c.temp()); err != nil { // a process that was killed has left it
		return err
	}
	for _, dir := range []string{c.home(), c.dir(), c.temp()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// restart makes the conversation a new one.
func (c *conversation) restart() error {
	c.isNew, c.Session, c.Tokens = true, "", 0
	if err := removeTree(c.folder); err != nil {
		return err
	}
	return c.makeFolders()
}

// end lets others have the conversation. Without a thread, or without ok, nothing is left of it.
func (c *conversation) end(ok bool) error {
	defer c.of.release(c.folder)
	if !ok || !c.keep || c.Session == "" {
		return removeTree(c.folder)
	}
	removeTree(c.temp())
	c.Used = c.of.now().UTC()
	text, err := json.Marshal(&c.conversationState)
	if err != nil {
		return err
	}
	path := filepath.Join(c.folder, conversationFile)
	if err := durable.ReplaceFile(path, path+".new", text, 0o600); err != nil {
		removeTree(c.folder) // a full disk gets its space back
		return fmt.Errorf("a conversation cannot be kept, and ends: %w", err)
	}
	return nil
}

func (s *Conversations) acquire(ctx context.Context, folder string) error {
	for {
		busy := s.tryAcquire(folder)
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryAcquire returns nil if the caller has the folder now, else a channel that is closed when it is free.
func (s *Conversations) tryAcquire(folder string) (busy chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if busy = s.busy[folder]; busy == nil {
		s.busy[folder] = make(chan struct{})
	}
	return busy
}

func (s *Conversations) release(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.busy[folder])
	delete(s.busy, folder)
}

func (s *Conversations) isAlive(state conversationState) bool {
	age := s.now().Sub(state.Used)
	return age < conversationLife && age > -conversationLife
}

func readState(folder string) (state conversationState, err error) {
	text, err := os.ReadFile(filepath.Join(folder, conversationFile))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err == nil && !sessionID.MatchString(state.Session) {
		err = errors.New("no id of a session")
	}
	return state, err
}

// kept is a conversation that no run has.
type kept struct {
	folder string
	state  conversationState
	broken bool
}

func (s *Conversations) listPeer(peer string) (all []kept) {
	entries, err := os.ReadDir(filepath.Join(s.root, peer))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		folder := filepath.Join(s.root, peer, e.Name())
		state, err := readState(folder)
		all = append(all, kept{folder, state, err != nil})
	}
	return all
}

// removeUnless removes conversations of a peer that are not wanted and that no run has.
func (s *Conversations) removeUnless(peer string, wanted func(*kept) bool) {
	for _, c := range s.listPeer(peer) {
		if !wanted(&c) {
			s.remove(&c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	os.Remove(filepath.Join(s.root, peer)) // if it is empty
}

// endOtherTrust ends conversations with a peer that began before it was untrusted.
func (s *Conversations) endOtherTrust(peer identity.ID, trust string) {
	s.removeUnless(peer.String(), func(c *kept) bool { return !c.broken && c.state.Trust == trust })
}

// makeRoom removes conversations of a peer until one more may be there.
func (s *Conversations) makeRoom(peer identity.ID) {
	all := slices.DeleteFunc(s.listPeer(peer.String()), func(c kept) bool { return c.broken })
	slices.SortFunc(all, func(a, b kept) int { return a.state.Used.Compare(b.state.Used) })
	for ; len(all) >= maxConversations; all = all[1:] {
		s.remove(&all[0])
	}
}

// remove removes a conversation, unless a run has it.
func (s *Conversations) remove(c *kept) {
	if s.tryAcquire(c.folder) == nil {
		removeTree(c.folder)
		s.release(c.folder)
	}
}

// RemovePeersUnless removes conversations that are over, which are old ones and what a process that was
// killed has left, and all those with peers that are not trusted any more.
func (s *Conversations) RemovePeersUnless(trusted func(identity.ID) bool) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		id, err := identity.ParseID(e.Name())
		if err != nil {
			continue // somebody else's, where the owner chose the folder
		}
		ok := trusted(id)
		s.removeUnless(e.Name(), func(c *kept) bool { return ok && !c.broken && s.isAlive(c.state) })
	}
}
