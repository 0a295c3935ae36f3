package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// a2aVariant is a message and its answer by the A2A project's Go SDK: JSON-RPC over HTTP/2 and mutual TLS,
// with the payload as text.
var a2aVariant = variant{
	name:    "A2A SDK",
	start:   startAnswerer,
	connect: connectA2A,
	serve: func([]string) error {
		// The SDK's client closes a stream before its last byte, which the SDK's server logs as an error.
		slog.SetDefault(slog.New(slog.DiscardHandler))
		return serveHTTP(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echoAgent{})))
	},
}

// echoAgent answers each message with its text.
type echoAgent struct{}

func (echoAgent) Execute(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(in.Message.Parts[0].Text())), nil)
	}
}

func (echoAgent) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

func connectA2A(args []string) (newCall, error) {
	web, err := newHTTPClient()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	endpoint := a2a.NewAgentInterface(args[0], a2a.TransportProtocolJSONRPC)
	agent, err := a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{endpoint}, a2aclient.WithJSONRPCTransport(web))
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(string(payload)))
			answer, err := agent.SendMessage(ctx, &a2a.SendMessageRequest{Message: message})
			if err != nil {
				return nil, err
			}
			echo, ok := answer.(*a2a.Message)
			if !ok || len(echo.Parts) != 1 {
				return nil, fmt.Errorf("the agent answered %T", answer)
			}
			return []byte(echo.Parts[0].Text()), nil
		}
	}, nil
}
