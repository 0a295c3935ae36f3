package message

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestCompare(t *testing.T) {
	const early, late, future = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z", "2026-11-20T13:00:00Z"
	ordered := []Message{
		{Priority: "P0", Type: "notification", Created: late},
		{Priority: "P1", Type: "task_request", Created: early},
		{Priority: "P1", Type: "review_request", Created: late, Expires: future},
		{Priority: "P1", Type: "review_request", Created: "late"},
		{Priority: "P1", Type: "question", Created: early},
		{Priority: "P1", Type: "question", Created: late, Expires: "soon"},
		{Priority: "P2", Type: "task_request", Created: early},
		{Priority: "P3", Type: "task_request", Created: early},
		{Priority: "urgent", Type: "task_request", Created: early},
		{Priority: "P0", Type: "task_request", Created: early, Expires: late},
	}
	for range 20 {
		got := slices.Clone(ordered)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, func(a, b Message) int { return CompareUrgency(a, b, noon) })
		if diff := cmp.Diff(ordered, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

func TestExpiredAt(t *testing.T) {
	for expires, want := range map[string]bool{
		"": false, "2026-11-20T11:59:59Z": true, "2026-11-20T12:00:00Z": false, "2026-11-20T12:00:01Z": false, "2026-11-20": false, "2026-02-30T00:00:00Z": false,
	} {
		if got := (Message{Expires: expires}).IsExpiredAt(noon); got != want {
			t.Errorf("%q: %t", expires, got)
		}
	}
}

func TestNames(t *testing.T) {
	zone := noon.In(time.FixedZone("", 3*3600))
	for _, c := range []struct{ form, first, second string }{
		{`^msg-20261120120000-planner-[0-9a-f]{4}$`, NewMessageID(zone, "planner"), NewMessageID(zone, "planner")},
		{`^20261120120000_planner_question_[0-9a-f]{4}\.yaml$`, NewMessageFileName(zone, "planner", "question", ""), NewMessageFileName(zone, "planner", "question", "")},
		{`^20261120120000_planner_question_[0-9a-f]{4}_two\.yaml$`, NewMessageFileName(zone, "planner", "question", "two"), NewMessageFileName(zone, "planner", "question", "two")},
		{`^conv-20261120-planner-[0-9]{6}$`, NewConversationID(zone, "planner"), NewConversationID(zone, "planner")},
	} {
		if !regexp.MustCompile(c.form).MatchString(c.first) {
			t.Errorf("%s does not match %s", c.first, c.form)
		}
		if strings.HasSuffix(c.first, ".yaml") && !IsLegalFileName(c.first) {
			t.Errorf("%s is not legal", c.first)
		}
	}
	drawn := make(map[string]bool)
	for range 100 {
		drawn[NewMessageID(noon, "planner")] = true
	}
	if len(drawn) < 90 {
		t.Errorf("%d different ids in 100", len(drawn))
	}
	m := full()
	if m.ConversationID = NewConversationID(noon, strings.Repeat("a", 64)); m.Validate() != nil {
		t.Error(m.Validate())
	}
}

func TestLegal(t *testing.T) {
	for _, c := range []struct {
		what  string
		legal func(string) bool
		good  []string
		bad   []string
	}{
		{"agent", IsLegalAgentName, []string{"a", "9", "x.", "A-b_c.d", strings.Repeat("a", 64)},
			[]string{"", "_a", ".a", "-a", "a b", "é", "a/b", "..", "a\n", strings.Repeat("a", 65)}},
		{"file name", IsLegalFileName, []string{"a.yaml", "20260211T1430Z_codex_task_request.yaml", strings.Repeat("a", 195) + ".yaml", "a.yaml.yaml", "a..yaml"},
			[]string{"", ".yaml", ".a.yaml", "a.yml", "a.YAML", "a", "a b.yaml", "../a.yaml", "a/b.yaml", "é.yaml", "a\x00.yaml", "-a.yaml", strings.Repeat("a", 196) + ".yaml", "a.yaml\n"}},
		{"suffix", IsLegalFileSuffix, []string{"a", ".", "..", "_x-", strings.Repeat("a", 64)}, []string{"", "a b", "a/b", strings.Repeat("a", 65)}},
	} {
		for _, s := range c.good {
			if !c.legal(s) {
				t.Errorf("%s %q is refused", c.what, s)
			}
		}
		for _, s := range c.bad {
			if c.legal(s) {
				t.Errorf("%s %q passes", c.what, s)
			}
		}
	}
}

func TestExpiresAfter(t *testing.T) {
	for duration, want := range map[string]string{
		"30m": "2026-11-20T12:30:00Z", "2 H": "2026-11-20T14:00:00Z", " 1d\n": "2026-11-21T12:00:00Z", "0m": "2026-11-20T12:00:00Z", "2912119d": "9999-12-31T12:00:00Z",
	} {
		if got, err := ParseExpiry(duration, noon); got != want || err != nil {
			t.Errorf("%q: %s, %v, expected %s", duration, got, err, want)
		}
	}
	for duration, want := range map[string]string{
		"":                      `"" is no duration: write a number and m, h or d, like 90m`,
		"h":                     `"h" is no duration: `,
		"1w":                    `"1w" is no duration: `,
		"+1h":                   `"+1h" is no duration: `,
		"2912120d":              `duration "2912120d" ends after the year 9999: choose a shorter one`,
		"99999999999999999999d": `duration "99999999999999999999d" ends after the year 9999: choose a shorter one`,
		"9223372036854775807h":  `duration "9223372036854775807h" ends after the year 9999: choose a shorter one`,
		"\u0663h":               "\"\u0663h\" is no duration: ",
		"106751991167300d":      `duration "106751991167300d" ends after the year 9999: choose a shorter one`,
	} {
		if got, err := ParseExpiry(duration, noon); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %s, %v, expected %s", duration, got, err, want)
		}
	}
}

func TestReplyTypes(t *testing.T) {
	for _, typ := range append(ListMessageTypes(), "unknown") {
		for _, reply := range ListReplyTypes(typ) {
			if !slices.Contains(ListMessageTypes(), reply) {
				t.Errorf("%s is answered with %q", typ, reply)
			}
		}
	}
	for typ, want := range map[string]string{
		"question": "[notification]", "handoff": "[handoff_complete]", "review_request": "[review_feedback review_lgtm]", "review_feedback": "[review_addressed]",
		"notification": "[]", "handoff_complete": "[]", "review_lgtm": "[]", "follow_up": "[]",
	} {
		if got := fmt.Sprint(ListReplyTypes(typ)); got != want {
			t.Errorf("%s is answered with %s, expected %s", typ, got, want)
		}
	}
}

func TestCarriable(t *testing.T) {
	m, err := ParseCarriableMessage([]byte("from: planner\nnew_field: [1]\npriority: P0\n"))
	if err != nil || m.From != "planner" || m.Priority != "P0" {
		t.Errorf("%+v, %v", m, err)
	}
	for data, want := range map[string]string{
		"":                     "the file is empty",
		"from: [":              "not YAML: ",
		"\xff":                 "byte 0 is not UTF-8",
		"planner":              "not a mapping of fields",
		"from: ../x":           "field 'from' " + nameText,
		"from: [planner]":      "field 'from' " + nameText,
		"to: planner":          "field 'from' " + nameText,
		"from: &a planner\x00": "not YAML: character U+0000 at byte 16 is not allowed",
		"from: planner\n#" + strings.Repeat("x", MaxBytes): "over 1048576 bytes",
	} {
		if _, err := ParseCarriableMessage([]byte(data)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, expected %s", data, err, want)
		}
	}
	full := "from: planner\n#" + strings.Repeat("x", MaxBytes-15)
	if _, err := ParseCarriableMessage([]byte(full)); err != nil || len(full) != MaxBytes {
		t.Errorf("%d bytes: %v", len(full), err)
	}
}

// A file may hold every letter that could stand in for a tab, but the last few.
func TestCrowdedLetters(t *testing.T) {
	var b strings.Builder
	b.WriteString("from: planner\nsubject: \"a\tb\\/\"\nbody: |\n  \tc\ufeff\n  ")
	for r := rune(0x10ffff); b.Len() < MaxBytes-4; r-- {
		b.WriteRune(r)
	}
	d, err := ParseDocument([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if m := d.ToMessage(); m.Subject != "a\tb/" || !strings.HasPrefix(m.Body, "\tc\ufeff\n\U0010ffff") {
		t.Errorf("subject %q, body %.20q", m.Subject, m.Body)
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Message){
		"NUL":              func(m *Message) { m.Subject = "a\x00" },
		"broken UTF-8":     func(m *Message) { m.Body = "a\xff" },
		"no recipient":     func(m *Message) { m.To = nil },
		"unsafe recipient": func(m *Message) { m.To = []string{"reviewer", "a]\nfrom: desk"} },
	} {
		m := full()
		m.ToList = false
		spoil(&m)
		if data, err := m.Render(); err == nil {
			t.Errorf("%s: renders %q", name, data)
		}
	}
}
