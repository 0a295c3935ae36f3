package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secretText = "s3cret"

func TestRelayErrors(t *testing.T) {
	for text, want := range map[string]string{
		"relays: {}":                                                                    `"reach.relays" must be a list`,
		"relays: [{}]":                                                                  `bad "reach.relays[0]": no URL: add url`,
		"relays: [{name: hub}]":                                                         `bad "reach.relays[0]": no URL: add url`,
		"relays: [{url: }]":                                                             `"reach.relays[0].url" has no value`,
		"relays: [{url: nats.example.org}]":                                             `bad "reach.relays[0].url": not the URL of a relay: write tls://host:4222`,
		"relays: [{url: \"nats://nats.example.org\"}]":                                  `bad "reach.relays[0].url": without encryption`,
		"relays: [{url: \"tls://s3cret@nats.example.org\"}]":                            `bad "reach.relays[0].url": a URL with a user or token in it`,
		"relays: [{url: \"tls://a\", name: Hub}]":                                       `bad "reach.relays[0].name": name "Hub": use lower-case`,
		"relays: [{url: \"tls://a\", nmae: hub}]":                                       `unknown key "reach.relays[0].nmae": did you mean "reach.relays[0].name"?`,
		"relays: [{url: \"tls://a\"}, {url: \"tls://a:4222/\"}]":                        `a second relay`,
		"relays: [{url: \"tls://a\"}, {url: \"wss://a\"}]":                              `bad "reach.relays[1]": a second relay with the name a`,
		"relays: [{url: \"tls://a\", token: \"\"}]":                                     `bad "reach.relays[0].token": write 1 to 1024 bytes`,
		"relays: [{url: \"tls://a\", token: [s3cret]}]":                                 `"reach.relays[0].token" must be text, not a list`,
		"relays: [{url: \"tls://a\", token: \"s3cret\\n\"}]":                            `bad "reach.relays[0].token": write 1 to 1024 bytes`,
		"relays: [{url: \"tls://a\", token: s3cret, user: acp, password: s3cret}]":      `bad "reach.relays[0]": several ways to log in`,
		"relays: [{url: \"tls://a\", token: s3cret, credentials: a.creds}]":             `bad "reach.relays[0]": several ways to log in`,
		"relays: [{url: \"tls://a\", credentials: ../a.creds}]":                         `bad "reach.relays[0].credentials": "../a.creds": use the name of a file`,
		"relays: [{url: \"tls://a\", credentials: \"s3cret\\n\"}]":                      `bad "reach.relays[0].credentials": write 1 to 1024 bytes`,
		"relays: [{url: \"tls://a\", password: s3cret}]":                                `bad "reach.relays[0]": a user has a password`,
		"relays: [{url: \"tls://a\", user: acp}]":                                       `bad "reach.relays[0]": a user has a password`,
		"relays: [{url: \"tls://a\", share: true}]":                                     `bad "reach.relays[0].share": only a token can be shared`,
		"relays: [{url: \"tls://a\", share: yes, token: s3cret}]":                       `"reach.relays[0].share" must be true or false`,
		"relays: [{url: \"tls://a\", share: true, token: \"s3cret s\"}]":                `bad "reach.relays[0].share": an invitation takes a token of`,
		"relays: [" + strings.Repeat("{url: \"tls://a\"}, ", 8) + "{url: \"tls://b\"}]": `bad "reach.relays": 9 relays: give at most 8`,
		"proxy: on":   `bad "reach.proxy": write environment, off, or the URL`,
		"proxy: \"\"": `bad "reach.proxy": write environment`,
		"proxy: \"http://u:s3cret@proxy.example.net/path\"": `bad "reach.proxy": the URL of a proxy ends behind its port`,
		"proxy: \"socks5://u:s3cret@proxy.example.net\"":    `bad "reach.proxy": write environment`,
		"proxy: [a]":                  `"reach.proxy" must be text or settings`,
		"proxy: {}":                   `bad "reach.proxy": write environment`,
		"proxy: {command: []}":        `bad "reach.proxy.command": write a program`,
		"proxy: {command: [\"\"]}":    `bad "reach.proxy.command": write a program`,
		"proxy: {comand: [a]}":        `unknown key "reach.proxy.comand": did you mean "reach.proxy.command"?`,
		"stun: stun.example.org:3478": `"reach.stun" must be a list`,
		"stun: [stun.example.org]":    `bad "reach.stun[0]": address "stun.example.org": use host:port`,
		"stun: [\"stun:0\"]":          `bad "reach.stun[0]": address "stun:0": use a port`,
		"stun: [" + strings.Repeat("\"stun.example.org:3478\", ", 5) + "]": `bad "reach.stun": 5 servers: give at most 4`,
		"direct: no": `bad "reach.direct": "no": use on, off`,
	} {
		c, err := load(t, "reach:\n  "+text+"\n")
		if err == nil {
			t.Errorf("%s: accepted as %+v", text, c.Reach)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ":2: ") || strings.Contains(err.Error(), secretText) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

// What has changed is shown without secrets, and so is a setting that is printed.
func TestChangesHideSecrets(t *testing.T) {
	old := mustParse(t, "reach: {relays: [{url: tls://nats.example.org, token: s3cret}], proxy: \"http://u:s3cret@proxy.example.net:3128\"}\n")
	c := mustParse(t, "reach: {relays: [{name: hub, url: wss://nats.example.org, user: acp, password: s3cret}], proxy: {command: [print-proxy, --key, s3cret]}}\n")
	want := []Change{
		{"reach.relays", "reach.relays", "[{name: nats-example-org, url: tls://nats.example.org:4222, token: (not shown)}]", "[{name: hub, url: wss://nats.example.org:443, user: acp, password: (not shown)}]"},
		{"reach.proxy", "reach.proxy", "http://…@proxy.example.net:3128", "{command: [print-proxy, …]}"},
	}
	if diff := cmp.Diff(want, c.ListChanges(old)); diff != "" {
		t.Error(diff)
	}
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if text := fmt.Sprintf(verb, c.Reach.Relays); strings.Contains(text, secretText) {
			t.Errorf("%s prints %s", verb, text)
		}
	}
	if changes := mustParse(t, "").ListChanges(mustParse(t, "reach: {proxy: environment}\n")); len(changes) > 0 {
		t.Errorf("the default is a change: %+v", changes)
	}
}
