package names

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// lookup asks all relays for one name.
type lookup struct {
	name     string
	forGuest bool
	done     chan struct{} // closed when cert or err is set
	cert     *identity.Certificate
	err      error

	mu        sync.Mutex // guards the rest, and cert and err until done is closed
	isDone    bool
	seen      map[[sha256.Size]byte]bool // answers whose signature was checked
	checked   map[string]int             // how many of them a relay has brought, by its name
	refusal   error                      // why the last answer that did not count did not
	cancel    context.CancelFunc
	gathering *time.Timer // ends the wait for other keys
}

// joinOrStart returns the lookup for a name that runs, or starts one. Who is no guest does not wait for that of a
// guest. Callers hold mu.
func (b *Book) joinOrStart(name string, forGuest bool) (*lookup, error) {
	running := b.lookups[name]
	if running != nil && (forGuest || !running.forGuest) {
		return running, nil
	}
	if b.ctx.Err() != nil {
		return nil, newUnreachableError(name, "this daemon is shutting down")
	}
	if len(b.lookups) >= maxLookups || forGuest && b.ofGuest >= maxLookups/guestShare {
		return nil, kinds.Errorf(kinds.Overloaded, "%d names are being asked for: try again", len(b.lookups)).WithDelivered(kinds.DeliveredNo)
	}
	if running != nil {
		b.forget(running)
	}
	if forGuest {
		b.ofGuest++
	}
	l := &lookup{name: name, forGuest: forGuest, done: make(chan struct{}), seen: make(map[[sha256.Size]byte]bool), checked: make(map[string]int)}
	b.lookups[name] = l
	b.running.Go(func() { b.run(l) })
	return l, nil
}

// run asks, and ends when no other key can answer any more.
func (b *Book) run(l *lookup) {
	ctx, cancel := context.WithTimeout(b.ctx, lookupTime)
	defer cancel()
	l.cancel = cancel
	why := b.ask(ctx, l)
	l.mu.Lock()
	if l.gathering != nil {
		l.gathering.Stop()
	}
	if !l.isDone {
		if l.refusal != nil {
			why = fmt.Sprintf("the answers for it on the relays are not valid: %s", l.refusal)
		}
		l.err = newUnreachableError(l.name, why)
	}
	failed := !l.isDone
	l.mu.Unlock()
	b.mu.Lock()
	b.forget(l)
	if failed && b.ctx.Err() == nil {
		b.noteMissing(l.name, l.err, time.Now())
	}
	b.mu.Unlock()
	if failed {
		close(l.done)
	}
}

// forget has no other caller share a lookup: it has found what it was for, or is over. Callers hold mu
// of the book.
func (b *Book) forget(l *lookup) {
	if b.lookups[l.name] == l {
		delete(b.lookups, l.name)
		if l.forGuest {
			b.ofGuest--
		}
	}
}

// TakeSlot takes one of the slots that all have who look for somebody, and blocks until one is free. It
// returns false if ctx ends before. The caller calls free.
func (b *Book) TakeSlot(ctx context.Context, forGuest bool) (free func(), ok bool) {
	takes := []chan struct{}{b.slots}
	if forGuest {
		takes = []chan struct{}{b.guests, b.slots}
	}
	var taken []func()
	free = func() {
		for _, f := range taken {
			f()
		}
	}
	for _, slots := range takes {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			free()
			return nil, false
		}
		until := time.Now().Add(slotTime)
		taken = append(taken, func() { time.AfterFunc(time.Until(until), func() { <-slots }) })
	}
	return free, true
}

// ask returns why nobody has answered.
func (b *Book) ask(ctx context.Context, l *lookup) (why string) {
	free, ok := b.TakeSlot(ctx, l.forGuest)
	if !ok {
		return "too many names are being asked for: try again"
	}
	defer free()
	own, authority, _ := strings.Cut(l.name, ".")
	keys := b.trust.ListAuthorityKeys(authority)
	relays := b.relays()
	switch {
	case len(keys) == 0:
		return "its authority is no longer configured here"
	case len(relays) == 0:
		return "there is no relay that could be asked: see acpctl relay list"
	}
	var want []byte
	for _, key := range keys {
		hash := key.Hash()
		want = append(want, hash[:]...)
	}
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		wrong  = make(map[string]error)
	)
	for name, r := range relays {
		asking.Go(func() {
			err := r.Ask(ctx, own, want, func(answer []byte) bool { return b.take(l, name, answer) })
			mu.Lock()
			defer mu.Unlock()
			wrong[name] = err
		})
	}
	asking.Wait()
	var all []string
	heard := false // of the name, and not of relays alone
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		err := wrong[name]
		if err == nil {
			continue
		}
		if what, remedy := relays[name].Trouble(); what != "" {
			all = append(all, fmt.Sprintf("relay:%s %s; %s", name, what, remedy))
			continue
		}
		heard = true
		switch {
		case ctx.Err() != nil:
			all = append(all, fmt.Sprintf("relay %s: nobody answers for it", name))
		default:
			all = append(all, fmt.Sprintf("relay %s: %s", name, strings.TrimPrefix(ownwords.Of(err), "relay "+name+": ")))
		}
	}
	why = strings.Join(all, "; ")
	if heard {
		why += ": check the name, that its daemon runs and uses the same relay, and its certificate by acpctl cert show there"
	}
	return why
}

// take looks at an answer that a relay has brought, and reports whether others from there are wanted: what one brings
// takes nothing from the others.
func (b *Book) take(l *lookup, relay string, answer []byte) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, authority, _ := strings.Cut(l.name, ".")
	says, err := identity.InspectCertificate(answer)
	switch {
	case err != nil:
	case says.Name != own:
		err = ownwords.Errorf("certificate: it is of %s, and not of %s", says.Name, own)
	case !slices.Contains(b.trust.ListAuthorityKeys(authority), says.Signer()):
		err = ownwords.Errorf("certificate: no authority that is configured here as %s has signed it: see organisation.authorities in config.yaml", authority)
	}
	if err != nil {
		l.refusal = err
		return true
	}
	hash := sha256.Sum256(answer)
	if l.seen[hash] {
		return true
	}
	if l.checked[relay] >= maxSignatures {
		return false
	}
	l.checked[relay]++
	l.seen[hash] = true
	now := time.Now()
	c, err := b.trust.CheckNamed(answer, l.name, now)
	if err != nil {
		l.refusal = err
		return true
	}
	b.noteAnswer(l, c, now)
	if !l.isDone {
		l.isDone, l.cert = true, c
		close(l.done)
		l.gathering = time.AfterFunc(gatherTime, l.cancel)
	}
	return true
}
