package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

const (
	testTime  = 30 * time.Second
	checkTime = 3 * time.Second // for an answer

	largePayload = 64 << 10 // bytes: a server that takes more can be kept busy with few messages
)

// Verdict says how a check went.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "ok"
	Warned Verdict = "warning" // works, but not as it should
	Failed Verdict = "failed"
)

// Check is one result of [Link.Test].
type Check struct {
	Code    string // which check: connect, round_trip, receive, publish, nobody, name, foreign_subscribe, max_payload
	What    string // what was found
	Remedy  string // what to do; "" if nothing, or if What ends with it
	Verdict Verdict
	Refused bool          // Failed because the server refuses it
	Invalid bool          // Failed because the file of credentials here is not valid
	Took    time.Duration // what was measured; 0: nothing
}

// Test tries the relay on a connection of its own, with the same configuration, whether Run
// runs or not: whether the server lets this daemon in, passes packets to it and from it, and
// says who is absent. It takes milliseconds, half a minute at most, and ends earlier with ctx.
func (l *Link) Test(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	if l.auth.file != "" {
		if err := checkSeedAndJWT(l.auth.file); err != nil {
			return []Check{{Code: "connect", What: ownwords.Of(l.describeError(err)), Verdict: Failed, Invalid: true}}
		}
	}
	began := time.Now()
	t := &tester{link: l, token: newToken(), arrived: pace.NewSignal(), nobody: pace.NewSignal()}
	if err := t.connect(ctx); err != nil {
		return []Check{{Code: "connect", What: ownwords.Of(err), Verdict: Failed, Refused: errors.Is(err, ErrRefused), Took: time.Since(began)}}
	}
	defer t.close()
	conn := t.session.conn
	what := "connected to " + identity.CleanClaim(conn.ConnectedServerName()+" "+conn.ConnectedServerVersion()) + " with " + l.auth.what
	if via := t.session.dialer.proxyInUse(); via != "" {
		what += " through the proxy " + via
	}
	checks := []Check{{Code: "connect", What: what, Verdict: Passed, Took: time.Since(began)}}
	for _, check := range []func(context.Context) Check{t.checkRoundTrip, t.checkReceive, t.checkPublish, t.checkNobody, t.checkName, t.checkForeignSubscribe, t.checkMaxPayload} {
		if c := check(ctx); c.Code != "" {
			checks = append(checks, c)
		}
		if conn.IsClosed() {
			err := t.session.explain(conn.LastError())
			checks = append(checks, Check{Code: "connect", What: ownwords.Of(err), Verdict: Failed, Refused: errors.Is(err, ErrRefused)})
			break
		}
	}
	return checks
}

// tester has the connection of one test.
type tester struct {
	link    *Link
	session *session
	token   string      // of the reply subject, and in the packet to the own subject
	arrived pace.Signal // the packet to the own subject came back
	nobody  pace.Signal // the server said that nobody is there
	absent  identity.ID
}

func (t *tester) connect(ctx context.Context) error {
	rand.Read(t.absent[:])
	t.session = &session{link: t.link, dialer: t.link.newDialer(ctx), ended: make(chan struct{})}
	err := t.session.connect(ctx)
	if err != nil {
		t.session.dialer.close()
	}
	return err
}

func (t *tester) close() {
	t.session.conn.Close()
	<-t.session.ended
	t.session.dialer.close()
}

// findRefusal waits until the server has taken what was sent, and returns its refusal of subject.
func (t *tester) findRefusal(ctx context.Context, subject string) error {
	if _, err := t.session.measure(ctx); err != nil {
		return err
	}
	err := t.session.conn.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject+`"`) {
		return err
	}
	return nil
}

func (t *tester) checkRoundTrip(ctx context.Context) Check {
	took, err := t.session.measure(ctx)
	if err != nil {
		return Check{Code: "round_trip", What: "the server does not answer: " + ownwords.Of(err), Remedy: "look at its load and at the network", Verdict: Failed}
	}
	return Check{Code: "round_trip", What: "the server answers", Verdict: Passed, Took: took}
}

// checkReceive sends a packet to the own subject. The link of a daemon that runs drops it.
func (t *tester) checkReceive(ctx context.Context) Check {
	replies := t.link.replies
	failed := func(what string) Check {
		return Check{Code: "receive", What: what, Verdict: Failed,
			Remedy: "have the server permit subscribe to " + replies.ownSubject() + " and " + replies.prefix + "*, and publish to acp1.>"}
	}
	payload := append(t.link.config.Self[:], t.token...)
	for subject, take := range map[string]nats.MsgHandler{
		replies.ownSubject(): func(m *nats.Msg) {
			if string(m.Data) == string(payload) {
				t.arrived.Set()
			}
		},
		replies.prefix + "*": func(m *nats.Msg) {
			if m.Subject == replies.prefix+t.token && m.Header.Get("Status") == statusNobody {
				t.nobody.Set()
			}
		},
	} {
		_, err := t.session.conn.Subscribe(subject, take)
		if err == nil {
			err = t.findRefusal(ctx, subject)
		}
		if err != nil {
			refused := failed("the server refuses the subscription to this daemon's subjects")
			refused.Refused = true
			return refused
		}
	}
	began := time.Now()
	t.session.conn.Publish(replies.ownSubject(), payload)
	if !awaitSignal(ctx, t.arrived) {
		return failed("a packet to this daemon's subject does not come back")
	}
	return Check{Code: "receive", What: "a packet to this daemon's subject comes back", Verdict: Passed, Took: time.Since(began)}
}

// checkPublish sends an empty message to an id that nobody has.
func (t *tester) checkPublish(ctx context.Context) Check {
	subject := subjectPrefix + t.absent.String()
	err := t.session.conn.Publish(subject, nil)
	if err == nil {
		err = t.findRefusal(ctx, subject)
	}
	if err != nil {
		return Check{Code: "publish", What: "the server refuses packets to peers", Verdict: Failed, Refused: true,
			Remedy: "have the server permit publish to acp1.>"}
	}
	return Check{Code: "publish", What: "packets to peers are permitted", Verdict: Passed}
}

// checkNobody waits for the answer to a message without a subscriber.
func (t *tester) checkNobody(ctx context.Context) Check {
	began := time.Now()
	t.session.conn.PublishRequest(subjectPrefix+t.absent.String(), t.link.replies.prefix+t.token, nil)
	if !awaitSignal(ctx, t.nobody) {
		return Check{Code: "nobody", What: "the server does not say that a peer is absent", Verdict: Warned,
			Remedy: "calls to absent peers take 3 s: use nats-server 2.2 or later, and permit subscribe to " + t.link.replies.prefix + "*"}
	}
	return Check{Code: "nobody", What: "the server says at once that a peer is absent", Verdict: Passed, Took: time.Since(began)}
}

// checkName asks for what others ask of the own name, and answers nobody. Without a name it returns no check.
func (t *tester) checkName(ctx context.Context) Check {
	name := *t.link.name.Load()
	if name == "" {
		return Check{}
	}
	subject := nameSubject + name
	if err := t.findSubscribeRefusal(ctx, subject); err != nil {
		return Check{Code: "name", What: "nobody finds this daemon by its name here: the server refuses its subscription", Verdict: Warned,
			Remedy: "have the server permit subscribe to " + subject}
	}
	return Check{Code: "name", What: "others can ask for this daemon by its name", Verdict: Passed}
}

// findSubscribeRefusal subscribes for a moment, takes nothing, and returns the server's refusal.
func (t *tester) findSubscribeRefusal(ctx context.Context, subject string) error {
	sub, err := t.session.conn.Subscribe(subject, func(*nats.Msg) {})
	if err == nil {
		err = t.findRefusal(ctx, subject)
		sub.Unsubscribe()
	}
	return err
}

// checkForeignSubscribe asks for the packets of an id that nobody has, and takes none.
func (t *tester) checkForeignSubscribe(ctx context.Context) Check {
	if err := t.findSubscribeRefusal(ctx, subjectPrefix+t.absent.String()); err != nil {
		return Check{Code: "foreign_subscribe", What: "the server refuses subscriptions to other daemons' subjects", Verdict: Passed}
	}
	return Check{Code: "foreign_subscribe", Verdict: Warned,
		What:   "the server permits subscriptions to other daemons' subjects: who has these credentials can copy ciphertext, and sees who talks to whom",
		Remedy: "give each daemon an nkey of its own, and permit it subscribe to " + t.link.replies.ownSubject() + " and " + t.link.replies.prefix + "* alone"}
}

// checkMaxPayload looks at how long messages may be, as the server says it.
func (t *tester) checkMaxPayload(context.Context) Check {
	c := Check{Code: "max_payload", What: fmt.Sprintf("the server takes messages of up to %d bytes", t.session.conn.MaxPayload()), Verdict: Passed}
	switch most := t.session.conn.MaxPayload(); {
	case most < headerLen+MTU:
		c.Verdict, c.Remedy = Failed, findRemedy(t.link.endpoint, nats.ErrMaxPayload)
	case most > largePayload:
		c.Verdict, c.Remedy = Warned, "set max_payload to 8KB, in its configuration or in the limits of the account: packets have 1,484 bytes, and a member of the account that sends large messages takes the server's time from the others"
	}
	return c
}

// awaitSignal waits until c is set, for checkTime at most, and reports whether it was.
func awaitSignal(ctx context.Context, c pace.Signal) bool {
	select {
	case <-c:
		return true
	case <-time.After(checkTime):
	case <-ctx.Done():
	}
	return false
}
