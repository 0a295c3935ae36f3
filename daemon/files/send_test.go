package files

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/wire"
)

func TestHowLongTheOwnerIsAsked(t *testing.T) {
	for ms, want := range map[uint64]time.Duration{0: 10 * time.Minute, 1000: time.Second, 3_600_000: time.Hour, 1 << 62: 24 * time.Hour} {
		if got := answerTime(&wire.FileRequest{WaitMS: ms}); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
}

// A client that reads no more is asked for nothing when its transfer has ended, but still told why.
func TestNothingIsAskedAfterTheEnd(t *testing.T) {
	conn, other := net.Pipe()
	defer conn.Close()
	x := &sending{conn: conn, asked: make(chan *piece, 1)}
	x.ctx, x.cancel = context.WithCancelCause(t.Context())
	x.cancel(nil)
	go other.Close()
	if err := x.readPiece(0, 0, nil); !errors.Is(err, context.Canceled) || len(x.asked) != 0 {
		t.Errorf("%d pieces are asked for, %v", len(x.asked), err)
	}
	conn, other = net.Pipe()
	x.conn = conn
	told := make(chan int, 1)
	go func() {
		n, _ := other.Read(make([]byte, 4096))
		told <- n
	}()
	if err := x.writeLine(&client.FileSendLine{Error: errUnexpected}, nil); err != nil {
		t.Error(err)
	}
	if n := <-told; n == 0 {
		t.Error("it is told nothing")
	}
}
