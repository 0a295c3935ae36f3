package main

import (
	"io"
	"sync"

	"github.com/quic-go/quic-go"
)

// writeAndCloseStream writes p as all that is written on the stream.
func writeAndCloseStream(stream *quic.Stream, p []byte) error {
	if _, err := stream.Write(p); err != nil {
		return err
	}
	return stream.Close()
}

// handleStreamMessage reads what is left of the stream, to its end, and has handle deal with it.
// If either fails, so does the connection, and with it the benchmark.
func handleStreamMessage(conn *quic.Conn, stream *quic.Stream, handle func(message []byte) error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	message, err := readAllInto(stream, *buf)
	*buf = message
	if err == nil {
		err = handle(message)
	}
	if err != nil {
		conn.CloseWithError(1, err.Error())
	}
}

// buffers holds what messages are read into: a fresh buffer for each would cost
// more than everything else on its way.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4096)) }}

// readAllInto reads r to its end into the memory of buf, which it extends as needed.
func readAllInto(r io.Reader, buf []byte) ([]byte, error) {
	buf = buf[:0]
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}
