package kept

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// tries returns the times between the tries of a message in the time that f takes.
func (d *desk) tries(id wire.MessageID, during time.Duration, every func()) (pauses []time.Duration) {
	const step = 100 * time.Millisecond
	last, n := time.Now(), d.task(id).Kept.Tries
	for end := last.Add(during); time.Now().Before(end); {
		every()
		time.Sleep(step) // on the virtual clock
		synctest.Wait()
		if task := d.task(id); task.Kept.Tries != n {
			pauses = append(pauses, time.Since(last))
			last, n = time.Now(), task.Kept.Tries
		}
	}
	return pauses
}

// TestTriesAreSlower: after 15 s, then half as often each time, at least every 15 minutes; the pauses vary by half.
func TestTriesAreSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		id := d.mustKeep(laptop, "", "", 0)
		defer d.run()()
		pauses := d.tries(id, 50*time.Minute, func() {})
		want := firstPause
		if len(pauses) < 7 || pauses[0] < firstPause || pauses[0] > firstPause+time.Second {
			t.Fatalf("it was tried after %s", pauses)
		}
		for i, got := range pauses[1:] {
			if got < want/2 || got > want*3/2+time.Second {
				t.Errorf("pause %d is %s, want %s, half as much or half as much again", i+1, got, want)
			}
			want = min(2*want, maxPause)
		}
		if want != maxPause {
			t.Errorf("the last pauses are of %s", want)
		}
		if task := d.is(id, client.TaskKept); task.Kept.LastError == away.Message || task.Kept.LastError == "" {
			t.Errorf("the last error is %q", task.Kept.LastError)
		}
	})
}

// TestAPeerCausesFewTries: one every two seconds, however often it comes; one that it causes while another is under way
// is made too.
func TestAPeerCausesFewTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		id, ofPhone := d.mustKeep(laptop, "", "", 0), d.mustKeep(phone, "", "", 0)
		defer d.run()()
		for _, got := range d.tries(id, 10*time.Second, func() { d.TryNow(laptop) })[1:] {
			if got < minPause-100*time.Millisecond || got > minPause+100*time.Millisecond {
				t.Errorf("tried after %s", got)
			}
		}
		if n := d.task(id).Kept.Tries; n < 5 || n > 7 {
			t.Errorf("tried %d times", n)
		}
		if n := d.task(ofPhone).Kept.Tries; n != 1 {
			t.Errorf("what is kept for another peer was tried %d times", n)
		}
	})
	for _, wanted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t)
			d.mustKeep(laptop, "", "", 0)
			time.Sleep(firstPause) // on the virtual clock
			r := recipient{laptop, ""}
			if due, _ := d.findDue(time.Now()); !slices.Equal(due, []recipient{r}) {
				t.Fatalf("%v are due", due)
			}
			if due, _ := d.findDue(time.Now()); len(due) != 0 {
				t.Errorf("%v are tried already", due)
			}
			if wanted {
				d.TryNow(laptop)
				d.scheduleFor(r, 0).soon(firstPause) // as if one more was kept: it does not put off the try
			}
			time.Sleep(time.Second) // on the virtual clock
			d.tryRecipient(t.Context(), r)
			if next := time.Until(d.schedules[r].next); wanted != (next <= minPause) {
				t.Errorf("wanted meanwhile: %v; the next try is in %s", wanted, next)
			}
		})
	}
}

// TestOrderOfARecipient: the oldest that is kept for it is claimed, and nothing while another try has that.
func TestOrderOfARecipient(t *testing.T) {
	d := open(t)
	reviewer := recipient{laptop, "reviewer"}
	first, other := d.mustKeep(laptop, "reviewer", "", 0), d.mustKeep(laptop, "", "", 0)
	second := d.mustKeep(laptop, "reviewer", "", 0)
	stop := func(error) {}
	a := d.claimFirst(reviewer, nil, stop)
	if a == nil || a.id != first {
		t.Fatalf("%+v is the first", a)
	}
	if b := d.claimFirst(reviewer, nil, stop); b != nil {
		t.Errorf("%+v is claimed beside it", b)
	}
	if c := d.claimFirst(recipient{laptop, ""}, nil, stop); c == nil || c.id != other {
		t.Errorf("%+v is the first of another recipient", c)
	}
	d.end(t.Context(), a, d.newExpiry(a))
	d.release(a)
	if b := d.claimFirst(reviewer, nil, stop); b == nil || b.id != second {
		t.Errorf("%+v is the second", b)
	}
	d.reopen()
	if b := d.claimFirst(reviewer, nil, stop); b == nil || b.id != second {
		t.Errorf("after a restart, %+v is the second", b)
	}
}

// TestAKindThatIsStuck: what the peer does not take yet holds up only messages of its kind.
func TestAKindThatIsStuck(t *testing.T) {
	d := open(t)
	var ids []wire.MessageID
	for _, payload := range []string{`{"task":"mend it"}`, `{"task":"test it"}`} {
		env := d.envelope(laptop, "", kinds.KindDelegate, wire.Payload(payload))
		if err := d.keepFor(time.Hour, env, "planner", away); client.FindKept(err) == nil {
			t.Fatal(err)
		}
		ids = append(ids, env.ID)
	}
	ids = append(ids, d.mustKeep(laptop, "", "tester", 0))
	var given []wire.MessageID
	d.gives = func(request kinds.Checked) (*kinds.Ack, error) {
		given = append(given, request.ID)
		e := kinds.Errorf(kinds.NoAgent, "nobody is here").WithDelivered(kinds.DeliveredNo)
		e.From = laptop.String()
		return nil, e
	}
	stuck := make(map[string]bool)
	if !d.sendNext(t.Context(), recipient{laptop, ""}, stuck) || !slices.Equal(given, ids[:1]) || !stuck[kinds.KindDelegate+" planner"] {
		t.Errorf("%v were given; %v are stuck", given, stuck)
	}
	if m := d.claimFirst(recipient{laptop, ""}, stuck, func(error) {}); m == nil || m.id != ids[2] {
		t.Errorf("%+v is sent next", m)
	}
	for _, id := range ids {
		d.is(id, client.TaskKept)
	}
}

// TestOnlyThePeerEndsWhatIsKept: a try that reaches nobody ends nothing, unless the peer is not trusted any more.
func TestOnlyThePeerEndsWhatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		id, r := d.mustKeep(laptop, "", "planner", 0), recipient{laptop, ""}
		d.findDue(time.Now().Add(time.Minute))
		d.tryRecipient(t.Context(), r)
		if task := d.is(id, client.TaskKept); task.Kept.Tries != 2 {
			t.Errorf("%+v", task.Kept)
		}
		if err := d.Trust.Untrust(laptop); err != nil {
			t.Fatal(err)
		}
		d.findDue(time.Now().Add(time.Hour))
		d.tryRecipient(t.Context(), r)
		d.is(id, client.TaskRefused)
	})
}

// TestADrainTriesNothing: what is sent then may outlive the daemon.
func TestADrainTriesNothing(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	here, there := net.Pipe()
	caller, served := jsonrpc.NewConn(here, jsonrpc.Options{}), jsonrpc.NewConn(there, jsonrpc.Options{Handler: func(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		d.Drain.Methods()[client.MethodDrain].Serve(ctx, nil, r)
	}})
	var running sync.WaitGroup
	running.Go(func() { caller.Run(context.Background()) })
	running.Go(func() { served.Run(context.Background()) })
	running.Go(func() { caller.Call(context.Background(), client.MethodDrain, nil, nil) })
	defer func() { caller.Close(); served.Close(); running.Wait() }()
	await.Until(t, "the drain has begun", d.Drain.HasBegun)
	d.findDue(time.Now().Add(time.Minute))
	d.tryRecipient(t.Context(), recipient{laptop, ""})
	if task := d.is(id, client.TaskKept); task.Kept.Tries != 1 {
		t.Errorf("%+v", task.Kept)
	}
}

// TestAPeerWakesNothingInVain: if nothing is kept for it, or a try is planned already, it causes no work.
func TestAPeerWakesNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		wakes := func() bool {
			select {
			case <-d.wake:
				return true
			default:
				return false
			}
		}
		d.mustKeep(laptop, "", "planner", 0)
		wakes()
		if d.TryNow(phone); wakes() {
			t.Error("one for which nothing is kept woke it")
		}
		if d.TryNow(laptop); !wakes() {
			t.Error("nothing is tried")
		}
		for range 100 {
			if d.TryNow(laptop); wakes() {
				t.Fatal("it woke for a try that is due")
			}
		}
	})
}

// TestExpiry: at its time, also if that has passed while the daemon did not run, a message is ended and not sent.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.gives = func(kinds.Checked) (*kinds.Ack, error) { t.Error("it was sent"); return nil, away }
		began := time.Now()
		id := d.mustKeep(laptop, "", "planner", 0)
		stop := d.run()
		task, err := d.Wait(t.Context(), nil, id)
		if err != nil || task.State != client.TaskExpired || !task.Over || task.Kept != nil || time.Since(began) != time.Hour {
			t.Errorf("after %s: %+v, %v", time.Since(began), task, err)
		}
		synctest.Wait()
		stop()
		d.isTold(id, kinds.Timeout)

		over := d.mustKeep(laptop, "", "planner", 0)
		time.Sleep(2 * time.Hour) // on the virtual clock
		d.reopen()
		if e := d.task(over); e.Over {
			t.Errorf("%+v", e)
		}
		stop = d.run()
		synctest.Wait()
		stop()
		d.is(over, client.TaskExpired)
		d.isTold(over, kinds.Timeout)
	})
}

// isTold fails the test unless the inbox has one report of the end of a message, of this daemon.
func (d *desk) isTold(id wire.MessageID, code kinds.Code) {
	d.t.Helper()
	d.sweepNow()
	n := 0
	for _, env := range d.inbox() {
		if env.Ref == nil || *env.Ref != id {
			continue
		}
		n++
		if e, err := kinds.ParsePayload[kinds.Error](env.Payload); env.From != d.Self || env.Kind != kinds.KindError || env.Agent != "planner" || err != nil || e.Code != code {
			d.t.Errorf("the end of %s is told by %+v: %s", id, env, env.Payload)
		}
	}
	if n != 1 {
		d.t.Errorf("the end of %s is told %d times", id, n)
	}
}
