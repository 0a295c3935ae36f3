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

// webAgent is an agent that speaks HTTP to its daemon over the unix socket.
type webAgent struct {
	http.Client
	ctx   context.Context
	agent string
}

func newWebAgent(ctx context.Context, h home, agent string) *webAgent {
	return &webAgent{ctx: ctx, agent: agent, Client: http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", h.httpSocketPath())
		},
	}}}
}

// sendRequest sends a request with further headers, each a name and a value. The caller closes
// the body of the answer.
func (w *webAgent) sendRequest(method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(w.ctx, method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Agent-ID", w.agent)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.Do(r)
}

// fetch makes a request and returns the body of its answer, which is a success.
func (w *webAgent) fetch(method, path, body string, header ...string) ([]byte, error) {
	answer, err := w.sendRequest(method, path, body, header...)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, bytes.TrimSpace(text))
	}
	return text, err
}

// post makes a request whose answer is a success that nobody reads.
func (w *webAgent) post(path, body string) error {
	_, err := w.fetch("POST", path, body)
	return err
}

// createObject makes something and returns its id.
func (w *webAgent) createObject(path, body string) (string, error) {
	text, err := w.fetch("POST", path, body)
	if err != nil {
		return "", err
	}
	var it struct {
		ID string `json:"id"`
	}
	return it.ID, json.Unmarshal(text, &it)
}

// followEvents opens an event stream and calls heard with the data of each event until
// ctx ends. It returns once the stream has begun.
func (w *webAgent) followEvents(path string, heard func(data []byte)) error {
	answer, err := w.sendRequest("GET", path, "")
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
