package identity

import (
	"slices"
	"strings"
	"testing"
)

// holds: security.md#against-a-relay-and-those-who-share-it
func TestParseRelayURL(t *testing.T) {
	for text, want := range map[string]string{
		"tls://nats.example.org":            "tls://nats.example.org:4222",
		"TLS://Nats.Example.ORG:7422/":      "tls://nats.example.org:7422",
		"wss://nats.example.org":            "wss://nats.example.org:443",
		"wss://nats.example.org/acp/":       "wss://nats.example.org:443/acp",
		"tls://[2001:db8::1]":               "tls://[2001:db8::1]:4222",
		"nats://127.0.0.1":                  "nats://127.0.0.1:4222",
		"ws://[::1]":                        "ws://[::1]:80",
		"tls://" + strings.Repeat("a", 240): "tls://" + strings.Repeat("a", 240) + ":4222",
		"wss://nats.example.org:8443/a%20b": "wss://nats.example.org:8443/a%20b",
		"tls://xn--bcher-kva.example:4222":  "tls://xn--bcher-kva.example:4222",
		"tls://nats_1.example.org.:4222":    "tls://nats_1.example.org.:4222",
		"nats://127.9.9.9":                  "nats://127.9.9.9:4222",
		"tls://[2001:DB8::A]:4222":          "tls://[2001:db8::a]:4222",
		"ws://localhost:8080/nats":          "ws://localhost:8080/nats",
	} {
		got, err := ParseRelayURL(text)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
			continue
		}
		if again, err := ParseRelayURL(got); err != nil || again != got {
			t.Errorf("%s comes back as %q, %v", got, again, err)
		}
		if name := MakeRelayName(got); CheckRelayName(name) != nil {
			t.Errorf("%s is called %q: %v", got, name, CheckRelayName(name))
		}
	}
	const secret = "s3cret"
	for text, want := range map[string]string{
		"":                                      "not the URL",
		"nats.example.org:4222":                 "not the URL",
		"nats.example.org":                      "not the URL",
		"tls:///x":                              "not the URL",
		"tls://:4222":                           "not a host and port",
		"http://nats.example.org":               "the scheme",
		"nats://nats.example.org":               "write tls://",
		"ws://nats.example.org":                 "write tls://",
		"nats://192.0.2.1:4222":                 "write tls://",
		"tls://" + secret + "@nats.example.org": "leave out what stands before @; a token goes into --token-file, a user",
		"tls://u:" + secret + "@nats.example.org": "leave out what stands before @; a token goes into --token-file, a user",
		"tls://@nats.example.org":                 "leave out what stands before @; a token goes into --token-file, a user",
		"tls://nats.example.org?auth=" + secret:   "with ?",
		"tls://nats.example.org?":                 "with ?",
		"tls://nats.example.org#" + secret:        "#",
		"tls://nats.example.org#":                 "#",
		"tls://nats.example.org/" + secret:        "a path",
		"tls://nats.example.org:0":                "not a host and port",
		"tls://nats.example.org:70000":            "not a host and port",
		"tls://nats.example.org:port":             "not the URL",
		"tls://a,tls://b":                         "a path",
		"tls://nats example.org":                  "not the URL",
		"tls://näts.example.org":                  "not a host and port",
		"wss://" + strings.Repeat("a", 256):       "over 256 bytes",
	} {
		if got, err := ParseRelayURL(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestRelayNames(t *testing.T) {
	for url, want := range map[string]string{
		"tls://nats.example.org:4222":                       "nats-example-org",
		"tls://203.0.113.1:4222":                            "relay-203-0-113-1",
		"tls://[2001:db8::1]:4222":                          "relay-2001-db8-1",
		"wss://" + strings.Repeat("a", 31) + ".example:443": strings.Repeat("a", 31),
		"nats://localhost:4222":                             "localhost",
	} {
		if got := MakeRelayName(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	for _, name := range []string{"", "-a", "1a", "A", "a_b", "a.b", strings.Repeat("a", 33), "a\n"} {
		if CheckRelayName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// An invitation names relays, each with a token if one is given; what is wrong is refused without a quote.
func TestRelaysInInvitations(t *testing.T) {
	inv := testInvitation()
	plain := inv.String()
	inv.Relays = []InvitedRelay{{URL: "tls://nats.example.org:4222"}, {URL: "wss://[2001:db8::1]:443/acp", Token: "aZ09-._~"}}
	want := strings.Replace(plain, "&name=", "&relay=tls://nats.example.org:4222&relay=wss://aZ09-._~@%5B2001:db8::1%5D:443/acp&name=", 1)
	if inv.String() != want {
		t.Errorf("String\n%s, want\n%s", inv, want)
	}
	if got, err := ParseInvitation(want); err != nil || !got.equal(inv) {
		t.Errorf("%+v, %v", got, err)
	}
	most := inv
	most.Addrs = slices.Repeat([]string{strings.Repeat("a", 253) + ":65535"}, MaxAddrs)
	most.Name = strings.Repeat("é", 32)
	for i := range most.Relays {
		most.Relays[i] = InvitedRelay{URL: "wss://" + strings.Repeat(string(rune('a'+i)), 240) + ":443/acp", Token: strings.Repeat("x", maxSharedToken)}
	}
	if got, err := ParseInvitation(most.LongString()); err != nil || !got.equal(most) {
		t.Errorf("the longest: %d bytes, %v", len(most.LongString()), err)
	}
	head, token := "acp://"+ID{1}.String()+"?", "&token="+tokenHex
	const secret = "s3cret"
	for name, relays := range map[string]string{
		"three":          "relay=tls://a&relay=tls://b&relay=tls://c",
		"twice":          "relay=tls://a&relay=tls://x@a:4222/",
		"empty":          "relay=",
		"no scheme":      "relay=nats.example.org",
		"unencrypted":    "relay=nats://nats.example.org",
		"empty token":    "relay=tls://@nats.example.org",
		"password":       "relay=tls://u:" + secret + "@nats.example.org",
		"escaped token":  "relay=tls://%2520" + secret + "@nats.example.org",
		"long token":     "relay=tls://" + strings.Repeat("x", maxSharedToken+1) + "@nats.example.org",
		"secret in path": "relay=tls://nats.example.org/" + secret,
	} {
		if got, err := ParseInvitation(head + relays + token); err == nil || strings.Contains(err.Error(), secret) || !got.equal(Invitation{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
