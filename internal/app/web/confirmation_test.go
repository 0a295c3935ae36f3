package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// typing answers a server's questions for the number with what is sent to it.
type typing struct{ lines chan string }

func (p typing) ask(ctx context.Context) (string, error) {
	select {
	case line := <-p.lines:
		if line == "^D" {
			return "", io.ErrUnexpectedEOF
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// newAskingFixture serves a page whose link may have been read by others.
func newAskingFixture(t *testing.T, limit time.Duration) (*fixture, typing) {
	person := typing{make(chan string)}
	return newFixture(t, func(s *Server) {
		s.askNumber, s.gate.number = person.ask, drawNumber()
		s.numberTime = limit
	}), person
}

// otherNumber returns a number that is not the one of a server.
func otherNumber(f *fixture) string {
	if f.gate.number == "0000" {
		return "0001"
	}
	return "0000"
}

// A browser that has opened the link gets its number, and nothing else until that is typed.
// holds: security.md#the-page-of-acpctl-web
func TestLinkCountsWhenTheNumberIsTyped(t *testing.T) {
	f, person := newAskingFixture(t, time.Minute)
	browser, page := f.letIn()
	status, text := f.ask(browser, http.MethodGet, page, "")
	shown := regexp.MustCompile(`<h1>([0-9]{4})</h1>`).FindStringSubmatch(text)
	if status != http.StatusOK || shown == nil || shown[1] != f.gate.number || strings.Contains(text, "script") {
		t.Fatalf("%d: %s", status, text)
	}
	for _, name := range []string{"page.js", "page.css", "index.html", "events", "decide", "mute"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if status, text := f.ask(browser, method, page+name, "", "Sec-Fetch-Site", "same-origin"); status != http.StatusUnauthorized || !strings.HasPrefix(text, noNumberText) {
				t.Errorf("%s %s: %d: %s", method, name, status, text)
			}
		}
	}
	if status, _ := f.ask(browser, http.MethodPost, page, "{}", "Content-Type", "application/json"); status != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", status)
	}
	if status, _ := f.ask(http.DefaultClient, http.MethodGet, page, ""); status != http.StatusUnauthorized {
		t.Errorf("without the cookie: %d", status)
	}
	person.lines <- otherNumber(f)
	person.lines <- ""
	if _, text := f.ask(browser, http.MethodGet, page, ""); !strings.Contains(text, shown[0]) {
		t.Errorf("after two other numbers: %s", text)
	}
	person.lines <- " " + shown[1]
	await.Until(t, "the number counts", f.gate.isConfirmed)
	if status, text := f.ask(browser, http.MethodGet, page, ""); status != http.StatusOK || !strings.Contains(text, "page.js") {
		t.Errorf("%d: %s", status, text)
	}
	if calls := f.calls.Load(); calls > 0 {
		t.Errorf("the daemon was asked %d times before anybody had the page", calls)
	}
	if status, _ := f.ask(browser, http.MethodGet, page+"events", "", "Sec-Fetch-Site", "same-origin"); status != http.StatusOK {
		t.Errorf("events: %d", status)
	}
}

// Whoever was first with the link gets nothing if its number is not typed.
// holds: security.md#the-page-of-acpctl-web
func TestLinkWithoutItsNumber(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		act   func(f *fixture, person typing, link string)
		is    func(error) bool
	}{
		"three other numbers": {time.Minute, func(f *fixture, person typing, _ string) {
			for range maxTries {
				person.lines <- otherNumber(f)
			}
		}, func(err error) bool { return errors.Is(err, errOtherNumber) }},
		"standard input ends": {time.Minute, func(_ *fixture, person typing, _ string) { person.lines <- "^D" }, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"nobody types": {50 * time.Millisecond, func(*fixture, typing, string) {}, func(err error) bool {
			return errors.Is(err, &kinds.Error{Code: kinds.Timeout})
		}},
		"a second one opens the link": {time.Minute, func(f *fixture, _ typing, link string) {
			f.ask(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, link, "")
		}, func(err error) bool { return errors.Is(err, errTwice) }},
	} {
		t.Run(name, func(t *testing.T) {
			f, person := newAskingFixture(t, c.limit)
			link := f.Link()
			f.letIn()
			c.act(f, person, link)
			err := await.Receive(t, "the server ends", f.ended)
			if !c.is(err) {
				t.Error(err)
			}
			f.ended <- err // for the end of the test
			if f.gate.isConfirmed() || !f.gate.shut {
				t.Error("the gate is open")
			}
		})
	}
}
