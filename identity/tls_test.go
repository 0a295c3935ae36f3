package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func offer(protocols ...string) func() []string { return func() []string { return protocols } }

// handshake runs both ends over loopback until each knows the other's verdict.
func handshake(t *testing.T, server, client *tls.Config) (s, c tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	finish := func(conn *tls.Conn) (tls.ConnectionState, error) {
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		err := conn.Handshake()
		if err == nil {
			err = conn.CloseWrite()
		}
		if err == nil {
			_, err = io.Copy(io.Discard, conn) // the other side's refusal comes here
		}
		return conn.ConnectionState(), err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := listener.Accept()
		if err != nil {
			serverErr = err
			return
		}
		s, serverErr = finish(tls.Server(raw, server))
	}()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, clientErr = finish(tls.Client(raw, client))
	<-done
	return s, c, serverErr, clientErr
}

func configs(t *testing.T, server, client *Key, hybrid bool) (*tls.Config, *tls.Config) {
	t.Helper()
	s, err := server.ServerTLS(hybrid, offer(ALPN))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.ClientTLS(server.ID(), hybrid, ALPN)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestHandshake(t *testing.T) {
	for _, hybrid := range []bool{false, true} {
		server, client := newTestKey(t), newTestKey(t)
		sc, cc := configs(t, server, client, hybrid)
		s, c, serverErr, clientErr := handshake(t, sc, cc)
		if serverErr != nil || clientErr != nil {
			t.Fatalf("server %v, client %v", serverErr, clientErr)
		}
		if id, err := PeerID(s); id != client.ID() || err != nil {
			t.Errorf("server sees %s, %v", id, err)
		}
		if id, err := PeerID(c); id != server.ID() || err != nil {
			t.Errorf("client sees %s, %v", id, err)
		}
		if s.CurveID != tls.X25519MLKEM768 || s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != ALPN || s.DidResume || s.HelloRetryRequest {
			t.Errorf("negotiated %v, %x, %q", s.CurveID, s.Version, s.NegotiatedProtocol)
		}

		// The hello's signature over this very connection.
		es, err1 := s.ExportKeyingMaterial(ExporterLabel, nil, exporterSize)
		ec, err2 := c.ExportKeyingMaterial(ExporterLabel, nil, exporterSize)
		if err1 != nil || err2 != nil || !bytes.Equal(es, ec) {
			t.Fatalf("exporters differ: %v, %v", err1, err2)
		}
		sig, err := client.SignHello(ec, server.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := VerifyHello(client.PublicPQ(), sig, es, client.ID(), server.ID()); err != nil {
			t.Error(err)
		}
	}
}

func TestHandshakeWrongID(t *testing.T) {
	server, client, other := newTestKey(t), newTestKey(t), newTestKey(t)
	sc, _ := configs(t, server, client, false)
	cc, err := client.ClientTLS(other.ID(), false, ALPN)
	if err != nil {
		t.Fatal(err)
	}
	_, _, serverErr, clientErr := handshake(t, sc, cc)
	wrong, ok := errors.AsType[*WrongIDError](clientErr)
	if !ok || wrong.Want != other.ID() || wrong.Got != server.ID() || serverErr == nil {
		t.Errorf("server %v, client %v", serverErr, clientErr)
	}
}

func TestHandshakeKeyExchange(t *testing.T) {
	server, client := newTestKey(t), newTestKey(t)
	for _, hybrid := range []bool{false, true} {
		sc, cc := configs(t, server, client, hybrid)
		cc.CurvePreferences = []tls.CurveID{tls.X25519}
		s, _, serverErr, clientErr := handshake(t, sc, cc)
		if hybrid && (serverErr == nil || clientErr == nil) {
			t.Error("X25519 alone accepted although hybrid is required")
		}
		if !hybrid && (serverErr != nil || clientErr != nil || s.CurveID != tls.X25519) {
			t.Errorf("X25519 alone: server %v, client %v, %v", serverErr, clientErr, s.CurveID)
		}
	}
	// The dialler's own requirement.
	_, cc := configs(t, server, client, true)
	sc, _ := configs(t, server, client, false)
	sc.CurvePreferences = []tls.CurveID{tls.X25519}
	if _, _, serverErr, clientErr := handshake(t, sc, cc); serverErr == nil || clientErr == nil {
		t.Error("dialler accepts X25519 alone although it requires hybrid")
	}
}

func TestHandshakeProtocols(t *testing.T) {
	server, client := newTestKey(t), newTestKey(t)
	var offered []string
	sc, err := server.ServerTLS(false, func() []string { return offered })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offered, dialled []string
		want             string
	}{
		{[]string{ALPN}, []string{ALPN}, ALPN},
		{[]string{ALPN}, []string{ALPNJoin}, ""},
		{[]string{ALPN, ALPNJoin}, []string{ALPNJoin}, ALPNJoin},
		{[]string{ALPN, ALPNJoin}, []string{ALPN}, ALPN},
		{[]string{ALPN}, []string{"acp/2", ALPN}, ALPN},
		{[]string{ALPN}, []string{"acp/2"}, ""},
		{[]string{ALPN}, nil, ""},
		{nil, []string{ALPN}, ""},
		{nil, nil, ""},
	} {
		offered = c.offered
		cc, err := client.ClientTLS(server.ID(), false, c.dialled...)
		if err != nil {
			t.Fatal(err)
		}
		s, _, serverErr, clientErr := handshake(t, sc, cc)
		if c.want == "" && (serverErr == nil || clientErr == nil) {
			t.Errorf("offered %q, dialled %q: server %v, client %v", c.offered, c.dialled, serverErr, clientErr)
		}
		if c.want != "" && (serverErr != nil || clientErr != nil || s.NegotiatedProtocol != c.want) {
			t.Errorf("offered %q, dialled %q: %q, server %v, client %v", c.offered, c.dialled, s.NegotiatedProtocol, serverErr, clientErr)
		}
	}
}

func TestHandshakeForm(t *testing.T) {
	server, client := newTestKey(t), newTestKey(t)
	own, err := client.certificate()
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{}, &x509.Certificate{}, p256.Public(), p256)
	if err != nil {
		t.Fatal(err)
	}
	for name, certificate := range map[string]tls.Certificate{
		"none":      {},
		"two":       {Certificate: [][]byte{own.Certificate[0], own.Certificate[0]}, PrivateKey: own.PrivateKey},
		"P-256":     {Certificate: [][]byte{der}, PrivateKey: p256},
		"not owned": {Certificate: own.Certificate, PrivateKey: newTestKey(t).privateKey()},
	} {
		sc, cc := configs(t, server, client, false)
		cc.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
		if _, _, serverErr, _ := handshake(t, sc, cc); serverErr == nil {
			t.Errorf("%s: accepted from a client", name)
		}
		if name == "none" {
			continue
		}
		_, cc = configs(t, client, server, false)
		sc.GetConfigForClient = nil
		sc.NextProtos = []string{ALPN}
		sc.Certificates = []tls.Certificate{certificate}
		if _, _, _, clientErr := handshake(t, sc, cc); clientErr == nil {
			t.Errorf("%s: accepted from a server", name)
		}
	}

	// TLS 1.2 is refused both ways.
	sc, cc := configs(t, server, client, false)
	cc.MinVersion, cc.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, serverErr, clientErr := handshake(t, sc, cc); serverErr == nil || clientErr == nil {
		t.Error("TLS 1.2 accepted")
	}
}

func TestHandshakeDoesNotResume(t *testing.T) {
	server, client := newTestKey(t), newTestKey(t)
	sc, cc := configs(t, server, client, false)
	cc.SessionTicketsDisabled = false
	cc.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	for range 2 {
		s, _, serverErr, clientErr := handshake(t, sc, cc)
		if serverErr != nil || clientErr != nil || s.DidResume {
			t.Errorf("resumed %v, server %v, client %v", s.DidResume, serverErr, clientErr)
		}
	}
}

func TestPeerIDRefusesZeroKey(t *testing.T) {
	own, err := newTestKey(t).certificate()
	if err != nil {
		t.Fatal(err)
	}
	leaf := *own.Leaf
	leaf.PublicKey = newTestKey(t).privateKey().Public()
	if _, err := PeerID(tls.ConnectionState{PeerCertificates: []*x509.Certificate{&leaf}}); err != nil {
		t.Error(err)
	}
	leaf.PublicKey = make(ed25519.PublicKey, ed25519.PublicKeySize)
	if _, err := PeerID(tls.ConnectionState{PeerCertificates: []*x509.Certificate{&leaf}}); err == nil {
		t.Error("zero key accepted")
	}
}

func TestSignHello(t *testing.T) {
	desk, laptop, other := newTestKey(t), newTestKey(t), newTestKey(t)
	exporter := bytes.Repeat([]byte{7}, exporterSize)
	sig, err := desk.SignHello(exporter, laptop.ID())
	if err != nil {
		t.Fatal(err)
	}
	public := desk.PublicPQ()
	if len(public) != 1952 || len(sig) != 3309 {
		t.Errorf("public key of %d bytes, signature of %d", len(public), len(sig))
	}
	flip := func(b []byte, i int) []byte { c := bytes.Clone(b); c[i] ^= 1; return c }
	for name, c := range map[string]struct {
		public, sig, exporter []byte
		signer, self          ID
		ok                    bool
	}{
		"good":             {public, sig, exporter, desk.ID(), laptop.ID(), true},
		"other connection": {public, sig, flip(exporter, 0), desk.ID(), laptop.ID(), false},
		"other signer":     {public, sig, exporter, other.ID(), laptop.ID(), false},
		"for another":      {public, sig, exporter, desk.ID(), other.ID(), false},
		"reflected":        {public, sig, exporter, laptop.ID(), desk.ID(), false},
		"other key":        {other.PublicPQ(), sig, exporter, desk.ID(), laptop.ID(), false},
		"damaged key":      {flip(public, 100), sig, exporter, desk.ID(), laptop.ID(), false},
		"damaged sig":      {public, flip(sig, 100), exporter, desk.ID(), laptop.ID(), false},
		"cut sig":          {public, sig[:3308], exporter, desk.ID(), laptop.ID(), false},
		"long sig":         {public, append(bytes.Clone(sig), 0), exporter, desk.ID(), laptop.ID(), false},
		"no sig":           {public, nil, exporter, desk.ID(), laptop.ID(), false},
		"cut key":          {public[:1951], sig, exporter, desk.ID(), laptop.ID(), false},
		"long key":         {append(bytes.Clone(public), 0), sig, exporter, desk.ID(), laptop.ID(), false},
		"no key":           {nil, sig, exporter, desk.ID(), laptop.ID(), false},
		"cut exporter":     {public, sig, exporter[:31], desk.ID(), laptop.ID(), false},
	} {
		if err := VerifyHello(c.public, c.sig, c.exporter, c.signer, c.self); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := desk.SignHello(exporter[:31], laptop.ID()); err == nil {
		t.Error("signed a short exporter")
	}
}

// The post-quantum half must never change for a seed: peers have pinned it.
func TestPublicPQKnownAnswer(t *testing.T) {
	key := mustParseKey(t, rfcKey)
	const want = "cdf9f87b5593a7bece38f8d812eb2220f547166aab9529b24362b83274d2a8e7"
	hash := HashPQ(key.PublicPQ())
	if hash.String() != want {
		t.Errorf("hash %s", hash)
	}
	key.PublicPQ()[0]++
	if HashPQ(key.PublicPQ()) != hash {
		t.Error("PublicPQ shares memory")
	}
	var parsed PQHash
	if err := parsed.UnmarshalText([]byte(want)); err != nil || parsed != hash || parsed.IsZero() {
		t.Errorf("parsed %v, %v", parsed, err)
	}
	if err := parsed.UnmarshalText([]byte(strings.ToUpper(want))); err == nil || parsed != hash {
		t.Errorf("upper case: %v, %v", parsed, err)
	}
}
