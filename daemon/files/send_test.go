package files

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/acpd/acpd/client"
)

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
