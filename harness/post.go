package harness

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/wire"
)

const (
	// postInterval is the least time between the beginnings of two posts.
	postInterval = 250 * time.Millisecond
	// maxPointer bounds a pointer, in bytes.
	maxPointer = 400
	// proofTime is how long a post waits for the proof that the model has the message.
	proofTime = 4 * time.Second
)

// maxRemembered is how many posts a gate remembers.
const maxRemembered = 64

// gate lets one post at a time through. The next begins postInterval after the last, and a
// message passes once.
type gate struct {
	place chan gateMemory // holds the memory while no post is under way
}

type gateMemory struct {
	began  time.Time    // the last post
	passed []passedPost // the latest last
}

// passedPost names a message that has passed.
type passedPost struct {
	sender identity.ID
	id     wire.MessageID
	came   int64 // Unix time in ns
}

func (p *Post) key() passedPost { return passedPost{p.Sender, p.Message, p.Came.UnixNano()} }

// frameID returns the id of a post for programs that take each id once. It is the same however often
// the post is tried, and another one for each message, also if messages have one id.
func (p *Post) frameID() string {
	key := slices.Concat(p.Sender[:], p.Message[:], binary.BigEndian.AppendUint64(nil, uint64(p.Came.UnixNano())))
	sum := sha256.Sum256(key)
	id := wire.MessageID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of one's own making (RFC 9562, section 5.8)
	return id.String()
}

func newGate() gate {
	g := gate{place: make(chan gateMemory, 1)}
	g.place <- gateMemory{}
	return g
}

// enter waits for the place and for the interval. It reports whether the message has passed
// before. Otherwise the caller calls leave, and says there whether the message has passed. The
// error is ctx's.
func (g gate) enter(ctx context.Context, p *Post) (leave func(passed bool), again bool, _ error) {
	post := p.key()
	var memory gateMemory
	select {
	case memory = <-g.place:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if slices.Contains(memory.passed, post) {
		g.place <- memory
		return nil, true, nil
	}
	if wait := time.Until(memory.began.Add(postInterval)); wait > 0 {
		if err := pace.Sleep(ctx, wait); err != nil {
			g.place <- memory
			return nil, false, err
		}
	}
	memory.began = time.Now()
	return func(passed bool) {
		if passed {
			memory.passed = append(slices.Clone(memory.passed[max(0, len(memory.passed)+1-maxRemembered):]), post)
		}
		g.place <- memory
	}, false, nil
}

// post has do give a session p when it may get that: while the session lasts, once, and at its
// interval. do reports whether the message has passed, so that the session must not get it again.
func post(ctx context.Context, s Session, l *lifetime, g gate, p *Post, do func(context.Context) (_ Posted, passed bool, _ error)) (Posted, error) {
	for _, line := range []string{p.Pointer, cmp.Or(p.Given, p.Pointer)} {
		if err := checkPointer(line); err != nil {
			return Posted{}, err
		}
	}
	name, version := s.Harness()
	closed := &Error{Harness: name, Version: version, Err: ErrClosed}
	joined, end, err := l.join(ctx)
	if err != nil {
		return Posted{}, closed
	}
	defer end()
	leave, again, err := g.enter(joined, p)
	switch {
	case err != nil && ctx.Err() == nil:
		return Posted{}, closed
	case err != nil || again:
		return Posted{}, err
	}
	var passed bool
	defer func() { leave(passed) }() // also if do panics: others wait for the place
	posted, passed, err := do(joined)
	if err != nil && !passed && l.ctx.Err() != nil && !errors.Is(err, ErrGone) { // ErrGone leaves open whether it was posted
		err = closed
	}
	return posted, err
}

// checkPointer refuses what is not one short line.
func checkPointer(s string) error {
	if s == "" || len(s) > maxPointer || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ownwords.Errorf("wake: the pointer is not one line of at most %d bytes: %.80q", maxPointer, s)
	}
	return nil
}
