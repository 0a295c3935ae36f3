package wire_test

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/wire"
)

func TestNewMessageIDIsAUUIDv4(t *testing.T) {
	seen := make(map[wire.MessageID]bool)
	for range 100 {
		id := wire.NewMessageID()
		if s := id.String(); s[14] != '4' || !strings.ContainsRune("89ab", rune(s[19])) {
			t.Errorf("%s is no UUID version 4", s)
		}
		if seen[id] {
			t.Errorf("%s came twice", id)
		}
		seen[id] = true
	}
}

func TestParseMessageIDRefuses(t *testing.T) {
	const good = "3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b"
	if _, err := wire.ParseMessageID(good); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"", good[1:], good + "0", "{" + good + "}", strings.ReplaceAll(good, "-", ""), strings.ReplaceAll(good, "-", "0"),
		"3f2b8c1-e6f0a-4d3c-9e57-0c1d2e3f4a5b", "3g2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b", "00000000-0000-0000-0000-000000000000",
	} {
		if id, err := wire.ParseMessageID(s); err == nil {
			t.Errorf("%q was read as %s", s, id)
		}
	}
}

func FuzzParseMessageID(f *testing.F) {
	f.Add(wire.NewMessageID().String())
	f.Add("3F2B8C1E-6F0A-4D3C-9E57-0C1D2E3F4A5B")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := wire.ParseMessageID(s)
		if err != nil {
			return
		}
		if id.IsZero() || id.String() != strings.ToLower(s) {
			t.Errorf("%q was read as %s", s, id)
		}
	})
}
