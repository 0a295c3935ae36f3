package integration

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var update = flag.Bool("update", false, "write vectors/*.json anew")

// The vectors are written down here, with a CBOR writer of their own that can
// also write what no encoder would; the files are the contract.
func TestVectorFilesAreCurrent(t *testing.T) {
	for name, vectors := range map[string][]vector{"envelopes": envelopes(), "payloads": payloads(), "items": items(), "mail": mail(), "files": files(), "names": byName()} {
		path := "vectors/" + name + ".json"
		text, err := json.Marshal(vectors, jsontext.WithIndent("  "), json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
			t.Errorf("%s differs from its source (%v): run this test with -update and review the change, which is one of the protocol", path, err)
		}
	}
}

// Ids that are easy to recognise.

func id(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

func uuid(first byte) string {
	x := hex.EncodeToString(id(first, 16))
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

const stamp = 1771108000123

// A message is an envelope under construction: its pairs in canonical order.
type message []pair

func newMessage(kind string) message {
	return message{{"v", num(1)}, {"id", bin(id(0x10, 16))}, {"to", bin(id(0x60, 32))}, {"ts", num(stamp)}, {"from", bin(id(0x20, 32))}, {"kind", str(kind)}}
}

// with sets a field to CBOR, or adds it where the canonical order wants it.
func (m message) with(key string, value []byte) message {
	m = m.without(key)
	at := slices.IndexFunc(m, func(p pair) bool { return bytes.Compare(str(p.key), str(key)) > 0 })
	if at < 0 {
		at = len(m)
	}
	return slices.Insert(m, at, pair{key, value})
}

func (m message) without(key string) message {
	return slices.DeleteFunc(slices.Clone(m), func(p pair) bool { return p.key == key })
}

func (m message) cbor() []byte { return dict(m...) }

func refused(is, name string, b []byte, code, field string) vector {
	return vector{Name: is + " refused: " + name, Is: is, Hex: hex.EncodeToString(b), Error: &failure{code, field}}
}

// sample holds the values from which a kind's vectors are made.
type sample struct {
	kind          string
	ref           bool
	minimal, full string // payloads; "" is none at all
}

var samples = []sample{
	{"ping", false, "", ""},
	{"pong", true, `{"status":"idle","uptime_secs":0,"active_tasks":0}`,
		`{"status":"busy","uptime_secs":3600,"active_tasks":2,"agent_name":"desk","attached":3}`},
	{"query", false, `{"question":"Which tests fail?"}`,
		`{"question":"Which tests fail?","domain":"code.review","max_tokens":200,"deadline_ms":600000}`},
	{"response", true, `{"summary":""}`,
		`{"data":{"failed":["TestA"]},"summary":"One of 40","tokens_used":47,"truncated":false}`},
	{"delegate", false, `{"task":"Run the tests"}`,
		`{"task":"Run the tests","context":{"branch":"main"},"priority":"urgent","report_back":false,"deadline_ms":2592000000,"domain":"code.test"}`},
	{"ack", true, `{"accepted":true}`,
		`{"accepted":false,"estimated_ms":5000,"code":"overloaded","message":"Two tasks are running"}`},
	{"result", true, `{"status":"completed","outcome":""}`,
		`{"status":"failed","outcome":"Two tests fail","data":[1,2],"error":"exit status 1","progress":0.25,"message":"Running the tests"}`},
	{"notify", false, `{"topic":"build"}`,
		`{"topic":"build.done","data":"green","importance":"high"}`},
	{"cancel", true, "", `{"reason":"Plans changed"}`},
	{"discover", false, "", ""},
	{"capabilities", true, "",
		`{"agent_name":"desk","agents":["builder"],"sessions":["builder"],"domains":["code","build"],"channels":[],"tools":["go"],"max_concurrent_tasks":4,"model":"any","details":[{"name":"builder","about":"builds it","answers":"turn"}]}`},
	{"error", true, `{"code":"internal","message":""}`,
		`{"code":"unknown_domain","message":"Nobody here does that","retryable":false,"retry_after_ms":0,"details":{"domains":["code"]}}`},
}

// accepted pairs an envelope with the JSON that the local API shows for it; more
// is JSON members beside the six that every envelope has.
func accepted(name string, m []byte, canonical bool, kind string, ref bool, payload, more string) vector {
	refText := "null"
	if ref {
		refText = `"` + uuid(0xa0) + `"`
	}
	if payload == "" {
		payload = "{}"
	}
	means := fmt.Sprintf(`{"v":1,"id":%q,"from":%q,"to":%q,"ts":%d,"kind":%q,"ref":%s,"payload":%s%s}`,
		uuid(0x10), hex.EncodeToString(id(0x20, 32)), hex.EncodeToString(id(0x60, 32)), uint64(stamp), kind, refText, payload, more)
	return vector{Name: "envelope: " + name, Is: "envelope", Hex: hex.EncodeToString(m), Canonical: canonical, Means: jsontext.Value(means)}
}

func envelopes() []vector {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var all []vector
	for _, s := range samples {
		m := newMessage(s.kind)
		if s.ref {
			m = m.with("ref", bin(id(0xa0, 16)))
		}
		minimal, full := m, m
		if s.minimal != "" {
			minimal = m.with("payload", bin(raw(s.minimal)))
		}
		if s.full != "" {
			full = m.with("payload", bin(raw(s.full)))
		}
		full = full.with("trace", str(trace)).with("agent", str("reviewer")).with("thread", str("release")).with("hops", num(16))
		// Unknown payload fields, a number of 19 digits that no double holds, text beyond the BMP.
		rich := `{"note":"👍 grüße","n":9223372036854775807,"x":{"y":[null,1.50,-0]}`
		if s.minimal != "" {
			rich = strings.TrimSuffix(s.minimal, "}") + "," + rich[1:]
		}
		rich += "}"
		all = append(all,
			accepted(s.kind+", minimal", minimal.cbor(), true, s.kind, s.ref, s.minimal, ""),
			accepted(s.kind+", full", full.cbor(), true, s.kind, s.ref, s.full, `,"trace":"`+trace+`","agent":"reviewer","thread":"release","hops":16`),
			accepted(s.kind+", with payload fields that nobody knows", m.with("payload", bin(raw(rich))).cbor(), true, s.kind, s.ref, rich, ""),
		)
	}

	fromAgent := func(name, kind string, ref bool, payload string, m message) {
		m = m.with("payload", bin(raw(payload))).with("from_agent", str("planner"))
		all = append(all, accepted(name, m.cbor(), true, kind, ref, payload, `,"from_agent":"planner"`))
	}
	fromAgent("query that an agent sent", "query", false, `{"question":"a"}`, newMessage("query"))
	fromAgent("response that an agent gave", "response", true, `{"summary":"a"}`, newMessage("response").with("ref", bin(id(0xa0, 16))))
	fromAgent("ack that an agent gave", "ack", true, `{"accepted":true}`, newMessage("ack").with("ref", bin(id(0xa0, 16))))
	fromAgent("result that an agent sent", "result", true, `{"status":"completed","outcome":"a"}`, newMessage("result").with("ref", bin(id(0xa0, 16))))

	ping := newMessage("ping")
	reversed := slices.Clone(ping)
	slices.Reverse(reversed)
	loose := func(name string, b []byte) {
		all = append(all, accepted(name, b, false, "ping", false, "", ""))
	}
	loose("keys in another order", reversed.cbor())
	loose("an integer longer than it need be", ping.with("v", raw("\x19\x00\x01")).cbor())
	loose("a length longer than it need be", ping.with("kind", raw("\x79\x00\x04ping")).cbor())
	loose("a payload that is {}", ping.with("payload", bin(raw("{}"))).cbor())
	all[len(all)-1].Canonical = true // an encoder may leave it out or not
	loose("empty optional text and no hops", ping.with("trace", str("")).with("agent", str("")).with("thread", str("")).with("hops", num(0)).cbor())
	loose("from_agent empty", ping.with("from_agent", str("")).cbor())
	loose("unknown fields: null, a float, a map, seven levels of arrays", ping.with("a", raw("\xf6")).with("b", raw("\xf9\x3e\x00")).with("c", dict(pair{"d", arr()})).with("e", nest(7)).cbor())
	many := ping
	for i := len(many); i < 64; i++ {
		many = many.with(fmt.Sprintf("x%02d", i), raw("\xf5"))
	}
	loose("64 pairs", many.cbor())
	spaced := " {\n\t\"b\" : 1.0 , \"\\u0061\":\"\\/\" } "
	all = append(all, accepted("payload text kept as it was written", ping.with("payload", bin(raw(spaced))).cbor(), true, "ping", false, spaced, ""))

	no := func(name string, b []byte, field string) {
		all = append(all, refused("envelope", name, b, "invalid", field))
	}
	no("empty", nil, "")
	no("no map", arr(num(1)), "")
	no("null", raw("\xf6"), "")
	no("an empty map", dict(), "v")
	no("a byte after the end", append(ping.cbor(), 0), "")
	no("cut", ping.cbor()[:40], "")
	no("indefinite map", slices.Concat(raw("\xbf"), ping.cbor()[1:], raw("\xff")), "")
	no("indefinite text", ping.with("kind", raw("\x7f\x62pi\x62ng\xff")).cbor(), "")
	no("indefinite bytes in an unknown field", ping.with("x", raw("\x5f\x41a\xff")).cbor(), "")
	no("tag", append(raw("\xd9\xd9\xf7"), ping.cbor()...), "")
	no("tag in a field", ping.with("ts", append(raw("\xc1"), num(stamp)...)).cbor(), "")
	no("bignum", ping.with("ts", raw("\xc2\x48\x00\x00\x01\x9c\x5d\x21\xa0\x7b")).cbor(), "")
	no("undefined in an unknown field", ping.with("x", raw("\xf7")).cbor(), "")
	no("NaN in an unknown field", ping.with("x", raw("\xf9\x7e\x00")).cbor(), "")
	no("infinity in an unknown field", ping.with("x", raw("\xf9\x7c\x00")).cbor(), "")
	no("unassigned simple value for an integer", ping.with("v", raw("\xe1")).cbor(), "")
	no("depth 9", ping.with("x", nest(8)).cbor(), "")
	no("65 pairs", many.with("x99", raw("\xf5")).cbor(), "")
	no("257 elements", ping.with("x", append(head(4, 257), make([]byte, 257)...)).cbor(), "")
	no("a length of 2^62", ping.with("x", raw("\x5b\x40\x00\x00\x00\x00\x00\x00\x00")).cbor(), "")
	no("a field twice", append(message{{"kind", str("ping")}}, ping...).cbor(), "kind")
	no("an unknown field twice", append(message{{"x", num(1)}, {"x", num(1)}}, ping...).cbor(), "x")
	no("an integer as key", slices.Concat(head(5, 7), num(1), num(1), ping.cbor()[1:]), "")
	no("bytes as key", slices.Concat(head(5, 7), bin(raw("x")), num(1), ping.cbor()[1:]), "")
	no("a key of invalid UTF-8", append(message{{"\xff", num(1)}}, ping...).cbor(), "")

	for _, f := range []string{"v", "id", "from", "to", "ts", "kind"} {
		no(f+" missing", ping.without(f).cbor(), f)
	}
	for _, f := range []string{"v", "id", "from", "to", "ts", "kind", "ref", "payload", "trace", "agent", "thread", "hops", "from_agent"} {
		no(f+" null", ping.with(f, raw("\xf6")).cbor(), f)
	}
	for _, f := range []string{"id", "from", "to", "ref", "payload"} {
		no(f+" as text", ping.with(f, str(strings.Repeat("a", 32))).cbor(), f)
		no(f+" as an array of integers", ping.with(f, append(head(4, 32), bytes.Repeat([]byte{1}, 32)...)).cbor(), f)
	}
	for f, n := range map[string]int{"id": 16, "from": 32, "to": 32, "ref": 16} {
		no(f+" one byte short", ping.with(f, bin(id(1, n-1))).cbor(), f)
		no(f+" one byte long", ping.with(f, bin(id(1, n+1))).cbor(), f)
		no(f+" all zeros", ping.with(f, bin(make([]byte, n))).cbor(), f)
	}
	for _, f := range []string{"kind", "trace", "agent", "thread", "from_agent"} {
		no(f+" as bytes", ping.with(f, bin(raw("ping"))).cbor(), f)
		no(f+" of invalid UTF-8", ping.with(f, str("pi\xffg")).cbor(), f)
		limit := 64
		if f == "trace" {
			limit = 256
		}
		no(fmt.Sprintf("%s of %d bytes", f, limit+1), ping.with(f, str(strings.Repeat("a", limit+1))).cbor(), f)
	}
	for _, f := range []string{"v", "ts", "hops"} {
		no(f+" negative", ping.with(f, neg(1)).cbor(), f)
		no(f+" as a float", ping.with(f, raw("\xf9\x3c\x00")).cbor(), f)
		no(f+" as text", ping.with(f, str("1")).cbor(), f)
		no(f+" as true", ping.with(f, raw("\xf5")).cbor(), f)
	}
	no("v 0", ping.with("v", num(0)).cbor(), "v")
	no("v 2", ping.with("v", num(2)).cbor(), "v")
	no("kind empty", ping.with("kind", str("")).cbor(), "kind")
	no("payload empty", ping.with("payload", bin(nil)).cbor(), "payload")
	no("payload that is not JSON", ping.with("payload", bin(raw("{"))).cbor(), "payload")
	for _, s := range samples {
		if s.ref {
			m := newMessage(s.kind)
			if s.minimal != "" {
				m = m.with("payload", bin(raw(s.minimal)))
			}
			no(s.kind+" without ref", m.cbor(), "ref")
		}
	}
	all = append(all,
		refused("envelope", "a kind that nobody knows", newMessage("shout").cbor(), "unknown_kind", "kind"),
		refused("envelope", "a kind in upper case", newMessage("Ping").cbor(), "unknown_kind", "kind"),
		refused("envelope", "hops 17", ping.with("hops", num(17)).cbor(), "loop_detected", "hops"),
		refused("envelope", "hops 2^64-1", ping.with("hops", num(1<<64-1)).cbor(), "loop_detected", "hops"),
	)
	slices.SortStableFunc(all, func(a, b vector) int { return compareRefused(a, b) })
	return all
}

// compareRefused puts what is accepted first; refusals are sorted by name where
// a map's order made them.
func compareRefused(a, b vector) int {
	switch {
	case a.Error == nil && b.Error == nil:
		return 0
	case a.Error == nil:
		return -1
	case b.Error == nil:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}

func payloads() []vector {
	var all []vector
	ok := func(kind, name, text string) {
		all = append(all, vector{Name: kind + " payload: " + name, Is: "payload", Kind: kind, Hex: hex.EncodeToString(raw(text)), Canonical: true, Means: jsontext.Value(text)})
	}
	no := func(kind, name, text, field string) {
		v := refused("payload", kind+", "+name, raw(text), "invalid", field)
		v.Kind = kind
		all = append(all, v)
	}
	deep := func(levels int) string {
		return `{"task":"a","x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	ok("delegate", "depth 64", deep(64))
	ok("delegate", "brackets in text are no depth", `{"task":"`+strings.Repeat("[{", 65)+`\"[\\"}`)
	ok("delegate", "null stands for an absent optional field", `{"task":"a","context":null,"priority":null,"report_back":null,"deadline_ms":null,"domain":null}`)
	ok("result", "partial, all of it in each way that JSON has", `{"status":"partial","outcome":"","progress":10.0e-1,"message":""}`)
	ok("result", "partial, nothing done yet", `{"status":"partial","outcome":"","progress":0}`)
	ok("result", "partial, a message of 1,024 bytes", `{"status":"partial","outcome":"","progress":null,"message":"`+strings.Repeat("\u0061", 1024)+`"}`)
	ok("result", "no error", `{"status":"partial","outcome":"half","error":null}`)
	ok("query", "an escaped name and a surrogate pair", `{"\u0071uestion":"\ud83d\udc4d"}`)
	ok("query", "an escaped word is the word", `{"question":"a","domain":"\u0061"}`)
	ok("query", "a noncharacter", `{"question":"`+"\uffff"+`"}`)
	ok("query", "names are case-sensitive: this one is unknown", `{"question":"a","Domain":7}`)
	ok("query", "the least deadline", `{"question":"a","deadline_ms":0,"max_tokens":18446744073709551615}`)
	ok("query", "a domain of 255 bytes", `{"question":"a","domain":"`+strings.Repeat("a", 255)+`"}`)
	ok("capabilities", "64 agents in detail", `{"details":[`+strings.Repeat(`{"name":"a","answers":"now"},`, 63)+`{"name":"a","answers":"wakes"}]}`)
	ok("capabilities", "an agent that is about 120 characters, answers in a word that nobody knows, and says more", `{"details":[{"name":"a","about":"`+strings.Repeat("ü", 120)+`","answers":"soon","more":1}]}`)
	ok("capabilities", "about is null", `{"details":[{"name":"a","about":null,"answers":"now"}]}`)
	ok("error", "a code that nobody knows", `{"code":"brand_new","message":"m"}`)

	for name, text := range map[string]string{
		"an array": `[]`, "a string": `"{}"`, "a number": `1`, "null": `null`, "white space alone": ` `, "cut": `{"question":"a"`,
		"text after the end": `{"question":"a"} x`, "two objects": `{"question":"a"}{}`, "a byte-order mark": "\ufeff" + `{"question":"a"}`,
		"a name twice": `{"question":"a","x":1,"x":1}`, "a name twice, once escaped": `{"question":"a","x":1,"\u0078":1}`,
		"a name twice further down": `{"question":"a","x":{"y":1,"y":1}}`, "invalid UTF-8": `{"question":"` + "\xff" + `"}`,
		"invalid UTF-8 in a name": `{"question":"a","` + "\xc3" + `":1}`, "an encoded surrogate": `{"question":"` + "\xed\xa0\x80" + `"}`,
		"a lone surrogate": `{"question":"\ud83d"}`, "surrogates in the wrong order": `{"question":"\udc4d\ud83d"}`,
		"a control character": "{\"question\":\"a\nb\"}", "a trailing comma": `{"question":"a",}`, "a comment": `{"question":"a"/**/}`,
		"single quotes": `{'question':'a'}`, "a leading zero": `{"question":"a","x":01}`, "NaN": `{"question":"a","x":NaN}`,
	} {
		no("query", name, text, "payload")
	}
	no("delegate", "depth 65", deep(65), "payload")
	no("delegate", "depth 65 of objects", `{"task":"a","x":`+strings.Repeat(`{"x":`, 63)+"{}"+strings.Repeat("}", 63)+"}", "payload")
	no("ping", "an array", `[]`, "payload")
	no("discover", "a name twice", `{"x":1,"x":1}`, "payload")

	// Of each kind, every required field missing or null, every known one of a wrong type.
	for _, s := range samples {
		members := fullMembers(s.full)
		for i, m := range members {
			if m.key == "data" {
				continue // any value will do
			}
			wrong := "[{}]"
			no(s.kind, m.key+" of a wrong type", object(members, i, wrong), m.key)
			if strings.Contains(s.minimal, `"`+m.key+`":`) {
				no(s.kind, m.key+" missing", object(members, i, ""), m.key)
				no(s.kind, m.key+" null", object(members, i, "null"), m.key)
			}
			if c := m.value[0]; '0' <= c && c <= '9' && m.key != "progress" {
				for name, v := range map[string]string{"negative": "-1", "minus zero": "-0", "with a fraction": "1.0", "with an exponent": "1e3", "as text": `"1"`, "of 2^64": "18446744073709551616"} {
					no(s.kind, m.key+" "+name, object(members, i, v), m.key)
				}
			}
		}
	}
	no("pong", "status in another word", `{"status":"Idle","uptime_secs":0,"active_tasks":0}`, "status")
	no("query", "question empty", `{"question":""}`, "question")
	no("query", "deadline_ms over the limit", `{"question":"a","deadline_ms":600001}`, "deadline_ms")
	no("query", "domain of 256 bytes", `{"question":"a","domain":"`+strings.Repeat("a", 256)+`"}`, "domain")
	no("query", "domain with a control character", `{"question":"a","domain":"a\u001b[2J"}`, "domain")
	no("delegate", "task empty", `{"task":""}`, "task")
	no("delegate", "priority in another word", `{"task":"a","priority":"high"}`, "priority")
	no("delegate", "priority empty", `{"task":"a","priority":""}`, "priority")
	no("delegate", "report_back as text", `{"task":"a","report_back":"true"}`, "report_back")
	no("delegate", "context as an array", `{"task":"a","context":[]}`, "context")
	no("delegate", "deadline_ms over the limit", `{"task":"a","deadline_ms":2592000001}`, "deadline_ms")
	no("result", "status in another word", `{"status":"done","outcome":"a"}`, "status")
	for name, n := range map[string]string{"negative": "-0.1", "minus zero": "-0", "over 1": "1.01", "over 1 by far": "1e400", "as text": `"0.5"`} {
		no("result", "progress "+name, `{"status":"partial","outcome":"a","progress":`+n+`}`, "progress")
	}
	no("result", "message of 1,025 bytes", `{"status":"partial","outcome":"a","message":"`+strings.Repeat("\u0061", 1025)+`"}`, "message")
	no("notify", "topic empty", `{"topic":""}`, "topic")
	no("notify", "topic of 256 bytes", `{"topic":"`+strings.Repeat("a", 256)+`"}`, "topic")
	no("notify", "importance in another word", `{"topic":"a","importance":"urgent"}`, "importance")
	no("capabilities", "agents with a number", `{"agents":["a",1]}`, "agents")
	no("capabilities", "sessions with a number", `{"sessions":["a",1]}`, "sessions")
	no("capabilities", "domains with a number", `{"domains":["a",1]}`, "domains")
	for name, text := range map[string]string{
		"65 agents": strings.Repeat(`{"name":"a","answers":"now"},`, 64) + `{"name":"a","answers":"now"}`, "null": `null`, "a name alone": `"a"`,
		"no name": `{"answers":"now"}`, "no answers": `{"name":"a"}`, "name null": `{"name":null,"answers":"now"}`, "answers as a number": `{"name":"a","answers":1}`,
		"about as a number": `{"name":"a","about":1,"answers":"now"}`, "about 121 characters": `{"name":"a","about":"` + strings.Repeat("ü", 121) + `","answers":"now"}`,
	} {
		no("capabilities", "details with "+name, `{"details":[`+text+`]}`, "details")
	}
	no("capabilities", "tools with null", `{"tools":[null]}`, "tools")
	no("error", "code empty", `{"code":"","message":"m"}`, "code")
	no("ack", "code empty", `{"accepted":false,"code":""}`, "code")
	for _, local := range []string{"unreachable", "daemon_unavailable", "unknown_peer", "not_trusted", "identity_conflict"} {
		no("error", "code "+local+", which is local", `{"code":"`+local+`","message":"m"}`, "code")
		no("ack", "code "+local+", which is local", `{"accepted":false,"code":"`+local+`"}`, "code")
	}
	no("error", "details as text", `{"code":"internal","message":"m","details":"x"}`, "details")
	slices.SortStableFunc(all, compareRefused)
	return all
}

// fullMembers takes a JSON object apart; its values are text.
func fullMembers(text string) []pair {
	var members []pair
	if text == "" {
		return nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(text))
	dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		key := name.String()
		value, _ := dec.ReadValue()
		members = append(members, pair{key, slices.Clone(value)})
	}
	return members
}

// object puts members together with another value for one, "" for none.
func object(members []pair, i int, value string) string {
	var parts []string
	for j, m := range members {
		v := string(m.value)
		if j == i {
			v = value
		}
		if v != "" {
			parts = append(parts, `"`+m.key+`":`+v)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
