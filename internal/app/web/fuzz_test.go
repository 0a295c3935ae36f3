package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzNobodyGetsIn: whatever a program of this machine asks without the token and the cookie, it is
// refused, and is told neither.
func FuzzNobodyGetsIn(f *testing.F) {
	g := newGate(7000)
	g.used = "a token that was used"
	s := &Server{gate: g, board: newBoard(), watcher: newWatcher(Options{Socket: "/nowhere/acp.sock"}, newBoard()), ended: make(chan error, 1)}
	f.Add("GET", "/", "127.0.0.1:7000", "", "", "", "")
	f.Add("GET", "/open?token=x", "localhost:7000", "", "", "", "")
	f.Add("POST", "/FOLDER/mute", "127.0.0.1:7000", "acpd-7000=x", "http://127.0.0.1:7000", "same-origin", `{"name":"planner","secs":1}`)
	f.Add("GET", "/FOLDER/events", "127.0.0.1:7000", "acpd-7000=; acpd-7001=x", "", "same-origin", "")
	f.Add("GET", "/FOLDER/../FOLDER/./page.js", "127.0.0.1:7000", "acpd-7000=\"\"", "null", "none", "")
	f.Fuzz(func(t *testing.T, method, target, host, cookie, origin, site, body string) {
		u, err := url.ParseRequestURI(strings.ReplaceAll(target, "/FOLDER/", g.folder))
		if err != nil {
			t.Skip("no request has such a target")
		}
		r := &http.Request{
			Method: method, URL: u, Host: host, Body: http.NoBody, ContentLength: int64(len(body)),
			Header: http.Header{"Cookie": {cookie}, "Origin": {origin}, "Sec-Fetch-Site": {site}, "Content-Type": {"application/json"}},
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code < 400 || len(w.Result().Cookies()) > 0 {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if said := w.Body.String() + strings.Join(w.Header()["Location"], ""); strings.Contains(said, g.secret) || strings.Contains(said, g.folder) || strings.Contains(said, g.token) {
			t.Errorf("a secret is told: %s", said)
		}
	})
}
