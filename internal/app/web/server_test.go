package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// fixture is a server that runs, and its daemon.
type fixture struct {
	*Server
	t      *testing.T
	daemon *clitest.FakeDaemon
	calls  *atomic.Int64 // that the daemon has answered
	told   chan string
	ended  chan error
}

// newFixture serves the page of a daemon that has nothing to tell. before changes the server before it runs.
func newFixture(t *testing.T, before func(*Server)) *fixture {
	f := &fixture{t: t, daemon: clitest.NewFakeDaemon(t, nil), calls: new(atomic.Int64), told: make(chan string, 16), ended: make(chan error, 1)}
	f.setAnswers(nil)
	f.daemon.SetHTTPAnswers(map[string]string{"GET intents": `{"intents":[]}`})
	s, err := Open(t.Context(), Options{Socket: filepath.Join(f.daemon.Home, client.SocketName), Home: f.daemon.Home, Tell: func(line string) { f.told <- line }})
	if err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(s)
	}
	f.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	go func() { f.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		await.Receive(t, "the server ends", f.ended)
	})
	return f
}

// setAnswers has the daemon answer each method, with an error if that is not nil.
func (f *fixture) setAnswers(err error) {
	for method, answer := range map[string]any{
		client.MethodWhoami: &client.Whoami{}, client.MethodStatus: &client.Status{Whoami: client.Whoami{Name: "laptop"}}, client.MethodPeers: client.Peers{},
		client.MethodAgents: client.Agents{}, client.MethodApprovals: client.Approvals{}, client.MethodTasks: client.Tasks{}, client.MethodInbox: client.Inbox{}, client.MethodFiles: client.Files{},
		client.MethodBudget: &client.Budget{}, client.MethodBudgetSpent: &client.Spent{}, client.MethodOACPBindings: client.OACPBindings{},
		client.MethodOACPQueue: client.OACPQueue{}, client.MethodSubscribe: struct{}{}, client.MethodTraffic: &client.TrafficAnswer{Next: 1},
		client.MethodApprove: &client.Approval{Message: clitest.SomeID}, client.MethodMuteAgent: &client.Muted{},
	} {
		f.daemon.SetHandler(method, func(*jsonrpc.Request) (any, error) {
			f.calls.Add(1)
			return answer, err
		})
	}
}

// letIn opens the link and returns a client with the cookie, and the address of the page.
func (f *fixture) letIn() (browser *http.Client, page string) {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	browser = &http.Client{Jar: jar}
	f.t.Cleanup(browser.CloseIdleConnections)
	answer, err := browser.Get(f.Link())
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	_, folder, found := strings.Cut(string(text), "url=")
	folder, _, _ = strings.Cut(folder, `"`)
	if err != nil || answer.StatusCode != http.StatusOK || !found {
		f.t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return browser, fmt.Sprintf("http://127.0.0.1:%d%s", f.Port(), folder)
}

// ask makes a request and returns the status of the answer and its text.
func (f *fixture) ask(c *http.Client, method, address, body string, header ...string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := c.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return answer.StatusCode, ""
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Referrer-Policy"} {
		if answer.Header.Get(name) == "" || answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			f.t.Errorf("%s %s: %s: headers are missing: %v", method, address, answer.Status, answer.Header)
		}
	}
	return answer.StatusCode, string(text)
}

// holds: security.md#the-page-of-acpctl-web
func TestLinkWorksOnce(t *testing.T) {
	f := newFixture(t, nil)
	link := f.Link()
	other := &http.Client{}
	defer other.CloseIdleConnections()
	if status, _ := f.ask(other, "GET", link, "", "Sec-Purpose", "prefetch;prerender"); status != http.StatusServiceUnavailable {
		t.Errorf("a browser that asks ahead: %d", status)
	}
	if status, _ := f.ask(other, "HEAD", link, ""); status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", status)
	}
	browser, page := f.letIn()
	if status, text := f.ask(browser, "GET", page, ""); status != http.StatusOK || !strings.Contains(text, "<h2") {
		t.Errorf("the page: %d", status)
	}
	if status, text := f.ask(browser, "GET", link, ""); status != http.StatusForbidden || strings.Contains(text, f.gate.folder) {
		t.Errorf("the second time: %d, %s", status, text)
	}
	if status, _ := f.ask(other, "GET", link+"x", ""); status != http.StatusForbidden {
		t.Errorf("another token: %d", status)
	}
	if status, _ := f.ask(other, "GET", fmt.Sprintf("http://127.0.0.1:%d/open?token=", f.Port()), ""); status != http.StatusForbidden {
		t.Errorf("without a token: %d", status)
	}
	if strings.Contains(page, link[strings.Index(link, "=")+1:]) {
		t.Error("the token is in the address of the page")
	}
	if status, _ := f.ask(browser, "GET", page, ""); status != http.StatusOK {
		t.Errorf("the browser that was let in, after it and somebody else have tried links: %d", status)
	}
}

// holds: security.md#the-page-of-acpctl-web
func TestCookie(t *testing.T) {
	f := newFixture(t, nil)
	answer, err := http.Get(f.Link())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	cookies := answer.Cookies()
	if len(cookies) != 2 {
		t.Fatal(cookies)
	}
	// The second one lets nobody in, for servers at other ports may see it: it is of a path that is no secret.
	if o := cookies[1]; o.Path != openPath || o.Value == cookies[0].Value || len(o.Value) != 43 || !o.HttpOnly || o.SameSite != http.SameSiteStrictMode {
		t.Errorf("%+v", o)
	}
	c := cookies[0]
	if c.Name != fmt.Sprintf("acpd-%d", f.Port()) || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 0 || !c.Expires.IsZero() || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	if len(c.Value) != 43 || len(c.Path) != 24 { // 256 bits, and 132
		t.Errorf("%+v", c)
	}
}

// TestLinkEnds: a link that nobody opens ends, and the server with it.
// holds: security.md#the-page-of-acpctl-web
func TestLinkEnds(t *testing.T) {
	f := newFixture(t, func(s *Server) { s.linkTime = time.Millisecond })
	err := await.Receive(t, "the server ends", f.ended)
	if e, ok := asCoded(err); !ok || e.Code != kinds.Timeout {
		t.Error(err)
	}
	f.ended <- err // for the end of the test
}

// TestLinkTwice: two that open the link cannot be told apart, also if both are this user's: a confined
// agent may be one. Nobody gets anything any more.
// holds: security.md#the-page-of-acpctl-web
func TestLinkTwice(t *testing.T) {
	f := newFixture(t, nil)
	link := f.Link()
	browser, page := f.letIn()
	f.ask(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", link, "")
	err := await.Receive(t, "the server ends", f.ended)
	if err != errTwice {
		t.Error(err)
	}
	f.ended <- err
	if answer, err := browser.Get(page); err == nil {
		answer.Body.Close()
		t.Errorf("the first one still gets %s", answer.Status)
	}
}

// TestLinkIsNoSwitch: a link that was opened, and is found when its minute is over, neither lets anybody in
// nor ends the page.
// holds: security.md#the-page-of-acpctl-web
func TestLinkIsNoSwitch(t *testing.T) {
	f := newFixture(t, nil)
	link := f.Link()
	browser, page := f.letIn()
	if f.gate.endLink() {
		t.Error("nobody has opened the link")
	}
	other := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		if status, text := f.ask(other, "GET", link, ""); status != http.StatusForbidden || text != lateText+"\n" {
			t.Errorf("another browser: %d, %s", status, text)
		}
	}
	if status, text := f.ask(browser, "GET", link, ""); status != http.StatusForbidden || text != openerText+"\n" {
		t.Errorf("the same browser: %d, %s", status, text)
	}
	if status, _ := f.ask(browser, "GET", page, ""); status != http.StatusOK {
		t.Errorf("the page: %d", status)
	}
	if len(f.Server.ended) > 0 {
		t.Error(<-f.Server.ended)
	}
}

// holds: security.md#agents-on-this-machine
// holds: security.md#the-page-of-acpctl-web
func TestWhoGetsNothing(t *testing.T) {
	f, elsewhere := newFixture(t, nil), newFixture(t, nil)
	browser, page := f.letIn()
	_, theirs := elsewhere.letIn()
	port := fmt.Sprint(f.Port())
	stranger := &http.Client{}
	defer stranger.CloseIdleConnections()
	folder := strings.TrimPrefix(page, "http://127.0.0.1:"+port)
	secret := f.gate.secret
	same := []string{"Sec-Fetch-Site", "same-origin"}
	post := append(same, "Content-Type", "application/json")
	for _, c := range []struct {
		name    string
		browser *http.Client
		method  string
		path    string
		body    string
		header  []string
		want    int
	}{
		{"no cookie", stranger, "GET", folder, "", nil, 401},
		{"no cookie at /", stranger, "GET", "/", "", nil, 401},
		{"no cookie for a file", stranger, "GET", folder + "page.js", "", nil, 401},
		{"no cookie for the stream", stranger, "GET", folder + "events", "", same, 401},
		{"no cookie for an action", stranger, "POST", folder + "mute", `{"name":"planner","secs":1}`, post, 401},
		{"an invented cookie", stranger, "GET", folder, "", []string{"Cookie", "acpd-" + port + "=x"}, 401},
		{"an empty cookie", stranger, "GET", folder, "", []string{"Cookie", "acpd-" + port + "="}, 401},
		{"the cookie under another port's name", stranger, "GET", folder, "", []string{"Cookie", fmt.Sprintf("acpd-%d=%s", elsewhere.Port(), secret)}, 401},
		{"another page's cookie", stranger, "GET", folder, "", []string{"Cookie", "acpd-" + port + "=" + elsewhere.gate.secret}, 401},
		{"another page's folder", browser, "GET", strings.TrimPrefix(theirs, fmt.Sprintf("http://127.0.0.1:%d", elsewhere.Port())), "", []string{"Cookie", "acpd-" + port + "=" + secret}, 401},
		{"no folder", stranger, "GET", "/events", "", append(same, "Cookie", "acpd-"+port+"="+secret), 401},

		{"the name localhost", browser, "GET", folder, "", []string{"Host", "localhost:" + port, "Cookie", "acpd-" + port + "=" + secret}, 200},
		{"a name that points here", browser, "GET", folder, "", []string{"Host", "attacker.example:" + port}, 421},
		{"another port in Host", browser, "GET", folder, "", []string{"Host", "127.0.0.1:1"}, 421},
		{"no port in Host", browser, "GET", folder, "", []string{"Host", "127.0.0.1"}, 421},
		{"a name at the link", stranger, "GET", "/open?token=x", "", []string{"Host", "attacker.example"}, 421},

		{"the stream for another port", browser, "GET", folder + "events", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"the stream for another site", browser, "GET", folder + "events", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"the stream typed in", browser, "GET", folder + "events", "", []string{"Sec-Fetch-Site", "none"}, 403},
		{"the stream for another origin", browser, "GET", folder + "events", "", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"the stream for a file", browser, "GET", folder + "events", "", []string{"Origin", "null"}, 403},

		{"an action", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, post, 200},
		{"an action by Origin", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, []string{"Origin", "http://127.0.0.1:" + port, "Content-Type", "application/json"}, 200},
		{"an action of nobody knows whom", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, []string{"Content-Type", "application/json"}, 403},
		{"an action of another origin", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, []string{"Origin", "http://attacker.example", "Content-Type", "application/json"}, 403},
		{"an action of another port", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, []string{"Sec-Fetch-Site", "same-site", "Content-Type", "application/json"}, 403},
		{"an action whose words differ", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, append(post, "Origin", "http://attacker.example"), 403},
		{"a form", browser, "POST", folder + "mute", `{"name":"planner","secs":1}`, append(same, "Content-Type", "text/plain"), 415},
		{"a form of a page", browser, "POST", folder + "mute", `name=planner`, append(same, "Content-Type", "application/x-www-form-urlencoded"), 415},
		{"an action by GET", browser, "GET", folder + "mute", "", same, 405},
		{"an action by PUT", browser, "PUT", folder + "mute", `{}`, post, 405},
		{"the page by POST", browser, "POST", folder, `{}`, post, 405},
		{"the stream by POST", browser, "POST", folder + "events", `{}`, post, 405},
		{"a body where none is", browser, "GET", folder, "x", nil, 413},
		{"another file", browser, "GET", folder + "server.go", "", nil, 404},
		{"a way out", browser, "GET", folder + "%2e%2e/%2e%2e/etc/passwd", "", nil, 404},

		{"too long a body", browser, "POST", folder + "mute", `{"name":"` + strings.Repeat("x", maxBodyBytes) + `"}`, post, 413},
		{"no JSON", browser, "POST", folder + "mute", `{`, post, 400},
		{"an unknown member", browser, "POST", folder + "mute", `{"name":"planner","secs":1,"to":"desk"}`, post, 400},
		{"an unknown answer", browser, "POST", folder + "decide", `{"id":"1","answer":"maybe"}`, post, 400},
		{"always at once", browser, "POST", folder + "decide", `{"id":"1","answer":"always"}`, post, 400},
		{"always, and sure", browser, "POST", folder + "decide", `{"id":"1","answer":"always","sure":true}`, post, 200},

		// Last, as the daemon is read from then on, until the server sees that nobody reads the stream.
		{"the stream", browser, "GET", folder + "events", "", same, 200},
		{"the stream without Fetch Metadata", browser, "GET", folder + "events", "", nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func(outer *testing.T) { f.t = outer }(f.t)
			f.t = t
			calls := f.calls.Load()
			if got, text := f.ask(c.browser, c.method, "http://127.0.0.1:"+port+c.path, c.body, c.header...); got != c.want {
				t.Errorf("%d, want %d: %s", got, c.want, text)
			}
			if asked := f.calls.Load() - calls; c.want != 200 && asked != 0 {
				t.Errorf("the daemon was asked %d times", asked)
			}
		})
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(await.Patience))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nCookie: acpd-%s=%s\r\nX-Long: %s\r\n\r\n", folder, port, port, secret, strings.Repeat("x", 2*maxHeaderBytes))
	if text, _ := io.ReadAll(c); strings.Contains(string(text), " 200 ") {
		t.Errorf("a long header: %s", text)
	}
}

// stream is an event stream that is read.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// openStream opens an event stream, or returns the status that refuses it.
func (f *fixture) openStream(browser *http.Client, page string) (*stream, int) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", page+"events", nil)
	answer, err := browser.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	s := &stream{f.t, bufio.NewScanner(answer.Body), func() { cancel(); answer.Body.Close() }}
	s.lines.Buffer(nil, 4<<20)
	f.t.Cleanup(s.close)
	return s, answer.StatusCode
}

// next returns the next update.
func (s *stream) next() *update {
	s.t.Helper()
	return s.until("an update comes", func(*update) bool { return true })
}

// until returns the first update for which holds is true. It fails the test after await.Patience.
func (s *stream) until(what string, holds func(*update) bool) *update {
	s.t.Helper()
	defer time.AfterFunc(await.Patience, s.close).Stop()
	for s.lines.Scan() {
		text, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		u := new(update)
		if err := json.Unmarshal([]byte(text), u); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		if holds(u) {
			return u
		}
	}
	s.t.Fatalf("%s: the stream has ended, at the latest after %s: %v", what, await.Patience, s.lines.Err())
	return nil
}

// holds: security.md#the-page-of-acpctl-web
func TestReadersAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	var last *stream
	for range maxReaders {
		s, status := f.openStream(browser, page)
		if status != http.StatusOK {
			t.Fatal(status)
		}
		s.next()
		last = s
	}
	if _, status := f.openStream(browser, page); status != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", status)
	}
	last.close()
	await.Until(t, "there is a place again", func() bool {
		s, status := f.openStream(browser, page)
		defer s.close()
		return status == http.StatusOK
	})
}

// TestNobodyLooks: without a page that is open, the daemon is asked nothing and has no connection.
func TestNobodyLooks(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	f.ask(browser, "GET", page, "")
	if n := f.calls.Load(); n != 0 {
		t.Errorf("nobody looks, and the daemon was asked %d times", n)
	}
	s, _ := f.openStream(browser, page)
	s.until("a part is read", func(u *update) bool { return len(u.Parts) > 0 })
	s.close()
	await.Until(t, "the daemon is asked nothing any more", func() bool {
		before := f.calls.Load()
		time.Sleep(2 * time.Second) // longer than any pause of those that ask often
		return f.calls.Load() == before
	})
}

func TestDaemonAway(t *testing.T) {
	f := newFixture(t, nil)
	browser, page := f.letIn()
	s, _ := f.openStream(browser, page)
	if u := s.next(); !u.Reset {
		t.Errorf("the first update: %+v", u)
	}
	s.until("a part is read", func(u *update) bool { return len(u.Parts) > 0 })
	f.setAnswers(kinds.Errorf(kinds.DaemonUnavailable, "no daemon: start acpd"))
	u := s.until("the daemon is away", func(u *update) bool { return u.Away != nil && u.Away.Why != "" })
	if u.Away.Why != "no daemon: start acpd" || u.Away.Since.IsZero() {
		t.Errorf("%+v", u.Away)
	}
	if got := await.Receive(t, "the terminal says so", f.told); got != "the daemon is away: no daemon: start acpd" {
		t.Error(got)
	}
	f.setAnswers(nil)
	s.until("the daemon is back", func(u *update) bool { return u.Away != nil && u.Away.Why == "" })
	if got := await.Receive(t, "the terminal says so", f.told); got != "the daemon is back" {
		t.Error(got)
	}
}
