package names

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// lookup asks all relays for one name, as in build-7.corp.
type lookup struct {
	trust          Trust
	name           string
	own, authority string // the parts of name
	stop           func() // ends the lookup

	mu       sync.Mutex // guards the rest
	cert     *identity.Certificate
	refusal  error            // why the last invalid answer is not valid
	failures map[string]error // why nothing comes from a relay, by its name
}

// lookUp returns the first valid certificate that a relay brings, or why none came. It calls stop when it has one.
func (b *Book) lookUp(ctx context.Context, stop func(), name string) (cert *identity.Certificate, why string) {
	l := &lookup{trust: b.trust, name: name, stop: stop, failures: make(map[string]error)}
	l.own, l.authority, _ = strings.Cut(name, ".")
	keys, relays := b.trust.ListAuthorityKeys(l.authority), b.relays()
	switch {
	case len(keys) == 0:
		return nil, "its authority is no longer configured here"
	case len(relays) == 0:
		return nil, "there is no relay that could be asked: see acpctl relay list"
	}
	var want []byte
	for _, key := range keys {
		hash := key.Hash()
		want = append(want, hash[:]...)
	}
	var asking sync.WaitGroup
	for name, r := range relays {
		asking.Go(func() { l.ask(ctx, name, r, want) })
	}
	asking.Wait()
	switch {
	case l.cert != nil:
		return l.cert, ""
	case l.refusal != nil:
		return nil, fmt.Sprintf("the answers for it on the relays are not valid: %s", l.refusal)
	}
	return nil, l.describeFailures(ctx, relays)
}

// ask asks one relay. Each relay has its own limit of signatures to check, so it cannot use up that of the others.
func (l *lookup) ask(ctx context.Context, relay string, r Relay, want []byte) {
	checked := 0
	err := r.Ask(ctx, l.own, want, func(answer []byte) (more bool) {
		err := l.checkClaims(answer)
		if err == nil {
			if checked++; checked > maxSignatures {
				return false
			}
			err = l.checkSignature(answer)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.refusal = err
		}
		return l.cert == nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures[relay] = err
	}
}

// checkClaims returns an error unless an answer is a certificate that names the right name and signer. Whether they have
// signed it is checked next, which costs more.
func (l *lookup) checkClaims(answer []byte) error {
	claims, err := identity.InspectCertificate(answer)
	switch {
	case err != nil:
		return err
	case claims.Name != l.own:
		return ownwords.Errorf("certificate: it is of %s, and not of %s", claims.Name, l.own)
	case !slices.Contains(l.trust.ListAuthorityKeys(l.authority), claims.Signer()):
		return ownwords.Errorf("certificate: no authority that is configured here as %s has signed it: see organisation.authorities in config.yaml", l.authority)
	}
	return nil
}

// checkSignature takes an answer if the certificate is valid, and ends the lookup.
func (l *lookup) checkSignature(answer []byte) error {
	cert, err := l.trust.CheckNamed(answer, l.name, time.Now())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cert == nil {
		l.cert = cert
		l.stop()
	}
	return nil
}

// describeFailures returns why nobody has answered.
func (l *lookup) describeFailures(ctx context.Context, relays map[string]Relay) string {
	var all []string
	wasAsked := false // one of the relays
	for _, name := range slices.Sorted(maps.Keys(l.failures)) {
		what, remedy := relays[name].Trouble()
		switch {
		case what != "":
			all = append(all, fmt.Sprintf("relay:%s %s; %s", name, what, remedy))
			continue
		case ctx.Err() != nil:
			all = append(all, fmt.Sprintf("relay %s: nobody answers for it", name))
		default:
			all = append(all, fmt.Sprintf("relay %s: %s", name, strings.TrimPrefix(ownwords.Of(l.failures[name]), "relay "+name+": ")))
		}
		wasAsked = true
	}
	why := strings.Join(all, "; ")
	if wasAsked {
		why += ": check the name, that its daemon runs and uses the same relay, and its certificate by acpctl cert show there"
	}
	return why
}
