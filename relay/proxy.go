package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/commandenv"
	"github.com/acpd/acpd/internal/ownwords"
)

const (
	proxyCommandTime = 10 * time.Second
	maxProxyOutput   = 4 << 10 // bytes
)

// Proxy says through which HTTP proxy a server is reached, by CONNECT (RFC 9110, section
// 9.3.6). The zero value: through none. It prints without its secrets.
type Proxy struct {
	Environment bool     // HTTPS_PROXY and NO_PROXY, as they are at the first connection of the process
	URL         string   // http://[USER:PASSWORD@]HOST:PORT or https://
	Command     []string // a program and its arguments, run at each connection without a shell; the first line that it prints is the URL
}

// String says which proxy this is.
func (p Proxy) String() string {
	switch {
	case p.Environment:
		return "environment"
	case len(p.Command) > 0:
		return "command " + p.Command[0]
	case p.URL == "":
		return "none"
	}
	proxy, err := parseProxyURL(p.URL)
	if err != nil {
		return "invalid"
	}
	return proxy.address
}

// Format prints String for every verb of fmt.
func (p Proxy) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// LogValue keeps the secrets out of logs.
func (p Proxy) LogValue() slog.Value { return slog.StringValue(p.String()) }

func (p Proxy) check() error {
	ways := 0
	for _, set := range []bool{p.Environment, p.URL != "", len(p.Command) > 0} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return ownwords.New("more than one of environment, URL and command: write one of them")
	case p.URL != "":
		_, err := parseProxyURL(p.URL)
		return err
	case len(p.Command) > 0 && p.Command[0] == "":
		return ownwords.New("command: no program: write its path first")
	}
	return nil
}

// httpProxy is a proxy as it is used for one connection.
type httpProxy struct {
	address   string // host:port
	host      string
	encrypted bool
	basic     string // value of Proxy-Authorization; "": none
}

// find returns the proxy for an endpoint; nil: none.
func (p Proxy) find(ctx context.Context, e endpoint) (*httpProxy, error) {
	text := p.URL
	switch {
	case p.Environment:
		scheme := "http"
		if e.isEncrypted() {
			scheme = "https"
		}
		u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: e.hostPort()}})
		if err != nil {
			return nil, ownwords.New("proxy: HTTPS_PROXY is no URL: write http://HOST:PORT") // its error quotes the value
		}
		if u == nil {
			return nil, nil
		}
		text = u.String()
	case len(p.Command) > 0:
		printed, err := runProxyCommand(ctx, p.Command)
		if err != nil {
			return nil, ownwords.Errorf("proxy: command %s: %w", p.Command[0], err)
		}
		text = printed
	case text == "":
		return nil, nil
	}
	proxy, err := parseProxyURL(text)
	if err != nil {
		return nil, ownwords.Errorf("proxy: %w", err)
	}
	return proxy, nil
}

// parseProxyURL reads the URL of a proxy. The error quotes no part that could be a secret.
func parseProxyURL(text string) (*httpProxy, error) {
	const form = "write http://HOST:PORT or https://HOST:PORT"
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, ownwords.New("not a URL: " + form)
	}
	p := &httpProxy{host: u.Hostname(), encrypted: u.Scheme == "https"}
	port := u.Port()
	switch {
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, ownwords.New("the scheme is not one of a proxy: " + form)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, ownwords.New("the port is not valid: expected 1 to 65535")
	}
	p.address = net.JoinHostPort(p.host, port)
	if u.User != nil {
		password, _ := u.User.Password()
		p.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// connect asks the proxy for a connection to target, and returns it when the proxy has made it.
func (p *httpProxy) connect(ctx context.Context, conn net.Conn, target string, roots *x509.CertPool) (net.Conn, error) {
	if p.encrypted {
		encrypted := tls.Client(conn, &tls.Config{ServerName: p.host, RootCAs: roots, MinVersion: tls.VersionTLS12})
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, explainTLS(err)
		}
		conn = encrypted
	}
	request := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\nUser-Agent: acpd\r\n"
	if p.basic != "" {
		request += "Proxy-Authorization: " + p.basic + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return nil, err
	}
	return readConnectAnswer(conn)
}

// readConnectAnswer reads the head of the proxy's answer.
func readConnectAnswer(conn net.Conn) (net.Conn, error) {
	r := bufio.NewReaderSize(conn, maxLine)
	var status []byte
	for read := 0; ; {
		line, err := r.ReadSlice('\n')
		read += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || err == nil && read > maxLine:
			return nil, ownwords.Errorf("its answer has a head of more than %d bytes", maxLine)
		case err != nil:
			return nil, ownwords.Errorf("it did not answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if status == nil {
			status = bytes.Clone(line)
		} else if len(line) == 0 {
			break
		}
	}
	code, err := parseStatus(status)
	if err != nil {
		return nil, err
	}
	if code < 200 || code > 299 {
		return nil, explainProxyStatus(code)
	}
	rest, _ := r.Peek(r.Buffered())
	return &replayConn{Conn: conn, replay: bytes.Clone(rest)}, nil
}

// parseStatus reads the code of "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	version, rest, _ := bytes.Cut(line, []byte{' '})
	digits, _, _ := bytes.Cut(rest, []byte{' '})
	code, err := strconv.ParseUint(string(digits), 10, 16)
	if !bytes.HasPrefix(version, []byte("HTTP/1.")) || err != nil || len(digits) != 3 {
		return 0, ownwords.New("it answers something other than HTTP/1: is it an HTTP proxy?")
	}
	return int(code), nil
}

func explainProxyStatus(code int) error {
	switch code {
	case 407:
		return ownwords.New("status 407: it wants other credentials: write http://USER:PASSWORD@HOST:PORT, or a command that prints it")
	case 403, 405:
		return ownwords.Errorf("status %d: it forbids CONNECT to this host and port: use wss://HOST:443, or have it allowed", code)
	case 502, 503, 504:
		return ownwords.Errorf("status %d: it does not reach the server: check host and port of the relay", code)
	}
	return ownwords.Errorf("status %d for CONNECT: ask whoever runs the proxy", code)
}

// runProxyCommand returns the first line that the command prints. It is killed after 10 s, and what
// it started when it has ended.
func runProxyCommand(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, proxyCommandTime)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := &boundedBuffer{limit: maxProxyOutput}
	command.Stdout = out
	command.Env = commandenv.Environ()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	err := command.Run()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return "", ownwords.Errorf("took longer than %s", proxyCommandTime)
	case out.full:
		return "", ownwords.Errorf("printed more than %d bytes: expected one line", maxProxyOutput)
	case err != nil:
		return "", err
	}
	line, _, _ := strings.Cut(string(out.data), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", ownwords.New("printed nothing: expected the URL of a proxy")
	}
	return line, nil
}

// boundedBuffer keeps the first bytes, and fails beyond them.
type boundedBuffer struct {
	limit int
	data  []byte
	full  bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > b.limit {
		b.full = true
		return 0, ownwords.New("too much output")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}
