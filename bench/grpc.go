package main

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcVariant is a unary call of grpc-go over mutual TLS, with the payload as bytes.
var grpcVariant = variant{name: "gRPC", start: startAnswerer, connect: connectGRPC, serve: serveGRPC}

// echoService is what protoc would make of a service with one method.
var echoService = grpc.ServiceDesc{ServiceName: "bench.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
	MethodName: "Echo",
	Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		payload := new(wrapperspb.BytesValue)
		return payload, decode(payload)
	},
}}}

func connectGRPC(args []string) (newCall, error) {
	config, err := askerEnd.newTLSConfig(answererEnd)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(args[0], grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			var echo wrapperspb.BytesValue
			err := conn.Invoke(context.Background(), "/bench.Echo/Echo", wrapperspb.Bytes(payload), &echo)
			return echo.Value, err
		}
	}, nil
}

func serveGRPC([]string) error {
	config, err := answererEnd.newTLSConfig(askerEnd)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", loopback)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	server.RegisterService(&echoService, nil)
	printReady(listener.Addr().String())
	return server.Serve(listener)
}
