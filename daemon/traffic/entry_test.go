package traffic

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (r *Recorder) last(t *testing.T, payloads bool) client.TrafficEntry {
	t.Helper()
	a, err := r.Read(t.Context(), &Query{After: r.next - 2, Limit: 1, Room: 1 << 20, Payloads: payloads})
	if err != nil || len(a.Entries) != 1 {
		t.Fatal(a, err)
	}
	return a.Entries[0]
}

func TestAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecorder()
		r.SetHistory(Bounds{10, 1 << 20})
		env := wire.NewEnvelope(desk, laptop, kinds.KindQuery, wire.Payload(`{"question":"Which\tbranch?","domain":"code"}`))
		ref := wire.NewMessageID()
		env.Agent, env.FromAgent, env.Thread, env.Ref = "reviewer", "planner", "release 7", &ref
		m := message(t, env)
		m.Inbound, m.Outcome = false, ""
		began := m.Began.UTC()
		m.Began = began.In(time.FixedZone("", 3600))
		time.Sleep(1500 * time.Microsecond)
		m.Reply = wire.NewReply(env, kinds.KindResponse, wire.Payload(`{"summary":"main"}`))
		r.Record(m)
		want := client.TrafficEntry{
			Seq: r.next - 1, At: began, Direction: client.Out, Peer: laptop, Name: "laptop", Agent: "reviewer", FromAgent: "planner", Kind: "query",
			ID: env.ID, Ref: ref, Thread: "release 7", Text: "Which branch?", Answer: "main", Bytes: len(env.Payload), Outcome: "ok", TookUS: 1500,
		}
		equal := func(got, want client.TrafficEntry) {
			t.Helper()
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if !bytes.Equal(a, b) {
				t.Errorf("got %s\nwant %s", a, b)
			}
		}
		equal(r.last(t, false), want)
		want.Payload, want.AnswerPayload = env.Payload, m.Reply.Payload
		equal(r.last(t, true), want)

		chosen := "chosen"
		m.SetAgent(&chosen)
		m.Inbound, m.Err = true, kinds.Errorf(kinds.Timeout, "the deadline\x1b[31m passed")
		r.Record(m)
		want.Seq, want.Direction, want.Peer, want.Name, want.Agent = want.Seq+1, client.In, desk, "", "chosen"
		want.Outcome, want.Answer, want.AnswerPayload = "timeout", "the deadline passed", nil
		equal(r.last(t, true), want)

		m.Err = ownwords.New("a bug")
		r.Record(m)
		if e := r.last(t, false); e.Outcome != "internal" || e.Answer != "a bug" {
			t.Errorf("%+v", e)
		}
	})
}

// What a peer's message holds is copied: an entry keeps nothing of it alive, and sees no change of it.
// holds: security.md#at-rest
func TestAnEntryKeepsCopies(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{10, 1 << 20})
	for _, size := range []int{10, maxWhole - 40, maxWhole + 1, 1 << 20} {
		m := passed(t, strings.Repeat("x", size))
		whole := len(m.Payload) <= maxWhole
		r.Record(m)
		text := string(m.Payload)
		clear(m.Payload)
		e := r.last(t, true)
		if e.Text == "" || strings.Trim(e.Text, "x…") != "" || e.Bytes != len(text) || whole && string(e.Payload) != text || !whole && e.Payload != nil {
			t.Errorf("%d bytes: %q, payload of %d", size, e.Text, len(e.Payload))
		}
		all := r.kept.listAfter(e.Seq - 1)
		if n := len(all[0].payload); whole && n != len(text) || !whole && n > maxHead {
			t.Errorf("%d bytes: %d are kept", size, n)
		}
	}
}

func TestAnAckThatSaysNo(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{10, 1 << 20})
	m := message(t, wire.NewEnvelope(laptop, desk, kinds.KindDelegate, wire.Payload(`{"task":"Tidy up."}`)))
	m.Outcome = ""
	for ack, want := range map[string]string{
		`{"accepted":true}`: "ok Tidy up.=",
		`{"accepted":false,"code":"overloaded","message":"later"}`: "refused Tidy up.=overloaded later",
	} {
		m.Reply = wire.NewReply(m.Envelope, kinds.KindAck, wire.Payload(ack))
		r.Record(m)
		if e := r.last(t, false); e.Outcome+" "+e.Text+"="+e.Answer != want {
			t.Errorf("%s: %+v", ack, e)
		}
	}
}

// What does not fit a line goes into the next answer, and one that never fits comes without payloads.
func TestAnswersFitALine(t *testing.T) {
	r := newTestRecorder()
	r.SetHistory(Bounds{100, 16 << 20})
	begin := r.next - 1
	for range 20 {
		r.Record(passed(t, strings.Repeat("x", 20<<10)))
	}
	q, entries := &Query{After: begin, Limit: 1000, Room: 64 << 10, Payloads: true}, 0
	for {
		a, err := r.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Entries) == 0 {
			break
		}
		text, err := json.Marshal(a)
		if err != nil || len(text) > q.Room || a.Entries[0].Payload == nil {
			t.Errorf("%d entries of %d bytes: %v", len(a.Entries), len(text), err)
		}
		q.After, entries = a.Next, entries+len(a.Entries)
	}
	q.After, q.Room = begin, 10<<10
	if a, err := r.Read(t.Context(), q); err != nil || len(a.Entries) != 1 || a.Entries[0].Payload != nil || entries != 20 {
		t.Error(a, err, entries)
	}
}

func TestBeginText(t *testing.T) {
	long := strings.Repeat("long ", 2000)
	for _, c := range []struct{ kind, payload, want string }{
		{"query", `{"question":"Which branch?"}`, "Which branch?"},
		{"query", `{"x":[1,{"question":"no"}],"question":"two\nlines\u202e \ud83d\ude00"}`, "two lines 😀"},
		{"query", `{"question":"` + long + `"}`, strings.TrimSpace(long[:197]) + "…"},
		{"query", `{"question":"` + long[:50] + `\ud83d\ude`, strings.TrimSpace(long[:50])},
		{"query", `{"question" : "cut of`, "cut of"},
		{"query", `{"context":"` + long + `","question":"too far"}`, ""},
		{"delegate", `{"task":"Tidy up.","context":{}}`, "Tidy up."},
		{"response", `{"data":1,"summary":"main"}`, "main"},
		{"notify", `{"topic":"t","data":{"ok": true}}`, `{"ok": true}`},
		{"notify", `{"data":"done","topic":"t"}`, "done"},
		{"notify", `{"topic":"t","data":null}`, ""},
		{"notify", `{"topic":"t","data":[1,2`, "[1,2"},
		{"result", `{"outcome":"","status":"partial","message":"half"}`, "partial half"},
		{"error", `{"message":"no room","code":"overloaded"}`, "overloaded no room"},
		{"ack", `{"accepted":true}`, ""},
		{"cancel", ``, ""},
		{"ping", `{"pad":"000"}`, ""},
		{"capabilities", `{"agents":["reviewer"]}`, `["reviewer"]`},
		{"unknown", `{"question":"x"}`, ""},
		{"", "plain\x00 text", "plain text"},
	} {
		if got := beginText(c.kind, []byte(c.payload)); got != c.want {
			t.Errorf("%s %.60s: %q, want %q", c.kind, c.payload, got, c.want)
		}
	}
}

// FuzzBeginText has payloads say anything, cut anywhere: what is shown is short, one line, and harmless.
func FuzzBeginText(f *testing.F) {
	for _, seed := range []string{`{"question":"a\u001b[31mb\ud83d`, `{"data":[1,{"x":"` + "\xff\xfe", `{"question":"` + strings.Repeat("é", 300) + `"}`, "{", `"`, "\x9b31m", `{"code":"\ude00","message":null}`} {
		for _, kind := range []string{"query", "notify", "error", ""} {
			f.Add(kind, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		before := bytes.Clone(payload)
		got := beginText(kind, payload)
		if len(got) > client.MaxTrafficText || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\t") || client.Text(got) != got {
			t.Errorf("%q", got)
		}
		if !bytes.Equal(before, payload) {
			t.Error("the payload has changed")
		}
	})
}
