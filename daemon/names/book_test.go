package names

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

func newTrust(t testing.TB, a *authority.Authority, revoked string) *identity.TrustStore {
	t.Helper()
	trust := identity.NewMemoryTrustStore()
	setAuthority(t, trust, a, revoked)
	return trust
}

func setAuthority(t testing.TB, trust *identity.TrustStore, a *authority.Authority, revoked string) {
	t.Helper()
	r, err := identity.ParseRevocations([]byte(revoked))
	if err != nil {
		t.Fatal(err)
	}
	trust.SetAuthorities([]identity.Authority{{Name: a.Name, Key: a.Key, Revoked: r}})
}

var errNobody = ownwords.New("relay hub: nobody on the relay has that name")

// fakeRelay answers each ask with its answers, as far as more are wanted; without any, nobody is there.
type fakeRelay struct {
	delay   time.Duration // before each answer
	trouble string
	asked   atomic.Int64
	request []byte

	mu      sync.Mutex
	answers [][]byte
}

func (r *fakeRelay) Ask(ctx context.Context, name string, request []byte, take func([]byte) bool) error {
	r.asked.Add(1)
	r.mu.Lock()
	r.request = request
	answers := r.answers
	r.mu.Unlock()
	if len(answers) == 0 && r.delay == 0 {
		return errNobody
	}
	for _, answer := range answers {
		select {
		case <-time.After(r.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
		if !take(answer) {
			return nil
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *fakeRelay) Trouble() (what, remedy string) {
	if r.trouble == "" {
		return "", ""
	}
	return r.trouble, "acpctl relay test hub says why"
}

func (r *fakeRelay) answer(all ...[]byte) *fakeRelay {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = all
	return r
}

// bubble runs test with a book that asks the relays.
func bubble(t *testing.T, relays map[string]*fakeRelay, test func(*testing.T, *Book, *authority.Authority, *identity.TrustStore)) {
	synctest.Test(t, func(t *testing.T) {
		a := authority.New(t, "corp")
		trust := newTrust(t, a, "")
		b := NewBook(trust, func() map[string]Relay {
			all := make(map[string]Relay)
			for name, r := range relays {
				all[name] = r
			}
			return all
		})
		test(t, b, a, trust)
	})
}

func mustFind(t *testing.T, b *Book, name string, want identity.ID) {
	t.Helper()
	c, err := b.Find(t.Context(), name)
	if err != nil || c.ID != want || c.Name != name {
		t.Errorf("%s: %+v, %v", name, c, err)
	}
}

func mustMiss(t *testing.T, b *Book, name, why string) {
	t.Helper()
	_, err := b.Find(t.Context(), name)
	if e := kinds.AsError(err); err == nil || e.Code != kinds.Unreachable || e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, why) {
		t.Errorf("%s: %v, want %q", name, err, why)
	}
}

var build, other, third = identity.ID{1}, identity.ID{2}, identity.ID{3}

func TestTheFirstValidAnswerIsKept(t *testing.T) {
	hub := new(fakeRelay)
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, trust *identity.TrustStore) {
		began := time.Now()
		mustMiss(t, b, "build-7.corp", "relay hub: nobody on the relay has that name")
		hub.answer(a.Sign(build, 24*time.Hour, "acp:build-7"))
		mustMiss(t, b, "build-7.corp", "nobody") // as a moment ago
		if hub.asked.Load() != 1 || time.Since(began) != 0 {
			t.Errorf("asked %d times in %s", hub.asked.Load(), time.Since(began))
		}
		time.Sleep(askAgainAfter) // of the virtual clock
		mustFind(t, b, "build-7.corp", build)
		if want := trust.ListAuthorityKeys("corp")[0].Hash(); string(hub.request) != string(want[:]) {
			t.Errorf("asked with %x", hub.request)
		}
		time.Sleep(23 * time.Hour) // of the virtual clock
		mustFind(t, b, "build-7.corp", build)
		if hub.asked.Load() != 2 {
			t.Errorf("asked %d times", hub.asked.Load())
		}
		time.Sleep(time.Hour + identity.ClockTolerance) // of the virtual clock
		mustMiss(t, b, "build-7.corp", "are not valid: certificate: it expired")
	})
}

// A relay that carries nothing says so, and to look for the fault at the peer is advised alone if a relay was asked.
func TestTroubleOfRelaysIsTold(t *testing.T) {
	const (
		refuses = `no peer "build-7.corp" is known, and relay:hub refuses this daemon; acpctl relay test hub says why`
		check   = ": check the name, that its daemon runs and uses the same relay, and its certificate by acpctl cert show there"
	)
	for want, relays := range map[string]map[string]*fakeRelay{
		refuses: {"hub": {trouble: "refuses this daemon"}},
		refuses + "; relay vps: relay hub: nobody on the relay has that name" + check:   {"hub": {trouble: "refuses this daemon"}, "vps": {}},
		`no peer "build-7.corp" is known, and relay vps: nobody answers for it` + check: {"vps": {delay: time.Hour}},
	} {
		bubble(t, relays, func(t *testing.T, b *Book, _ *authority.Authority, _ *identity.TrustStore) {
			_, err := b.Find(t.Context(), "build-7.corp")
			if e := kinds.AsError(err); err == nil || e.Code != kinds.Unreachable || e.Message != want {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}

// The deadline of a caller ends its lookup, and says nothing of the name.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestALookupEndsWithItsCaller(t *testing.T) {
	hub := &fakeRelay{delay: time.Second}
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, _ *identity.TrustStore) {
		hub.answer(a.Sign(build, time.Hour, "acp:build-7"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := b.Find(ctx, "build-7.corp"); kinds.AsError(err).Code != kinds.Unreachable || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		mustFind(t, b, "build-7.corp", build)
	})
}

func TestAnswersThatAreNotValid(t *testing.T) {
	hub := new(fakeRelay)
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, trust *identity.TrustStore) {
		right := a.Sign(build, time.Hour, "acp:build-7")
		tampered := append([]byte(nil), right...)
		tampered[len(tampered)-1] ^= 1
		setAuthority(t, trust, a, "id "+third.String())
		if err := trust.Untrust(other); err != nil {
			t.Fatal(err)
		}
		for why, answer := range map[string][]byte{
			"no authority that is configured here":            authority.New(t, "corp").Sign(build, time.Hour, "acp:build-7"),
			"it expired":                                      a.Sign(build, -time.Hour, "acp:build-7"),
			"corp has revoked it":                             a.Sign(third, time.Hour, "acp:build-7"),
			"was untrusted here":                              a.Sign(other, time.Hour, "acp:build-7"),
			"it is of build-8, and not of build-7":            a.Sign(build, time.Hour, "acp:build-8"),
			"does not begin with acp:":                        a.Sign(build, time.Hour, "build-7"),
			"two names":                                       a.Sign(build, time.Hour, "acp:build-7", "acp:build-8"),
			"certificate: ":                                   tampered,
			"not of type ssh-ed25519-cert-v01@openssh.com":    []byte("garbage"),
			"not of type ssh-ed25519-cert-v01@openssh.com: h": make([]byte, identity.MaxCertificate),
		} {
			hub.answer(answer)
			began := time.Now()
			mustMiss(t, b, "build-7.corp", "the answers for it on the relays are not valid: ")
			mustMiss(t, b, "build-7.corp", why)
			if took := time.Since(began); took != lookupTime {
				t.Errorf("%s: after %s", why, took)
			}
			time.Sleep(askAgainAfter) // of the virtual clock

			// Behind it, the right one counts.
			hub.answer(answer, right)
			mustFind(t, b, "build-7.corp", build)
			b.Forget()
			time.Sleep(lookupTime)
		}

		// Garbage ten thousand times, and then the right one: what costs a signature is bounded.
		many := make([][]byte, 10_000)
		for i := range many {
			many[i] = fmt.Appendf(nil, "garbage %d", i)
		}
		hub.answer(append(many, right)...)
		mustFind(t, b, "build-7.corp", build)
		b.Forget()
		time.Sleep(lookupTime)
		many = many[:0]
		for range maxSignatures + 1 { // of no authority here: none of them costs a signature
			many = append(many, authority.New(t, "corp").Sign(build, time.Hour, "acp:build-7"))
		}
		hub.answer(append(many, right)...)
		mustFind(t, b, "build-7.corp", build)
		b.Forget()
		time.Sleep(lookupTime)
		hub.answer(append(forge(t, a, maxSignatures), right)...)
		mustMiss(t, b, "build-7.corp", "signature")
	})
}

// forge returns certificates for build-7 that name the authority's key, and that it has not signed.
func forge(t *testing.T, a *authority.Authority, n int) (all [][]byte) {
	t.Helper()
	for i := range n {
		forged := a.Sign(identity.ID{9, byte(i)}, time.Hour, "acp:build-7")
		forged[len(forged)-1] ^= 1
		all = append(all, forged)
	}
	return all
}

// What one relay brings before the others takes nothing from them.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestOneRelayHidesNoNameOnAnother(t *testing.T) {
	liar, hub := new(fakeRelay), &fakeRelay{delay: 100 * time.Millisecond}
	bubble(t, map[string]*fakeRelay{"liar": liar, "hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, _ *identity.TrustStore) {
		right := a.Sign(build, time.Hour, "acp:build-7")
		hub.answer(right)
		var foreign [][]byte
		for range 2 * maxSignatures {
			foreign = append(foreign, authority.New(t, "corp").Sign(build, time.Hour, "acp:build-7"))
		}
		for what, lies := range map[string][][]byte{"of other authorities": foreign, "forged": forge(t, a, 2*maxSignatures)} {
			liar.answer(lies...)
			began := time.Now()
			mustFind(t, b, "build-7.corp", build)
			if took := time.Since(began); took != hub.delay {
				t.Errorf("%s: found after %s", what, took)
			}
			b.Forget()
			time.Sleep(lookupTime)
		}
	})
}

// A key that is not there gives way, also long before its certificate ends: the machine may have been set up anew.
// The relays are not asked more often than every 2 s for it.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestAKeyThatIsNotThereIsAskedForAgain(t *testing.T) {
	hub := new(fakeRelay)
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, trust *identity.TrustStore) {
		old, anew := a.Sign(build, 24*time.Hour, "acp:build-7"), a.Sign(other, 24*time.Hour, "acp:build-7")
		hub.answer(old)
		mustFind(t, b, "build-7.corp", build)
		b.Doubt(mustCheck(t, trust, anew)) // another one: this says nothing of the first
		time.Sleep(12 * time.Hour)
		mustFind(t, b, "build-7.corp", build)
		if hub.asked.Load() != 1 {
			t.Errorf("asked %d times", hub.asked.Load())
		}
		hub.answer(anew)
		b.Doubt(mustCheck(t, trust, old))
		mustFind(t, b, "build-7.corp", other)

		// While it fails again and again, it is not asked for all the time.
		asked := hub.asked.Load()
		for range 100 {
			b.Doubt(mustCheck(t, trust, anew))
			mustFind(t, b, "build-7.corp", other)
			time.Sleep(100 * time.Millisecond)
		}
		if n := hub.asked.Load() - asked; n < 3 || n > 5 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

func mustCheck(t *testing.T, trust *identity.TrustStore, raw []byte) *identity.Certificate {
	t.Helper()
	c, err := trust.CheckNamed(raw, "build-7.corp", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What a lookup found is not valid once it is revoked; when authorities change, relays are asked again at once.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestARevokedCertificateIsNotFound(t *testing.T) {
	hub := new(fakeRelay)
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, trust *identity.TrustStore) {
		hub.answer(a.Sign(build, time.Hour, "acp:build-7"))
		mustFind(t, b, "build-7.corp", build)
		setAuthority(t, trust, a, "name build-7")
		mustMiss(t, b, "build-7.corp", "corp has revoked it")
		setAuthority(t, trust, a, "")
		mustMiss(t, b, "build-7.corp", "corp has revoked it")
		b.Forget()
		mustFind(t, b, "build-7.corp", build)
	})
}

// A program that asks for very many names keeps no more memory than that of the names remembered.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestManyNamesAreForgotten(t *testing.T) {
	bubble(t, map[string]*fakeRelay{"hub": new(fakeRelay)}, func(t *testing.T, b *Book, _ *authority.Authority, _ *identity.TrustStore) {
		for i := range maxNames + 10 {
			mustMiss(t, b, fmt.Sprintf("x-%d.corp", i), "nobody")
			time.Sleep(time.Millisecond) // of the virtual clock
		}
		if _, isOldestKept := b.known["x-9.corp"]; len(b.known) != maxNames || isOldestKept {
			t.Errorf("%d names are kept", len(b.known))
		}
	})
}

// Programs that search without end are slowed down, and guests leave the owner's programs their places.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSearchesAreBounded(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *Book, _ *authority.Authority, _ *identity.TrustStore) {
		const all = 300 * maxSearches
		began := time.Now()
		for range all {
			end, ok := b.BeginSearch(t.Context(), true)
			if !ok {
				t.Fatal("refused")
			}
			end()
		}
		if least := (all/maxSearches - 1) * searchTime; time.Since(began) < least {
			t.Errorf("%d searches in %s", all, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), searchTime/2)
		defer cancel()
		if _, ok := b.BeginSearch(ctx, true); ok {
			t.Error("a guest has got more places than there are")
		}
		began = time.Now()
		if _, ok := b.BeginSearch(t.Context(), false); !ok || time.Since(began) != 0 {
			t.Error("guests have taken the places of the owner's programs")
		}
		time.Sleep(searchTime) // of the virtual clock
		synctest.Wait()
		if n := len(b.guestSearches); n != 0 {
			t.Errorf("%d places are kept", n)
		}
	})
}

func TestRelaysThatCannotBeAsked(t *testing.T) {
	bubble(t, nil, func(t *testing.T, b *Book, _ *authority.Authority, _ *identity.TrustStore) {
		mustMiss(t, b, "build-7.corp", "no relay that could be asked")
		for name, want := range map[string]bool{"build-7.corp": true, "build-7": false, "build-7.lab": false, "build-7.corp.x": false, "*.corp": false, "": false, "BUILD.corp": false} {
			if got := b.IsAskable(name); got != want {
				t.Errorf("%q: %v", name, got)
			}
		}
	})
}

// Whatever answers, nothing is found but what the authority has signed for that name.
// holds: security.md#against-a-relay-and-those-who-share-it
func FuzzAnswer(f *testing.F) {
	a := authority.New(f, "corp")
	trust := newTrust(f, a, "")
	right := a.Sign(build, time.Hour, "acp:build-7")
	f.Add(right)
	f.Add(a.Sign(build, time.Hour, "acp:build-8"))
	f.Add(authority.New(f, "corp").Sign(build, time.Hour, "acp:build-7"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		b := NewBook(trust, func() map[string]Relay { return map[string]Relay{"hub": oneAnswer(answer)} })
		cert, why := b.lookUp(t.Context(), func() {}, "build-7.corp")
		if isRight := string(answer) == string(right); (cert != nil) != isRight || (why == "") != isRight {
			t.Errorf("%x: %v, %s", answer, cert, why)
		}
	})
}

// oneAnswer is a relay that brings one answer.
type oneAnswer []byte

func (r oneAnswer) Ask(_ context.Context, _ string, _ []byte, take func([]byte) bool) error {
	take(r)
	return errNobody
}

func (oneAnswer) Trouble() (what, remedy string) { return "", "" }
