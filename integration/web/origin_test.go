//go:build web

package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// hostilePage tries what a page can try with another one: its answers are in window.got.
const hostilePage = `<!doctype html><title>hostile</title><body><script>
window.got = {};
const folder = %q;
const note = (name, promise) => promise.then((x) => got[name] = "GOT " + x, (e) => got[name] = "nothing");
const text = async (r) => r.type === "opaque" || r.type === "opaqueredirect" ? Promise.reject() : (await r.text()).slice(0, 100);
note("fetch", fetch(folder, {credentials: "include"}).then(text));
note("fetch js", fetch(folder + "page.js", {credentials: "include"}).then(text));
note("fetch without cors", fetch(folder, {credentials: "include", mode: "no-cors"}).then(text));
note("fetch the stream", fetch(folder + "events", {credentials: "include"}).then(text));
note("post JSON", fetch(folder + "mute", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body: '{"name":"planner","secs":60}'}).then(text));
note("post text", fetch(folder + "mute", {method: "POST", credentials: "include", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: '{"name":"planner","secs":60}'}).then(text));
note("beacon", Promise.resolve(navigator.sendBeacon(folder + "mute", new Blob(['{"name":"planner","secs":60}'], {type: "text/plain"}))).then(() => Promise.reject()));
note("event source", new Promise((yes, no) => { const s = new EventSource(folder + "events", {withCredentials: true}); s.onmessage = (e) => yes(e.data); s.onerror = () => { s.close(); no(); }; }));
note("script", new Promise((yes, no) => { const s = document.createElement("script"); s.src = folder + "page.js"; s.onload = () => yes("it ran"); s.onerror = no; document.body.append(s); }));
note("image", new Promise((yes, no) => { const i = new Image(); i.onload = () => yes(i.width); i.onerror = no; i.src = folder + "icon.svg"; }));
note("frame", new Promise((yes, no) => { const f = document.createElement("iframe"); f.onload = () => { try { yes(f.contentDocument.body.innerText) } catch { no() } }; f.src = folder; document.body.append(f); }));
note("form", new Promise((yes, no) => {
	const f = document.createElement("iframe"); f.name = "t"; document.body.append(f);
	const form = document.createElement("form"); form.method = "POST"; form.action = folder + "mute"; form.target = "t"; form.enctype = "text/plain";
	const i = document.createElement("input"); i.name = '{"name":"planner","secs":60,"x":"'; i.value = '"}'; form.append(i); document.body.append(form);
	f.onload = () => { try { yes(f.contentDocument.body.innerText) } catch { no() } }; form.submit();
}));
note("popup", new Promise((yes, no) => { const w = window.open(folder); setTimeout(() => { try { yes(w.document.body.innerText) } catch { no() } if (w) w.close(); }, 1500); }));
</script>`

// TestAnotherOrigin: a page at another port of this machine, to which the browser sends cookies as to the
// same site, gets nothing, though it knows where the page is. Nor is it sent the cookie.
// holds: security.md#the-page-of-acpctl-web
func TestAnotherOrigin(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	p := show(t, b, w.serve(t), 800, 600, false)
	folder := eval[string](p, `location.href.replace(/#.*/, "")`)

	var mu sync.Mutex
	var cookies []string
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		cookies = append(cookies, r.Header.Get("Cookie"))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, hostilePage, folder)
	}))
	defer hostile.Close()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		t.Run(host, func(t *testing.T) {
			p := b.openTab(t)
			p.open(strings.Replace(hostile.URL, "127.0.0.1", host, 1) + "/")
			p.until("all was tried", `Object.keys(window.got).length === 13`)
			for name, got := range eval[map[string]string](p, `window.got`) {
				if got != "nothing" {
					t.Errorf("%s: %s", name, got)
				}
			}
			for _, dialog := range p.dialogs {
				t.Error(dialog)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for _, cookie := range cookies {
		if strings.Contains(cookie, "acpd") {
			t.Errorf("another port was sent the cookie: %s", cookie)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.muted)+len(w.decided) > 0 {
		t.Errorf("the daemon was told %v %v", w.muted, w.decided)
	}
	// The page itself goes on.
	p.until("the page lives", `document.getElementById("link-text").textContent === "live"`)
}
