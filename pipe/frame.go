package pipe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/acpd/acpd/internal/ownwords"
)

// What a pipe carries, either way (docs/protocol.md, "Pipes"): the preamble, a line with the
// version of the framing; then packets, each after its length in two bytes, the higher first.
const (
	preambleWord = "acp-pipe "
	version      = 1
	maxVersion   = 999 // that a preamble can say
	maxPacket    = 1452
	lengthSize   = 2
)

// appendPreamble appends the preamble for a version.
func appendPreamble(b []byte, version int) []byte {
	return append(strconv.AppendInt(append(b, preambleWord...), int64(version), 10), '\n')
}

// bannerError says that something else came where the preamble must be.
type bannerError struct{ text []byte }

func (*bannerError) Error() string {
	return "printed something else before the first packet; have it print nothing on standard output (messages belong on standard error, and a shell's start-up files print nothing if no person is there)"
}

// OwnWords returns the text, which quotes nothing.
func (e *bannerError) OwnWords() string { return e.Error() }

// readPreamble reads the other end's preamble, and returns its version, from 1. It reads no byte
// beyond. The error is a *bannerError with the bytes read so far, or that of in.
func readPreamble(in *bufio.Reader) (int, error) {
	var line []byte
	for {
		b, err := in.ReadByte()
		if err == io.EOF && len(line) > 0 {
			return 0, &bannerError{line}
		}
		if err != nil {
			return 0, err
		}
		line = append(line, b)
		digits, _ := bytes.CutPrefix(line, []byte(preambleWord))
		switch n := len(line) - len(preambleWord); {
		case n <= 0:
			if b != preambleWord[len(line)-1] {
				return 0, &bannerError{line}
			}
		case b == '\n' && n > 1:
			v, _ := strconv.Atoi(string(digits[:n-1]))
			return v, nil
		case n == 1 && b == '0', b < '0', b > '9', n > len(strconv.Itoa(maxVersion)):
			return 0, &bannerError{line}
		}
	}
}

// frame is one packet with its length before it, and with its sender where it came in.
type frame struct {
	from net.Addr
	size int // of the packet
	buf  [lengthSize + maxPacket]byte
}

var frames = sync.Pool{New: func() any { return new(frame) }}

// newFrame returns a frame with a copy of a packet of maxPacket bytes at most.
func newFrame(packet []byte) *frame {
	f := frames.Get().(*frame)
	f.size = copy(f.buf[lengthSize:], packet)
	binary.BigEndian.PutUint16(f.buf[:], uint16(f.size))
	return f
}

// packet returns the packet, valid until the frame is recycled.
func (f *frame) packet() []byte { return f.buf[lengthSize : lengthSize+f.size] }

// encoded returns the packet behind its length.
func (f *frame) encoded() []byte { return f.buf[:lengthSize+f.size] }

func (f *frame) recycle() {
	f.from = nil
	frames.Put(f)
}

// readFrame reads one frame. The error is io.EOF between two frames, io.ErrUnexpectedEOF in one.
// A length of 0 or over maxPacket is an error: the bytes have lost their order, and the pipe
// ends.
func readFrame(in *bufio.Reader) (*frame, error) {
	f := frames.Get().(*frame)
	if _, err := io.ReadFull(in, f.buf[:lengthSize]); err != nil {
		f.recycle()
		return nil, err
	}
	f.size = int(binary.BigEndian.Uint16(f.buf[:]))
	if f.size == 0 || f.size > maxPacket {
		defer f.recycle()
		return nil, ownwords.Errorf("sent a packet of %d bytes, where 1 to %d are possible; see whether anything but acpctl pipe writes there, or changes its bytes", f.size, maxPacket)
	}
	if _, err := io.ReadFull(in, f.packet()); err != nil {
		f.recycle()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return f, nil
}
