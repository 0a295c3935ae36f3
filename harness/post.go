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

// frameID returns the id of a post for programs that take each id once. It is the same however often
// the post is tried, and another one for each message, also if messages have one id.
func (p *Post) frameID() string {
	key := slices.Concat(p.Sender[:], p.Message[:], binary.BigEndian.AppendUint64(nil, uint64(p.Came.UnixNano())))
	sum := sha256.Sum256(key)
	id := wire.MessageID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of one's own making (RFC 9562, section 5.8)
	return id.String()
}

// enter waits for the place and for the interval. The caller calls leave. The error is ctx's.
func (l *lifetime) enter(ctx context.Context) (leave func(), _ error) {
	var began time.Time
	select {
	case began = <-l.place:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if wait := time.Until(began.Add(postInterval)); wait > 0 {
		if err := pace.Sleep(ctx, wait); err != nil {
			l.place <- began
			return nil, err
		}
	}
	began = time.Now()
	return func() { l.place <- began }, nil
}

// post has do give a session p while the session lasts, and at its interval.
func (l *lifetime) post(ctx context.Context, s Session, p *Post, do func(context.Context) (Posted, error)) (Posted, error) {
	for _, line := range []string{p.Pointer, cmp.Or(p.Given, p.Pointer)} {
		if err := checkPointer(line); err != nil {
			return Posted{}, err
		}
	}
	name, version := s.Harness()
	closed := &Error{Harness: name, Version: version, Err: errClosed}
	joined, end, err := l.join(ctx)
	if err != nil {
		return Posted{}, closed
	}
	defer end()
	leave, err := l.enter(joined)
	switch {
	case err != nil && ctx.Err() == nil:
		return Posted{}, closed
	case err != nil:
		return Posted{}, err
	}
	defer leave() // also if do panics: others wait for the place
	posted, err := do(joined)
	if err != nil && l.ctx.Err() != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrHeld) { // these two leave open whether a turn begins
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
