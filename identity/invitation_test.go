package identity

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	tokenHex    = "000102030405060708090a0b0c0d0e0f"
	tokenBase64 = "AAECAwQFBgcICQoLDA0ODw"
)

func testInvitation() Invitation {
	inv := Invitation{
		ID:    ID{1},
		Addrs: []string{"desk.example:7117", "[2001:db8::1]:7117", "[fe80::1%eth0]:7117"},
		Name:  "Büro & desk+1",
		PQ:    PQHash{2},
	}
	for i := range inv.Token {
		inv.Token[i] = byte(i)
	}
	return inv
}

func (inv Invitation) equal(other Invitation) bool {
	return inv.ID == other.ID && slices.Equal(inv.Addrs, other.Addrs) && slices.Equal(inv.Relays, other.Relays) && inv.Name == other.Name && inv.PQ == other.PQ && inv.Token == other.Token
}

func TestInvitationText(t *testing.T) {
	inv := testInvitation()
	const between = "?addr=desk.example:7117&addr=%5B2001:db8::1%5D:7117&addr=%5Bfe80::1%25eth0%5D:7117&name=B%C3%BCro%20%26%20desk%2B1&pq="
	want := "acp://AQ" + strings.Repeat("A", 41) + between + "Ag" + strings.Repeat("A", 41) + "&token=" + tokenBase64
	if inv.String() != want {
		t.Errorf("String\n%s, want\n%s", inv, want)
	}
	if want := "acp://" + inv.ID.String() + between + inv.PQ.String() + "&token=" + tokenHex; inv.LongString() != want {
		t.Errorf("LongString\n%s, want\n%s", inv.LongString(), want)
	}
	least := Invitation{ID: inv.ID, Token: inv.Token}
	for text, want := range map[string]Invitation{
		inv.String():                  inv,
		" \t" + inv.String() + "\r\n": inv,
		inv.LongString():              inv,
		least.String():                least,
		least.LongString():            least,
		strings.Replace(strings.Replace(inv.String(), "%5B2", "[2", 1), "1%5D", "1]", 1): inv,
	} {
		if got, err := ParseInvitation(text); err != nil || !got.equal(want) {
			t.Errorf("ParseInvitation(%q) = %+v, %v", text, got, err)
		}
	}
	most := inv
	most.Addrs = slices.Repeat([]string{strings.Repeat("a", 253) + ":65535"}, MaxAddrs)
	most.Name = strings.Repeat("é", 32)
	if got, err := ParseInvitation(most.LongString()); err != nil || !got.equal(most) {
		t.Errorf("the longest: %d bytes, %v", len(most.LongString()), err)
	}
}

func TestInvitationIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("invited", "invitation", testInvitation())
	if strings.Contains(out.String(), tokenHex) || strings.Contains(out.String(), tokenBase64) || !strings.Contains(out.String(), testInvitation().ID.Label()) {
		t.Errorf("logged %s", &out)
	}
}

func TestParseInvitationRefuses(t *testing.T) {
	head := "acp://" + ID{1}.String()
	token := "&token=" + tokenHex
	for name, text := range map[string]string{
		"empty":          "",
		"scheme":         "http" + head[3:] + "?x" + token,
		"upper scheme":   "ACP" + head[3:] + "?" + token[1:],
		"no id":          "acp://?" + token[1:],
		"zero id":        "acp://" + ID{}.String() + "?" + token[1:],
		"short id":       head[:60] + "?" + token[1:],
		"path":           head + "/?" + token[1:],
		"no query":       head,
		"empty query":    head + "?",
		"no token":       head + "?name=desk",
		"zero token":     head + "?token=" + strings.Repeat("0", 32),
		"short token":    head + "?" + token[1:32],
		"upper token":    head + "?" + strings.Replace(token[1:], "a", "A", 1),
		"long base64":    head + "?token=" + tokenBase64 + "A",
		"padded base64":  head + "?token=" + tokenBase64 + "%3D%3D",
		"other base64":   head + "?token=" + strings.Replace(tokenBase64, "D", "+", 1),
		"loose base64":   head + "?token=" + tokenBase64[:21] + "x", // the same bytes as another text
		"line break":     head + "?token=" + tokenBase64[:20] + "%0A" + tokenBase64[20:21],
		"line in base64": head + "?token=" + tokenBase64[:21] + "%0A",
		"both forms":     head + "?token=" + tokenBase64 + token,
		"base64 id":      "acp://" + strings.Repeat("A", 43) + "?" + token[1:],
		"two tokens":     head + "?" + token[1:] + token,
		"two names":      head + "?name=desk&name=tower" + token,
		"two pins":       head + "?pq=" + PQHash{1}.String() + "&pq=" + PQHash{1}.String() + token,
		"short pin":      head + "?pq=12" + token,
		"empty name":     head + "?name=" + token,
		"hidden name":    head + "?name=a%1b" + token,
		"bidi name":      head + "?name=%E2%80%AEksed" + token,
		"bad UTF-8":      head + "?name=%ff" + token,
		"long name":      head + "?name=" + strings.Repeat("a", 65) + token,
		"raw UTF-8":      head + "?name=Büro" + token,
		"space":          head + "?name=my desk" + token,
		"two lines":      head + "?name=desk" + token + "\n" + head,
		"bad escape":     head + "?name=%zz" + token,
		"cut escape":     head + "?name=desk" + token + "%",
		"unknown":        head + "?colour=red" + token,
		"empty pair":     head + "?&" + token,
		"semicolon":      head + "?name=desk;" + token[1:],
		"bad address":    head + "?addr=desk.example" + token,
		"nine addresses": head + "?" + strings.Repeat("addr=desk.example:1&", 9) + token[1:],
		"fragment":       head + "?" + token[1:] + "#x",
		"too long":       head + "?name=" + strings.Repeat("a", maxInvitationBytes) + token,

		"escaped equals sign":     head + "?token%3D" + tokenHex,
		"colon":                   head + "?name=desk&token:" + tokenHex,
		"no name":                 head + "?" + tokenHex,
		"token as a name":         head + "?" + tokenHex + "=1",
		"colon, then a value":     head + "?token:" + tokenHex + "=x",
		"no ampersand":            head + "?addr=desk.example:7117token=" + tokenHex,
		"no ampersand, no equals": head + "?addr=desk.example:7117token" + tokenHex,
		"token in an address":     head + "?addr=" + tokenHex,
		"token in a name":         head + "?name=desk%1btoken=" + tokenHex,
		"token in the id":         head + "token=" + tokenHex,
	} {
		inv, err := ParseInvitation(text)
		if err == nil || !inv.equal(Invitation{}) {
			t.Errorf("%s: accepted as %s", name, inv)
		} else if msg := err.Error(); strings.Contains(msg, tokenHex) || len(msg) > 250 {
			t.Errorf("%s: %s", name, msg)
		}
	}
}

func FuzzParseInvitation(f *testing.F) {
	f.Add(testInvitation().String())
	f.Add(testInvitation().LongString())
	f.Add(Invitation{ID: ID{1}, Token: [16]byte{1}}.String())
	f.Add("acp://" + ID{1}.String() + "?addr=[::1]:1&name=a%20b&token=" + tokenHex)
	f.Add("acp://" + ID{1}.String() + "?relay=wss://token@nats.example.org/acp&relay=tls%3A%2F%2F[::1]&token=" + tokenHex)
	f.Add("acp://")
	f.Fuzz(func(t *testing.T, text string) {
		inv, err := ParseInvitation(text)
		if err != nil {
			return
		}
		for _, line := range []string{inv.String(), inv.LongString()} {
			if again, err := ParseInvitation(line); err != nil || !again.equal(inv) {
				t.Errorf("%q comes back as %+v, %v", text, again, err)
			}
		}
		if inv.ID.IsZero() || len(inv.Addrs) > MaxAddrs || len(inv.Relays) > MaxInvitedRelays || CleanClaim(inv.Name) != inv.Name {
			t.Errorf("%q gives %+v", text, inv)
		}
	})
}

func TestInvitations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Invitations
		admitted := 0
		admit := func(string) error {
			if admitted++; !v.HasOpen() { // which a handshake asks, without waiting for a joiner's disk
				t.Error("not open within Redeem")
			}
			return nil
		}
		if v.HasOpen() || v.Redeem([16]byte{}, testID(1), admit) != ErrNoInvitation {
			t.Error("something is open at first")
		}
		start := time.Now()
		token, opened, err := v.Issue(0, "", 1)
		if err != nil || !v.HasOpen() || opened.Expires.Sub(start.Round(0)) != 10*time.Minute {
			t.Fatalf("Open: %+v, %v", opened, err)
		}
		short, _, err := v.Issue(time.Minute, "", 1)
		if err != nil || short == token {
			t.Fatalf("Open: %v", err)
		}

		wrong := token
		wrong[15] ^= 1
		if err := v.Redeem(wrong, testID(1), admit); err != ErrNoInvitation {
			t.Errorf("wrong token: %v", err)
		}
		full := errors.New("disk full")
		if err := v.Redeem(token, testID(1), func(string) error { return full }); err != full {
			t.Errorf("admit failed: %v", err)
		}
		// The failure bound nothing; from here testID(2) owns the token.
		for range 2 {
			if err := v.Redeem(token, testID(2), admit); err != nil {
				t.Error(err)
			}
		}
		// Nor does a failure on a repeat free it.
		v.Redeem(token, testID(2), func(string) error { return full })
		if err := v.Redeem(token, testID(1), admit); err != ErrInvitationUsed || admitted != 2 {
			t.Errorf("second key: %v, %d admitted", err, admitted)
		}

		time.Sleep(time.Minute)
		if err := v.Redeem(short, testID(3), admit); err != ErrNoInvitation || !v.HasOpen() {
			t.Errorf("expired: %v", err)
		}
		time.Sleep(9*time.Minute - 1)
		if err := v.Redeem(token, testID(2), admit); err != nil || !v.HasOpen() {
			t.Errorf("repeat just before the end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := v.Redeem(token, testID(2), admit); err != ErrNoInvitation || v.HasOpen() {
			t.Errorf("repeat at the end: %v", err)
		}

		for i := range maxInvitations {
			if _, _, err := v.Issue(time.Duration(i+1)*time.Minute, "", 1); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := v.Issue(0, "", 1); err != ErrInvitationsFull {
			t.Errorf("one more: %v", err)
		}
		time.Sleep(time.Minute)
		if _, _, err := v.Issue(0, "", 1); err != nil {
			t.Errorf("after the first expired: %v", err)
		}
	})
}

// TestUsedUpInvitationsTakeNoPlace: who has used one may repeat the join, and others are made meanwhile; of very many the
// oldest are forgotten.
func TestUsedUpInvitationsTakeNoPlace(t *testing.T) {
	var v Invitations
	admit := func(string) error { return nil }
	var tokens [][16]byte
	for i := range maxUsedUp + 1 {
		token, _, err := v.Issue(0, "", 1)
		if err != nil {
			t.Fatalf("invitation %d: %v", i, err)
		}
		if err := v.Redeem(token, testID(i), admit); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if n := len(v.List()); n != maxUsedUp {
		t.Errorf("%d are kept", n)
	}
	if err := v.Redeem(tokens[0], testID(0), admit); err != ErrNoInvitation {
		t.Errorf("the oldest: %v", err)
	}
	if err := v.Redeem(tokens[1], testID(1), admit); err != nil {
		t.Errorf("the second one, again: %v", err)
	}
	for range maxInvitations {
		if _, _, err := v.Issue(0, "", 2); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := v.Issue(0, "", 1); err != ErrInvitationsFull {
		t.Errorf("a ninth one: %v", err)
	}
}

// TestInvitationsAreRevoked: what is shown of an invitation ends it, and not what is
// sent; and of all that are open those end that match.
func TestInvitationsAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v Invitations
		admit := func(string) error { return nil }
		var tokens [3][16]byte
		var opened [3]InvitationInfo
		for i, name := range []string{"laptop", "", "tablet"} {
			var err error
			if tokens[i], opened[i], err = v.Issue(time.Duration(i+1)*time.Hour, name, 1); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(fmt.Sprintf("%x", tokens[i]), opened[i].ID) {
				t.Error("the id shows the token")
			}
		}
		if err := v.Redeem(tokens[1], testID(1), admit); err != nil {
			t.Fatal(err)
		}
		opened[1].UsedBy = []ID{testID(1)}
		if got := v.List(); !reflect.DeepEqual(got, opened[:]) {
			t.Errorf("listed %+v", got)
		}
		by := func(id ID) func(InvitationInfo) bool {
			return func(o InvitationInfo) bool { return slices.Contains(o.UsedBy, id) }
		}
		if n := v.Revoke(by(testID(2))); n != 0 {
			t.Errorf("%d ended that another has used", n)
		}
		if n := v.Revoke(by(testID(1))); n != 1 || v.Redeem(tokens[1], testID(1), admit) != ErrNoInvitation {
			t.Errorf("%d ended, and who used it can repeat it", n)
		}
		if n := v.Revoke(func(o InvitationInfo) bool { return o.ID == opened[2].ID }); n != 1 || v.Redeem(tokens[2], testID(3), admit) != ErrNoInvitation {
			t.Errorf("%d ended by its id", n)
		}
		if err := v.Redeem(tokens[0], testID(4), admit); err != nil || !v.HasOpen() {
			t.Errorf("the one that is left: %v", err)
		}
		// Joining is offered as long as one is open, and no longer.
		time.Sleep(time.Hour)
		if v.HasOpen() || len(v.List()) != 0 {
			t.Error("an invitation that was revoked keeps joining on offer")
		}
		if _, _, err := v.Issue(time.Hour, "", 1); err != nil || v.Revoke(func(InvitationInfo) bool { return true }) != 1 || v.HasOpen() {
			t.Errorf("all are revoked, and yet joining is on offer (%v)", err)
		}
	})
}

// TestInvitationEndsInSleep: the monotonic clock stands still while a machine
// sleeps, the wall clock does not; and that may be set back, the other may not.
// holds: security.md#against-strangers
func TestInvitationEndsInSleep(t *testing.T) {
	for name, tt := range map[string]struct {
		wall time.Duration // how far it was moved
		open bool
	}{
		"awake": {0, true}, "slept for 9 minutes": {9 * time.Minute, true}, "slept for 10 minutes": {10 * time.Minute, false},
		"set forward a day": {24 * time.Hour, false}, "set back a day": {-24 * time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var v Invitations
			token, _, err := v.Issue(10*time.Minute, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			v.open[0].ends.wall = v.open[0].ends.wall.Add(-tt.wall) // to the invitation that is the same
			v.setOpenEntries(v.open)
			if v.HasOpen() != tt.open || (len(v.List()) == 1) != tt.open {
				t.Errorf("%s: open %v", name, v.HasOpen())
			}
			if err := v.Redeem(token, testID(1), func(string) error { return nil }); (err == nil) != tt.open {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(10 * time.Minute)
			if v.HasOpen() || v.Redeem(token, testID(1), func(string) error { return nil }) != ErrNoInvitation {
				t.Errorf("%s: open after ten minutes awake", name)
			}
		})
	}
}
