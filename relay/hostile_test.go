package relay

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nkeys"

	"github.com/acpd/acpd/identity"
)

// A server that chooses as nonce what a TLS server signs to prove its key (RFC 8446, section
// 4.4.3) gets the signature of the derived key, and of no other.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestIdentityKeySignsNoNonce(t *testing.T) {
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	nonce := strings.Repeat(" ", 64) + "TLS 1.3, server CertificateVerify\x00" + strings.Repeat("h", 32)
	text, err := json.Marshal(map[string]any{"server_id": "FAKE", "headers": true, "max_payload": 1 << 20, "nonce": nonce})
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig()
	c.Self, c.Key = key.ID(), key.DeriveSecret(KeyLabel)
	var connect string
	withLink(t, c, func(c *fakeConn) {
		if c.accept("INFO "+string(text)+"\r\n") == nil {
			connect = c.connect
			c.follow(nil, nil)
		}
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) { synctest.Wait() })

	var sent struct{ Nkey, Sig string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(connect, "CONNECT ")), &sent, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(false)); err != nil {
		t.Fatalf("%v in %q", err, connect)
	}
	want, err := PublicKey(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	if sent.Nkey != want {
		t.Errorf("the server got nkey %s, the derived one is %s", sent.Nkey, want)
	}
	signature, err := base64.RawURLEncoding.DecodeString(sent.Sig)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := nkeys.FromPublicKey(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := derived.Verify([]byte(nonce), signature); err != nil {
		t.Errorf("the derived key has not signed: %v", err)
	}
	id := key.ID()
	if ed25519.Verify(id[:], []byte(nonce), signature) {
		t.Error("the identity key has signed the server's nonce")
	}
	asUser, err := nkeys.Encode(nkeys.PrefixByteUser, id[:])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(connect, string(asUser)) || strings.Contains(connect, id.String()) {
		t.Errorf("the server hears the identity: %s", connect)
	}
}

// A server that names others, at the begin and later, and many addresses of the client, moves
// nothing: only the configured host is connected to.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestNoOtherServerIsContacted(t *testing.T) {
	info := func(urls ...string) string {
		return fmt.Sprintf(`INFO {"server_id":"FAKE","host":"10.0.0.1","port":22,"headers":true,"max_payload":1048576,"nonce":"abc","connect_urls":["%s"],"ws_connect_urls":["127.0.0.1:80"],"client_ip":"127.0.0.1"}`+"\r\n",
			strings.Join(urls, `","`))
	}
	withLink(t, testConfig(), func(c *fakeConn) {
		if c.accept(info("127.0.0.1:22", "169.254.169.254:80")) != nil {
			return
		}
		c.network.wg.Go(func() {
			for i := range 100 {
				c.say(`INFO {"server_id":"FAKE","headers":true,"max_payload":1048576,"connect_urls":["198.51.100.%d:22"],"client_ip":"198.51.100.%d","ldm":true}`+"\r\n", i, i)
			}
			time.Sleep(time.Second)
			c.Close()
		})
		c.follow(nil, nil)
	}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
		time.Sleep(time.Minute)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.dialed) < 10 {
			t.Errorf("%d connections in a minute", len(n.dialed))
		}
		for _, address := range n.dialed {
			if address != "127.0.0.1:4222" {
				t.Errorf("connected to %s", address)
			}
		}
	})
}

// What a server says of this host's address is kept only if it is public and not the server's.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestClientIP(t *testing.T) {
	for said, kept := range map[string]string{
		"198.51.100.7": "198.51.100.7", "::ffff:198.51.100.7": "198.51.100.7", "2001:db8::7": "2001:db8::7",
		"127.0.0.1": "", "10.1.2.3": "", "169.254.169.254": "", "224.0.0.1": "", "0.0.0.0": "", "fe80::1": "", "fd00::1": "", "255.255.255.255": "", "x": "",
	} {
		withLink(t, testConfig(), func(c *fakeConn) {
			if c.accept(`INFO {"headers":true,"max_payload":1048576,"nonce":"abc","client_ip":"`+said+`"}`+"\r\n") == nil {
				c.follow(nil, nil)
			}
		}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
			synctest.Wait()
			if got := l.State().ClientIP; got.IsValid() != (kept != "") || got.IsValid() && got.String() != kept {
				t.Errorf("%s: kept is %s, want %q", said, got, kept)
			}
		})
	}
}

// The relay's own address is not kept as this host's, as where both are behind one NAT.
func TestClientIPIsNotTheRelays(t *testing.T) {
	for said, kept := range map[string]string{"203.0.113.9": "", "::ffff:203.0.113.9": "", "203.0.113.10": "203.0.113.10"} {
		withLink(t, testConfig(), func(c *fakeConn) {
			if c.accept(`INFO {"headers":true,"max_payload":1048576,"nonce":"abc","client_ip":"`+said+`"}`+"\r\n") == nil {
				c.follow(nil, nil)
			}
		}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
			synctest.Wait()
			n.mu.Lock()
			n.server = netip.MustParseAddrPort("203.0.113.9:4222")
			n.mu.Unlock()
			n.hangUp() // of the first connection, whose server has no address
			time.Sleep(time.Minute)
			if got := l.State().ClientIP; got.IsValid() != (kept != "") || got.IsValid() && got.String() != kept {
				t.Errorf("%s: kept is %s, want %q", said, got, kept)
			}
		})
	}
}

// A WebSocket server that sends the link elsewhere is not followed: no other host is connected to, and
// the server gets no login.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, code := range []string{"301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"} {
		c := testConfig()
		c.URL = "ws://127.0.0.1:8080"
		c.Credentials.Token = "canary-5f2e"
		withLink(t, c, func(f *fakeConn) {
			for line, err := f.readLine(); line != "" || err != nil; line, err = f.readLine() {
				if err != nil || strings.Contains(line, "canary") {
					t.Errorf("the request has %q, %v", line, err)
					return
				}
			}
			f.say("HTTP/1.1 %s\r\nLocation: ws://198.51.100.1:8080/\r\nContent-Length: 0\r\n\r\n", code)
			if line, err := f.readLine(); err == nil {
				t.Errorf("after the redirect the server gets %q", line)
			}
		}, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
			time.Sleep(time.Minute)
			n.mu.Lock()
			defer n.mu.Unlock()
			if len(n.dialed) < 3 || slices.ContainsFunc(n.dialed, func(a string) bool { return a != "127.0.0.1:8080" }) {
				t.Errorf("connected to %q", n.dialed)
			}
			if err := l.State().LastError; err == nil || !strings.Contains(err.Error(), "no WebSocket of a NATS server answers there") {
				t.Errorf("%s: %v", code, err)
			}
		})
	}
}

// A server that sends what is no NATS, or too much of it, is left and tried again, and what it
// says is shown in one short line.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestGarbage(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"another protocol":   {"SSH-2.0-OpenSSH_9.2\r\n", "no line of NATS"},
		"control characters": {"\x1b[31m\x00\r\n", "no line of NATS"},
		"endless line":       {"INFO " + strings.Repeat("x", 2*maxLine), "line of more than"},
		"endless other line": {plainInfo + strings.Repeat("x", 2*maxLine), "line of more than"},
		"huge message":       {plainInfo + "PONG\r\nMSG acp1.x 1 2147483647\r\n", "announces a message"},
		"negative size":      {plainInfo + "PONG\r\nMSG acp1.x 1 -1\r\n", "announces a message"},
		"odd INFO":           {"INFO {\"nonce\":7}\r\n", "relay vps"},
		"nothing":            {"", "if its tls has handshake_first"},
	} {
		t.Run(name, func(t *testing.T) {
			withLink(t, testConfig(), func(f *fakeConn) { f.say("%s", c.sent) }, func(t *testing.T, l *Link, n *fakeNetwork, _ *testObserver) {
				time.Sleep(200 * time.Millisecond)
				err := l.State().LastError
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("last error %v, want one with %q", err, c.want)
				}
				if text := err.Error(); len(text) > 500 || strings.ContainsAny(text, "\x1b\x00\r\n") {
					t.Errorf("%q is not fit to be shown", text)
				}
				time.Sleep(10 * time.Second)
				if n.countDials() < 3 {
					t.Errorf("%d connections in 10 s", n.countDials())
				}
			})
		})
	}
}

// A 503 counts only on the reply subject that this process made, and for the peer it was made for.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestForeign503(t *testing.T) {
	var mu sync.Mutex
	replies := make(map[string]string) // by subject
	var conn *fakeConn
	var sid string
	withLink(t, testConfig(), func(c *fakeConn) {
		if c.accept(plainInfo) != nil {
			return
		}
		c.follow(func(p publication) {
			mu.Lock()
			defer mu.Unlock()
			replies[p.subject] = p.reply
		}, func(subject, s string) {
			mu.Lock()
			defer mu.Unlock()
			if conn = c; strings.HasSuffix(subject, ".*") {
				sid = s
			}
		})
	}, func(t *testing.T, l *Link, _ *fakeNetwork, o *testObserver) {
		synctest.Wait()
		for _, id := range []identity.ID{trusted1, trusted2} {
			l.WriteTo([]byte("x"), l.Addr(id))
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		to1 := replies[subjectPrefix+trusted1.String()]
		own := subjectPrefix + self.String() + "."
		if token, ok := strings.CutPrefix(to1, own); !ok || len(token) != tokenLen || to1 == replies[subjectPrefix+trusted2.String()] {
			t.Fatalf("reply subjects %v", replies)
		}
		for _, forged := range []string{own + "0123456789abcdef", own + strings.ToUpper(to1[len(own):]), own + trusted1.String()[:10], own + to1[len(own):] + "00", own + "x"} {
			conn.nobody(forged, sid)
		}
		conn.message(to1, sid, "no 503")
		conn.say("HMSG %s %s 16 17\r\nNATS/1.0 503\r\n\r\nx\r\n", to1, sid)
		conn.say("HMSG %s %s 16 16\r\nNATS/1.0 408\r\n\r\n\r\n", to1, sid)
		synctest.Wait()
		if told, _ := o.told(); len(told) > 0 {
			t.Errorf("forged ones are believed: %v", told)
		}
		conn.nobody(to1, sid)
		synctest.Wait()
		if told, _ := o.told(); len(told) != 1 || told[0] != l.Addr(trusted1).String() {
			t.Errorf("told %v of the server's 503", told)
		}
		if s := l.State(); s.Refusals != 1 || s.DroppedIn != 8 {
			t.Errorf("%d counted, %d dropped", s.Refusals, s.DroppedIn)
		}
	})
}

// A server that takes nothing makes WriteTo neither wait nor keep more than its queue.
func TestWriteNeverWaits(t *testing.T) {
	client, server := net.Pipe() // outside of a bubble: the client waits with a lock
	defer server.Close()
	l := mustOpen(t, testConfig())
	first := make(chan struct{}, 1)
	first <- struct{}{}
	l.dialTCP = func(_ context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-first:
			return client, nil
		default:
			return nil, net.ErrClosed
		}
	}
	live := runLink(t, l, new(testObserver))
	c := newFakeConn(server)
	if err := c.accept(plainInfo); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := c.readLine()
		if err != nil {
			t.Fatal(err)
		}
		if line == "PING" {
			break
		}
	}
	c.say("PONG\r\n")
	live.await(t, func(s State) bool { return s.Standing == Connected })
	packet := make([]byte, MTU)
	began := time.Now()
	for range 4000 {
		if n, err := l.WriteTo(packet, l.Addr(trusted1)); n != MTU || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("4,000 packets took %s", took)
	}
	if s := l.State(); s.DroppedOut < 4000-maxWaitingOut-200 {
		t.Errorf("%d of 4,000 packets dropped", s.DroppedOut)
	}
	began = time.Now()
	live.stop()
	if took := time.Since(began); took > farewellTime+2*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// Messages with malformed headers, which any member of the account can send, are counted as dropped and
// said nowhere: not in the state, not in the log. Packets come on.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestMalformedHeaders(t *testing.T) {
	var log bytes.Buffer
	c := testConfig()
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	const rounds = 500
	malformed := []string{"\r\n\r\n", "NATS/1.0\r\nx\r\n\r\n", "NATS/1.0 5\r\n\r\n", "NATS/1.0\r\nx:y\r\n", "HTTP/1.1 200 OK\r\n\r\n", "NATS/1.0\r\n" + strings.Repeat("x:y\r\n", maxHeader) + "\r\n"}
	withLink(t, c, func(c *fakeConn) {
		if c.accept(plainInfo) != nil {
			return
		}
		c.follow(nil, func(subject, sid string) {
			if strings.HasSuffix(subject, ".*") {
				return
			}
			c.network.wg.Go(func() {
				for range rounds {
					for _, header := range malformed {
						c.say("HMSG %s %s %d %d\r\n%s%s\r\n", subject, sid, len(header), len(header)+len("payload"), header, "payload")
					}
					time.Sleep(time.Millisecond) // the link takes them meanwhile: nats.go drops and tells of what it has no place for
				}
				c.message(subject, sid, string(trusted1[:])+"packet")
			})
		})
	}, func(t *testing.T, l *Link, _ *fakeNetwork, _ *testObserver) {
		if got := readFor(t, l, 2*rounds*time.Millisecond); len(got) != 1 || !strings.HasSuffix(got[0], " packet") {
			t.Errorf("%q came", got)
		}
		if s := l.State(); s.DroppedIn < rounds*uint64(len(malformed)) || s.LastError != nil || s.Standing != Connected {
			t.Errorf("%+v", s)
		}
		if lines := strings.Count(log.String(), "\n"); lines > 1 {
			t.Errorf("%d lines in the log: %.500s", lines, log.String())
		}
	})
}
