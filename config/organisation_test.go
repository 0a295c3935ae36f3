package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
)

const (
	corpKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICWWUXJxLQJe24EA1pwijSLOFOwyH2Z7MGuvQG6G0rUR"
	labKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIX9OYqIg1sZT4eTo1LotumHu/Mwu29nWfEoC4OAA8ty"
)

func TestOrganisationIsChecked(t *testing.T) {
	corp := "\n    key: " + corpKey + "\n"
	for text, want := range map[string]string{
		"organisation: {certificate: acpd-cert.pub}":                                                   "",
		"organisation: {certificate: /etc/acpd/acpd-cert.pub}":                                         "",
		"organisation:\n  authorities:\n   corp:" + corp + "    revoked: ~/revoked.txt\n    allow: []": "",
		"organisation: {certificate: keys/acpd-cert.pub}":                                              `1: bad "organisation.certificate": "keys/acpd-cert.pub": use the name of a file in the state directory`,
		"organisation: {certificate: ..}":                                                              `bad "organisation.certificate"`,
		"organisation: {certificate: \"\"}":                                                            `bad "organisation.certificate"`,
		"organisation:\n authorities: {corp: {allow: []}}":                                             `2: bad "organisation.authorities.corp": no key: add key`,
		"organisation:\n authorities:\n  corp: {key: no key}":                                          `3: bad "organisation.authorities.corp.key": not a public key of OpenSSH`,
		"organisation:\n authorities:\n  corp.lab:" + corp:                                             `3: bad "organisation.authorities.corp.lab": name "corp.lab": use lower-case`,
		"organisation:\n authorities:\n  corp:" + corp + "    allow: [query, mail]":                    `5: bad "organisation.authorities.corp.allow[1]": "mail": no authority allows it to all of its peers`,
		"organisation:\n authorities:\n  corp:" + corp + "    allow: [qurey]":                          `"qurey": did you mean "query"?`,
		"organisation:\n authorities:\n  corp:" + corp + "    allow: [cancel]":                         `"cancel": use ping, discover, `,
		"organisation:\n authorities:\n  corp:" + corp + "    revoked: a/b":                            `5: bad "organisation.authorities.corp.revoked"`,
		"organisation:\n authorities:\n  corp:" + corp + "  lab:" + corp:                               `bad "organisation.authorities.lab.key": the key of corp`,
		"organisation:\n authorities:\n  corp:" + corp + "    next_key: " + corpKey:                    `bad "organisation.authorities.corp.next_key": the key of corp`,
		"organisation:\n authorities:\n  corp:" + corp + "    next_key: x":                             `bad "organisation.authorities.corp.next_key": not a public key`,
		"organisation:\n authorities:\n  corp:" + corp + "    keys: x":                                 `unknown key "organisation.authorities.corp.keys"`,
		"policy: {build-7.corp: {kinds: []}, \"group:ci.corp\": {kinds: []}}":                          "",
		"policy: {\"group:ci\": {kinds: []}}":                                                          `bad "policy.group:ci": name "ci": no authority`,
		"policy: {build-7.: {kinds: []}}":                                                              `name: empty`,
		"policy: {a.b.c: {kinds: []}}":                                                                 `name "b.c": use lower-case`,
		"peers: {build-7.corp: {addrs: [\"192.0.2.1:7117\"]}}":                                         `bad "peers.build-7.corp"`,
		"limits: {rate: [{peer: \"group:ci.corp\", per_second: 1}]}":                                   `bad "limits.rate[0].peer"`,
		"limits: {rate: [{peer: build-7.corp, per_second: 1}]}":                                        "",
		"channels: {open_to: [build-7.corp]}":                                                          "",
		"agents: {reviewer: {to: [build-7.corp], wake: {build-7.corp: {}}}}":                           "",
	} {
		_, err := load(t, text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v, expected %q", text, err, want)
		}
	}
	var many strings.Builder
	many.WriteString("organisation:\n authorities:\n")
	for i := range maxAuthorities + 1 {
		many.WriteString("  corp-" + string(rune('a'+i)) + ": {key: x}\n")
	}
	if _, err := load(t, many.String()); err == nil || !strings.Contains(err.Error(), "17 authorities: give at most 16") {
		t.Error(err)
	}
}

// holds: security.md#fleets
func TestWhatCertifiedPeersMay(t *testing.T) {
	c := mustParse(t, `
organisation:
  authorities:
    corp: {key: `+corpKey+`, allow: [ping, query]}
    lab: {key: `+labKey+`}
policy:
  "*": {kinds: [ping, discover, query, delegate, notify, mail, channel]}
  build-7: {kinds: [notify]}
  build-8.corp: {kinds: [delegate, channel]}
  "group:ci.corp": {kinds: [delegate], domains: [code]}
  "group:mail.corp": {kinds: [mail]}
  "group:none.corp": {kinds: []}
  `+laptopID.String()+`: {kinds: [notify]}
channels: {open_to: ["*", build-8.corp]}
`)
	certified := func(id identity.ID, name, authority string, groups ...string) identity.Peer {
		return identity.Peer{ID: id, Name: name, Certificate: &identity.Certificate{ID: id, Name: name, Authority: authority, Groups: groups}}
	}
	for _, test := range []struct {
		peer          identity.Peer
		kinds, refuse string // allowed and refused ones
		domain        string
		rule          string // of a refusal
	}{
		// The authority's word, and never the rule of "*" or of a petname.
		{certified(deskID, "build-7.corp", "corp"), "ping query result cancel", "discover delegate notify mail channel", "", "allow [ping, query] does not include"},
		{certified(deskID, "build-7.lab", "lab"), "ping discover", "query delegate notify mail channel", "", "organisation.authorities.lab"},
		{certified(deskID, "build-7.gone", "gone"), "ping discover", "query mail", "", "organisation.authorities.gone"},
		// Its groups before that, of which one is enough.
		{certified(deskID, "build-7.corp", "corp", "ci.corp", "mail.corp", "none.corp"), "delegate", "ping query", "code", "policy.group:"},
		{certified(deskID, "build-7.corp", "corp", "ci.corp", "mail.corp"), "mail", "delegate channel", "", "policy.group:"},
		{certified(deskID, "build-7.corp", "corp", "none.corp"), "result", "ping query", "", "policy.group:none.corp"},
		{certified(deskID, "build-7.lab", "lab", "ci.lab"), "ping", "delegate", "code", "organisation.authorities.lab"},
		// Its name before its groups, its id before its name.
		{certified(deskID, "build-8.corp", "corp", "mail.corp"), "delegate channel", "ping mail", "", "policy.build-8.corp"},
		{certified(laptopID, "build-8.corp", "corp", "mail.corp"), "notify", "delegate mail ping", "", "policy." + laptopID.String()},
		// Without a certificate, "*" counts as before.
		{identity.Peer{ID: deskID, Name: "desk"}, "ping mail channel", "", "", ""},
	} {
		for _, kind := range strings.Fields(test.kinds) {
			if d := c.Decide(test.peer, kind, test.domain); !d.Allowed {
				t.Errorf("%s %v: %s: %+v", test.peer.Name, test.peer.Certificate, kind, d)
			}
		}
		for _, kind := range strings.Fields(test.refuse) {
			if d := c.Decide(test.peer, kind, test.domain); d.Allowed || !strings.Contains(d.Rule, test.rule) {
				t.Errorf("%s %v: %s: %+v, expected %q", test.peer.Name, test.peer.Certificate, kind, d, test.rule)
			}
		}
	}
	for _, test := range []struct {
		peer identity.Peer
		open bool
	}{
		{certified(deskID, "build-7.corp", "corp"), false}, {certified(deskID, "build-8.corp", "corp"), true}, {identity.Peer{ID: deskID, Name: "desk"}, true},
	} {
		if got := c.Channels.IsOpenTo(test.peer); got != test.open {
			t.Errorf("open to %s: %v", test.peer.Name, got)
		}
	}
	if refs := c.FindPeerRefs(func(string) bool { return true }); !slices.Equal(slices.Sorted(slices.Values(refs["policy"])), []string{laptopID.String(), "build-7"}) || refs["channels.open_to"] != nil {
		t.Errorf("%v", refs)
	}
}
