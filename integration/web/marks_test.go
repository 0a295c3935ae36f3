//go:build web

package web

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"
)

// TestMarksStayInTheirRow: marks that combine reach far over a character, up and down. None is drawn outside of
// the row of whoever wrote it, also if the server had let all of them through.
// holds: security.md#the-page-of-acpctl-web
func TestMarksStayInTheirRow(t *testing.T) {
	b := startBrowser(t)
	w := newWorld(t)
	tower := "n" + strings.Repeat("\u0323", 31) + strings.Repeat("\u0301", 31)
	w.fill(func(s string) string { return tower })
	w.pass(talk(plain)...)
	p := show(t, b, w.serve(t), 1280, 900, false)
	p.until("all is drawn", `document.querySelectorAll("#waiting-list > li").length === 2 && document.querySelectorAll("#approvals-list > li").length === 1 && document.querySelectorAll("#tasks-list > li").length === 3 && document.querySelectorAll("#log .row").length > 4`)
	if text := eval[string](p, `document.querySelector("main").textContent`); strings.Contains(text, strings.Repeat("\u0323", 5)) || !strings.Contains(text, "n\u0323\u0323\u0323\u0323") {
		t.Error("the server has let more than four marks through, or fewer")
	}
	for _, row := range []string{"#approvals-list > li", "#waiting-list > li:nth-child(2)", "#tasks-list > li:nth-child(2)", "#log > div:nth-child(3) .row", "#threads li:nth-child(3) button"} {
		t.Run(row, func(t *testing.T) {
			defer func(outer *testing.T) { p.t = outer }(p.t)
			p.t = t
			// Everything else is hidden, and what is drawn outside of the row is the row's.
			at := eval[[]float64](p, `(() => {
				const e = document.querySelector('`+row+`');
				document.body.style.visibility = "hidden";
				e.style.visibility = "visible";
				for (const s of e.querySelectorAll(".said-by, .text")) s.textContent = "n" + "\u0323".repeat(31) + "\u0301".repeat(31);
				e.scrollIntoView({ block: "center" });
				const r = e.getBoundingClientRect();
				return [r.left, r.top, r.right, r.bottom];
			})()`)
			whole := image.Rect(int(at[0]), int(at[1]), int(at[2]+1), int(at[3]+1))
			inside, outside := countInk(t, p.picture(false), whole)
			if outside > 0 || inside == 0 {
				t.Errorf("%d points are drawn inside of the row, %d outside", inside, outside)
			}
			eval[bool](p, `(document.querySelector('`+row+`').style.visibility = "hidden", true)`)
		})
	}
}

// countInk counts points of a picture that are not as the one at its edge is, in an area and elsewhere.
func countInk(t *testing.T, picture []byte, area image.Rectangle) (inside, outside int) {
	t.Helper()
	drawn, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	size := drawn.Bounds()
	paper := drawn.At(size.Min.X, size.Min.Y)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			switch in := image.Pt(x, y).In(area); {
			case drawn.At(x, y) == paper:
			case in:
				inside++
			default:
				outside++
			}
		}
	}
	return inside, outside
}
