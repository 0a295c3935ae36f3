package identity

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const rfcID = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"

func mustID(t testing.TB, s string) ID {
	t.Helper()
	id, err := ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIDForms(t *testing.T) {
	id := mustID(t, rfcID)
	if id.String() != rfcID || id.Label() != "19bf440969" {
		t.Errorf("String %s, Label %s", id, id.Label())
	}
	if got := id.Fingerprint(); got != "19bf 4409 6984 cdfe 8541 bac1 67dc 3b96" {
		t.Errorf("Fingerprint %q", got)
	}
	text, _ := id.MarshalText()
	var fromText ID
	if err := fromText.UnmarshalText(text); err != nil || fromText != id {
		t.Errorf("text round trip: %v, %v", fromText, err)
	}
	if fromText.UnmarshalText([]byte("x")) == nil || fromText != id {
		t.Error("UnmarshalText of x: accepted or changed")
	}
	other := id
	other[31]++
	if id.Compare(other) >= 0 || other.Compare(id) <= 0 || id.Compare(id) != 0 {
		t.Error("Compare does not order")
	}
	if !(ID{}).IsZero() || id.IsZero() {
		t.Error("IsZero")
	}
}

func TestParseIDRefuses(t *testing.T) {
	for _, s := range []string{
		"", rfcID[:63], rfcID + "0", strings.ToUpper(rfcID), "g" + rfcID[1:],
		" " + rfcID, rfcID + "\n", "0x" + rfcID[:62], strings.Repeat("é", 32),
	} {
		if _, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) accepted", s)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"desk": true, "a": true, "a-": true, "peer-0123456789": true, "abcde": true, "abcdef-2": true,
		"deadbeefs": true, strings.Repeat("z", 32): true,
		"": false, strings.Repeat("z", 33): false, "Desk": false, "1desk": false, "-desk": false,
		"de_sk": false, "de sk": false, "desk\n": false, "dësk": false, "desk.example": false,
		"abcdef": false, "a00000": false, strings.Repeat("f", 32): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestClaim(t *testing.T) {
	for in, want := range map[string]string{
		"desk":                              "desk",
		" my  desk ":                        "my  desk",
		"a\x1b[31mb\r\nc\x00":               "a[31mbc",
		"\u202eksed\u2066":                  "ksed",
		"a\u200bb\ufeffc\u00add":            "abcd",
		"a\u3164b\ufe0fc\U000e0041d":        "abcd",
		"bad\xff\xc3utf":                    "badutf",
		"\ufffdkept":                        "\ufffdkept",
		"Büro":                              "Büro",
		strings.Repeat("x", 70):             strings.Repeat("x", 64),
		strings.Repeat("x", 63) + "é":       strings.Repeat("x", 63),
		strings.Repeat("x", 63) + " y":      strings.Repeat("x", 63),
		"\x00" + strings.Repeat("é", 40):    strings.Repeat("é", 32),
		strings.Repeat("\n", 1000) + "desk": "desk",
	} {
		if got := CleanClaim(in); got != want {
			t.Errorf("Claim(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCheckAddr(t *testing.T) {
	for addr, ok := range map[string]bool{
		"desk.example:7117": true, "192.0.2.1:1": true, "[2001:db8::1]:65535": true, "[fe80::1%eth0]:7117": true, "localhost:7117": true,
		"": false, "desk.example": false, ":7117": false, "desk.example:0": false, "desk.example:65536": false,
		"desk.example:http": false, "desk.example:+1": false, "2001:db8::1:7117": false, "[desk.example:7117": false,
		"[fe80::1%\x1b[2J]:7117": false, "de sk:7117": false, "user@desk:7117": false, "désk:7117": false,
		strings.Repeat("a", 254) + ":1": false,
	} {
		if err := CheckAddr(addr); (err == nil) != ok {
			t.Errorf("CheckAddr(%q) = %v", addr, err)
		}
	}
}

func FuzzClaim(f *testing.F) {
	for _, s := range []string{"desk", "\u202eksed", "a\x1b[0m", "\xff\xfe", strings.Repeat("é", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := CleanClaim(s)
		if len(c) > maxClaimBytes || !utf8.ValidString(c) || strings.TrimSpace(c) != c || CleanClaim(c) != c {
			t.Errorf("Claim(%q) = %q", s, c)
		}
		for _, r := range c {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("Claim(%q) keeps %U", s, r)
			}
		}
	})
}
