package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

type testRow struct {
	rowKey
	Text string `json:"text"`
}

func row(key, text string) testRow { return testRow{rowKey{key}, text} }

// testPage keeps what a page has been told, as page.js does.
type testPage struct {
	rows  map[string]map[string]string // part -> key -> text
	about map[string]partUpdate
	lines []string
}

func newTestPage() *testPage {
	return &testPage{rows: make(map[string]map[string]string), about: make(map[string]partUpdate)}
}

func (p *testPage) take(t *testing.T, u *update) {
	t.Helper()
	for _, part := range u.Parts {
		if p.rows[part.Part] == nil {
			p.rows[part.Part] = make(map[string]string)
		}
		for _, key := range part.Gone {
			delete(p.rows[part.Part], key)
		}
		for _, text := range part.Set {
			var r testRow
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			p.rows[part.Part][r.Key] = r.Text
		}
		p.about[part.Part] = part
	}
	for _, l := range u.Lines {
		p.lines = append(p.lines, string(l))
	}
}

// TestBoard: a page that takes all updates has what the board has, and is told nothing twice.
// holds: security.md#the-page-of-acpctl-web
func TestBoard(t *testing.T) {
	b := newBoard()
	r, p := b.addReader(), newTestPage()
	u := b.next(r)
	if !u.Reset || u.Away == nil || u.Away.Why != "" {
		t.Errorf("the first update: %+v", u)
	}
	if len(u.Proof) != 43 || b.next(b.addReader()).Proof != u.Proof || newBoard().proof == u.Proof {
		t.Errorf("proof: %+v", u)
	}
	setRows(b, "peers", []testRow{row("a", "1"), row("b", "1")}, 0)
	u = b.next(r)
	if p.take(t, u); u.Reset || u.Proof != "" || len(u.Parts) != 1 || len(u.Parts[0].Set) != 2 {
		t.Errorf("%+v", u)
	}
	if u := b.next(r); u != nil {
		t.Errorf("nothing has changed: %+v", u)
	}
	setRows(b, "peers", []testRow{row("a", "1"), row("b", "1")}, 0)
	if u := b.next(r); u != nil {
		t.Errorf("the same once more: %+v", u)
	}
	setRows(b, "peers", []testRow{row("b", "2"), row("c", "1")}, 3)
	u = b.next(r)
	if p.take(t, u); len(u.Parts[0].Set) != 2 || !slices.Equal(u.Parts[0].Gone, []string{"a"}) || u.Parts[0].More != 3 {
		t.Errorf("%+v", u.Parts)
	}
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "1"}, p.rows["peers"]); diff != "" {
		t.Error(diff)
	}
	b.setProblem("peers", "it cannot be read")
	if p.take(t, b.next(r)); p.about["peers"].Problem == "" || len(p.rows["peers"]) != 2 {
		t.Errorf("%+v", p)
	}
	setRows(b, "peers", []testRow{row("b", "2"), row("c", "1")}, 3)
	if u := b.next(r); u != nil {
		t.Errorf("rows came from elsewhere, and the problem is gone: %+v", u)
	}
	b.setProblem("peers", "")
	if p.take(t, b.next(r)); p.about["peers"].Problem != "" {
		t.Errorf("%+v", p.about)
	}
	setRows(b, "peers", []testRow{row("b", "2"), row("c", "1"), row("b", "3")}, 3)
	if p.take(t, b.next(r)); p.rows["peers"]["b"] != "2" || p.about["peers"].More != 4 {
		t.Errorf("a key twice: %+v", p)
	}
	setRows(b, "agents", []testRow{}, 0)
	if u := b.next(r); u == nil || u.Parts[0].Part != "agents" {
		t.Errorf("a part that is empty is known: %+v", u)
	}
}

// TestBoardIsBounded: rows that are too many or too long are counted, and a page gets many rows in
// several updates.
// holds: security.md#the-page-of-acpctl-web
func TestBoardIsBounded(t *testing.T) {
	b := newBoard()
	var rows []testRow
	for i := range 2 * maxRows {
		rows = append(rows, row(fmt.Sprint(i), strings.Repeat("x", maxRowBytes-200)))
	}
	rows[7].Text = strings.Repeat("x", maxRowBytes)
	setRows(b, "peers", rows, 1)
	r, p := b.addReader(), newTestPage()
	updates := 0
	for ; len(r.changed) > 0; updates++ {
		<-r.changed
		u := b.next(r)
		if u == nil {
			break
		}
		p.take(t, u)
		if text, err := json.Marshal(u); err != nil || len(text) > maxUpdateBytes+maxLineBytes {
			t.Errorf("an update has %d bytes, %v", len(text), err)
		}
	}
	if len(p.rows["peers"]) != maxRows || p.about["peers"].More != maxRows+1 {
		t.Errorf("%d rows, and %d more", len(p.rows["peers"]), p.about["peers"].More)
	}
	if most := maxRows*maxRowBytes/maxUpdateBytes + 2; updates < 2 || updates > most {
		t.Errorf("%d updates, want 2 to %d", updates, most)
	}
	setRows(b, "peers", []testRow{}, 0)
	<-r.changed
	if p.take(t, b.next(r)); len(p.rows["peers"]) != 0 {
		t.Errorf("%d rows are left", len(p.rows["peers"]))
	}
}

// TestLines: a page that is slow gets the newest lines and the number of the others, and so does a new page.
// holds: security.md#the-page-of-acpctl-web
func TestLines(t *testing.T) {
	b := newBoard()
	r := b.addReader()
	b.next(r)
	add := func(n int) {
		var lines []*line
		for range n {
			lines = append(lines, &line{Text: strings.Repeat("x", 900)})
		}
		addLines(b, lines)
	}
	add(10)
	if u := b.next(r); len(u.Lines) != 10 || u.Skipped != 0 {
		t.Errorf("%d lines, %d skipped", len(u.Lines), u.Skipped)
	}
	add(5 * maxLines)
	if b.lines.n > maxLines || b.lines.bytes > maxLineBytes {
		t.Errorf("%d lines of %d bytes are kept", b.lines.n, b.lines.bytes)
	}
	if u := b.next(r); len(u.Lines) != b.lines.n || u.Skipped != uint64(5*maxLines-b.lines.n) {
		t.Errorf("%d lines, %d skipped", len(u.Lines), u.Skipped)
	}
	if u := b.next(b.addReader()); len(u.Lines) != b.lines.n || u.Skipped != b.lines.last-uint64(b.lines.n) || !u.Reset {
		t.Errorf("a new page: %d lines, %d skipped", len(u.Lines), u.Skipped)
	}
}

// countingWriter is a ResponseWriter that counts events.
type countingWriter struct {
	*httptest.ResponseRecorder
	updates, beats atomic.Int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "data: ") {
		w.updates.Add(1)
	} else {
		w.beats.Add(1)
	}
	return len(b), nil
}

// TestPace: a page gets ten updates a second at most, and signs of life while nothing changes.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{board: newBoard()}
		ctx, cancel := context.WithCancel(t.Context())
		w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.serveEvents(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
		}()
		for i := range 2000 {
			setRows(s.board, "peers", []testRow{row("a", fmt.Sprint(i))}, 0)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := w.updates.Load(); n < 18 || n > 21 {
			t.Errorf("%d updates in 2 s", n)
		}
		time.Sleep(time.Second)
		updates, beats := w.updates.Load(), w.beats.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if u, signs := w.updates.Load()-updates, w.beats.Load()-beats; u != 0 || signs != 4 {
			t.Errorf("nothing changes for a minute: %d updates, %d signs of life", u, signs)
		}
		cancel()
		<-done
		if len(s.board.readers) != 0 {
			t.Error("the page is still counted")
		}
	})
}
