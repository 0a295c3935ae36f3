package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What goes wrong between the desk, where work is given, and the laptop, where it is done.
const (
	deskRestart = iota
	laptopRestart
	disconnection
	impatience // the asker gives up before there is an answer
	questionFaults
)

var questionFaultNames = [questionFaults]string{"desk restarts", "laptop restarts", "connections end", "impatience"}

// TestWhatIsAnsweredArrives asks back about delegations, each question again under its id until
// there is an answer, while a person answers at the other end, connections break and both
// daemons come and go. What the person was told is answered is what the asker gets, word for
// word, and it gets nothing else.
func TestWhatIsAnsweredArrives(t *testing.T) {
	t.Parallel()
	storm.RunStorm(t, 15, questionFaultNames[:], func(t *testing.T, sw *storm.Weather) {
		w := &questionWeather{Weather: sw, t: t, dirs: [2]string{stateDir(t), stateDir(t)}, answers: make(map[wire.MessageID]string)}
		w.start(0)
		w.start(1)
		befriend(t, w.now[0].Load(), w.now[1].Load())
		w.pass()
	})
}

// questionWeather is one span of time in which an agent asks back.
type questionWeather struct {
	*storm.Weather
	t    *testing.T
	dirs [2]string
	now  [2]atomic.Pointer[running] // desk and laptop, nil while one is away

	mu      sync.Mutex
	answers map[wire.MessageID]string // what the person was told is answered
}

func (w *questionWeather) start(i int) {
	d := start(w.t, w.dirs[i], [2]string{"desk", "laptop"}[i])
	if i == 1 {
		d.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 64}, say(accepted))
	}
	w.now[i].Store(d)
}

// tryDial returns a connection to a daemon's socket, or an error if it is away.
func (d *running) tryDial() (*program, error) {
	c, err := net.Dial("unix", d.home.ownerSocketPath())
	if err != nil {
		return nil, err
	}
	conn := jsonrpc.NewConn(c, jsonrpc.Options{})
	go conn.Run(context.Background())
	return &program{conn, d.t}, nil
}

// call calls a method of a daemon on a connection of its own. The error is daemon_unavailable if the
// daemon is away.
func (w *questionWeather) call(i int, method string, params, result any) error {
	gone := kinds.Errorf(kinds.DaemonUnavailable, "it is away")
	d := w.now[i].Load()
	if d == nil {
		return gone
	}
	l, err := d.tryDial()
	if err != nil {
		return gone
	}
	defer l.Close()
	return l.call(method, params, result)
}

// pass lets the weather pass: questions about some delegations, and trouble until all are answered.
func (w *questionWeather) pass() {
	const delegations, questions = 3, 5
	var working, watching sync.WaitGroup
	over := make(chan struct{})
	for range delegations {
		given := delegateTo(w.now[0].Load().dial(), "laptop", task1(""))
		watching.Go(func() { w.answer(given.ID, over) })
		working.Go(func() {
			for i := range questions {
				w.ask(given.ID, fmt.Sprintf(`{"question":"%d?"`, i))
			}
		})
	}
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(w.DrawMillis(150)):
				w.trouble()
			}
		}
	})
	working.Wait()
	close(over)
	watching.Wait()
}

// trouble makes something go wrong for a while.
func (w *questionWeather) trouble() {
	switch fault := w.DrawBelow(disconnection + 1); fault {
	case deskRestart, laptopRestart:
		end := w.BeginFault(fault)
		defer end()
		old, other := w.now[fault].Swap(nil), w.now[1-fault].Load()
		old.stop()
		time.Sleep(w.DrawMillis(50))
		w.start(fault)
		w.now[fault].Load().knows(other)
		other.knows(w.now[fault].Load())
	default:
		defer w.BeginFault(fault)()
		w.now[0].Load().node.Disconnect(w.now[1].Load().ID())
		w.now[0].Load().node.Connect(w.now[1].Load().ID())
	}
}

// ask asks until there is an answer, under one id.
func (w *questionWeather) ask(ref wire.MessageID, question string) {
	id, impatient := wire.NewMessageID(), false
	ended := w.BeginCall()
	for end := time.Now().Add(await.Patience); ; time.Sleep(w.DrawMillis(20)) {
		deadline := 600_000
		if impatient = w.DrawBelow(2) == 0; impatient {
			deadline = 1 + w.DrawBelow(100)
			defer w.BeginFault(impatience)()
		}
		// The deadline is in the payload, which is the same at each repeat: giving up is the caller's.
		var got client.Answer
		err := w.askOnce(ref, id, question+`,"deadline_ms":600000}`, time.Duration(deadline)*time.Millisecond, &got)
		if err == nil {
			w.mu.Lock()
			want, known := w.answers[id]
			w.mu.Unlock()
			// The person may not have heard yet that it is answered.
			if known && string(got.Payload) != want || string(got.Payload) != answerTo(id) {
				w.t.Errorf("the answer is %s, want %s", got.Payload, want)
			}
			ended(storm.Succeeded)
			return
		}
		if e, ok := errors.AsType[*kinds.Error](err); ok && (e.Code == kinds.NotFound || e.Code == kinds.Invalid) || time.Now().After(end) {
			w.t.Errorf("the question %s: %v", id, err)
			ended(storm.Failed)
			return
		}
	}
}

func (w *questionWeather) askOnce(ref, id wire.MessageID, payload string, most time.Duration, got *client.Answer) error {
	d := w.now[1].Load()
	if d == nil {
		return kinds.Errorf(kinds.DaemonUnavailable, "it is away")
	}
	l, err := d.tryDial()
	if err != nil {
		return err
	}
	defer l.Close()
	done := time.AfterFunc(most, func() { l.Close() })
	defer done.Stop()
	return l.call("query", client.QueryParams{Head: client.Head{ID: id}, Ref: ref, Payload: wire.Payload(payload)}, got)
}

// answerTo returns the one answer to a question.
func answerTo(id wire.MessageID) string { return `{"summary":"` + id.String() + `"}` }

// answer answers what is asked about a delegation until over is closed.
func (w *questionWeather) answer(ref wire.MessageID, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(w.DrawMillis(200)):
		}
		var task client.Task
		if w.call(0, "task", client.TaskParams{ID: ref}, &task) != nil || task.Question == nil {
			continue
		}
		id := task.Question.ID
		if w.call(0, "answer", client.AnswerParams{Ref: id, Payload: wire.Payload(answerTo(id))}, nil) == nil {
			w.mu.Lock()
			w.answers[id] = answerTo(id)
			w.mu.Unlock()
		}
	}
}
