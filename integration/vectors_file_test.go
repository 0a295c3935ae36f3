package integration

import (
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

// fileMeans is a request as its vector shows it.
func fileMeans(f *wire.FileRequest) any {
	means := map[string]any{"v": f.V, "op": f.Op, "id": f.ID.String()}
	if f.Op == wire.FileRange {
		means["offset"], means["length"] = f.Offset, f.Length
		return means
	}
	means["name"], means["size"], means["sha256"] = f.Name, f.Size, hex.EncodeToString(f.Hash[:])
	for name, text := range map[string]string{"agent": f.Agent, "from_agent": f.FromAgent, "thread": f.Thread, "text": f.Text} {
		if text != "" {
			means[name] = text
		}
	}
	if !f.Ref.IsZero() {
		means["ref"] = f.Ref.String()
	}
	if f.WaitMS > 0 {
		means["wait_ms"] = f.WaitMS
	}
	return means
}

func fileReplyMeans(f *wire.FileReply) any {
	means := map[string]any{"op": f.Op}
	switch f.Op {
	case wire.FileWant:
		means["offset"], means["length"], means["have"] = f.Offset, f.Length, f.Have
	case wire.FileDone:
		means["state"], means["had"] = f.State, f.Had
	case wire.FileRefuse:
		means["code"], means["message"] = f.Code, f.Message
		if f.RetryAfterMS > 0 {
			means["retry_after_ms"] = f.RetryAfterMS
		}
	}
	return means
}

// files are the items of streams of files.
func files() []vector {
	var all []vector
	ok := func(is, name string, b []byte, canonical bool, means string) {
		all = append(all, vector{Name: is + ": " + name, Is: is, Hex: hex.EncodeToString(b), Canonical: canonical, Means: jsontext.Value(means)})
	}
	no := func(is, name string, b []byte, field string) {
		all = append(all, refused(is, name, b, "invalid", field))
	}
	const request, reply = "file request", "file reply"
	const hash = "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
	offer := message{{"v", num(1)}, {"id", bin(id(0x10, 16))}, {"op", str("offer")}, {"name", str("build.log")}, {"size", num(5 << 20)}, {"sha256", bin(id(0x40, 32))}}
	full := offer.with("agent", str("fixer")).with("from_agent", str("reviewer")).with("ref", bin(id(0x20, 16))).with("thread", str("t")).with("text", str("The log")).with("wait_ms", num(86_400_000))
	part := message{{"v", num(1)}, {"id", bin(id(0x10, 16))}, {"op", str("range")}, {"length", num(77)}, {"offset", num(4 << 20)}}
	offerMeans := `{"v":1,"op":"offer","id":"` + uuid(0x10) + `","name":"build.log","size":5242880,"sha256":"` + hash + `"`
	partMeans := `{"v":1,"op":"range","id":"` + uuid(0x10) + `","offset":4194304,"length":77}`
	ok(request, "offer", framed(offer.cbor()), true, offerMeans+"}")
	ok(request, "offer, all fields", framed(full.cbor()), true, offerMeans+`,"agent":"fixer","from_agent":"reviewer","ref":"`+uuid(0x20)+`","thread":"t","text":"The log","wait_ms":86400000}`)
	ok(request, "offer, an unknown field", framed(offer.with("x", raw("\xf6")).cbor()), false, offerMeans+"}")
	ok(request, "range", framed(part.cbor()), true, partMeans)
	ok(request, "range, its bytes after it", append(framed(part.cbor()), "abc"...), false, partMeans)
	for _, m := range []message{full, part} {
		for _, p := range m {
			name := string(m[2].value[1:])
			if offer.has(p.key) || part.has(p.key) {
				no(request, name+" without "+p.key, framed(m.without(p.key).cbor()), p.key)
			}
			no(request, name+", "+p.key+" null", framed(m.with(p.key, raw("\xf6")).cbor()), p.key)
		}
	}
	for _, x := range []struct {
		field string
		most  int
	}{{"name", 1024}, {"agent", 64}, {"from_agent", 64}, {"thread", 64}, {"text", 4096}} {
		no(request, x.field+" too long", framed(full.with(x.field, str(strings.Repeat("x", x.most+1))).cbor()), x.field)
	}
	no(request, "id zero", framed(offer.with("id", bin(make([]byte, 16))).cbor()), "id")
	no(request, "id of 15 bytes", framed(offer.with("id", bin(id(0x10, 15))).cbor()), "id")
	no(request, "sha256 of 31 bytes", framed(offer.with("sha256", bin(id(0x40, 31))).cbor()), "sha256")
	no(request, "name of invalid UTF-8", framed(offer.with("name", str("\xff")).cbor()), "name")
	no(request, "an offset between ranges", framed(part.with("offset", num(5)).cbor()), "offset")
	no(request, "no byte", framed(part.with("length", num(0)).cbor()), "offset")
	no(request, "more than 1 MiB", framed(part.with("length", num(1<<20+1)).cbor()), "offset")
	no(request, "length 16385", append(raw("\x80\x00\x40\x01"), make([]byte, 64)...), "length")

	answer := func(op string) message { return message{{"op", str(op)}} }
	want := message{{"op", str("want")}, {"have", num(3 << 20)}, {"length", num(1 << 20)}, {"offset", num(4 << 20)}}
	done := message{{"op", str("done")}, {"had", raw("\xf5")}, {"state", str("held")}}
	refuse := message{{"op", str("refuse")}, {"code", str("overloaded")}, {"message", str("the disk is full")}, {"retry_after_ms", num(60_000)}}
	ok(reply, "asked", framed(answer("asked").cbor()), true, `{"op":"asked"}`)
	ok(reply, "take", framed(answer("take").cbor()), true, `{"op":"take"}`)
	ok(reply, "want", framed(want.cbor()), true, `{"op":"want","offset":4194304,"length":1048576,"have":3145728}`)
	ok(reply, "done, held, had", framed(done.cbor()), true, `{"op":"done","state":"held","had":true}`)
	ok(reply, "done, handed", framed(done.with("state", str("handed")).with("had", raw("\xf4")).cbor()), true, `{"op":"done","state":"handed","had":false}`)
	ok(reply, "refuse", framed(refuse.cbor()), true, `{"op":"refuse","code":"overloaded","message":"the disk is full","retry_after_ms":60000}`)
	no(reply, "want without length", framed(want.without("length").cbor()), "length")
	no(reply, "done without state", framed(done.without("state").cbor()), "state")
	no(reply, "done, refused", framed(done.with("state", str("refused")).cbor()), "state")
	no(reply, "had as a number", framed(done.with("had", num(1)).cbor()), "had")
	no(reply, "refuse without code", framed(refuse.without("code").cbor()), "code")
	no(reply, "message of 1025 bytes", framed(refuse.with("message", str(strings.Repeat("m", 1025))).cbor()), "message")
	no(reply, "another op", framed(answer("perhaps").cbor()), "op")
	no(reply, "no op", framed(dict()), "op")
	return all
}

// has reports whether a message has a field.
func (m message) has(key string) bool { return len(m.without(key)) < len(m) }
