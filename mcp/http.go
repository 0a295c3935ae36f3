package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/kinds"
)

// ServeHTTP serves programs that connect to l, which must listen on loopback, until ctx ends. It
// calls announce with the URL, whose last part is a secret: whoever has it may use the tools. It
// refuses requests from web pages of any other origin, and such as name another host. It closes
// l, and returns ctx's error, or that of l.
//
// All clients are one session: they have one agent, one inbox and one list of calls.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, announce func(url string)) error {
	defer l.Close()
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return kinds.Errorf(kinds.Invalid, "--http: %s is not on loopback: listen on 127.0.0.1", l.Addr())
	}
	s.prepare()
	defer s.shutDown()
	token := rand.Text()
	streams := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		SessionTimeout: time.Hour, MaxRequestBodyBytes: maxLine,
	})
	server := &http.Server{
		Handler:           newGuard(l.Addr().(*net.TCPAddr), token, refuseIDs(streams)),
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
	}
	base := url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/" + token}
	announce(base.String())
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// refuseIDs refuses messages with ids that would come back as others.
func refuseIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
		if err != nil {
			http.Error(w, "the message is too long, or was cut", http.StatusRequestEntityTooLarge)
			return
		}
		if refusal := checkIDs(body); refusal != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, refusal)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// newGuard lets through what names the listener's own address as host, comes from no web page but
// one of that address, and knows the token.
func newGuard(addr *net.TCPAddr, token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, err := net.SplitHostPort(r.Host)
		if ip := net.ParseIP(host); err != nil || port != portOf(addr) || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "the Host header names another host", http.StatusForbidden)
			return
		}
		if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && origins[0] != "http://"+r.Host {
			http.Error(w, "web pages may not use this server", http.StatusForbidden)
			return
		}
		given := strings.TrimPrefix(r.URL.Path, "/")
		if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			http.Error(w, "the URL lacks the token that acpctl mcp has printed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func portOf(addr *net.TCPAddr) string {
	_, port, _ := net.SplitHostPort(addr.String())
	return port
}
