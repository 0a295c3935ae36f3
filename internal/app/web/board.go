package web

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/pace"
)

// Bounds of what is kept of the daemon, and of what goes to a page.
const (
	maxRows        = 400       // of a part
	maxRowBytes    = 4 << 10   // of a row
	maxLines       = 1000      // messages and events
	maxLineBytes   = 1 << 20   // of them
	maxUpdateBytes = 256 << 10 // of the rows in one update
)

// board has what pages show: parts, each of them rows by key, and lines, which are what has passed.
type board struct {
	proof string // tells pages that they read this board still

	mu    sync.Mutex // guards the rest
	parts map[string]*boardPart
	last  uint64 // version of the newest row

	lines boardLines

	away      string // why the daemon does not answer; "": it does
	awaySince time.Time
	awayAt    uint64 // last, when that changed

	readers map[*boardReader]bool // at most maxReaders
	counted chan struct{}         // closed when their number changes
}

type boardPart struct {
	version uint64 // when anything of it changed last
	rows    map[string]boardRow
	more    int    // rows that are not here
	problem string // why it could not be read; "": it could
}

type boardRow struct {
	version uint64
	text    jsontext.Value
}

func newBoard() *board {
	return &board{proof: drawSecret(), parts: make(map[string]*boardPart), lines: newBoardLines(), readers: make(map[*boardReader]bool), counted: make(chan struct{})}
}

// keyed is a row, with a key that no other row of its part has.
type keyed interface{ key() string }

// setRows replaces the rows of a part, as far as they fit, and each key once. more is how many further rows the
// daemon has.
func setRows[R keyed](b *board, part string, rows []R, more int) {
	texts := make(map[string]jsontext.Value, len(rows))
	for _, r := range rows {
		text, err := json.Marshal(r)
		_, taken := texts[r.key()]
		if err != nil || taken || len(text) > maxRowBytes || len(texts) == maxRows {
			more++
			continue
		}
		texts[r.key()] = text
	}
	b.replace(part, texts, more)
}

func (b *board) replace(part string, texts map[string]jsontext.Value, more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.part(part)
	changed := p.more != more || p.version == 0
	p.more = more
	for key := range p.rows {
		if texts[key] == nil {
			delete(p.rows, key)
			changed = true
		}
	}
	for key, text := range texts {
		if bytes.Equal(p.rows[key].text, text) {
			continue
		}
		b.last++
		p.rows[key] = boardRow{b.last, text}
		changed = true
	}
	if changed {
		b.touch(p)
	}
}

// setProblem says why a part cannot be read, "" if it can.
func (b *board) setProblem(part, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.part(part); p.problem != why {
		p.problem = why
		b.touch(p)
	}
}

// part is called with b.mu held.
func (b *board) part(name string) *boardPart {
	p := b.parts[name]
	if p == nil {
		p = &boardPart{rows: make(map[string]boardRow)}
		b.parts[name] = p
	}
	return p
}

// touch is called with b.mu held.
func (b *board) touch(p *boardPart) {
	b.last++
	p.version = b.last
	b.wake()
}

func (b *board) wake() {
	for r := range b.readers {
		r.changed.Set()
	}
}

// setAway says why the daemon does not answer, "" if it does, and reports whether that is news.
func (b *board) setAway(why string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news = (b.away == "") != (why == "")
	if news {
		b.awaySince = time.Now()
	}
	if b.away != why {
		b.last++
		b.away, b.awayAt = why, b.last
		b.wake()
	}
	return news
}

// boardReader is a page that reads a board: what it has seen of it.
type boardReader struct {
	changed pace.Signal
	seen    map[string]map[string]uint64 // versions of rows, by part and key
	parts   map[string]uint64            // versions of parts
	line    uint64                       // number of the last line
	away    uint64
	begun   bool
}

// forget has the page read the board anew. It is called with board.mu held, or before anybody has r.
func (r *boardReader) forget() {
	r.seen, r.parts, r.line, r.begun = make(map[string]map[string]uint64), make(map[string]uint64), 0, false
}

// addReader adds a reader, or returns nil if there are maxReaders.
func (b *board) addReader() *boardReader {
	r := &boardReader{changed: pace.NewSignal()}
	r.forget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.readers) == maxReaders {
		return nil
	}
	b.readers[r] = true
	b.noteCount()
	r.changed.Set()
	return r
}

func (b *board) removeReader(r *boardReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, r)
	b.noteCount()
}

// noteCount is called with b.mu held.
func (b *board) noteCount() {
	close(b.counted)
	b.counted = make(chan struct{})
}

// awaitReaders waits until there are some readers, or none, and reports whether ctx has not ended before.
func (b *board) awaitReaders(ctx context.Context, some bool) bool {
	for {
		b.mu.Lock()
		n, counted := len(b.readers), b.counted
		b.mu.Unlock()
		if (n > 0) == some {
			return ctx.Err() == nil
		}
		select {
		case <-counted:
		case <-ctx.Done():
			return false
		}
	}
}

// update is what a page gets at once: what has changed.
type update struct {
	Reset   bool             `json:"reset,omitzero"` // the page forgets what it has
	Proof   string           `json:"proof,omitzero"` // with Reset: a page that had another one believes nothing
	Now     time.Time        `json:"now"`
	Away    *awayUpdate      `json:"away,omitzero"`
	Parts   []partUpdate     `json:"parts,omitempty"`
	Lines   []jsontext.Value `json:"lines,omitempty"`  // the oldest first
	Skipped uint64           `json:"skipped,omitzero"` // lines that the page does not get; with Reset: older ones, which are not kept
}

// awayUpdate says whether the daemon answers.
type awayUpdate struct {
	Why   string    `json:"why"` // "": it does
	Since time.Time `json:"since"`
}

type partUpdate struct {
	Part    string           `json:"part"`
	Set     []jsontext.Value `json:"set,omitempty"`
	Gone    []string         `json:"gone,omitempty"` // keys
	More    int              `json:"more"`
	Problem string           `json:"problem"`
}

// next returns what has changed since the last call, nil if nothing has. If there is more than an
// update holds, it sets r.changed again.
func (b *board) next(r *boardReader) *update {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &update{Now: time.Now(), Reset: !r.begun}
	if r.away != b.awayAt || !r.begun {
		u.Away, r.away = &awayUpdate{b.away, b.awaySince}, b.awayAt
	}
	if u.Reset {
		u.Proof = b.proof
	}
	room := maxUpdateBytes
	for _, name := range slices.Sorted(maps.Keys(b.parts)) {
		if p := b.parts[name]; p.version > r.parts[name] {
			u.Parts = append(u.Parts, p.diff(name, r, &room))
		}
		if room <= 0 {
			r.changed.Set()
			break
		}
	}
	u.Lines, u.Skipped = b.lines.takeSince(r.line)
	r.line = b.lines.last
	r.begun = true
	if !u.Reset && u.Away == nil && u.Parts == nil && u.Lines == nil {
		return nil
	}
	return u
}

// diff returns what has changed of a part, as far as room lasts.
func (p *boardPart) diff(name string, r *boardReader, room *int) partUpdate {
	d := partUpdate{Part: name, More: p.more, Problem: p.problem}
	seen := r.seen[name]
	if seen == nil {
		seen = make(map[string]uint64)
		r.seen[name] = seen
	}
	for key := range seen {
		if _, there := p.rows[key]; !there {
			d.Gone = append(d.Gone, key)
			delete(seen, key)
		}
	}
	for key, row := range p.rows {
		if row.version == seen[key] {
			continue
		}
		if *room -= len(row.text); *room <= 0 {
			return d // r.parts stays: the rest comes with the next update
		}
		d.Set = append(d.Set, row.text)
		seen[key] = row.version
	}
	r.parts[name] = p.version
	return d
}
