package peer

import (
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

// TestPipeIsForCalls: the background starts no command. A call does, and waits for the login that
// comes before the packets; so does one that finds a dial of the background under way.
func TestPipeIsForCalls(t *testing.T) {
	for _, background := range [][]string{nil, {}, {nowhere}} { // nil: there is none; else the other addresses that it has
		bubble(t, nil, func(t *testing.T, w *network) {
			r := newRelayNet("build")
			r.name, r.path, r.silent, r.out = "pipe:build", ViaPipe, true, true
			a, b := w.relayed(r, nil)
			if background != nil {
				var d dials
				d.counted(background...)(&a.cfg)
				a.Connect(b.ID())
				time.Sleep(time.Minute)
				if r.attempts() > 0 {
					t.Error("the background has dialled the pipe")
				}
				if n := len(d.times()); n < 2 || n > 60 {
					t.Errorf("%d dials in a minute", n)
				}
				a.Connect(b.ID()) // again at once
				time.Sleep(time.Millisecond)
			}
			const login = 8 * time.Second
			start := time.Now()
			call := a.start(b, query("?"))
			time.Sleep(login - time.Since(start))
			r.set(func() { r.out = false })
			(<-call).answered(t, login, pipeDialTime)
			if p, _ := a.Peer(b.ID()); p.Path != ViaPipe {
				t.Errorf("the path is %q", p.Path)
			}
		})
	}
}

// TestPipeThatLeadsNowhere: a call waits for it so long, and no longer.
func TestPipeThatLeadsNowhere(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		r := newRelayNet("build")
		r.name, r.path, r.silent, r.out = "pipe:build", ViaPipe, true, true
		a, b := w.relayed(r, nil)
		a.call(b.ID(), query("?")).want(t, kinds.Unreachable, kinds.DeliveredNo, pipeOpenTime-time.Second, pipeDialTime)
	})
}
