//go:build web

package web

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pictureDir returns the folder for screenshots, by default a temporary one.
func pictureDir(t *testing.T) string {
	if dir := os.Getenv("ACPD_PICTURES"); dir != "" {
		return dir
	}
	return t.TempDir()
}

// TestLooks draws the page on a wide, a smaller and a narrow screen, light and dark, with nothing, one peer,
// much, a conversation, what is hostile, and sixty peers.
func TestLooks(t *testing.T) {
	b := startBrowser(t)
	dir := pictureDir(t)
	scenes := []struct {
		name string
		fill func(*world)
	}{
		{"empty", func(*world) {}},
		{"one", func(w *world) { w.peers = append(w.peers, newPeer(1, "desk")) }},
		{"full", func(w *world) { w.fill(plain); w.pass(talk(plain)...) }},
		{"chains", func(w *world) { w.fill(plain); w.openChains(); w.pass(talk(plain)...) }},
		{"talk", func(w *world) { w.fill(plain); w.pass(talk(plain)...) }},
		{"hostile", func(w *world) {
			long := func(s string) string {
				return pageAttacks["long word"][:40] + pageAttacks["right to left"] + pageAttacks["ligature"] + pageAttacks["script"] + s
			}
			w.fill(long)
			w.pass(talk(long)...)
		}},
		{"sixty", func(w *world) {
			w.fill(plain)
			w.peers = nil
			for n := range 60 {
				w.peers = append(w.peers, newPeer(n, fmt.Sprintf("build-%d.corp", n)))
			}
		}},
	}
	for _, scene := range scenes {
		for _, size := range []struct {
			name          string
			width, height int
		}{{"wide", 1360, 1000}, {"middle", 1024, 768}, {"narrow", 390, 844}} {
			for _, dark := range []bool{false, true} {
				name := fmt.Sprintf("%s-%s-%s", scene.name, size.name, map[bool]string{false: "light", true: "dark"}[dark])
				t.Run(name, func(t *testing.T) {
					w := newWorld(t)
					scene.fill(w)
					p := show(t, b, w.serve(t), size.width, size.height, dark)
					p.until("everything is read", `!document.querySelector("[data-empty=channels]").hidden || document.querySelectorAll("#channels-list li").length > 0`)
					if scene.name == "full" || scene.name == "chains" || scene.name == "hostile" {
						p.until("the messages are there", `document.querySelectorAll("#log .row").length > 6`)
					}
					if scene.name == "talk" {
						p.until("the conversations are there", `document.querySelectorAll("#threads button").length > 5`)
						eval[bool](p, `([...document.querySelectorAll("#threads button")].find((b) => b.textContent.includes("parser")).click(), true)`)
						p.until("the conversation is there", `document.querySelectorAll(".bubble").length === 6`)
					}
					p.checkLayout(t)
					if err := os.WriteFile(filepath.Join(dir, name+".png"), p.picture(true), 0o600); err != nil {
						t.Fatal(err)
					}
					p.checkProblems(t)
				})
			}
		}
	}
}

// checkLayout: nothing is wider than the window.
func (p *tab) checkLayout(t *testing.T) {
	t.Helper()
	if over := eval[string](p, `(() => {
		const most = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth > most) {
			return [...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > most + 1).map((e) => e.tagName + "#" + e.id + "." + e.getAttribute("class") + " " + e.getBoundingClientRect().right).slice(0, 5).join("; ");
		}
		return "";
	})()`); over != "" {
		t.Errorf("wider than the window: %s", over)
	}
}
