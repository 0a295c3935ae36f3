package main

import (
	"io"
	"sync"
)

// buffers holds what messages are read into: a fresh buffer for each would cost
// more than everything else on its way.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4096)) }}

// readAll reads r to its end into the memory of buf, which it extends as needed.
func readAll(r io.Reader, buf []byte) ([]byte, error) {
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
