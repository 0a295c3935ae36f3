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
	for want, e := range map[string]UnknownPeerError{
		`no peer "AB12F" is known: ` + six + list:    {Ref: "AB12F"},
		`no peer "ab12f0" is known: ` + list:         {Ref: "ab12f0"},
		`no peer "desk2" is known: ` + list:          {Ref: "desk2"},
		`no peer "ab12" is known: did you mean ab1?`: {Ref: "ab12", Near: []string{"ab1"}},
		`no peer "build-7.corp" is known: a name with a dot comes from an authority, and config.yaml has no authority corp under organisation.authorities; ` + list: {Ref: "build-7.corp", MissingAuthority: "corp"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
