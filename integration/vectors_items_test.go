package integration

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// framed puts the length before an item (RFC 9000, section 16).
func framed(body []byte) []byte {
	if n := len(body); n >= 1<<6 {
		return append([]byte{0x40 | byte(n>>8), byte(n)}, body...)
	}
	return append([]byte{byte(len(body))}, body...)
}

func items() []vector {
	var all []vector
	ok := func(name string, b []byte, canonical bool, means string) {
		all = append(all, vector{Name: "item: " + name, Is: "item", Hex: hex.EncodeToString(b), Canonical: canonical, Means: jsontext.Value(means)})
	}
	no := func(name string, b []byte, field string) {
		all = append(all, refused("item", name, b, "protocol_error", field))
	}
	boot := id(0xb0, 16)
	hello := message{{"boot", bin(boot)}, {"name", str("desk")}, {"features", arr()}, {"software", str("acpd 1.0.0")}, {"max_message", num(65536)}}
	helloItem := func(m message) []byte { return framed(arr(num(0), m.cbor())) }
	const means = `{"hello":{"name":%q,"boot":"b0b1b2b3b4b5b6b7b8b9babbbcbdbebf","software":%q,"max_message":%d,"features":%s%s}}`
	ok("hello, minimal", helloItem(hello), true, fmt.Sprintf(means, "desk", "acpd 1.0.0", 65536, "[]", ""))
	ok("hello, empty names", helloItem(hello.with("name", str("")).with("software", str(""))), true, fmt.Sprintf(means, "", "", 65536, "[]", ""))
	pq := dict(pair{"key", bin(id(1, 4))}, pair{"sig", bin(id(5, 4))})
	full := hello.with("max_message", num(1<<20)).with("features", arr(str("mail"), str("channel"))).with("pq", pq)
	ok("hello, full", helloItem(full), true, fmt.Sprintf(means, "desk", "acpd 1.0.0", 1<<20, `["mail","channel"]`, `,"pq":{"key":"01020304","sig":"05060708"}`))
	ok("hello, with a certificate", helloItem(full.with("cert", bin(id(9, 3)))), true, fmt.Sprintf(means, "desk", "acpd 1.0.0", 1<<20, `["mail","channel"]`, `,"pq":{"key":"01020304","sig":"05060708"},"cert":"090a0b"`))
	ok("hello, with an empty certificate", helloItem(hello.with("cert", bin(nil))), false, fmt.Sprintf(means, "desk", "acpd 1.0.0", 65536, "[]", ""))
	ok("hello, unknown fields and an extra element", framed(arr(num(0), hello.with("x", raw("\xf6")).cbor(), num(1))), false, fmt.Sprintf(means, "desk", "acpd 1.0.0", 65536, "[]", ""))
	ok("receipt, handed", framed(arr(num(1), num(2), num(0))), true, `{"receipt":{"stream":2,"state":"handed"}}`)
	ok("receipt, held", framed(arr(num(1), num(1<<61+2), num(1))), true, fmt.Sprintf(`{"receipt":{"stream":%d,"state":"held"}}`, int64(1<<61+2)))
	ok("receipt, refused", framed(arr(num(1), num(6), num(2), str("invalid"), str("kind: missing"))), true, `{"receipt":{"stream":6,"state":"refused","code":"invalid","message":"kind: missing","retry_after_ms":0}}`)
	ok("receipt, refused for a while", framed(arr(num(1), num(6), num(2), str("overloaded"), str(""), num(250))), true, `{"receipt":{"stream":6,"state":"refused","code":"overloaded","message":"","retry_after_ms":250}}`)
	ok("receipt, refused, with the code alone", framed(arr(num(1), num(6), num(2), str("internal"))), false, `{"receipt":{"stream":6,"state":"refused","code":"internal","message":"","retry_after_ms":0}}`)
	ok("receipt, an extra element", framed(arr(num(1), num(6), num(2), str("invalid"), str("m"), num(1), raw("\xf6"))), false, `{"receipt":{"stream":6,"state":"refused","code":"invalid","message":"m","retry_after_ms":1}}`)
	ok("receipt, refused before any agent had the message", framed(arr(num(1), num(6), num(2), str("overloaded"), str("m"), num(250), str("no"))), true, `{"receipt":{"stream":6,"state":"refused","code":"overloaded","message":"m","retry_after_ms":250,"delivered":"no"}}`)
	ok("receipt, delivered unknown", framed(arr(num(1), num(6), num(2), str("overloaded"), str("m"), num(0), str("unknown"))), false, `{"receipt":{"stream":6,"state":"refused","code":"overloaded","message":"m","retry_after_ms":0}}`)
	ok("goaway", framed(arr(num(2), num(1))), true, `{"goaway":{"code":1}}`)
	ok("goaway, an unknown code", framed(arr(num(2), num(1<<62))), true, fmt.Sprintf(`{"goaway":{"code":%d}}`, int64(1<<62)))
	ok("goaway, an extra element", framed(arr(num(2), num(1), str("x"))), false, `{"goaway":{"code":1}}`)
	ok("ping, no padding", framed(arr(num(3), num(0), bin(nil))), true, `{"ping":{"n":0,"pad":""}}`)
	ok("ping", framed(arr(num(3), num(1000), bin(make([]byte, 64)))), true, `{"ping":{"n":1000,"pad":"`+strings.Repeat("00", 64)+`"}}`)
	ok("pong", framed(arr(num(4), num(1000), bin(id(1, 3)))), true, `{"pong":{"n":1000,"pad":"010203"}}`)
	ok("pong, an extra element", framed(arr(num(4), num(0), bin(nil), num(1))), false, `{"pong":{"n":0,"pad":""}}`)
	ok("done", framed(arr(num(5))), true, `{"done":{}}`)
	ok("done, an extra element", framed(arr(num(5), num(0))), false, `{"done":{}}`)
	ok("done, with a length longer than it need be", append(raw("\x80\x00\x00\x02"), arr(num(5))...), false, `{"done":{}}`)
	ok("paths", framed(arr(num(6), num(2), arr(str("192.0.2.7:7117"), str("[2001:db8::7]:7117")))), true, `{"paths":{"round":2,"addrs":["192.0.2.7:7117","[2001:db8::7]:7117"]}}`)
	ok("paths, no address", framed(arr(num(6), num(3), arr())), true, `{"paths":{"round":3,"addrs":[]}}`)
	ok("paths, eight addresses of 64 bytes", framed(arr(num(6), num(1<<62), arr(slices.Repeat([][]byte{str(strings.Repeat("a", 64))}, 8)...))), true, fmt.Sprintf(`{"paths":{"round":%d,"addrs":[%s]}}`, int64(1<<62), strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("a", 64)+`",`, 8), ",")))
	ok("paths, an extra element", framed(arr(num(6), num(2), arr(), raw("\xf6"))), false, `{"paths":{"round":2,"addrs":[]}}`)
	ok("cert", framed(arr(num(7), bin(id(9, 3)))), true, `{"cert":{"cert":"090a0b"}}`)
	ok("cert, empty", framed(arr(num(7), bin(nil))), true, `{"cert":{"cert":""}}`)
	ok("cert, an extra element", framed(arr(num(7), bin(id(9, 3)), num(1))), false, `{"cert":{"cert":"090a0b"}}`)
	ok("cert, of 4096 bytes", framed(arr(num(7), bin(make([]byte, 4096)))), true, `{"cert":{"cert":"`+strings.Repeat("00", 4096)+`"}}`)
	ok("agents", framed(arr(num(8))), true, `{"agents":{}}`)
	ok("agents, an extra element", framed(arr(num(8), str("reviewer"))), false, `{"agents":{}}`)
	ok("an unknown type", framed(arr(num(9), dict(pair{"x", raw("\xf6")}), nest(6))), false, `{"unknown":{"type":9}}`)
	ok("an unknown type, alone", framed(arr(num(1<<32))), true, fmt.Sprintf(`{"unknown":{"type":%d}}`, int64(1<<32)))

	no("nothing", nil, "")
	no("half a length", raw("\x40"), "")
	no("length 0", raw("\x00"), "length")
	no("length 16385", append(raw("\x80\x00\x40\x01"), make([]byte, 64)...), "length")
	no("length 2^62-1", raw("\xff\xff\xff\xff\xff\xff\xff\xff"), "length")
	no("cut", framed(arr(num(2), num(1)))[:2], "")
	no("two items in one", framed(append(arr(num(5)), arr(num(5))...)), "")
	no("indefinite", framed(raw("\x9f\x05\xff")), "")
	no("tag", framed(append(raw("\xc1"), arr(num(5))...)), "")
	no("depth 9", framed(arr(num(8), nest(8))), "")
	no("no array", framed(num(5)), "")
	no("a map", framed(dict()), "")
	no("null", framed(raw("\xf6")), "")
	no("an empty array", framed(arr()), "type")
	no("a negative type", framed(arr(neg(1))), "type")
	no("a type as text", framed(arr(str("done"))), "type")
	no("a type null", framed(arr(raw("\xf6"))), "type")

	no("hello alone", framed(arr(num(0))), "hello")
	no("hello as an array", framed(arr(num(0), arr())), "hello")
	no("hello null", framed(arr(num(0), raw("\xf6"))), "hello")
	for _, p := range hello {
		no("hello without "+p.key, helloItem(hello.without(p.key)), "hello."+p.key)
		no("hello, "+p.key+" null", helloItem(hello.with(p.key, raw("\xf6"))), "hello."+p.key)
	}
	no("hello, a field twice", helloItem(append(message{{"name", str("a")}}, hello...)), "hello.name")
	no("hello, boot of 15 bytes", helloItem(hello.with("boot", bin(boot[:15]))), "hello.boot")
	no("hello, boot of 17 bytes", helloItem(hello.with("boot", bin(id(1, 17)))), "hello.boot")
	no("hello, boot as text", helloItem(hello.with("boot", str("0123456789abcdef"))), "hello.boot")
	no("hello, boot as an array of integers", helloItem(hello.with("boot", append(head(4, 16), bytes.Repeat([]byte{1}, 16)...))), "hello.boot")
	no("hello, boot all zeros", helloItem(hello.with("boot", bin(make([]byte, 16)))), "hello.boot")
	no("hello, name of 65 bytes", helloItem(hello.with("name", str(strings.Repeat("a", 65)))), "hello.name")
	no("hello, name of invalid UTF-8", helloItem(hello.with("name", str("\xff"))), "hello.name")
	no("hello, name as bytes", helloItem(hello.with("name", bin(raw("desk")))), "hello.name")
	no("hello, software of 65 bytes", helloItem(hello.with("software", str(strings.Repeat("a", 65)))), "hello.software")
	no("hello, max_message 65535", helloItem(hello.with("max_message", num(65535))), "hello.max_message")
	no("hello, max_message negative", helloItem(hello.with("max_message", neg(65536))), "hello.max_message")
	no("hello, max_message as a float", helloItem(hello.with("max_message", raw("\xfa\x48\x00\x00\x00"))), "hello.max_message")
	no("hello, features as text", helloItem(hello.with("features", str("mail"))), "hello.features")
	no("hello, features with a number", helloItem(hello.with("features", arr(num(1)))), "hello.features")
	no("hello, features with null", helloItem(hello.with("features", arr(raw("\xf6")))), "hello.features")
	no("hello, 17 features", helloItem(hello.with("features", arr(slices.Repeat([][]byte{str("a")}, 17)...))), "hello.features")
	no("hello, a feature of 65 bytes", helloItem(hello.with("features", arr(str(strings.Repeat("a", 65))))), "hello.features")
	no("hello, pq null", helloItem(hello.with("pq", raw("\xf6"))), "hello.pq")
	no("hello, pq without sig", helloItem(hello.with("pq", dict(pair{"key", bin(id(1, 4))}))), "hello.pq.sig")
	no("hello, pq without key", helloItem(hello.with("pq", dict(pair{"sig", bin(id(1, 4))}))), "hello.pq.key")
	no("hello, pq with an empty key", helloItem(hello.with("pq", dict(pair{"key", bin(nil)}, pair{"sig", bin(id(1, 4))}))), "hello.pq")
	no("hello, pq with sig as text", helloItem(hello.with("pq", dict(pair{"key", bin(id(1, 4))}, pair{"sig", str("a")}))), "hello.pq.sig")
	no("hello, cert null", helloItem(hello.with("cert", raw("\xf6"))), "hello.cert")
	no("hello, cert as text", helloItem(hello.with("cert", str("a"))), "hello.cert")
	no("hello, cert of 4097 bytes", helloItem(hello.with("cert", bin(make([]byte, 4097)))), "hello.cert")
	no("cert alone", framed(arr(num(7))), "cert.cert")
	no("cert as text", framed(arr(num(7), str("a"))), "cert.cert")
	no("cert of 4097 bytes", framed(arr(num(7), bin(make([]byte, 4097)))), "cert.cert")

	no("receipt alone", framed(arr(num(1))), "receipt.stream")
	no("receipt without state", framed(arr(num(1), num(2))), "receipt.state")
	no("receipt, stream negative", framed(arr(num(1), neg(2), num(0))), "receipt.stream")
	no("receipt, stream null", framed(arr(num(1), raw("\xf6"), num(0))), "receipt.stream")
	no("receipt, state 3", framed(arr(num(1), num(2), num(3))), "receipt.state")
	no("receipt, state 256", framed(arr(num(1), num(2), num(256))), "receipt.state")
	no("receipt, state as text", framed(arr(num(1), num(2), str("held"))), "receipt.state")
	no("receipt, refused without code", framed(arr(num(1), num(2), num(2))), "receipt.code")
	no("receipt, refused with an empty code", framed(arr(num(1), num(2), num(2), str(""))), "receipt.code")
	no("receipt, refused with the code null", framed(arr(num(1), num(2), num(2), raw("\xf6"))), "receipt.code")
	no("receipt, message as bytes", framed(arr(num(1), num(2), num(2), str("invalid"), bin(raw("m")))), "receipt.message")
	no("receipt, message of invalid UTF-8", framed(arr(num(1), num(2), num(2), str("invalid"), str("\xff"))), "receipt.message")
	no("receipt, retry_after_ms negative", framed(arr(num(1), num(2), num(2), str("overloaded"), str("m"), neg(1))), "receipt.retry_after_ms")
	no("goaway without code", framed(arr(num(2))), "goaway.code")
	no("goaway, code null", framed(arr(num(2), raw("\xf6"))), "goaway.code")
	no("ping without number", framed(arr(num(3))), "ping.n")
	no("ping without padding", framed(arr(num(3), num(1))), "ping.pad")
	no("ping, padding as text", framed(arr(num(3), num(1), str("a"))), "ping.pad")
	no("pong without number", framed(arr(num(4))), "pong.n")
	no("paths without round", framed(arr(num(6))), "paths.round")
	no("paths, round negative", framed(arr(num(6), neg(1), arr())), "paths.round")
	no("paths, round as text", framed(arr(num(6), str("1"), arr())), "paths.round")
	no("paths without addresses", framed(arr(num(6), num(1))), "paths.addrs")
	no("paths, addresses null", framed(arr(num(6), num(1), raw("\xf6"))), "paths.addrs")
	no("paths, addresses as text", framed(arr(num(6), num(1), str("192.0.2.7:7117"))), "paths.addrs")
	no("paths, an address as bytes", framed(arr(num(6), num(1), arr(bin(raw("192.0.2.7:7117"))))), "paths.addrs")
	no("paths, an address of invalid UTF-8", framed(arr(num(6), num(1), arr(str("\xff")))), "paths.addrs")
	no("paths, an address of 65 bytes", framed(arr(num(6), num(1), arr(str(strings.Repeat("a", 65))))), "paths.addrs")
	no("paths, nine addresses", framed(arr(num(6), num(1), arr(slices.Repeat([][]byte{str("a")}, 9)...))), "paths.addrs")
	no("pong, padding null", framed(arr(num(4), num(1), raw("\xf6"))), "pong.pad")
	return all
}
