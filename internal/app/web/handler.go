package web

import (
	"embed"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/acpd/acpd/kinds"
)

//go:embed page
var pageFiles embed.FS

// pageTypes are the types of the page's files, by the endings of their names.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".js":   "text/javascript; charset=utf-8",
}

// pageHeaders go with every answer. Nothing but files from here runs or is shown, nobody puts the page
// into a frame, and no copy of it stays (Content Security Policy 3, Fetch, HTML).
var pageHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), microphone=(), geolocation=()",
}

// refusal is an answer that refuses a request.
type refusal struct {
	status int
	why    string
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range pageHeaders {
		w.Header().Set(name, value)
	}
	serve, refused := s.route(r)
	if refused != nil {
		w.Header().Set("Connection", "close") // the rest of what it sends is not read
		http.Error(w, refused.why, refused.status)
		return
	}
	serve(w, r)
}

// noCookieText is what a browser without the cookie reads.
const noCookieText = "This page needs the link that acpctl web prints. The link works once: run acpctl web again for another."

// noNumberText is what a browser reads that is not let in yet.
const noNumberText = "The number that this page shows was not typed yet where acpctl web runs."

// openerText is what the browser reads that has opened the link before. It names no folder, since
// another server may have the cookie of that browser's.
const openerText = "This browser has opened the link already: go to the page that it has open."

// lateText is what another browser reads that opens the link when its time is over.
const lateText = "This link was opened by another browser, and its minute is over. If that was not you, end acpctl web with ^C; run it again for another link."

// route finds what answers a request that may have an answer.
func (s *Server) route(r *http.Request) (http.HandlerFunc, *refusal) {
	if !s.gate.isOwnHost(r) {
		return nil, &refusal{http.StatusMisdirectedRequest, "The Host of the request is not this server: ask for 127.0.0.1."}
	}
	if r.URL.Path == openPath {
		return allowMethod(r, http.MethodGet, s.serveOpen)
	}
	if !strings.HasPrefix(r.URL.Path, s.gate.folder) || !s.gate.hasCookie(r) {
		return nil, &refusal{http.StatusUnauthorized, noCookieText}
	}
	noteCookie(r)
	name := strings.TrimPrefix(r.URL.Path, s.gate.folder)
	if !s.gate.isConfirmed() {
		if name != "" {
			return nil, &refusal{http.StatusUnauthorized, noNumberText}
		}
		return allowMethod(r, http.MethodGet, s.serveNumber)
	}
	if name == "" {
		name = "index.html"
	}
	if text, err := pageFiles.ReadFile("page/" + name); err == nil {
		return allowMethod(r, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", pageTypes[path.Ext(name)])
			w.Write(text) // if that fails, nobody reads it
		})
	}
	method, serve := http.MethodPost, http.HandlerFunc(nil)
	switch name {
	case "events":
		method, serve = http.MethodGet, s.serveEvents
	case "decide":
		serve = s.serveDecide
	case "mute":
		serve = s.serveMute
	case "withdraw":
		serve = s.serveWithdraw
	case "remove":
		serve = s.serveRemove
	case "message":
		serve = s.serveMessage
	case "find":
		serve = s.serveFind
	default:
		return nil, &refusal{http.StatusNotFound, "There is nothing of that name."}
	}
	if !isFromPage(r) {
		return nil, &refusal{http.StatusForbidden, "Only the page itself may ask for that."}
	}
	return allowMethod(r, method, serve)
}

// allowMethod returns serve if a request is of that method, and has a body only if that is POST.
func allowMethod(r *http.Request, method string, serve http.HandlerFunc) (http.HandlerFunc, *refusal) {
	switch {
	case r.Method != method:
		return nil, &refusal{http.StatusMethodNotAllowed, "Only " + method + " is served here."}
	case method == http.MethodGet && r.ContentLength != 0:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "A request here has no body: send none."}
	case method == http.MethodPost && !isJSON(r):
		return nil, &refusal{http.StatusUnsupportedMediaType, "The body must be JSON: send Content-Type: application/json."}
	}
	return serve, nil
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// serveOpen lets the browser in that shows the token. It is answered by a page that leads on, and not
// by a redirect: after one, a browser that came from another site would not send a cookie of
// SameSite=Strict (RFC 6265bis, section 5.2). Either way the token leaves the address bar.
func (s *Server) serveOpen(w http.ResponseWriter, r *http.Request) {
	if isPrefetch(r) {
		http.Error(w, "Ask when somebody wants to see it.", http.StatusServiceUnavailable)
		return
	}
	use := s.gate.useToken(r.URL.Query().Get("token"))
	why := noCookieText
	switch {
	case (use == tokenTwice || use == tokenLate) && s.gate.isOpener(r):
		why = openerText
	case use == tokenLate:
		// The person who is to have the page had a minute for it. The link may be in a history or a log by now: the
		// page does not end because somebody finds it there.
		why = lateText
	case use == tokenTwice:
		// Somebody may have read the link from the list of processes, and used it first: another user, or,
		// which the system does not tell apart, a confined agent of this user, or whoever reaches the other
		// end of ssh -L.
		s.gate.shutOut()
		defer s.end(errTwice)
	}
	if use == tokenUsed {
		s.opened.Set()
	}
	if use != tokenUsed {
		http.Error(w, why, http.StatusForbidden)
		http.NewResponseController(w).Flush() // the server may end now
		return
	}
	http.SetCookie(w, s.gate.newCookie())
	http.SetCookie(w, s.gate.newOpenerCookie())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	folder := html.EscapeString(s.gate.folder)
	fmt.Fprintf(w, "<!doctype html><title>acpd</title><link rel=icon href=\"%[1]sicon.svg\"><meta http-equiv=refresh content=\"0;url=%[1]s\"><p><a href=\"%[1]s\">Go on</a></p>\n", folder)
}

// end ends the server for a reason.
func (s *Server) end(why error) {
	select {
	case s.ended <- why:
	default:
	}
}

// writeError answers an action that failed.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if e, ok := asCoded(err); ok && (e.Code == kinds.Invalid || e.Code == kinds.NotFound) {
		status = http.StatusConflict // what the page shows has changed meanwhile
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, showLine(err.Error(), maxShown))
}
