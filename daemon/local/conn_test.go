package local

import (
	"testing"

	"github.com/acpd/acpd/kinds"
)

// An agent knows its peers by name, so errors tell it no addresses.
func TestAddressesAreTakenOut(t *testing.T) {
	kept := kinds.Errorf(kinds.Kept, "laptop: kept until 2026-12-01T09:00:00Z")
	if got := (&Conn{IsGuest: true}).MaskErrorAddrs(kept); got != error(kept) {
		t.Errorf("a time is taken for an address: %v", got)
	}
	for in, want := range map[string]string{
		"desk at 192.0.2.1:7117 speaks":                 "desk at its address speaks",
		"desk: [2001:db8::1]:7117 is silent":            "desk: its address is silent",
		"answers at planner.example:7117; correct it":   "answers at its address; correct it",
		"[fe80::1%eth0]:7117":                           "its address",
		"laptop gave no answer in 5s: allow more time":  "laptop gave no answer in 5s: allow more time",
		"id: 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b: no.": "id: 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b: no.",
	} {
		if got := kinds.AsError((&Conn{IsGuest: true}).MaskErrorAddrs(kinds.Errorf(kinds.Unreachable, "%s", in))).Message; got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
