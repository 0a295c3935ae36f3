package ui

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/wire"
)

func TestIDsAreShortened(t *testing.T) {
	id := func(text string) wire.MessageID {
		id, err := wire.ParseMessageID(text)
		if err != nil {
			t.Error(err)
		}
		return id
	}
	a := &Terminal{OutTTY: true}
	all := []wire.MessageID{
		id("3f2b8c1e-6f0a-4d3c-9e57-010203040506"), id("3f2b8c1e-6f0b-4d3c-9e57-010203040506"), id("3f2b8c1e-7f0b-4d3c-9e57-010203040506"),
		id("9f2b8c1e-6f0a-4d3c-9e57-010203040506"), id("9f2b8c1e-6f0a-4d3c-9e57-010203040506"),
	}
	if got := strings.Join(a.ShortenIDs(all), " "); got != "3f2b8c1e-6f0a 3f2b8c1e-6f0b 3f2b8c1e-7 9f2b8c1e 9f2b8c1e" {
		t.Error(got)
	}
	a.OutTTY = false
	if got := a.ShortenIDs(all); got[0] != all[0].String() {
		t.Error(got)
	}
}
