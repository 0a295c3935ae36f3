package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

// web is an agent that speaks HTTP to its daemon over the unix socket.
type web struct {
	http.Client
	ctx   context.Context
	agent string
}

func (h home) httpSocket() string { return strings.TrimSuffix(h.socket(), "acp.sock") + "http.sock" }

func newWeb(ctx context.Context, h home, agent string) *web {
	return &web{ctx: ctx, agent: agent, Client: http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", h.httpSocket())
		},
	}}}
}

func (w *web) request(method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(w.ctx, method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Agent-ID", w.agent)
	r.Header.Set("Content-Type", "application/json")
	return w.Do(r)
}

// do makes a request and returns the body of its answer, which is a success.
func (w *web) do(method, path, body string) ([]byte, error) {
	answer, err := w.request(method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return text, err
}

// made makes something and returns its id.
func (w *web) made(path, body string) (string, error) {
	text, err := w.do("POST", path, body)
	if err != nil {
		return "", err
	}
	var it struct {
		ID string `json:"id"`
	}
	return it.ID, json.Unmarshal(text, &it)
}

// follow opens an event stream and calls heard with the data of each event until
// ctx ends. It returns once the stream has begun.
func (w *web) follow(path string, heard func(data []byte)) error {
	answer, err := w.request("GET", path, "")
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(answer.Body, 4096)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
		answer.Body.Close()
		return fmt.Errorf("%s: %s, it begins with %q: %w", path, answer.Status, line, err)
	}
	go func() { // ends with ctx
		defer answer.Body.Close()
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				heard(data)
			}
		}
	}()
	return nil
}
