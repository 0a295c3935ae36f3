package roster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
)

func testID(n byte) identity.ID { return identity.ID{n, 31: 1} }

func isEqual(a, b Entry) bool {
	return a.ID == b.ID && a.Name == b.Name && slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Relays, b.Relays) && (a.Addrs == nil) == (b.Addrs == nil)
}

// Entries come back as they were written, below peers and in any layout.
func TestEntriesComeBack(t *testing.T) {
	entries := []Entry{
		{ID: testID(1), Name: "desk", Addrs: []string{"192.0.2.1:7117", "[2001:db8::1]:7117"}},
		{ID: testID(2), Name: "laptop", Relays: []string{"tls://nats.example.org:4222", "wss://nats.example.org:443/acp"}},
		{ID: testID(3), Name: "null", Addrs: []string{}},
	}
	var text strings.Builder
	text.WriteString("# machines\npeers:\n")
	for _, e := range entries {
		text.WriteString(e.String())
	}
	text.WriteString("- {addrs: [desk.example:7117], name: true, id: " + strings.ToUpper(testID(0xab).String()) + "}\n")
	entries = append(entries, Entry{ID: testID(0xab), Name: "true", Addrs: []string{"desk.example:7117"}})
	r, err := Parse("roster.yaml", []byte(text.String()))
	if err != nil || !slices.EqualFunc(r.Entries, entries, isEqual) {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.NewError(1, "it is late"); err.Error() != "roster.yaml:6: it is late" {
		t.Errorf("%v", err)
	}
}

// All that is wrong is told at once: where it is, what it is, and what to write instead.
func TestParseTellsAllThatIsWrong(t *testing.T) {
	text := `peers:
- id: abc
  name: Desk
  addres: [x]
- name: claude
  addrs: [nowhere, "a:1"]
- {id: "` + identity.ID{}.String() + `", name: ok}
- {id: "` + testID(1).String() + `", name: ok}
- {id: "` + testID(1).String() + `", name: other}
- id: null
- hello
- &a {id: "` + testID(2).String() + `", name: build}
- {id: "` + testID(3).String() + `", name: tablet, addrs: [a:1, a:2, a:3, a:4, a:5, a:6, a:7, a:8, a:9]}
- {id: "` + testID(4).String() + `", name: phone, relays: [tls://token@nats.example.org, tls://a.example, tls://b.example]}
relays: []
`
	_, err := Parse("roster.yaml", []byte(text))
	if err == nil {
		t.Fatal("it is accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		`2: bad "peers[0].id": agent id: expected 64 lower-case hex digits`,
		`3: bad "peers[0].name": name "Desk": use lower-case letters`,
		`4: unknown key "peers[0].addres": did you mean "peers[0].addrs"?`,
		`5: bad "peers[1]": it has no id: write what acpctl whoami --roster prints`,
		`5: bad "peers[1].name": a roster gives nobody the reserved name claude`,
		`6: bad "peers[1].addrs[0]": address "nowhere": use host:port`,
		`7: bad "peers[2].id": an id of only zeros`,
		`8: bad "peers[3].name": it is that of peers[2].name too, on line 7`,
		`9: bad "peers[4].id": it is that of peers[3].id too, on line 8`,
		`10: "peers[5].id" has no value`,
		`10: bad "peers[5]": it has no name`,
		`11: "peers[6]" must be settings, not "hello"`,
		`12: "peers[7]" uses an anchor or alias`,
		`13: bad "peers[8].addrs": 9 addresses: give at most 8`,
		`14: bad "peers[9].relays[0]": a URL with a user or token in it`,
		`14: bad "peers[9].relays": 3 relays: give at most 2`,
		`15: unknown key "relays": valid here: peers`,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], "roster.yaml:"+want) {
			t.Errorf("got %q, want %q", lines[min(i, len(lines)-1)], want)
		}
	}
	if len(lines) != 17 {
		t.Errorf("%d errors:\n%v", len(lines), err)
	}
}

// A roster without machines, and one that is too long, say what to do.
func TestParseBounds(t *testing.T) {
	for _, text := range []string{"", "---\n", "peers: []\n"} {
		if _, err := Parse("roster.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "it lists no machine: write peers: and below it what acpctl whoami --roster prints") {
			t.Errorf("%q: %v", text, err)
		}
	}
	var text strings.Builder
	text.WriteString("peers:\n")
	for i := range maxEntries {
		text.WriteString(Entry{ID: identity.ID{byte(i >> 8), byte(i), 31: 1}, Name: fmt.Sprintf("m-%d", i)}.String())
	}
	r, err := Parse("roster.yaml", []byte(text.String()))
	if err != nil || len(r.Entries) != maxEntries {
		t.Fatalf("the longest: %v", err)
	}
	one := Entry{ID: testID(255), Name: "desk"}.String()
	if _, err := Parse("roster.yaml", []byte(text.String()+one+one)); err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), `roster.yaml:2050: bad "peers[1024]": it is one more than the 1024`) {
		t.Errorf("one more: %v", err)
	}
	long := text.String() + "#" + strings.Repeat("x", MaxBytes)
	if _, err := Parse("roster.yaml", []byte(long)); err == nil || !strings.Contains(err.Error(), "over 1 MiB") {
		t.Errorf("too many bytes: %v", err)
	}
}

// FuzzParse reads any text. What is accepted keeps the bounds, has no two entries with one id or
// name, and comes back when it is written.
func FuzzParse(f *testing.F) {
	f.Add("peers:\n" + Entry{ID: testID(1), Name: "desk", Addrs: []string{"desk.example:7117"}}.String())
	f.Add("peers:\n- {id: \"" + testID(1).String() + "\", name: desk}\n- {id: \"" + testID(2).String() + "\", name: desk}\n")
	f.Add("peers:\n" + Entry{ID: testID(1), Name: "desk", Relays: []string{"wss://nats.example.org:443"}}.String())
	f.Add("peers: [&a {}, *a]")
	f.Add("- id: 1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse("roster.yaml", []byte(text))
		if err != nil {
			if n := strings.Count(err.Error(), "\n"); n > 20 {
				t.Errorf("%d lines of errors", n)
			}
			return
		}
		if n := len(r.Entries); n == 0 || n > maxEntries {
			t.Fatalf("%d entries", n)
		}
		ids, names := make(map[identity.ID]bool), make(map[string]bool)
		again := "peers:\n"
		for _, e := range r.Entries {
			if ids[e.ID] || names[e.Name] || e.ID.IsZero() || identity.CheckName(e.Name) != nil || identity.IsReservedName(e.Name) || identity.CheckAddrs(e.Addrs) != nil || len(e.Relays) > identity.MaxInvitedRelays {
				t.Errorf("accepted %+v", e)
			}
			ids[e.ID], names[e.Name] = true, true
			again += e.String()
		}
		if len(again) > MaxBytes {
			return
		}
		if back, err := Parse("roster.yaml", []byte(again)); err != nil || !slices.EqualFunc(back.Entries, r.Entries, isEqual) {
			t.Errorf("%q comes back as %+v, %v", again, back, err)
		}
	})
}
