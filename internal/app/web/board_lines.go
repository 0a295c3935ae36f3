package web

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// boardLines has what has passed, up to maxLines and maxLineBytes. The peer with most lines makes room: a
// peer that sends much displaces no lines of another.
type boardLines struct {
	byPeer map[string][]boardLine // by owner (numbered); the oldest first
	n      int
	bytes  int
	last   uint64 // number of the newest
}

type boardLine struct {
	n    uint64
	text jsontext.Value
}

func newBoardLines() boardLines { return boardLines{byPeer: make(map[string][]boardLine)} }

// numbered is a line; its number is its place among all lines.
type numbered interface {
	setNumber(uint64)
	owner() string // the trusted peer whose share of the lines it takes; "": the share of all others
}

// addLines adds what has passed.
func addLines[L numbered](b *board, lines []L) {
	if len(lines) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		b.lines.last++
		l.setNumber(b.lines.last)
		if text, err := json.Marshal(l); err == nil && len(text) <= maxRowBytes {
			b.lines.add(l.owner(), boardLine{b.lines.last, text})
		}
	}
	b.wake()
}

func (ls *boardLines) add(owner string, l boardLine) {
	ls.byPeer[owner] = append(ls.byPeer[owner], l)
	ls.n++
	ls.bytes += len(l.text)
	for ls.n > maxLines || ls.bytes > maxLineBytes {
		ls.dropOldest(ls.findLargest())
	}
}

// forgetPeers removes the lines of peers, and has each page forget all that it shows and read the board anew.
func (b *board) forgetPeers(peers []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := b.lines.n
	for _, peer := range peers {
		for len(b.lines.byPeer[peer]) > 0 {
			b.lines.dropOldest(peer)
		}
	}
	if b.lines.n == had {
		return
	}
	for r := range b.readers {
		r.forget()
	}
	b.wake()
}

// findLargest returns the owner of most lines; of several, whose oldest line is the oldest of all.
func (ls *boardLines) findLargest() (owner string) {
	most := 0
	for peer, lines := range ls.byPeer {
		if d := cmp.Compare(len(lines), most); d > 0 || d == 0 && lines[0].n < ls.byPeer[owner][0].n {
			owner, most = peer, len(lines)
		}
	}
	return owner
}

func (ls *boardLines) dropOldest(owner string) {
	lines := ls.byPeer[owner]
	ls.n--
	ls.bytes -= len(lines[0].text)
	lines[0].text = nil // the array below may last
	if ls.byPeer[owner] = lines[1:]; len(lines) == 1 {
		delete(ls.byPeer, owner)
	}
}

// takeSince returns the lines after that number, the oldest first. skipped is how many are not kept any more.
func (ls *boardLines) takeSince(after uint64) (texts []jsontext.Value, skipped uint64) {
	var taken []boardLine
	for _, lines := range ls.byPeer {
		i := len(lines)
		for i > 0 && lines[i-1].n > after {
			i--
		}
		taken = append(taken, lines[i:]...)
	}
	slices.SortFunc(taken, func(a, b boardLine) int { return cmp.Compare(a.n, b.n) })
	for _, l := range taken {
		texts = append(texts, l.text)
	}
	return texts, ls.last - after - uint64(len(taken))
}
