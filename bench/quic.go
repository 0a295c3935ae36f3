package main

import (
	"context"

	"github.com/quic-go/quic-go"
)

// quicVariant is quic-go as it comes, between two processes: mutual TLS, and for
// each request a bidirectional stream that ends with FIN both ways. It is the
// least that any program over QUIC can do.
var quicVariant = variant{
	name:  "quic",
	roles: map[string]role{"client": {connect: connectQUIC}, "server": {serve: serveQUIC}},
	start: func(f *fleet) error {
		addr, err := f.spawnRole("server")
		if err != nil {
			return err
		}
		_, err = f.spawnRole("client", addr)
		return err
	},
}

func connectQUIC(args []string) (newCall, error) {
	conn, err := dialQUIC(args[0])
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		var reply []byte
		return func(payload []byte) ([]byte, error) {
			stream, err := conn.OpenStreamSync(context.Background())
			if err != nil {
				return nil, err
			}
			if err := writeAndCloseStream(stream, payload); err != nil {
				return nil, err
			}
			reply, err = readAllInto(stream, reply)
			return reply, err
		}
	}, nil
}

func serveQUIC([]string) error {
	ln, err := listenQUIC(&quic.Config{MaxIdleTimeout: idleTimeout})
	if err != nil {
		return err
	}
	printReady(ln.Addr().String())
	conn, err := ln.Accept(context.Background())
	if err != nil {
		return err
	}
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return err
		}
		go handleStreamMessage(conn, stream, func(payload []byte) error { // ends with the stream
			return writeAndCloseStream(stream, payload)
		})
	}
}
