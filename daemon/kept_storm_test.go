package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// What goes wrong between two daemons whose agents and owners send each other messages that may be kept.
const (
	keptKill     = iota // a daemon is killed, and another takes its files up
	keptStop            // a daemon ends, and another takes its files up
	keptCut             // the connection ends
	keptLeave           // an agent goes away, and comes back
	keptFull            // a disk is full for a while
	keptFaults          // what follows is not drawn as trouble
	keptWithdraw = iota - 1
	keptExpiry
	allKeptFaults
)

var keptFaultNames = [allKeptFaults]string{"kills", "stops", "connections end", "agents leave", "disks are full", "withdrawals", "short times"}

// TestEachKeptMessageHasOneEnd sends messages that may be kept while daemons are killed and come back, agents come and
// go, connections end and disks are full. No message is handled twice. Each that was kept comes to one end, which is
// true, and which the agent that sent it hears once.
func TestEachKeptMessageHasOneEnd(t *testing.T) {
	t.Parallel()
	const pairs = 4 // at a time
	storm.RunStorm(t, 110, keptFaultNames[:], func(t *testing.T, sw *storm.Weather) {
		var passing sync.WaitGroup
		for range pairs {
			w := &keptWeather{Weather: sw, t: t, messages: make(map[wire.MessageID]*keptMessage), kill: make(chan int, 1)}
			for i := range w.sides {
				w.sides[i] = &keptSide{name: [2]string{"desk", "laptop"}[i], agentName: [2]string{"planner", "reviewer"}[i], dir: stateDir(t)}
				w.start(i)
			}
			befriend(t, w.sides[0].now.Load(), w.sides[1].now.Load())
			passing.Go(w.pass)
		}
		passing.Wait()
	})
}

// keptWeather is one span of time in which two daemons come and go.
type keptWeather struct {
	*storm.Weather
	t     *testing.T
	sides [2]*keptSide
	kill  chan int     // the side that is to be killed at this moment
	links atomic.Int64 // counts the times at which a connection could come to be, from before it could

	mu       sync.Mutex // guards what follows, and the fields of messages
	messages map[wire.MessageID]*keptMessage
}

// keptSide is one of the two, with its agent.
type keptSide struct {
	name, agentName string
	dir             string
	now             atomic.Pointer[running] // nil while it is away
	agent           atomic.Pointer[program] // nil while its agent is away
	epoch           atomic.Int64            // how often its agent has come
	full            atomic.Bool             // its disk is
	mayListen       atomic.Bool             // a peer may reach it

	mu    sync.Mutex // held while a connection to it begins
	conns []*program
}

// keptMessage is what is seen of a message.
type keptMessage struct {
	id      wire.MessageID
	from    int
	kind    string
	byAgent bool
	manner  string // how its receiver behaves
	ended   func(storm.End)

	err     error // of its call
	isKept  bool
	until   time.Time
	links   int64           // how many there had been when it was sent, or -1 if its receiver was there
	handled []time.Time     // by its receiver
	reports []keptEndReport // of its end, to the agent that has sent it
}

// keptEndReport is what the agent hears of an end.
type keptEndReport struct {
	id    wire.MessageID
	said  string
	epoch int64 // of the agent; 0: it is in the inbox
	links int64
}

func (w *keptWeather) start(i int) {
	s := w.sides[i]
	w.links.Add(1)
	s.mayListen.Store(true)
	s.now.Store(startWith(w.t, Options{
		Home: s.dir, Listen: "127.0.0.1:0", Name: s.name, NoMDNS: true,
		hurryKept: true,
		measure: func(string) (disk.Space, error) {
			if s.full.Load() {
				return disk.Space{Free: 1 << 20, Total: 1 << 41}, nil
			}
			return disk.Space{Free: 1 << 40, Total: 1 << 41}, nil
		},
	}))
	w.attach(i)
}

// attach lets the agent of a side come, if its daemon is there.
func (w *keptWeather) attach(i int) {
	s := w.sides[i]
	epoch := s.epoch.Add(1)
	if p := s.open(func(_ context.Context, r *jsonrpc.Request) { w.hear(i, epoch, r) }); p != nil {
		p.must("attach", client.AttachParams{Name: s.agentName, MaxConcurrent: 64, TakeOver: true}, nil)
		s.agent.Store(p)
	}
}

// open returns a connection on which a handler answers, or nil if the daemon is away.
func (s *keptSide) open(h handler) *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.now.Load()
	if d == nil {
		return nil
	}
	c, err := net.Dial("unix", d.home.ownerSocketPath())
	if err != nil {
		d.t.Error(err)
		return nil
	}
	conn := jsonrpc.NewConn(c, jsonrpc.Options{Handler: func(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) { h(ctx, r) }})
	go conn.Run(context.Background())
	p := &program{conn, d.t}
	s.conns = append(s.conns, p)
	return p
}

// leave lets the agent of a side go.
func (w *keptWeather) leave(i int) {
	if p := w.sides[i].agent.Swap(nil); p != nil {
		p.Close()
	}
}

// hear is what the agent of a side does with what it is handed.
func (w *keptWeather) hear(i int, epoch int64, r *jsonrpc.Request) {
	in := bind(w.t, r)
	if in.Kind == kinds.KindResult || in.Kind == kinds.KindError {
		w.note(i, &in.Envelope, epoch)
		r.Respond(wire.Payload(`{}`))
		return
	}
	if in.Kind == kinds.KindCancel { // of a delegation that was accepted
		r.Respond(wire.Payload(accepted))
		return
	}
	w.mu.Lock()
	m := w.messages[in.ID]
	if m == nil || m.from == i {
		w.mu.Unlock()
		w.t.Errorf("%s came to %s, which nobody has sent", in.ID, w.sides[i].name)
		return
	}
	m.handled = append(m.handled, time.Now())
	w.mu.Unlock()
	switch w.DrawBelow(8) {
	case 0, 1:
		select {
		case w.kill <- w.DrawBelow(2):
		default:
		}
	case 2, 3, 4:
		time.Sleep(w.DrawMillis(40))
	}
	switch {
	case m.manner == "fail":
		r.RespondError(kinds.Errorf(kinds.Overloaded, "says the agent").WithDelivered(kinds.DeliveredNo))
	case m.kind == kinds.KindDelegate:
		r.Respond(kinds.EncodePayload(&kinds.Ack{Accepted: m.manner != "decline"}))
	case m.manner == "decline":
		r.RespondError(kinds.NewDeclined("no"))
	case m.kind == kinds.KindQuery:
		r.Respond(kinds.EncodePayload(&kinds.Response{Summary: in.ID.String()}))
	default:
		r.Respond(wire.Payload(`{}`))
	}
}

// note notes that an end is reported. What becomes of a delegation that the peer has is none of a message that was kept.
func (w *keptWeather) note(i int, env *wire.Envelope, epoch int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.messages[*env.Ref]
	if m == nil || m.from != i {
		w.t.Errorf("an end of %s is reported, which nobody has sent", env.Ref)
	} else if m.kind != kinds.KindDelegate || env.From == env.To {
		m.reports = append(m.reports, keptEndReport{env.ID, string(env.Payload), epoch, w.links.Load()})
	}
}

// pass lets the weather pass: messages from both sides, and trouble until all are sent.
func (w *keptWeather) pass() {
	const each = 4
	var sending, troubling sync.WaitGroup
	over := make(chan struct{})
	for i := range w.sides {
		for range each {
			sending.Go(func() {
				time.Sleep(w.DrawMillis(600))
				w.send(i)
			})
		}
	}
	troubling.Go(func() {
		for {
			select {
			case <-over:
				return
			case i := <-w.kill:
				w.restart(keptKill, i)
			case <-time.After(w.DrawMillis(100)):
				w.trouble()
			}
		}
	})
	sending.Wait()
	close(over)
	troubling.Wait()
	for i, s := range w.sides {
		s.full.Store(false)
		if s.agent.Load() == nil {
			w.attach(i)
		}
	}
	w.settle()
}

// send sends one message, as the agent or the owner of a side, and may withdraw it.
func (w *keptWeather) send(i int) {
	s, other := w.sides[i], w.sides[1-i]
	m := &keptMessage{id: wire.NewMessageID(), from: i, kind: []string{kinds.KindQuery, kinds.KindNotify, kinds.KindDelegate}[w.DrawBelow(3)], ended: w.BeginCall()}
	m.manner = []string{"", "", "", "", "", "decline", "fail"}[w.DrawBelow(7)]
	if m.kind == kinds.KindNotify {
		m.manner = ""
	}
	keepMS, to, p := uint64(600_000), other.name, s.agent.Load()
	if w.DrawBelow(4) == 0 {
		keepMS = uint64(1 + w.DrawBelow(300))
		defer w.BeginFault(keptExpiry)()
	}
	if w.DrawBelow(2) == 0 {
		to += "/" + other.agentName
	}
	if m.byAgent = p != nil && w.DrawBelow(3) > 0; !m.byAgent {
		if p = s.open(nil); p == nil {
			return
		}
	}
	w.mu.Lock()
	w.messages[m.id] = m
	if m.links = w.links.Load(); other.mayListen.Load() {
		m.links = -1
	}
	w.mu.Unlock()
	head := client.Head{ID: m.id}
	var err error
	switch deadline := 20 + w.DrawBelow(400); m.kind {
	case kinds.KindQuery:
		err = p.call("query", client.QueryParams{Head: head, To: to, KeepMS: keepMS, Payload: kinds.EncodePayload(&kinds.Query{Question: m.manner, DeadlineMS: uint64(deadline)})}, nil)
	case kinds.KindNotify:
		err = p.call("notify", client.NotifyParams{Head: head, To: client.To(to), KeepMS: keepMS, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})}, nil)
	case kinds.KindDelegate:
		err = p.call("delegate", client.DelegateParams{Head: head, To: to, KeepMS: keepMS, Payload: kinds.EncodePayload(&kinds.Delegate{Task: "review"})}, nil)
	}
	w.mu.Lock()
	m.err = err
	if k := client.FindKept(err); k != nil {
		m.isKept, m.until = true, k.Until.Time
	}
	w.mu.Unlock()
	if w.DrawBelow(4) == 0 {
		defer w.BeginFault(keptWithdraw)()
		time.Sleep(w.DrawMillis(100))
		if p := s.open(nil); p != nil {
			p.call("cancel", client.CancelParams{Ref: m.id, Payload: wire.Payload(`{}`)}, nil)
		}
	}
}

// trouble makes something go wrong for a while.
func (w *keptWeather) trouble() {
	switch fault, i := w.DrawFault(keptFaults), w.DrawBelow(2); fault {
	case keptKill, keptStop:
		w.restart(fault, i)
	case keptCut:
		defer w.BeginFault(fault)()
		w.sides[i].now.Load().node.Disconnect(w.sides[1-i].now.Load().ID())
		w.sides[i].now.Load().node.Connect(w.sides[1-i].now.Load().ID())
	case keptLeave:
		defer w.BeginFault(fault)()
		w.leave(i)
		time.Sleep(w.DrawMillis(200))
		w.attach(i)
	case keptFull:
		end := w.BeginFault(fault)
		w.sides[i].full.Store(true)
		time.AfterFunc(w.DrawMillis(2000), func() { w.sides[i].full.Store(false); end() })
	}
}

// restart ends a daemon, and starts another after a while.
func (w *keptWeather) restart(fault, i int) {
	defer w.BeginFault(fault)()
	s, other := w.sides[i], w.sides[1-i]
	s.mu.Lock()
	old := s.now.Swap(nil)
	s.mu.Unlock()
	if fault == keptKill {
		s.dir = w.killDaemon(s, old, other.now.Load())
	}
	s.agent.Store(nil)
	old.stop()
	s.mayListen.Store(false)
	for _, p := range s.conns {
		p.Close()
	}
	s.conns = nil
	time.Sleep(w.DrawMillis(200))
	w.start(i)
	s.now.Load().knows(other.now.Load())
	other.now.Load().knows(s.now.Load())
}

// killDaemon does what is left of a daemon that is killed: a directory with its files as they are at this moment, and a
// connection that ends. Its store commits nothing from then on until neither the peer nor an agent hears of it.
func (w *keptWeather) killDaemon(s *keptSide, d, other *running) (dir string) {
	d.isKilled = true
	frozen, thaw := make(chan struct{}), make(chan struct{})
	var freezing sync.WaitGroup
	freezing.Go(func() {
		d.store.Write(context.Background(), false, func(*store.Tx) error {
			close(frozen)
			<-thaw
			return errors.New("it was killed")
		})
	})
	await.Receive(w.t, "the store stands still", frozen)
	dir = stateDir(w.t)
	files, err := os.ReadDir(d.dir)
	for _, f := range files {
		if err == nil && f.Type().IsRegular() && f.Name() != "lock" && !strings.HasSuffix(f.Name(), "-shm") {
			var content []byte
			if content, err = os.ReadFile(filepath.Join(d.dir, f.Name())); err == nil {
				err = os.WriteFile(filepath.Join(dir, f.Name()), content, 0o600)
			} else if errors.Is(err, os.ErrNotExist) {
				err = nil // it was being written
			}
		}
	}
	if err != nil {
		w.t.Errorf("copy what a killed daemon leaves: %v", err)
	}
	freezing.Go(d.node.Close)
	await.Until(w.t, "the killed daemon is gone", func() bool { _, there := other.node.Peer(d.ID()); return !there })
	for _, p := range s.conns {
		p.Close()
		<-p.Done()
	}
	close(thaw)
	freezing.Wait()
	return dir
}

// settle waits until nothing is kept any more and all ends are told, and checks every message.
func (w *keptWeather) settle() {
	var tasks [2]map[wire.MessageID]client.Task
	var inboxes [2]map[wire.MessageID]wire.Envelope // ends by what they are about
	for i := range w.sides {
		owner := w.sides[i].now.Load().dial()
		for end := time.Now().Add(await.Patience / 6); ; time.Sleep(10 * time.Millisecond) {
			tasks[i], inboxes[i] = make(map[wire.MessageID]client.Task), make(map[wire.MessageID]wire.Envelope)
			for _, h := range get[client.Inbox](owner, "inbox", client.InboxParams{}).Messages {
				id := h.Envelope.ID
				if h.Envelope.Ref != nil {
					id = *h.Envelope.Ref
				}
				inboxes[i][id] = h.Envelope
			}
			isOpen := false
			for _, t := range get[client.Tasks](owner, "tasks", client.TasksParams{}).Tasks {
				if t.Direction == client.Given {
					tasks[i][t.ID], isOpen = t, isOpen || t.State == client.TaskSent || t.Kind != "" && !t.Over || !w.isTold(t, inboxes[i])
				}
			}
			w.mu.Lock()
			for id, m := range w.messages { // tasks may miss one that is just being given
				_, isThere := tasks[i][id]
				isOpen = isOpen || m.from == i && m.isKept && !isThere
			}
			w.mu.Unlock()
			if !isOpen || time.Now().After(end) {
				break // else check says what is wrong
			}
		}
	}
	for i, inbox := range inboxes {
		for _, env := range inbox {
			if env.Ref != nil {
				w.note(i, &env, 0)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, m := range w.messages {
		_, isHeld := inboxes[1-m.from][id]
		w.check(m, tasks[m.from][id], isHeld)
	}
}

// isTold reports whether the agent that has sent a message has heard of its end, or will find it in its inbox, if it is to.
func (w *keptWeather) isTold(t client.Task, inbox map[wire.MessageID]wire.Envelope) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, isHeld := inbox[t.ID]
	m := w.messages[t.ID]
	return m == nil || !m.isToBeTold(t) || isHeld || len(m.reports) > 0
}
