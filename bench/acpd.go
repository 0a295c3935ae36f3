package main

import (
	"context"
	"net"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

// acpdVariant is the real thing: an agent asks its daemon over the local API, the query goes to the other
// daemon, and the agent that is attached there echoes it.
var acpdVariant = variant{
	name: "acpd",
	start: func(f *fleet) error {
		p, err := f.spawnPair("")
		if err != nil {
			return err
		}
		return f.spawnAgents(p)
	},
	connect: connectAcpdAsker,
	serve:   serveAcpdAnswerer,
}

// maxInFlight is how many queries the agent that answers takes at a time.
const maxInFlight = 64

func connectAcpdAsker(args []string) (newCall, error) {
	conn, _, err := connectAgent(args[0], nil)
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		var answer client.Answer
		return func(payload []byte) ([]byte, error) {
			err := conn.Call(context.Background(), client.MethodQuery, client.QueryParams{To: "far", Payload: payload}, &answer)
			return answer.Payload, err
		}
	}, nil
}

func serveAcpdAnswerer(args []string) error {
	conn, ended, err := connectAgent(args[0], func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		var in client.Inbound
		if err := r.ReadParams(&in); err != nil {
			r.RespondError(err)
			return
		}
		r.Respond(in.Payload)
	})
	if err != nil {
		return err
	}
	attach := client.AttachParams{Name: "echo", Kinds: []string{kinds.KindQuery}, MaxConcurrent: maxInFlight}
	if err := conn.Call(context.Background(), client.MethodAttach, attach, nil); err != nil {
		return err
	}
	printReady("")
	return <-ended
}

// connectAgent connects to a daemon's socket; ended gets why the connection ended.
func connectAgent(socket string, handler func(context.Context, *jsonrpc.Conn, *jsonrpc.Request)) (conn *jsonrpc.Conn, ended <-chan error, err error) {
	stream, err := net.Dial("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	conn = jsonrpc.NewConn(stream, jsonrpc.Options{Handler: handler})
	end := make(chan error, 1)
	go func() { end <- conn.Run(context.Background()) }() // ends with the process
	return conn, end, nil
}
