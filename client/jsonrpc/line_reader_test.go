package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/acpd/acpd/wire"
)

// someReader gives what it has in parts of random sizes.
type someReader struct {
	text []byte
	most int
}

func (r *someReader) Read(b []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.text[:min(len(r.text), 1+rand.IntN(r.most))])
	r.text = r.text[n:]
	return n, nil
}

// Lines of all sizes come out as they came, in memory that no other line uses, and none lies in
// pieces once it is whole.
func TestLinesInPieces(t *testing.T) {
	var sizes []int
	for _, edge := range []int{minReadBuffer, maxReadBuffer, pieceBytes, maxReadBuffer + pieceBytes, 2 * pieceBytes, 5 * pieceBytes} {
		sizes = append(sizes, 1, edge-2, edge-1, edge, 7, edge+1, edge+2)
	}
	rand.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	var text []byte
	var want []string
	for i, n := range sizes {
		line := strings.Repeat(string(rune('a'+i%26)), n)
		want = append(want, line)
		text = append(append(text, line...), '\n')
	}
	all := NewInputLimit(1 << 20)
	for name, source := range map[string]io.Reader{
		"at once": bytes.NewReader(text), "halves": iotest.HalfReader(bytes.NewReader(text)), "with its end": iotest.DataErrReader(bytes.NewReader(text)),
		"some": &someReader{text, 100_000}, "few": &someReader{text, 3000},
	} {
		for _, input := range []*PartialInput{nil, all.NewPartialInput(func(time.Time) error { return nil })} {
			if r, ok := source.(*bytes.Reader); ok {
				r.Seek(0, io.SeekStart)
			} else if input != nil {
				continue // it is read already
			}
			in := lineReader{source: source, maxLine: 5*pieceBytes + 2, input: input}
			var got [][]byte
			for range want {
				line, err := in.readLine()
				if err != nil || len(in.full) > 0 {
					t.Fatalf("%s: %v, %d pieces are left", name, err, len(in.full))
				}
				got = append(got, line)
			}
			if _, err := in.readLine(); err != io.EOF {
				t.Errorf("%s: at the end: %v", name, err)
			}
			in.release()
			for i := range want {
				if string(got[i]) != want[i] {
					t.Errorf("%s: line %d, of %d bytes, is %.20q… of %d", name, i, len(want[i]), got[i], len(got[i]))
				}
			}
		}
	}
	long := strings.Repeat("x", 2*pieceBytes) + "\n"
	in := lineReader{source: io.MultiReader(strings.NewReader(long), strings.NewReader(long)), maxLine: 1 << 20}
	for range 2 {
		if _, err := in.readLine(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.readLine(); err != io.EOF || len(in.buf) != minReadBuffer {
		t.Errorf("%v, and a connection that rests keeps %d bytes", err, len(in.buf))
	}
	if all.HeldBytes() != 0 {
		t.Errorf("%d bytes are held", all.HeldBytes())
	}
}

// An unfinished line takes memory for what has come and a piece, and the account knows of all beyond
// what is free.
// holds: security.md#agents-on-this-machine
func TestUnfinishedLineTakesWhatCame(t *testing.T) {
	all := NewInputLimit(10 << 20)
	for _, came := range []int{1, minReadBuffer, minReadBuffer + 1, maxReadBuffer - 1, maxReadBuffer, maxReadBuffer + 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 1 << 20} {
		input := all.NewPartialInput(func(time.Time) error { return nil })
		broken := errors.New("broken")
		in := lineReader{source: io.MultiReader(strings.NewReader("x\n"+strings.Repeat("x", came)), iotest.ErrReader(broken)), maxLine: 4 << 20, input: input}
		if line, err := in.readLine(); err != nil || string(line) != "x" {
			t.Fatal(err, len(line))
		}
		if _, err := in.readLine(); err != broken || in.countWaiting() != came {
			t.Fatal(err, in.countWaiting())
		}
		taken := in.countFull() + len(in.buf)
		if held := all.HeldBytes(); held != max(taken-FreeInput, 0) || taken > max(came+pieceBytes, minReadBuffer) {
			t.Errorf("%d bytes are taken for %d that came, %d are held", taken, came, held)
		}
		in.release()
		if input.Finish(); all.HeldBytes() != 0 {
			t.Errorf("%d bytes are held for nothing", all.HeldBytes())
		}
	}
}

// TestLongLinesTakeLittleMemory: of what is read and written, in memory that has to be made, there is
// once the size; pieces may have to be made too, if the collector has taken them.
func TestLongLinesTakeLittleMemory(t *testing.T) {
	const size = 1 << 20
	text := strings.Repeat("x", size) + "\n"
	payload := wire.Payload(`{"a":"` + strings.Repeat("x", size) + `"}`)
	least := uint64(1 << 62)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		in := lineReader{source: strings.NewReader(text), maxLine: 2 * size}
		if line, err := in.readLine(); err != nil || len(line) != size {
			t.Fatal(err, len(line))
		}
		in.release()
		var out lineBatch
		if err := out.appendValue(reply{Payload: payload}, true); err != nil || out.size() < size {
			t.Fatal(err, out.size())
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 5*size/2 {
		t.Errorf("%d bytes were allocated for a line of %d that came and went", least, size)
	}
}
