//go:build web

package web

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// TestWebEnds: when acpctl web has ended, a page that is open says so, and what to do.
func TestWebEnds(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	w.wait = nil
	w.ask("11", "desk", 0)
	var p *tab
	t.Run("acpctl web runs", func(serving *testing.T) {
		p = show(t, b, w.serve(serving), 800, 600, false)
		p.until("a row asks", yesOf("11"))
	})
	p.until("the page says so", `!document.getElementById("away").hidden && document.getElementById("away").textContent.includes("run it again")`)
	eval[bool](p, `(window.scrollTo(0, 1e6), true)`)
	p.until("it is in sight, wherever somebody reads", `(() => { const r = document.getElementById("away").getBoundingClientRect(); return scrollY > 100 && r.top >= document.querySelector(".jump").getBoundingClientRect().bottom && r.bottom < innerHeight; })()`)
	if !eval[bool](p, `document.querySelector("main").hasAttribute("data-old") && `+yesOf("11")+`.disabled && document.getElementById("waiting").getAttribute("aria-describedby") === "away"`) {
		t.Error("the page looks as if it were true")
	}
}

// TestAnotherProgramAtThePort: when acpctl web has ended, another program may have its port, and the page
// that is open still asks there. It believes nothing of what it is told.
// holds: security.md#the-page-of-acpctl-web
func TestAnotherProgramAtThePort(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	var p *tab
	var address string
	t.Run("acpctl web runs", func(serving *testing.T) {
		link, err := url.Parse(w.serve(serving))
		if err != nil {
			t.Fatal(err)
		}
		address = link.Host
		p = show(t, b, link.String(), 800, 600, false)
	})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"reset\":true,\"proof\":\"guessed\",\"now\":\"2026-11-27T00:30:00Z\",\"parts\":[{\"part\":\"daemon\",\"set\":[{\"k\":\"daemon\",\"name\":\"forged\"}],\"more\":0,\"problem\":\"\"}]}\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	go other.Serve(l)
	defer other.Close()
	p.until("the page says that it has ended", `document.getElementById("link-text").textContent === "ended"`)
	if name := eval[string](p, `document.getElementById("name").textContent`); name == "forged" || name == "" {
		t.Errorf("the page shows %q", name)
	}
}
