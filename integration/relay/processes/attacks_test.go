package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// target is whom attacks are aimed at: a subject, and what a member has seen on its way to it and to the caller,
// with reply subjects.
type target struct {
	subject string
	came    []heardMessage
	went    []heardMessage // from the daemon to the caller
}

// newTarget returns the daemon, when the member has seen packets both ways.
func (a *assault) newTarget() *target {
	at := &target{subject: "acp1." + a.desk.ID.String()}
	await.Until(a.t, "the member has seen packets both ways", func() bool {
		at.came, at.went = a.member.findHeard(at.subject), a.member.findHeard("acp1."+a.caller.ID().String())
		return len(at.came) > 0 && len(at.went) > 0
	})
	return at
}

func randomID() (id identity.ID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}

// newHeader returns a header of many lines, of so many bytes.
func newHeader(size int) string {
	const begin, line, end = "NATS/1.0\r\n", "x:y\r\n", "\r\n"
	lines := (size - len(begin) - len(end)) / len(line)
	rest := size - len(begin) - len(end) - lines*len(line)
	return begin + strings.Repeat(line, lines-1) + "x:" + strings.Repeat("y", rest+1) + "\r\n" + end
}

const nobody = "NATS/1.0 503\r\n\r\n" // the header by which a server says so

// forge has the member say at both ends that nobody is at the other one.
func (a *assault) forge(at *target, i int) {
	a.member.publish(at.came[i%len(at.came)].reply, "", nobody, nil) // to the caller: nobody is at the daemon
	a.member.publish(at.went[i%len(at.went)].reply, "", nobody, nil) // to the daemon: nobody is at the caller
}

// expectForgeries lets both ends hear forgeries for a while. The first one is believed if the answer to the proof
// takes more than 20 ms, as on a busy machine it may, and later ones after 1.5 s (docs/security.md).
func (a *assault) expectForgeries(at *target) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Second) // proofs are a second apart
	defer cancel()
	var calling sync.WaitGroup
	calling.Go(func() {
		for ctx.Err() == nil {
			a.caller.ping(ctx, a.desk.ID)
		}
	})
	a.member.flood(ctx, 100, func(i int) { a.forge(at, i) })
	calling.Wait()
	await.Until(a.t, "a call of the trusted peer is answered", func() bool {
		_, err := a.caller.ping(await.NewContext(a.t), a.desk.ID)
		return err == nil
	})
}

// newAttacks returns what daemons and servers could take badly: each sends its i-th message to a target.
func (a *assault) newAttacks() []func(at *target, i int) {
	stranger, err := identity.GenerateKey()
	if err != nil {
		a.t.Fatal(err)
	}
	initials := newInitials(a.t, stranger, a.desk.ID, 400)
	garbage := make([]byte, 1200)
	for i := range garbage {
		garbage[i] = byte(rand.Uint32())
	}
	var names strings.Builder // each line has a name of its own
	names.WriteString("NATS/1.0\r\n")
	for i := 0; names.Len() < a.member.maxPayload-10; i++ {
		fmt.Fprintf(&names, "%x:\r\n", i)
	}
	names.WriteString("\r\n")
	lines := newHeader(a.member.maxPayload)
	malformed := []string{"\r\n\r\n", "NATS/1.0\r\nx\r\n\r\n", "NATS/1.0 5\r\n\r\n", "NATS/1.0\r\nx:y\r\n", "HTTP/1.1 200 OK\r\n\r\n"}
	return []func(at *target, i int){
		func(at *target, _ int) { a.member.publish(at.subject, "", "", claim(randomID(), garbage)) },
		func(at *target, i int) {
			short := claim(a.caller.ID(), garbage)
			short[32] = byte(i) // each kind of packet
			a.member.publish(at.subject, "", "", short)
		},
		func(at *target, i int) {
			a.member.publish(at.subject, "", "", claim(randomID(), initials[i%len(initials)]))
		},
		func(at *target, i int) {
			a.member.publish(at.subject, "", "", claim(a.caller.ID(), initials[i%len(initials)]))
		},
		func(at *target, i int) {
			h := at.came[i%len(at.came)]
			a.member.publish(at.subject, h.reply, "", []byte(h.payload))
		},
		a.forge,
		func(at *target, i int) {
			switch i % 3 {
			case 0:
				a.member.publish(at.subject+fmt.Sprintf(".%016x", i), "", "", garbage)
			case 1: // as long as the server allows
				a.member.publish(at.subject, strings.Repeat("r", 4096-len(at.subject)-len("  0")), "", nil)
			default:
				a.member.publish(at.subject, at.subject+fmt.Sprintf(".%016x", i), "", nil) // who has this identity?
			}
		},
		func(at *target, i int) {
			a.member.publish(at.subject, "", malformed[i%len(malformed)], claim(a.caller.ID(), garbage[:100]))
		},
		func(at *target, i int) { // as many as the server takes
			header := lines
			if i%2 == 0 {
				header = names.String()
			}
			a.member.publish(at.subject, "", header, nil)
		},
	}
}
