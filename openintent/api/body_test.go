package api

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// A body of another daemon takes no more memory than its caller is charged for, and little
// until some of it has come.
func TestBodyTakesWhatIsCharged(t *testing.T) {
	for _, length := range []int{0, 1, firstPart - 1, firstPart, firstPart + 1, firstPart + 2, firstPart + 3, 200 << 10, 270_337, 1 << 20} {
		all := bytes.Repeat([]byte("x"), length)
		for name, from := range map[string]io.Reader{
			"at once": bytes.NewReader(all), "with its end": iotest.DataErrReader(bytes.NewReader(all)), "by halves": iotest.HalfReader(bytes.NewReader(all)),
		} {
			body, err := readChargedBody(from, length)
			if err != nil || !bytes.Equal(body, all) {
				t.Errorf("%d bytes, %s: %d are read: %v", length, name, len(body), err)
			}
			if cap(body) > length+length/8+64 {
				t.Errorf("%d bytes, %s: they take %d", length, name, cap(body))
			}
		}
		if longer, err := readChargedBody(io.LimitReader(bytes.NewReader(append(all, "yz"...)), int64(length)+1), length); err != nil || len(longer) != length+1 {
			t.Errorf("a byte more than %d: %d are read: %v", length, len(longer), err)
		}
	}
	if body, err := readChargedBody(cut{t}, 1<<20); body != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes of a body that ends early: %v", len(body), err)
	}
}

// cut is a body of which nothing comes.
type cut struct{ *testing.T }

func (c cut) Read(p []byte) (int, error) {
	if len(p) > firstPart+64 {
		c.Errorf("%d bytes of memory wait for a body of which nothing has come", len(p))
	}
	return 0, io.ErrUnexpectedEOF
}
