package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/quic-go/quic-go"
)

// floorVariant is the way of a message through two daemons with the least work in
// each process: agent, unix socket, relay, QUIC, relay, unix socket, agent, and
// back. A message is a line: a number by which its reply is recognised, a space, the
// payload. The relays pass lines on as they are and understand nothing but
// the number.
//
// It is the yardstick for the daemon, so it is as fast as we know to make it while
// it stays a message system: many requests in flight on each connection, in any
// order, each on a QUIC stream of its own. (One long-lived stream for all would be
// faster when one request is in flight, but there a lost packet holds up every
// message and none can be cancelled alone: no floor for this protocol.)
var floorVariant = variant{
	name: "floor",
	roles: map[string]role{
		"asker":    {connect: connectFloorAsker},
		"near":     {serve: serveFloorNear},
		"far":      {serve: serveFloorFar},
		"answerer": {serve: serveFloorAnswerer},
	},
	start: func(f *fleet) error {
		near, far := f.joinPath("near.sock"), f.joinPath("far.sock")
		addr, err := f.spawnRole("far", far)
		if err != nil {
			return err
		}
		if _, err := f.spawnRole("answerer", far); err != nil {
			return err
		}
		if _, err := f.spawnRole("near", near, addr); err != nil {
			return err
		}
		_, err = f.spawnRole("asker", near)
		return err
	},
}

// A floorReply is where the asker puts the payload that came back.
type floorReply struct {
	payload []byte
	arrived chan struct{}
}

func connectFloorAsker(args []string) (newCall, error) {
	conn, err := net.Dial("unix", args[0])
	if err != nil {
		return nil, err
	}
	w := &lineWriter{conn: conn}
	replies := newWaitingEntries[*floorReply]()
	ctx, broken := context.WithCancelCause(context.Background())
	go func() { // ends with the process
		err := readLines(conn, func(number uint64, line []byte) error {
			r, err := replies.take(number)
			if err != nil {
				return err
			}
			r.payload = append(r.payload[:0], cutLinePayload(line)...)
			r.arrived <- struct{}{}
			return nil
		})
		broken(cmp.Or(err, errors.New("the relay hung up")))
	}()
	var last atomic.Uint64
	return func() func([]byte) ([]byte, error) {
		reply := &floorReply{arrived: make(chan struct{}, 1)}
		var line []byte
		return func(payload []byte) ([]byte, error) {
			number := last.Add(1)
			replies.put(number, reply)
			line = appendLine(line[:0], number, payload)
			if err := w.writeLine(line); err != nil {
				return nil, err
			}
			select {
			case <-reply.arrived:
				return reply.payload, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}, nil
}

// serveFloorNear is the relay of the agent that asks.
func serveFloorNear(args []string) error {
	conn, err := dialQUIC(args[1])
	if err != nil {
		return err
	}
	agent, err := acceptAgentConn(args[0], "")
	if err != nil {
		return err
	}
	w := &lineWriter{conn: agent}
	return readLines(agent, func(_ uint64, line []byte) error {
		stream, err := conn.OpenStreamSync(context.Background())
		if err != nil {
			return err
		}
		if err := writeAndCloseStream(stream, line); err != nil {
			return err
		}
		go handleStreamMessage(conn, stream, w.writeLine) // ends with the stream
		return nil
	})
}

// serveFloorFar is the relay of the agent that answers.
func serveFloorFar(args []string) error {
	ln, err := listenQUIC(&quic.Config{MaxIdleTimeout: idleTimeout, MaxIncomingStreams: 512, RequireStreamCreditRelease: true})
	if err != nil {
		return err
	}
	agent, err := acceptAgentConn(args[0], ln.Addr().String())
	if err != nil {
		return err
	}
	conn, err := ln.Accept(context.Background())
	if err != nil {
		return err
	}
	w := &lineWriter{conn: agent}
	asked := newWaitingEntries[*quic.Stream]()
	go func() { // ends with the process
		for {
			stream, err := conn.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go handleStreamMessage(conn, stream, func(line []byte) error { // ends with the stream
				number, err := parseLineNumber(line)
				if err != nil {
					return err
				}
				asked.put(number, stream)
				return w.writeLine(line)
			})
		}
	}()
	answered := make([]*quic.Stream, 0, creditBatch)
	return readLines(agent, func(number uint64, line []byte) error {
		stream, err := asked.take(number)
		if err != nil {
			return err
		}
		if err := writeAndCloseStream(stream, line); err != nil {
			return err
		}
		if answered = append(answered, stream); len(answered) == creditBatch {
			for _, s := range answered {
				s.ReleaseStreamCredit()
			}
			answered = answered[:0]
		}
		return nil
	})
}

// creditBatch counts the streams that are given back to the peer at once: one at a
// time costs a packet for each. Streams count until their end is acknowledged, so
// the limit is well above what is in flight.
const creditBatch = 32

// acceptAgentConn listens on a unix socket, announces addr and waits for the one agent.
func acceptAgentConn(path, addr string) (net.Conn, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	printReady(addr)
	return ln.Accept()
}

func serveFloorAnswerer(args []string) error {
	conn, err := net.Dial("unix", args[0])
	if err != nil {
		return err
	}
	printReady("")
	return readLines(conn, func(_ uint64, line []byte) error {
		_, err := conn.Write(line)
		return err
	})
}
