package relay

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// newQUICConfig returns what the node uses on links.
func newQUICConfig() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: 3 * time.Second, MaxIdleTimeout: 14 * time.Second, KeepAlivePeriod: 6 * time.Second,
		InitialStreamReceiveWindow: 128 << 10, MaxStreamReceiveWindow: 128 << 10,
		InitialConnectionReceiveWindow: 2 << 20, MaxConnectionReceiveWindow: 2 << 20,
		InitialPacketSize: 1200, DisablePathMTUDiscovery: true,
	}
}

// newTLSConfig returns one with a certificate of a fresh key. Here TLS proves nothing: it is the daemon that pins keys.
func newTLSConfig(t testing.TB) *tls.Config {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, NextProtos: []string{"acp/1"}, MinVersion: tls.VersionTLS13,
	}
}

// serveEcho answers each stream with what it brings.
func serveEcho(t testing.TB, conn net.PacketConn) {
	t.Helper()
	transport := &quic.Transport{Conn: conn, ConnectionIDLength: 8}
	listener, err := transport.Listen(newTLSConfig(t), newQUICConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); transport.Close() })
	go func() {
		for {
			c, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					s, err := c.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go func() {
						io.Copy(s, s)
						s.Close()
					}()
				}
			}()
		}
	}()
}

// dial connects to the echo at addr.
func dial(t testing.TB, conn net.PacketConn, addr net.Addr) *quic.Conn {
	t.Helper()
	transport := &quic.Transport{Conn: conn, ConnectionIDLength: 8}
	t.Cleanup(func() { transport.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := transport.Dial(ctx, addr, newTLSConfig(t), newQUICConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// echo sends data on a stream of its own and reads it back.
func echo(c *quic.Conn, data []byte) error {
	s, err := c.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	s.SetDeadline(time.Now().Add(patience))
	go func() {
		s.Write(data)
		s.Close()
	}()
	back, err := io.ReadAll(s)
	if err == nil && !bytes.Equal(back, data) {
		err = fmt.Errorf("%d bytes come back, which are not the %d that were sent", len(back), len(data))
	}
	return err
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
