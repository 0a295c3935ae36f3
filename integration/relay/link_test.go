package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/relay"
)

// ownSubjects returns a server's configuration for daemons by their nkeys, each with what it needs and no more.
func ownSubjects(t testing.TB, daemons ...daemon) string {
	var b strings.Builder
	for _, d := range daemons {
		fmt.Fprintf(&b, `{ nkey: %s, permissions: { subscribe: ["acp1.%s", "acp1.%s.*"], publish: "acp1.>" } }`+"\n", d.nkey(t), d.Self, d.Self)
	}
	return "authorization { users: [\n" + b.String() + "] }\n"
}

// Each way to authenticate works, with packets both ways and an answer about who is absent.
func TestWaysIn(t *testing.T) {
	certificates, roots := newCertificates(t)
	for name, c := range map[string]struct {
		conf   string
		scheme string
		change func(*relay.Config)
	}{
		"token":     {"authorization { token: s3cret }", "nats", func(c *relay.Config) { c.Credentials.Token = "s3cret" }},
		"user":      {"authorization { user: desk, password: s3cret }", "nats", func(c *relay.Config) { c.Credentials.User, c.Credentials.Password = "desk", "s3cret" }},
		"nkey":      {"", "nats", func(*relay.Config) {}},
		"tls":       {certificates, "tls", func(c *relay.Config) { c.Roots = roots }},
		"websocket": {"websocket { listen: \"127.0.0.1:-1\", no_tls: true }", "ws", func(*relay.Config) {}},
		"wss":       {"websocket { listen: \"127.0.0.1:-1\", " + certificates + " }", "wss", func(c *relay.Config) { c.Roots = roots }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newDaemon(t, ""), newDaemon(t, "")
			conf := "listen: 127.0.0.1:-1\n" + c.conf + "\n"
			if !strings.Contains(conf, "authorization") {
				conf += ownSubjects(t, a, b)
			}
			s := startServer(t, conf)
			url := fmt.Sprintf("%s://127.0.0.1:%d", c.scheme, portOf(s))
			if strings.HasPrefix(c.scheme, "ws") {
				url = fmt.Sprintf("%s://%s", c.scheme, webSocketAddr(t, s))
			}
			a.URL, b.URL = url, url
			c.change(&a.Config)
			c.change(&b.Config)
			la, lb := start(t, a.Config), start(t, b.Config)
			la.awaitConnected(t)
			lb.awaitConnected(t)
			exchange(t, la, lb)
			la.awaitNobody(t, identity.ID{1})
			if text := fmt.Sprintf("%+v", la.State()); strings.Contains(text, "s3cret") {
				t.Errorf("the state has the secret: %s", text)
			}
		})
	}
}

// A server does not know the credentials at first, and then does, without a restart of the link.
func TestRefusedCredentials(t *testing.T) {
	a, other := newDaemon(t, ""), newDaemon(t, "")
	s := startServer(t, "listen: 127.0.0.1:-1\n"+ownSubjects(t, other))
	a.URL = urlOf(s)
	la := start(t, a.Config)
	state := la.await(t, "refused", func(s relay.State) bool { return s.LastError != nil })
	if !errors.Is(state.LastError, relay.ErrRefused) || !strings.Contains(state.LastError.Error(), a.nkey(t)) {
		t.Errorf("%v: does not name the nkey that is to be allowed", state.LastError)
	}
	reload(t, s, "listen: 127.0.0.1:-1\n"+ownSubjects(t, other, a))
	la.awaitConnected(t)

	// Revoked while connected: the server ends the connection, and the state says so.
	reload(t, s, "listen: 127.0.0.1:-1\n"+ownSubjects(t, other))
	state = la.await(t, "revoked", func(s relay.State) bool { return s.Standing == relay.Connecting })
	state = la.await(t, "why", func(s relay.State) bool { return errors.Is(s.LastError, relay.ErrRefused) })
	reload(t, s, "listen: 127.0.0.1:-1\n"+ownSubjects(t, other, a))
	la.await(t, "back", func(s relay.State) bool { return s.Standing == relay.Connected && s.Reconnects > 0 })
}

// A server as it comes, where anybody may log in, is not used until it has a token.
func TestServerWithoutAnyLogin(t *testing.T) {
	a := newDaemon(t, "")
	s := startServer(t, "listen: 127.0.0.1:-1\n")
	a.URL = urlOf(s)
	state := start(t, a.Config).await(t, "refused", func(s relay.State) bool { return s.LastError != nil })
	if !errors.Is(state.LastError, relay.ErrRefused) || !strings.Contains(state.LastError.Error(), "if it takes none, anybody may log in there: have a token set in its configuration first") {
		t.Errorf("%v", state.LastError)
	}
	reload(t, s, "listen: 127.0.0.1:-1\nauthorization: {token: t0ken}\n")
	a.Credentials = relay.Credentials{Token: "t0ken"}
	start(t, a.Config).awaitConnected(t)
}

// What the server does not permit is said, with what to permit.
func TestPermissions(t *testing.T) {
	for name, c := range map[string]struct {
		permissions string // %s: the own id
		standing    relay.Standing
		want        string
	}{
		"no subscription":     {`subscribe: "other", publish: "acp1.>"`, relay.Deaf, "permit subscribe to acp1."},
		"no reply subject":    {`subscribe: "acp1.%[1]s", publish: "acp1.>"`, relay.Deaf, ".*"},
		"no publishing":       {`subscribe: ["acp1.%[1]s", "acp1.%[1]s.*"], publish: "acp1.%[1]s"`, relay.Connected, "permit publish to acp1.>"},
		"nothing permitted":   {`subscribe: "other", publish: "other"`, relay.Deaf, "permit"},
		"all that is needed":  {`subscribe: ["acp1.%[1]s", "acp1.%[1]s.*"], publish: "acp1.>"`, relay.Connected, ""},
		"more than is needed": {`subscribe: ">", publish: ">"`, relay.Connected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newDaemon(t, "")
			permissions := c.permissions
			if strings.Contains(permissions, "%") {
				permissions = fmt.Sprintf(permissions, a.Self)
			}
			a.URL = urlOf(startServer(t, fmt.Sprintf("listen: 127.0.0.1:-1\nauthorization { users: [ { nkey: %s, permissions: { %s } } ] }", a.nkey(t), permissions)))
			la := start(t, a.Config)
			la.await(t, string(c.standing), func(s relay.State) bool { return s.Standing == c.standing })
			if c.want == "" {
				la.awaitNobody(t, identity.ID{1})
				if err := la.State().LastError; err != nil {
					t.Error(err)
				}
				return
			}
			la.await(t, c.want, func(s relay.State) bool {
				la.send(t, "x", identity.ID{1})
				return s.LastError != nil && strings.Contains(s.LastError.Error(), c.want) && errors.Is(s.LastError, relay.ErrRefused)
			})
		})
	}
}

// What the operator forbids and permits again counts on the connection that is there.
func TestPermissionsThatChange(t *testing.T) {
	t.Parallel() // the link tries again every 30 s
	a, b := newDaemon(t, ""), newDaemon(t, "")
	permitted := "listen: 127.0.0.1:-1\n" + ownSubjects(t, a, b)
	s := startServer(t, permitted)
	a.URL, b.URL = urlOf(s), urlOf(s)
	la, lb := start(t, a.Config), start(t, b.Config)
	la.awaitConnected(t)
	lb.awaitConnected(t)
	reload(t, s, strings.Replace(permitted, fmt.Sprintf("%q, ", "acp1."+a.Self.String()), "", 1))
	la.await(t, "deaf", func(s relay.State) bool { return s.Standing == relay.Deaf && errors.Is(s.LastError, relay.ErrRefused) })
	reload(t, s, permitted)
	la.awaitConnected(t)
	exchange(t, la, lb)
	if n := la.State().Reconnects; n != 0 {
		t.Errorf("connected %d times more", n)
	}
}

// Test says of each part whether it works.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSelfTest(t *testing.T) {
	for name, c := range map[string]struct {
		permissions string
		want        []string
	}{
		"own subjects": {`subscribe: ["acp1.%[2]s", "acp1.%[2]s.*"], publish: "acp1.>"`,
			[]string{"connect ok", "round_trip ok", "receive ok", "publish ok", "nobody ok", "foreign_subscribe ok", "max_payload ok"}},
		"no name": {`subscribe: ["acp1.%[2]s", "acp1.%[2]s.*"], publish: "acp1.>"`,
			[]string{"connect ok", "round_trip ok", "receive ok", "publish ok", "nobody ok", "name warning", "foreign_subscribe ok", "max_payload ok"}},
		"a name": {`subscribe: ["acp1.%[2]s", "acp1.%[2]s.*", "acp1.name.build"], publish: "acp1.>"`,
			[]string{"connect ok", "round_trip ok", "receive ok", "publish ok", "nobody ok", "name ok", "foreign_subscribe ok", "max_payload ok"}},
		"everything": {`subscribe: ">", publish: ">"%.0[2]s`,
			[]string{"connect ok", "round_trip ok", "receive ok", "publish ok", "nobody ok", "foreign_subscribe warning", "max_payload ok"}},
		"deaf": {`subscribe: "other", publish: "acp1.>"%.0[2]s`,
			[]string{"connect ok", "round_trip ok", "receive failed", "publish ok", "nobody warning", "foreign_subscribe ok", "max_payload ok"}},
		"dumb": {`subscribe: ["acp1.%[2]s", "acp1.%[2]s.*"], publish: "acp1.%[2]s"`,
			[]string{"connect ok", "round_trip ok", "receive ok", "publish failed", "nobody warning", "foreign_subscribe ok", "max_payload ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait 3 s for what does not come
			a := newDaemon(t, "")
			a.URL = urlOf(startServer(t, fmt.Sprintf("listen: 127.0.0.1:-1\nmax_payload: 8KB\nauthorization { users: [ { nkey: %s, permissions: { "+c.permissions+" } } ] }", a.nkey(t), a.Self)))
			la := start(t, a.Config) // Test works beside a link that runs
			la.await(t, "connected", func(s relay.State) bool { return s.Standing != relay.Connecting })
			if strings.HasSuffix(name, "name") {
				la.SetName("build")
			}
			var got []string
			for _, check := range la.Test(t.Context()) {
				got = append(got, check.Code+" "+string(check.Verdict))
				if (check.Verdict == relay.Passed) != (check.Remedy == "") || check.What == "" {
					t.Errorf("%+v: what is wrong has a remedy, and nothing else has one", check)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	a := newDaemon(t, "nats://127.0.0.1:1")
	link, err := relay.Open(a.Config)
	if err != nil {
		t.Fatal(err)
	}
	if checks := link.Test(t.Context()); len(checks) != 1 || checks[0].Verdict != relay.Failed || !strings.Contains(checks[0].What, "start the server") {
		t.Errorf("without a server: %+v", checks)
	}
}

// A daemon whose server has a limit below what packets need hears of it, and one whose server takes large
// messages, in a test alone.
func TestMaxPayload(t *testing.T) {
	for limit, verdict := range map[string]relay.Verdict{"max_payload: 1KB": relay.Failed, "max_payload: 8KB": relay.Passed, "max_payload: 65KB": relay.Warned, "": relay.Warned} {
		a := newDaemon(t, "")
		a.URL = urlOf(startServer(t, "listen: 127.0.0.1:-1\n"+limit+"\n"+ownSubjects(t, a)))
		l := start(t, a.Config)
		l.await(t, "told", func(s relay.State) bool {
			told := s.LastError != nil && strings.Contains(s.LastError.Error(), "max_payload to 8KB")
			return s.Standing == relay.Connected && told == (verdict == relay.Failed)
		})
		checks := l.Test(t.Context())
		if last := checks[len(checks)-1]; last.Code != "max_payload" || last.Verdict != verdict || (verdict != relay.Passed) != strings.Contains(last.Remedy, "max_payload to 8KB") {
			t.Errorf("%q: %+v", limit, last)
		}
	}
}
