package mailbox

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSendRefusesToSign: a message that may have to be signed is not sent.
func TestSendRefusesToSign(t *testing.T) {
	p := demo(t)
	configure := func(text string) {
		t.Helper()
		write(t, filepath.Join(p.must(t, "planner").Dir(), "config.yaml"), text+"\n")
	}
	for text, want := range map[string]string{
		"signing: {sign_messages: true}":            "send it with the reference tool, oacp send",
		"signing: {sign_messages: yes, kid: x}":     "send it with the reference tool",
		"signing: {sign_messages: 'false'}":         "send it with the reference tool",
		"signing: {sign_messages: }":                "send it with the reference tool",
		"signing: {sign_messages: 0}":               "send it with the reference tool",
		"signing: {sign_messages: []}":              "send it with the reference tool",
		"signing: {a: 1, sign_messages: On}":        "send it with the reference tool",
		"[]":                                        "must be a mapping",
		"signing: true":                             "must be a mapping",
		"a: 1\n---\nsigning: {sign_messages: true}": "cannot be read",
		"\xff\xfe":                            "cannot be read",
		"signing: {":                          "cannot be read",
		strings.Repeat("#", 1<<20) + "\na: b": "cannot be read",
	} {
		configure(text)
		if s, err := p.Home.SendLetter(p.Name, question("reviewer")); err == nil || !strings.HasPrefix(err.Error(), "nothing was sent: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: sent %+v: %v, want %s", text, s, err, want)
		}
	}
	for _, text := range []string{
		"", "a: b", "signing:", "signing: {}", "signing: {kid: 1}", "signing: {sign_messages: false}", "signing: {sign_messages: Off}", "signing: {verify_mode: enforce}",
		strings.Repeat("k: v\n", 40_000),
	} {
		configure(text)
		if _, err := p.Home.SendLetter(p.Name, question("reviewer")); err != nil {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}
