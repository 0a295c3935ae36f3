package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// gate decides who gets what.
//
// The link has a token, which works once. It becomes a cookie. If other programs may have read the link, the
// cookie opens nothing until the person at the terminal has typed the number that the browser shows. A browser sends a
// cookie of 127.0.0.1 to every port there (RFC 6265, section 8.5), so to servers of other users of this machine too; but
// only to paths below that of the cookie. So the page is below a folder whose name is a secret of
// its own, which no other server is asked for.
type gate struct {
	port   int
	cookie string // the name of the cookie
	secret string // its value
	folder string // the path of the page, with a slash at both ends
	opener string // the value of the cookie that says who has opened the link
	number string // to be typed before the cookie opens anything; "": none

	mu    sync.Mutex // guards the rest
	token string     // "": it was used, or has ended
	used  string     // the token when it was used
	late  bool       // the link's time is over
	shut  bool       // nobody gets anything any more
	typed bool       // the number was typed
}

func newGate(port int) *gate {
	return &gate{
		port: port, cookie: "acpd-" + strconv.Itoa(port),
		secret: drawSecret(), token: drawSecret(), folder: "/" + drawSecret()[:22] + "/", opener: drawSecret(),
	}
}

// drawSecret returns 256 random bits as text.
func drawSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

const openPath = "/open"

func (g *gate) link() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return "http://127.0.0.1:" + strconv.Itoa(g.port) + openPath + "?token=" + g.token
}

// tokenUse is what became of a token.
type tokenUse int

const (
	tokenWrong tokenUse = iota
	tokenUsed           // now, for the first time
	tokenTwice          // it was used before, within its time
	tokenLate           // it was used, and its time is over
)

// useToken tries a token.
func (g *gate) useToken(token string) tokenUse {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut || token == "":
		return tokenWrong
	case isSame(token, g.used) && g.late:
		return tokenLate
	case isSame(token, g.used):
		return tokenTwice
	case !isSame(token, g.token):
		return tokenWrong
	}
	g.token, g.used = "", g.token
	return tokenUsed
}

// endLink ends the link's time, and reports whether nobody has opened it.
func (g *gate) endLink() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	unused := g.used == ""
	g.token, g.late = "", true
	return unused
}

// shutOut lets nobody in any more.
func (g *gate) shutOut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.token = true, ""
}

// hasCookie reports whether a request shows that its browser was let in.
func (g *gate) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(g.cookie)
	g.mu.Lock()
	defer g.mu.Unlock()
	return err == nil && !g.shut && g.used != "" && isSame(c.Value, g.secret)
}

// confirm reports whether a person has typed the number. From then on the cookie opens the page.
func (g *gate) confirm(typed string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.typed = g.typed || isSame(typed, g.number)
	return g.typed
}

// isConfirmed reports whether the cookie opens the page.
func (g *gate) isConfirmed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.typed || g.number == ""
}

// newCookie returns the cookie of a browser that is let in. It ends with the browser's session.
func (g *gate) newCookie() *http.Cookie {
	return &http.Cookie{Name: g.cookie, Value: g.secret, Path: g.folder, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// newOpenerCookie returns a cookie by which a browser that was let in is known if it opens the link once
// more. It lets nobody in: servers at other ports may see it.
func (g *gate) newOpenerCookie() *http.Cookie {
	return &http.Cookie{Name: g.cookie + "-opened", Value: g.opener, Path: openPath, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// isOpener reports whether a request comes from the browser that has opened the link.
func (g *gate) isOpener(r *http.Request) bool {
	c, err := r.Cookie(g.cookie + "-opened")
	return err == nil && isSame(c.Value, g.opener)
}

// isSame compares secrets, in a time that tells nothing of them. No secret is "".
func isSame(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// isOwnHost reports whether a request was for this server by its address. A name that a page has made
// point here (DNS rebinding) is another one.
func (g *gate) isOwnHost(r *http.Request) bool {
	port := ":" + strconv.Itoa(g.port)
	return r.Host == "127.0.0.1"+port || r.Host == "localhost"+port
}

// isFromPage reports whether the page itself can have sent a request, by what its browser says of that
// (Fetch Metadata, and Origin of RFC 6454). A page at another port is same-site, and sends the
// cookie; it is of another origin. Browsers always say it of what changes something.
func isFromPage(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site != "" && site != "same-origin" || origin != "" && origin != "http://"+r.Host {
		return false
	}
	return site != "" || origin != "" || r.Method == http.MethodGet
}

// isPrefetch reports whether a browser asks ahead, for a person who has not asked yet.
func isPrefetch(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") || r.Header.Get("Purpose") == "prefetch"
}
