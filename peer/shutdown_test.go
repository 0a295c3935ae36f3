package peer

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/kinds"
)

// While a peer finishes what is under way before it ends, a new call to it hears that.
func TestCallToAPeerThatShutsDown(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.pair(slowly)
		under := a.start(b, lasting(3*time.Second))
		time.Sleep(10 * latency)
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.shutdown()
		}()
		time.Sleep(time.Second)
		if at := a.HeardAt(b.ID()); at.Before(began) || at.After(began.Add(10*latency)) {
			t.Errorf("heard at %v, want the beginning of the shutdown, %v", at, began)
		}
		o := <-a.start(b, query("now?"))
		o.want(t, kinds.Unreachable, kinds.DeliveredNo, 0, time.Second)
		if !strings.Contains(o.err.Error(), "it is shutting down; try again later") {
			t.Errorf("got %v", o.err)
		}
		(<-under).answered(t, 0, 4*time.Second)
		<-ended
		time.Sleep(10 * latency)
		if at := a.HeardAt(b.ID()); !at.IsZero() {
			t.Errorf("heard at %v on no connection", at)
		}
	})
}
