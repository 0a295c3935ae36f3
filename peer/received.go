package peer

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

const (
	firstBytes = 4<<10 - 128 // most envelopes have fewer; a received has 4 KiB
	pieceBytes = 8 << 10     // the largest part of a received that may hold nothing yet
)

// received is what has come of a message of a peer. Beyond the first bytes it is stored in pieces that
// many messages use in turn: nothing is copied or cleared as a message grows, and at most one
// piece was taken for what has not come.
type received struct {
	first  [firstBytes]byte
	pieces [][]byte     // of pieceBytes each, all but the last one full
	size   int          // of all in bytes
	steady steadyReader // of readSteadily
}

var (
	receiveds = sync.Pool{New: func() any { return new(received) }}
	pieces    = sync.Pool{New: func() any { return new([pieceBytes]byte) }}
)

// newReceived returns an empty one. The caller calls release once.
func newReceived() *received { return receiveds.Get().(*received) }

// release gives the memory back to other messages.
func (in *received) release() {
	for _, p := range in.pieces {
		pieces.Put((*[pieceBytes]byte)(p))
	}
	clear(in.pieces)
	in.pieces, in.size, in.steady = in.pieces[:0], 0, steadyReader{}
	receiveds.Put(in)
}

var errTooLarge = ownwords.New("message too large")

// reserver has room for bytes: a share of the budget, or nil, which has room for all.
type reserver interface{ Reserve(bytes int64) error }

// readLimited reads to the end of the stream and reserves room for what comes. The error is
// errTooLarge beyond limit bytes, or that of Reserve. The caller gives back what is reserved,
// whatever the error.
func (in *received) readLimited(r io.Reader, limit int, room reserver) (reserved int64, err error) {
	for {
		n, err := r.Read(in.makeRoom())
		in.size += n
		if in.size > limit {
			return reserved, errTooLarge
		}
		if room != nil && n > 0 {
			if over := room.Reserve(int64(n)); over != nil {
				return reserved, over
			}
			reserved += int64(n)
		}
		if err == io.EOF {
			return reserved, nil
		}
		if err != nil {
			return reserved, err
		}
	}
}

// readSteadily is readLimited of a stream that the peer has to keep sending on, as [steadyReader]
// says, and which has a read deadline of byteTime already.
func (in *received) readSteadily(stream deadlineReader, limit int, room reserver) (reserved int64, err error) {
	now := time.Now()
	in.steady = steadyReader{stream: stream, heard: now, end: now.Add(envelopeTime)}
	return in.readLimited(&in.steady, limit, room)
}

// makeRoom returns what the next read may fill: never nothing.
func (in *received) makeRoom() []byte {
	if in.size < firstBytes {
		return in.first[in.size:]
	}
	used := (in.size - firstBytes) % pieceBytes
	if in.size == firstBytes+len(in.pieces)*pieceBytes {
		in.pieces = append(in.pieces, pieces.Get().(*[pieceBytes]byte)[:])
	}
	return in.pieces[len(in.pieces)-1][used:]
}

// isShort reports whether the first bytes hold all of it.
func (in *received) isShort() bool { return in.size <= firstBytes }

// joinPieces returns all in one piece, which is the caller's.
func (in *received) joinPieces() []byte {
	all := append(make([][]byte, 0, 1+len(in.pieces)), in.first[:min(in.size, firstBytes)])
	for rest := in.size - firstBytes; rest > 0; rest -= pieceBytes {
		all = append(all, in.pieces[len(all)-1][:min(rest, pieceBytes)])
	}
	return bytes.Join(all, nil) // which clears nothing beforehand
}

// parseEnvelope decodes the envelope that has come, as [wire.ParseEnvelope] does.
func (in *received) parseEnvelope() (*wire.Envelope, error) {
	if in.isShort() {
		return wire.ParseEnvelope(in.first[:in.size])
	}
	return wire.ParseOwnEnvelope(in.joinPieces())
}

// readAll reads what a stream gives until its end. The error is errTooLarge beyond limit bytes.
func readAll(r io.Reader, limit int) ([]byte, error) {
	in := newReceived()
	defer in.release()
	if _, err := in.readLimited(r, limit, nil); err != nil {
		return nil, err
	}
	return in.joinPieces(), nil
}
