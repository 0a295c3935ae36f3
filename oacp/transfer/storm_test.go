package transfer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// What goes wrong between the desk, where mail is written, and the laptop, where it is
// read.
const (
	away          = iota // the laptop cannot be reached
	cutRequest           // streams break before the laptop has read all of a message
	cutAnswer            // streams break before the desk has read all of the answer
	stalls               // streams stand still
	denial               // the laptop's policy refuses the desk
	folderGone           // the recipient's folder is not there
	unread               // nobody reads, and the laptop takes no more than it has room for
	deskRestart          // the desk's process ends and comes back
	laptopRestart        // the laptop's does
	stormFaults
)

var stormFaultNames = [stormFaults]string{"away", "messages cut", "answers cut", "stalls", "denials", "missing folders", "nobody reads", "desk restarts", "laptop restarts"}

// TestWhatTheQueueSaysIsTrue writes mail for an agent on another machine while streams
// break, folders go, and either process ends and comes back. Mail that is said to be
// delivered was there once, as it was written; none is there twice; what is refused is
// not there; and when all is well again all others are delivered.
func TestWhatTheQueueSaysIsTrue(t *testing.T) {
	storm.RunStorm(t, 300, stormFaultNames[:], func(t *testing.T, sw *storm.Weather) {
		desk, laptop := t.TempDir(), t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := &weather{Weather: sw, t: t, mails: make(map[string]*mail), seen: make(map[string]int)}
			w.desk, w.laptop = &machine{w: w, id: identity.ID{1}, dir: desk}, &machine{w: w, id: identity.ID{2}, dir: laptop}
			w.desk.other, w.laptop.other = w.laptop, w.desk
			w.pass()
		})
	})
}

// weather is one span of time in which mail is written at the desk.
type weather struct {
	*storm.Weather
	t            *testing.T
	desk, laptop *machine

	folder sync.Mutex // held while the recipient's folder is moved, and while it is read

	mu    sync.Mutex       // guards what follows
	mails map[string]*mail // by file
	seen  map[string]int   // how often the reviewer at the laptop has found a file
}

// mail is a message and what the desk has said of it.
type mail struct {
	text      string
	foreign   bool            // its sender is nobody whom the laptop takes mail from
	recalled  bool            // its writer has removed it
	delivered bool            // the desk has said so
	ended     func(storm.End) // called once, by end
	over      bool
}

// end counts the message, the first time.
func (m *mail) end(as storm.End) {
	if !m.over {
		m.over = true
		m.ended(as)
	}
}

// machine is a Mailer on a store and a home, which its process can lose and take up
// again.
type machine struct {
	w     *weather
	id    identity.ID
	dir   string
	other *machine
	storm.Process[Mailer]
}

func (m *machine) agent(name string) string {
	return filepath.Join(m.dir, "oacp", "projects", "demo", "agents", name)
}

func (m *machine) inbox(agent string) string { return filepath.Join(m.agent(agent), inboxDir) }

// smallRows leave room for few messages that are not read.
var smallRows = func() budgetRows {
	r := newBudgetRows(0)
	r.files.Peer = 20
	return r
}()

func (m *machine) start() {
	t := m.w.t
	db, err := store.OpenDB(t.Context(), filepath.Join(m.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenMailer(t.Context(), Config{
		Home: filepath.Join(m.dir, "oacp"), DB: db, Log: slog.New(slog.DiscardHandler), unwatched: true,
		Open: func(ctx context.Context, _ identity.ID) (Stream, error) { return m.dial(ctx) },
		Admit: func(identity.ID) error {
			if m.w.HasFault(denial) {
				return kinds.Errorf(kinds.NotAuthorized, "policy forbids it")
			}
			return nil
		},
		Trusted: func(identity.ID) bool { return true },
		Name:    func(identity.ID) string { return "other" },
		Event:   m.w.hear,
		rows:    smallRows,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	m.SetRunning(c, func() {
		cancel()
		running.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dial opens a stream to the other machine, as bad as the weather is.
func (m *machine) dial(ctx context.Context) (Stream, error) {
	there := m.other.GetRunning()
	if m.w.HasFault(away) || there == nil {
		select {
		case <-time.After(m.w.DrawMillis(2000)):
		case <-ctx.Done():
		}
		return nil, kinds.Errorf(kinds.Unreachable, "it is away").WithDelivered(kinds.DeliveredNo)
	}
	nearIn, farOut := net.Pipe()
	farIn, nearOut := net.Pipe()
	near, far := &pipe{in: nearIn, out: nearOut, left: -1}, &pipe{in: farIn, out: farOut, left: -1}
	if m.w.HasFault(cutRequest) {
		near.left = m.w.DrawBelow(600)
	}
	if m.w.HasFault(cutAnswer) {
		far.left = m.w.DrawBelow(40)
	}
	if m.w.HasFault(stalls) {
		far.pause = m.w.DrawMillis(40_000)
	}
	context.AfterFunc(ctx, near.Cancel)
	go there.Serve(context.Background(), m.id, far)
	return near, nil
}

// pipe is a stream that breaks when it has written so many bytes, and stands still
// before.
type pipe struct {
	in, out net.Conn
	left    int // negative: it does not break
	pause   time.Duration
}

var errCut = errors.New("the stream was cut")

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = errCut
	}
	return n, err
}

func (p *pipe) Write(b []byte) (int, error) {
	time.Sleep(p.pause)
	if p.left < 0 {
		return p.out.Write(b)
	}
	n, err := p.out.Write(b[:min(len(b), p.left)])
	if p.left -= n; err == nil && n < len(b) {
		p.Cancel()
		err = errCut
	}
	return n, err
}

func (p *pipe) CloseWrite() error                  { return p.out.Close() }
func (p *pipe) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
func (p *pipe) Close() error                       { p.Cancel(); return nil }
func (p *pipe) Cancel()                            { p.in.Close(); p.out.Close() }

// stormTime is the time for which a weather lasts.
const stormTime = 30 * time.Second

// The agents of the desk that write. The laptop takes no mail from the last.
var writers = []string{"planner", "lead", "tester", "builder", "clerk", "editor", "visitor"}

func (w *weather) pass() {
	for _, m := range []*machine{w.desk, w.laptop} {
		for _, agent := range append([]string{"reviewer"}, writers...) {
			for _, dir := range []string{inboxDir, outboxDir} {
				if err := os.MkdirAll(filepath.Join(m.agent(agent), dir), folderMode); err != nil {
					w.t.Fatal(err)
				}
			}
		}
		m.start()
	}
	defer func() { w.desk.Stop(); w.laptop.Stop() }()
	w.bind(w.desk, "reviewer")
	for _, agent := range writers[:len(writers)-1] {
		w.bind(w.laptop, agent)
	}
	w.link()

	begun := time.Now()
	over := func() bool { return time.Since(begun) > stormTime }
	var busy, reading sync.WaitGroup
	quiet, stopReading := context.WithCancel(context.Background())
	reading.Go(func() {
		for quiet.Err() == nil {
			w.read()
			time.Sleep(w.DrawMillis(1000))
		}
	})
	for _, agent := range writers {
		busy.Go(func() {
			for !over() {
				w.write(agent)
				time.Sleep(w.DrawMillis(200))
			}
		})
	}
	for !over() {
		time.Sleep(w.DrawMillis(1500))
		w.trouble()
	}
	busy.Wait()
	w.settle()
	stopReading()
	reading.Wait()
	w.check()
}

// link tells both that they are connected.
func (w *weather) link() {
	for _, m := range []*machine{w.desk, w.laptop} {
		m.GetRunning().SetConnected(m.other.id, false)
		m.GetRunning().SetConnected(m.other.id, true)
	}
}

// bind says at a machine that an agent lives at the other.
func (w *weather) bind(m *machine, agent string) {
	if _, err := m.GetRunning().Bind(w.t.Context(), Binding{Project: "demo", Agent: agent, Peer: m.other.id}, false); err != nil {
		w.t.Fatal(err)
	}
}

// hear notes what a machine says of mail.
func (w *weather) hear(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.mails[e.File]
	if m != nil && e.State == Delivered {
		m.delivered = true
		m.end(storm.Succeeded)
	}
}

// write puts a message into the reviewer's inbox at the desk, and may take it back.
func (w *weather) write(agent string) {
	name := fileName(agent, "question")
	m := &mail{foreign: agent == writers[len(writers)-1], ended: w.BeginCall()}
	m.text = text(agent, "reviewer", []string{"P0", "P2"}[w.DrawBelow(2)], "question", name+strings.Repeat(" more", w.DrawBelow(100)))
	w.mu.Lock()
	w.mails[name] = m
	w.mu.Unlock()
	inbox := w.desk.inbox("reviewer")
	deposit(w.t, inbox, name, m.text)
	if c := w.desk.GetRunning(); c != nil && w.DrawBelow(2) == 0 { // as if it was watched
		c.ledger.markFilesDirty(mailbox{"demo", "reviewer"}, names{name: {}})
	}
	if w.DrawBelow(20) == 0 {
		time.Sleep(w.DrawMillis(10_000))
		err := os.Remove(filepath.Join(inbox, name))
		w.mu.Lock()
		defer w.mu.Unlock()
		if m.recalled = err == nil; m.recalled {
			m.end(storm.Failed)
		}
	}
}

// read is the reviewer at the laptop: it takes what is there, and is done with it.
func (w *weather) read() {
	w.folder.Lock()
	defer w.folder.Unlock()
	if w.HasFault(folderGone) || w.HasFault(unread) {
		return
	}
	inbox := w.laptop.inbox("reviewer")
	entries, err := os.ReadDir(inbox)
	if err != nil {
		w.t.Error(err)
	}
	for _, e := range entries {
		name := e.Name()
		if isHiddenName(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(inbox, name))
		if err == nil {
			err = os.Remove(filepath.Join(inbox, name))
		}
		w.mu.Lock()
		m := w.mails[name]
		switch {
		case err != nil:
			w.t.Error(err)
		case m == nil:
			w.t.Errorf("%s came, which nobody has written", name)
		case string(data) != m.text:
			w.t.Errorf("%s is\n%s\nand was written as\n%s", name, data, m.text)
		}
		w.seen[name]++
		w.mu.Unlock()
	}
}

// trouble is one thing that goes wrong.
func (w *weather) trouble() {
	f := w.DrawBelow(stormFaults)
	defer w.BeginFault(f)()
	switch f {
	case deskRestart, laptopRestart:
		m := w.desk
		if f == laptopRestart {
			m = w.laptop
		}
		m.Stop()
		time.Sleep(w.DrawMillis(1000))
		m.start()
		m.GetRunning().SetConnected(m.other.id, true)
	case folderGone:
		w.move(true)
		time.Sleep(w.DrawMillis(4000))
		w.move(false)
	default:
		w.SetFault(f, true)
		time.Sleep(w.DrawMillis(4000))
		w.SetFault(f, false)
	}
}

// move takes the recipient's folder away, or brings it back.
func (w *weather) move(away bool) {
	w.folder.Lock()
	defer w.folder.Unlock()
	from, to := w.laptop.agent("reviewer"), filepath.Join(w.laptop.dir, "gone")
	if !away {
		from, to = to, from
	}
	if err := os.Rename(from, to); err != nil {
		w.t.Error(err)
	}
	w.SetFault(folderGone, away)
}

// settle waits until nothing is under way.
func (w *weather) settle() {
	w.ClearFaults()
	w.link()
	time.Sleep(10 * time.Minute)
}

// check holds what was said against what was there.
func (w *weather) check() {
	queued := make(map[string]Queued)
	for _, q := range w.desk.GetRunning().ListQueue("demo") {
		queued[q.File] = q
	}
	for name, m := range w.mails {
		n, q := w.seen[name], queued[name]
		switch {
		case n > 1:
			w.t.Errorf("%s came %d times", name, n)
		case m.delivered && n != 1:
			w.t.Errorf("%s was said to be delivered and did not come", name)
		case m.foreign && n != 0:
			w.t.Errorf("%s came, from one whom the laptop takes nothing from", name)
		case m.recalled:
			if q.State != "" {
				w.t.Errorf("%s was taken back and is in the queue: %+v", name, q)
			}
		case m.foreign:
			m.end(storm.NotDelivered)
			if q.State != Parked || !strings.Contains(q.Reason, string(kinds.NotAuthorized)) {
				w.t.Errorf("%s was refused, and the queue says %+v", name, q)
			}
		case n != 1 || !m.delivered:
			w.t.Errorf("%s came %d times, delivered is %v, and the queue says %+v", name, n, m.delivered, q)
		case q.State != "":
			w.t.Errorf("%s was read, and is still in the queue: %+v", name, q)
		}
	}
	if len(w.mails) == 0 {
		w.t.Error("nothing was written")
	}
	if debris, err := filepath.Glob(filepath.Join(w.laptop.inbox("reviewer"), ".*")); err != nil || len(debris) > 0 {
		w.t.Errorf("%v lie in the inbox: %v", debris, err)
	}
}
