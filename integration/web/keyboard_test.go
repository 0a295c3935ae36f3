//go:build web

package web

import "testing"

// TestKeyboardReachesAll: Tab comes to each link, button and list that scrolls, on a wide screen and on a phone,
// and each shows that it has the focus, with nothing in front of it.
func TestKeyboardReachesAll(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	w.fill(plain)
	w.openChains()
	w.pass(talk(plain)...)
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("all is drawn", `document.querySelectorAll("#threads button").length > 5 && document.querySelectorAll("#peers button").length === 5 && document.querySelector("[data-act=mute]") && document.querySelector("[data-act=yes]") && document.querySelectorAll("#channels-list > li").length === 2`)
	for _, size := range []struct {
		name          string
		width, height int
	}{{"wide", 1280, 900}, {"phone", 360, 740}} {
		t.Run(size.name, func(t *testing.T) {
			defer func(outer *testing.T) { p.t = outer }(p.t)
			p.t = t
			p.look(size.width, size.height, false)
			const controls = `[...document.querySelectorAll("a, button, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.disabled)`
			all := eval[int](p, `(() => { document.activeElement.blur(); const all = `+controls+`; for (const e of all) delete e.dataset.reached; return all.length })()`)
			if all < 20 {
				t.Fatalf("%d controls", all)
			}
			for range all + 10 { // a browser has stops of its own
				p.press("Tab", 9)
				if e := eval[string](p, `(() => {
					const e = document.activeElement;
					if (e === document.body) return "";
					e.dataset.reached = "";
					const s = getComputedStyle(e), r = e.getBoundingClientRect();
					const seen = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
					const x = (Math.max(r.left, 0) + Math.min(r.right, innerWidth)) / 2, y = (Math.max(r.top, 0) + Math.min(r.bottom, innerHeight)) / 2;
					return seen && e.contains(document.elementFromPoint(x, y)) ? "" : e.outerHTML.slice(0, 200);
				})()`); e != "" {
					t.Errorf("nobody sees that this has the focus: %s", e)
				}
			}
			for _, e := range eval[[]string](p, controls+`.filter((e) => !("reached" in e.dataset)).map((e) => e.outerHTML.slice(0, 200))`) {
				t.Errorf("Tab does not come to %s", e)
			}
		})
	}
}
