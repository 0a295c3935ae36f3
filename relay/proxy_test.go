package relay

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// newAuthority returns a certificate for 127.0.0.1, and the roots that hold it.
func newAuthority(t *testing.T, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// listen serves connections on loopback until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return listener.Addr().String()
}

// testProxy is an HTTP proxy that knows one password, and CONNECT alone.
type testProxy struct {
	password atomic.Pointer[string]
	status   string       // instead of 200, if set
	passed   atomic.Int64 // connections that it made
	refused  atomic.Int64
}

func (p *testProxy) serve(c net.Conn) {
	r := bufio.NewReader(c)
	var head []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		head = append(head, line)
	}
	var target string
	if _, err := fmt.Sscanf(head[0], "CONNECT %s HTTP/1.1", &target); err != nil {
		io.WriteString(c, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	want := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+*p.password.Load()))
	if !strings.Contains(strings.Join(head, "\n"), want) {
		p.refused.Add(1)
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
		return
	}
	if p.status != "" {
		io.WriteString(c, "HTTP/1.1 "+p.status+"\r\n\r\n")
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer server.Close()
	p.passed.Add(1)
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { io.Copy(server, r); server.Close() }()
	io.Copy(c, server)
}

// serveNATS is a server that lets everybody in.
func serveNATS(c net.Conn) {
	f := newFakeConn(c)
	if f.accept(plainInfo) == nil {
		f.follow(nil, nil)
	}
}

// serveNATSWithTLS says INFO in the clear, as NATS does, and then does TLS.
func serveNATSWithTLS(certificate tls.Certificate) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, strings.Replace(plainInfo, `"proto":1`, `"proto":1,"tls_required":true`, 1))
		encrypted := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
		f := newFakeConn(encrypted)
		if f.accept("") == nil {
			f.follow(nil, nil)
		}
	}
}

func serveTLS(certificate tls.Certificate, serve func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		serve(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	}
}

func isConnected(s State) bool { return s.Standing == Connected }

func failedWith(text string) func(State) bool {
	return func(s State) bool { return s.LastError != nil && strings.Contains(s.LastError.Error(), text) }
}

// holds: security.md#against-a-relay-and-those-who-share-it
func TestTLS(t *testing.T) {
	certificate, roots := newAuthority(t, time.Now().Add(time.Hour))
	c := testConfig()
	c.URL, c.Roots = "tls://"+listen(t, serveNATSWithTLS(certificate)), roots
	runLink(t, mustOpen(t, c), new(testObserver)).await(t, isConnected)

	c.Roots = x509.NewCertPool()
	runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith("of an authority that this machine trusts: for one of your own, set SSL_CERT_FILE"))

	c.Roots, c.URL = roots, strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
	runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith("must be valid for localhost"))

	expired, itsRoots := newAuthority(t, time.Now().Add(-time.Hour))
	c.URL, c.Roots = "tls://"+listen(t, serveNATSWithTLS(expired)), itsRoots
	runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith("the certificate is not valid at this time: have it renewed"))

	// A server without TLS gets nothing that it could read, and no CONNECT.
	got := make(chan string, 64)
	c.URL = "tls://" + listen(t, func(c net.Conn) {
		io.WriteString(c, plainInfo)
		b := make([]byte, 64)
		n, _ := c.Read(b)
		got <- string(b[:n])
		io.WriteString(c, "-ERR 'Unknown Protocol Operation'\r\n")
	})
	runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith("speaks no TLS"))
	if text := <-got; strings.Contains(text, "CONNECT") || !strings.HasPrefix(text, "\x16\x03") {
		t.Errorf("a server without TLS got %q", text)
	}
}

// The proxy's command is run for each connection, so credentials may change.
func TestProxyCommandAndRotation(t *testing.T) {
	certificate, roots := newAuthority(t, time.Now().Add(time.Hour))
	for name, encrypted := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			var natsConn atomic.Pointer[net.Conn]
			server := listen(t, func(c net.Conn) { natsConn.Store(&c); serveNATS(c) })
			proxy := new(testProxy)
			proxy.password.Store(new("first"))
			serve := proxy.serve
			if encrypted {
				serve = serveTLS(certificate, serve)
			}
			address := listen(t, serve)
			password := filepath.Join(t.TempDir(), "password")
			setPassword := func(s string) {
				if err := os.WriteFile(password, []byte(s), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			setPassword("first")
			script := writeScript(t, fmt.Sprintf(`echo "%s://u:$(cat %s)@%s"; echo more`, name, password, address))
			c := testConfig()
			c.URL, c.Roots, c.Proxy.Command = "nats://"+server, roots, []string{script}
			live := runLink(t, mustOpen(t, c), new(testObserver))
			if s := live.await(t, isConnected); s.Proxy != address {
				t.Errorf("the state names the proxy %q, it is %q", s.Proxy, address)
			}
			proxy.password.Store(new("second"))
			(*natsConn.Load()).Close()
			s := live.await(t, failedWith("status 407"))
			if strings.Contains(s.LastError.Error(), "first") {
				t.Errorf("%v has the password", s.LastError)
			}
			setPassword("second")
			live.await(t, func(s State) bool { return s.Reconnects == 1 && isConnected(s) })
			if proxy.passed.Load() != 2 || proxy.refused.Load() == 0 {
				t.Errorf("the proxy made %d connections and refused %d, after %v", proxy.passed.Load(), proxy.refused.Load(), s.LastError)
			}
		})
	}
}

func TestProxyFailures(t *testing.T) {
	server := listen(t, serveNATS)
	proxy := new(testProxy)
	proxy.password.Store(new("pw"))
	forbidding := &testProxy{status: "403 Forbidden"}
	forbidding.password.Store(new("pw"))
	c := testConfig()
	c.URL = "nats://" + server
	for name, f := range map[string]struct {
		proxy Proxy
		want  string
	}{
		"no password":    {Proxy{URL: "http://" + listen(t, proxy.serve)}, "407"},
		"forbidden":      {Proxy{URL: "http://u:pw@" + listen(t, forbidding.serve)}, "forbids CONNECT"},
		"no proxy":       {Proxy{URL: "http://127.0.0.1:1"}, "nothing listens"},
		"not HTTP":       {Proxy{URL: "http://" + listen(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n\r\n") })}, "other than HTTP"},
		"endless head":   {Proxy{URL: "http://" + listen(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("a: b\r\n", 20000)) })}, "head of more"},
		"hangs up":       {Proxy{URL: "http://" + listen(t, func(net.Conn) {})}, "did not answer"},
		"command fails":  {Proxy{Command: []string{"false"}}, "exit status 1"},
		"no command":     {Proxy{Command: []string{"/nonexistent"}}, "no such file"},
		"prints nothing": {Proxy{Command: []string{"true"}}, "printed nothing"},
		"prints much":    {Proxy{Command: []string{"sh", "-c", "yes"}}, "more than 4096 bytes"},
		"prints no URL":  {Proxy{Command: []string{"echo", "u:hunter2@x"}}, "not a URL"},
	} {
		c.Proxy = f.proxy
		s := runLink(t, mustOpen(t, c), new(testObserver)).await(t, failedWith(f.want))
		if !strings.HasPrefix(s.LastError.Error(), "relay vps: ") || strings.Contains(s.LastError.Error(), "hunter2") {
			t.Errorf("%s: %v", name, s.LastError)
		}
	}
}

// TestProxyOfEnvironment looks at each environment in a process of its own: net/http reads it once.
func TestProxyOfEnvironment(t *testing.T) {
	const which = "ACPD_TEST_PROXY"
	find := func(url string) (*httpProxy, error) {
		server, err := newEndpoint(url)
		if err != nil {
			t.Fatal(err)
		}
		return Proxy{Environment: true}.find(context.Background(), server)
	}
	switch os.Getenv(which) {
	case "right":
		for url, through := range map[string]bool{
			"wss://nats.example.org": true, "tls://nats.example.org": true,
			"wss://inside.example.org": false, "ws://127.0.0.1": false, "nats://localhost": false,
		} {
			p, err := find(url)
			if err != nil || (p != nil) != through || through && (p.address != "proxy.example.org:3128" || p.basic == "") {
				t.Errorf("%s goes through %+v (%v)", url, p, err)
			}
		}
	case "wrong":
		if _, err := find("wss://nats.example.org"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a wrong HTTPS_PROXY: %v", err)
		}
	default:
		for name, proxy := range map[string]string{"right": "http://u:pw@proxy.example.org:3128", "wrong": "://u:hunter2@x"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestProxyOfEnvironment$", "-test.v")
			cmd.Env = append(os.Environ(), which+"="+name, "HTTPS_PROXY="+proxy, "NO_PROXY=inside.example.org")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestProxyOfEnvironment") {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}

// A command that does not end is killed with what it started.
func TestProxyCommandIsKilled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	pids := filepath.Join(t.TempDir(), "pids")
	ended := make(chan error, 1)
	script := writeScript(t, "sleep 600 & echo $! > "+pids+".new; mv "+pids+".new "+pids+"; wait")
	go func() {
		_, err := runProxyCommand(ctx, []string{script})
		ended <- err
	}()
	var pid int
	await.Until(t, "the command has started another", func() bool {
		b, err := os.ReadFile(pids)
		fmt.Sscan(string(b), &pid)
		return err == nil
	})
	cancel()
	if err := await.Receive(t, "the command has ended", ended); err == nil {
		t.Error("no error")
	}
	await.Until(t, "what it started has ended", func() bool {
		// It is gone, or a zombie whose new parent has not asked.
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

// What a command has started and left ends with it, and it hears nothing that the service manager says
// to the daemon.
func TestProxyCommandLeavesNothing(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	pids := filepath.Join(t.TempDir(), "pids")
	said, err := runProxyCommand(t.Context(), []string{writeScript(t, "sleep 600 >/dev/null 2>&1 & echo $! > "+pids+"; echo http://proxy.example:3128/$NOTIFY_SOCKET")})
	if err != nil || said != "http://proxy.example:3128/" {
		t.Fatalf("%q, %v", said, err)
	}
	var pid int
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "what it started has ended", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}
