package identity

import (
	"slices"
	"testing"
)

func TestSuggestNamesDespiteCase(t *testing.T) {
	names := []string{"desk", "laptop", "Tablet"}
	for ref, want := range map[string][]string{
		"LAPTOP": {"laptop"}, "Latpop": {"laptop"}, "DESK-2": {"desk"}, "tablet": {"Tablet"}, "TAB": {"Tablet"}, "PLANNER": nil,
	} {
		if got := SuggestNames(ref, names); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", ref, got, want)
		}
	}
}

func TestUnknownPeersOfFewDigits(t *testing.T) {
	const six, list = "the beginning of an id has six or more digits; ", "acpctl peers lists those that are"
	for ref, remedy := range map[string]string{
		"ab12": six + list, "AB12F": six + list, "ab12f0": list, "bead": list, "desk2": list, "ab12f0.x.y": list,
	} {
		if got, want := (&UnknownPeerError{Ref: ref}).Error(), `no peer "`+ref+`" is known: `+remedy; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	const missing = "a name with a dot comes from an authority, and config.yaml has no authority corp under organisation.authorities; " + list
	if got, want := (&UnknownPeerError{Ref: "build-7.corp", MissingAuthority: "corp"}).Error(), `no peer "build-7.corp" is known: `+missing; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (&UnknownPeerError{Ref: "ab12", Near: []string{"ab1"}}).Error(), `no peer "ab12" is known: did you mean ab1?`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
