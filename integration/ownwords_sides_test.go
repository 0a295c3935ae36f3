package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/quic-go/quic-go"
	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/relay"
	"github.com/acpd/acpd/wire"
)

// server is one connection of a peer that follows no rule but the row's.
type server struct {
	t       *testing.T
	qc      *quic.Conn
	saying  sync.Mutex
	control *quic.SendStream
}

// ofServer returns what runs a peer of the row's name, which serves each connection so. With a certificate, it shows
// that instead of one of its key.
func ofServer(serve func(*server), certificate ...func(*testing.T) tls.Certificate) func(*testing.T, *machine, string) []string {
	return func(t *testing.T, desk *machine, name string) []string {
		key := newIdentity(t)
		conf, err := key.ServerTLS(false, func() []string { return []string{identity.ALPN} })
		if len(certificate) > 0 {
			conf = &tls.Config{Certificates: []tls.Certificate{certificate[0](t)}, NextProtos: []string{identity.ALPN}}
		}
		if err != nil {
			t.Fatal(err)
		}
		addr := listenQUIC(t, conf, func(qc *quic.Conn) { serve(&server{t: t, qc: qc}) })
		desk.trustKey(key, name, addr)
		t.Cleanup(func() { desk.MustOutput("untrust", name) })
		return nil
	}
}

// listenQUIC serves each connection to an address of its own until the test ends, and returns the address.
func listenQUIC(t *testing.T, conf *tls.Config, serve func(*quic.Conn)) (addr string) {
	t.Helper()
	l, err := quic.ListenAddr("127.0.0.1:0", conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			qc, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go serve(qc)
		}
	}()
	return l.Addr().String()
}

// listenTCP is listenQUIC for TCP.
func listenTCP(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

func newIdentity(t *testing.T) *identity.Key {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (m *machine) trustKey(key *identity.Key, name string, addrs ...string) {
	m.T.Helper()
	if _, err := m.Client.Trust(await.NewContext(m.T), client.TrustParams{Peer: key.ID().String(), Name: name, Addrs: addrs}); err != nil {
		m.T.Fatal(err)
	}
}

// greet sends a hello, reads the other one, and answers pings from then on.
func (s *server) greet(edit func(*wire.Hello)) {
	h := &wire.Hello{Name: "row", Software: "test", MaxMessage: wire.DefaultMaxMessage}
	rand.Read(h.Boot[:])
	if edit != nil {
		edit(h)
	}
	b, err := wire.AppendControlItem([]byte{byte(wire.StreamControl)}, h)
	if err != nil {
		s.t.Error(err)
	}
	s.say(b)
	stream, err := s.qc.AcceptUniStream(context.Background())
	if err != nil {
		return
	}
	go func() {
		in := bufio.NewReader(stream)
		in.ReadByte() // the type
		for {
			item, err := wire.ReadControlItem(in)
			if err != nil {
				return
			}
			if ping, ok := item.(*wire.Ping); ok {
				s.sayItem(&wire.Pong{N: ping.N})
			}
		}
	}()
}

func (s *server) sayItem(item wire.Item) {
	b, err := wire.AppendControlItem(nil, item)
	if err != nil {
		s.t.Error(err)
	}
	s.say(b)
}

// sayBody sends the type of the control stream and the body of one item, and waits for the end.
func (s *server) sayBody(body []byte) {
	s.say(append([]byte{byte(wire.StreamControl), 0x40 | byte(len(body)>>8), byte(len(body))}, body...))
	<-s.qc.Context().Done()
}

// say writes on the control stream. If that fails, the connection has ended, and the row sees it.
func (s *server) say(b []byte) {
	s.saying.Lock()
	defer s.saying.Unlock()
	if s.control == nil {
		var err error
		if s.control, err = s.qc.OpenUniStream(); err != nil {
			return
		}
	}
	s.control.Write(b)
}

// answer answers every request.
func (s *server) answer(with func(request *wire.Envelope) []byte) {
	for {
		stream, err := s.qc.AcceptStream(context.Background())
		if err != nil {
			return
		}
		b, err := io.ReadAll(stream)
		if err != nil || len(b) == 0 {
			continue
		}
		if request, err := wire.ParseEnvelope(b[1:]); err == nil {
			stream.Write(with(request))
			stream.Close()
		}
	}
}

// reply answers every request with a payload of a kind.
func (s *server) reply(kind, payload string) {
	s.answer(func(request *wire.Envelope) []byte {
		var b bytes.Buffer
		if err := wire.NewReply(request, kind, wire.Payload(payload)).Append(&b); err != nil {
			s.t.Error(err)
		}
		return b.Bytes()
	})
}

// ofPipe has the peer reached by a script of sh, whose $1 is foreign.
func ofPipe(script string) func(*testing.T, *machine, string) []string {
	return func(t *testing.T, desk *machine, name string) []string {
		desk.trustKey(newIdentity(t), name)
		config := fmt.Sprintf("peers: {%s: {pipe: [sh, -c, %q, sh, %q]}}\n", name, script, foreign)
		if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		desk.MustOutput("reload")
		return nil
	}
}

// ofRelay adds a relay whose server says so much and ends the connection.
func ofRelay(says string) func(*testing.T, *machine, string) []string {
	return func(t *testing.T, desk *machine, name string) []string {
		addr := listenTCP(t, func(c net.Conn) {
			defer c.Close()
			io.WriteString(c, says)
			c.SetReadDeadline(time.Now().Add(time.Second))
			bufio.NewReader(c).ReadString('\n')
		})
		desk.MustOutput("relay", "add", "nats://"+addr, "--name", name, "--no-check")
		t.Cleanup(func() { desk.MustOutput("relay", "remove", name) })
		return []string{"relay", "test", name}
	}
}

// ofNameAnswer adds a relay whose server answers requests for names with a certificate of an authority that
// counts, which has these principals.
func ofNameAnswer(principals ...string) func(*testing.T, *machine, string) []string {
	return func(t *testing.T, desk *machine, name string) []string {
		corp := authority.New(t, "corp")
		certificate := corp.SignChanged(newIdentity(t).ID(), time.Hour, func(c *ssh.Certificate) { c.KeyId = foreign }, principals...)
		addr := listenTCP(t, func(c net.Conn) { answerForNames(c, certificate) })
		config := fmt.Sprintf("organisation: {authorities: {corp: {key: %q}}}\n", corp.Line())
		if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		desk.MustOutput("reload")
		desk.MustOutput("relay", "add", "nats://"+addr, "--name", name, "--no-check")
		t.Cleanup(func() { desk.MustOutput("relay", "remove", name) })
		return []string{"query", "build.corp", "Which schema?"}
	}
}

// answerForNames is a NATS server that knows no rule but that.
func answerForNames(c net.Conn, answer []byte) {
	defer c.Close()
	io.WriteString(c, `INFO {"proto":1,"headers":true,"nonce":"n","max_payload":8192}`+"\r\n")
	in := bufio.NewReader(c)
	subscriptions := make(map[string]string)
	for {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			return
		}
		switch last := words[len(words)-1]; words[0] {
		case "PING":
			io.WriteString(c, "PONG\r\n")
		case "SUB":
			subscriptions[words[1]] = last
		case "PUB", "HPUB":
			size, err := strconv.Atoi(last)
			payload := make([]byte, size+len("\r\n"))
			if _, full := io.ReadFull(in, payload); err != nil || full != nil {
				return
			}
			payload = payload[:size]
			if strings.HasPrefix(words[1], "acp1.name.") {
				if r, err := relay.ParseRequest(payload); err == nil {
					of := "acp1." + r.Asker.String()
					fmt.Fprintf(c, "MSG %s.%x %s %d\r\n%s\r\n", of, r.Token, subscriptions[of+".*"], len(answer), answer)
				}
			} else if sid := subscriptions[words[1]]; sid != "" {
				fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", words[1], sid, size, payload)
			}
		}
	}
}

// ofInviter has the desk join somebody who answers so.
func ofInviter(answer any) func(*testing.T, *machine, string) []string {
	return func(t *testing.T, desk *machine, name string) []string {
		key := newIdentity(t)
		conf, err := key.ServerTLS(false, func() []string { return []string{identity.ALPNJoin} })
		if err != nil {
			t.Fatal(err)
		}
		body, err := wire.MarshalCBOR(answer)
		if err != nil {
			t.Fatal(err)
		}
		addr := listenQUIC(t, conf, func(qc *quic.Conn) {
			if stream, err := qc.AcceptStream(context.Background()); err == nil {
				stream.Write(body)
				stream.Close()
			}
		})
		return []string{"join", identity.Invitation{ID: key.ID(), Addrs: []string{addr}, Name: name, Token: [16]byte{1}}.String()}
	}
}

func cborText(s string) []byte {
	b, err := wire.MarshalCBOR(s)
	if err != nil {
		panic(err)
	}
	return b
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// hostileCertificate is one that crypto/x509 cannot parse, and whose words its error quotes.
func hostileCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte("x://" + foreign)}
	names, err := asn1.Marshal([]asn1.RawValue{uri})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: names}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseCertificate(der); err == nil || !strings.Contains(err.Error(), foreignMark) {
		t.Fatalf("the certificate is read with %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}
