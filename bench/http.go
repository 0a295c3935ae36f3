package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/net/http2"
)

// httpVariant is a POST of JSON over HTTP/2 and mutual TLS. The server reads the JSON and writes it anew.
var httpVariant = variant{
	name:  "HTTP/2 JSON",
	start: startAnswerer,
	connect: func(args []string) (newCall, error) {
		web, err := newHTTPClient()
		if err != nil {
			return nil, err
		}
		return func() func([]byte) ([]byte, error) {
			return func(payload []byte) ([]byte, error) {
				answer, err := web.Post(args[0], "application/json", bytes.NewReader(payload))
				if err != nil {
					return nil, err
				}
				defer answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					return nil, fmt.Errorf("the server answered %s", answer.Status)
				}
				return io.ReadAll(answer.Body)
			}
		}, nil
	},
	serve: func([]string) error { return serveHTTP(http.HandlerFunc(echoJSON)) },
}

func echoJSON(w http.ResponseWriter, r *http.Request) {
	var q question
	err := json.NewDecoder(r.Body).Decode(&q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// newHTTPClient makes a client that uses nothing but HTTP/2. It is that of x/net, since the daemons' build tag
// leaves HTTP/2 out of net/http.
func newHTTPClient() (*http.Client, error) {
	config, err := askerEnd.newTLSConfig(answererEnd)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http2.Transport{TLSClientConfig: config}}, nil
}

// serveHTTP serves a handler over HTTP/2, and announces its URL.
func serveHTTP(handler http.Handler) error {
	config, err := answererEnd.newTLSConfig(askerEnd)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, TLSConfig: config}
	if err := http2.ConfigureServer(server, nil); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", loopback)
	if err != nil {
		return err
	}
	printReady("https://" + listener.Addr().String() + "/")
	return server.ServeTLS(listener, "", "")
}
