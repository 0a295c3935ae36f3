package integration

import (
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// mailMeans is a request as its vector shows it.
func mailMeans(m *wire.MailRequest) any {
	means := map[string]any{"v": m.V, "op": m.Op, "project": m.Project}
	switch m.Op {
	case wire.MailDeliver:
		means["size"], means["delivery"] = m.Size, m.Delivery.String()
		fallthrough
	case wire.MailConsumed:
		means["recipient"], means["filename"], means["sha256"] = m.Agent, m.File, hex.EncodeToString(m.Hash[:])
	case wire.MailPresence:
		means["agent"], means["status"], means["updated_at"] = m.Agent, m.Status, m.UpdatedAt
	}
	return means
}

func replyMeans(m *wire.MailReply) any {
	means := map[string]any{"result": m.Result}
	if m.Code != "" {
		means["code"], means["message"] = m.Code, m.Message
		if m.Scope != "" {
			means["scope"] = m.Scope
		}
	}
	return means
}

// mail are the items of a mail stream.
func mail() []vector {
	var all []vector
	ok := func(is, name string, b []byte, canonical bool, means string) {
		all = append(all, vector{Name: is + ": " + name, Is: is, Hex: hex.EncodeToString(b), Canonical: canonical, Means: jsontext.Value(means)})
	}
	no := func(is, name string, b []byte, field string) {
		all = append(all, refused(is, name, b, "invalid", field))
	}
	const request, reply = "mail request", "mail reply"
	consumed := message{{"v", num(1)}, {"op", str("consumed")}, {"sha256", bin(id(0x40, 32))}, {"project", str("demo")}, {"filename", str("a.yaml")}, {"recipient", str("reviewer")}}
	deliver := consumed.with("op", str("deliver")).with("size", num(500)).with("delivery", bin(id(0x10, 16)))
	presence := message{{"v", num(1)}, {"op", str("presence")}, {"agent", str("reviewer")}, {"status", str("busy")}, {"project", str("demo")}, {"updated_at", str("2026-11-20T13:00:00Z")}}
	const hash = "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
	const consumedMeans = `{"v":1,"op":"consumed","project":"demo","recipient":"reviewer","filename":"a.yaml","sha256":"` + hash + `"}`
	ok(request, "deliver", framed(deliver.cbor()), true, `{"v":1,"op":"deliver","project":"demo","recipient":"reviewer","filename":"a.yaml","sha256":"`+hash+`","size":500,"delivery":"10111213-1415-1617-1819-1a1b1c1d1e1f"}`)
	ok(request, "deliver, the message's bytes after it", append(framed(deliver.cbor()), "id: m"...), false, `{"v":1,"op":"deliver","project":"demo","recipient":"reviewer","filename":"a.yaml","sha256":"`+hash+`","size":500,"delivery":"10111213-1415-1617-1819-1a1b1c1d1e1f"}`)
	ok(request, "consumed", framed(consumed.cbor()), true, consumedMeans)
	ok(request, "consumed, an unknown field", framed(consumed.with("x", raw("\xf6")).cbor()), false, consumedMeans)
	ok(request, "presence", framed(presence.cbor()), true, `{"v":1,"op":"presence","project":"demo","agent":"reviewer","status":"busy","updated_at":"2026-11-20T13:00:00Z"}`)

	for _, m := range []message{deliver, consumed, presence} {
		for _, p := range m {
			name := string(m[1].value[1:])
			no(request, name+" without "+p.key, framed(m.without(p.key).cbor()), p.key)
			no(request, name+", "+p.key+" null", framed(m.with(p.key, raw("\xf6")).cbor()), p.key)
		}
	}
	for _, f := range []string{"project", "filename", "recipient"} {
		no(request, "an empty "+f, framed(consumed.with(f, str("")).cbor()), f)
		no(request, f+" as bytes", framed(consumed.with(f, bin(raw("demo"))).cbor()), f)
		no(request, f+" of invalid UTF-8", framed(consumed.with(f, str("\xff")).cbor()), f)
	}
	no(request, "project of 129 bytes", framed(consumed.with("project", str(strings.Repeat("p", 129))).cbor()), "project")
	no(request, "recipient of 65 bytes", framed(consumed.with("recipient", str(strings.Repeat("r", 65))).cbor()), "recipient")
	no(request, "filename of 1025 bytes", framed(consumed.with("filename", str(strings.Repeat("f", 1025))).cbor()), "filename")
	no(request, "sha256 of 31 bytes", framed(consumed.with("sha256", bin(id(0, 31))).cbor()), "sha256")
	no(request, "sha256 as text", framed(consumed.with("sha256", str(strings.Repeat("0", 32))).cbor()), "sha256")
	no(request, "size negative", framed(deliver.with("size", neg(1)).cbor()), "size")
	no(request, "delivery of 17 bytes", framed(deliver.with("delivery", bin(id(0, 17))).cbor()), "delivery")
	no(request, "status empty", framed(presence.with("status", str("")).cbor()), "status")
	no(request, "a field twice", framed(append(message{{"v", num(1)}}, consumed...).cbor()), "v")
	no(request, "an array", framed(arr(num(1))), "")
	no(request, "length 0", raw("\x00"), "length")
	no(request, "length 16385", append(raw("\x80\x00\x40\x01"), make([]byte, 64)...), "length")

	answer := func(result string) message { return message{{"result", str(result)}} }
	ok(reply, "stored", framed(answer("stored").cbor()), true, `{"result":"stored"}`)
	ok(reply, "duplicate", framed(answer("duplicate").cbor()), true, `{"result":"duplicate"}`)
	ok(reply, "ok", framed(answer("ok").cbor()), true, `{"result":"ok"}`)
	for _, result := range []string{"refused_permanent", "refused_retry"} {
		m := answer(result).with("code", str("not_found")).with("message", str("no such agent"))
		ok(reply, result, framed(m.cbor()), true, `{"result":"`+result+`","code":"not_found","message":"no such agent"}`)
		no(reply, result+" without code", framed(m.without("code").cbor()), "code")
		no(reply, result+", message of 1025 bytes", framed(m.with("message", str(strings.Repeat("m", 1025))).cbor()), "message")
	}
	one := answer("refused_retry").with("code", str("overloaded")).with("message", str("wait")).with("scope", str("message"))
	ok(reply, "refused_retry, of this message alone", framed(one.cbor()), true, `{"result":"refused_retry","code":"overloaded","message":"wait","scope":"message"}`)
	ok(reply, "refused_retry, a scope that is not known", framed(one.with("scope", str("project")).cbor()), true, `{"result":"refused_retry","code":"overloaded","message":"wait","scope":"project"}`)
	no(reply, "scope of 65 bytes", framed(one.with("scope", str(strings.Repeat("s", 65))).cbor()), "scope")
	no(reply, "scope as a number", framed(one.with("scope", num(1)).cbor()), "scope")
	no(reply, "another result", framed(answer("perhaps").cbor()), "result")
	no(reply, "no result", framed(dict()), "result")
	no(reply, "a byte after it", append(framed(answer("stored").cbor()), 0), "")
	return all
}
