package wire

import (
	"bufio"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

// Item is one control item: *Hello, *Receipt, *Goaway, *Ping, *Pong, *Done, *Paths,
// *Renewal, *Agents, or *Unknown for a type of a later version.
type Item interface {
	listElements() []any // as it is encoded
	checkFields() error  // what its fields may hold
}

// Hello is the first item of each side's control stream. A connection is ready when the
// other side's is in and accepted.
type Hello struct {
	Name       string   `cbor:"name"`        // what the daemon calls itself: a claim
	Boot       Boot     `cbor:"boot"`        // drawn at each start of the process
	Software   string   `cbor:"software"`    // name and version of the program
	MaxMessage uint64   `cbor:"max_message"` // bytes of the largest envelope that it takes
	Features   []string `cbor:"features"`    // beyond the core: "mail", "channel2", "file", "questions", "paths", "agents"
	PQ         *HelloPQ `cbor:"pq,omitempty"`
	Cert       []byte   `cbor:"cert,omitempty"` // OpenSSH's certificate of the daemon's key, in binary form; empty: none
}

// Boot identifies one run of a daemon.
type Boot [16]byte

// HelloPQ is the post-quantum half of the identity (protocol, section 7).
type HelloPQ struct {
	Key []byte `cbor:"key"` // ML-DSA-65 public key
	Sig []byte `cbor:"sig"` // over the TLS exporter and both ids
}

// ReceiptState says what became of a message.
type ReceiptState uint8

// The states of a receipt (protocol, section 5).
const (
	Handed  ReceiptState = iota // an attached agent's process confirmed it
	Held                        // it is stored in the daemon's inbox, on disk
	Refused                     // see code and message
)

func (s ReceiptState) String() string {
	switch s {
	case Handed:
		return "handed"
	case Held:
		return "held"
	case Refused:
		return "refused"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Receipt answers a message. It names the QUIC stream on which that came, so that even an
// undecodable message gets one.
type Receipt struct {
	Stream       uint64
	State        ReceiptState
	Code         string // set when refused
	Message      string
	RetryAfterMS uint64
	Undelivered  bool // no agent had the refused message
}

// Goaway says that its sender opens no further streams on this connection.
type Goaway struct{ Code uint64 } // a connection close code

// Ping asks for a Pong with the same number. Pad lifts the packet over the size
// under which a stateless reset is never provoked (RFC 9000, section 10.3.3).
type Ping struct {
	N   uint64
	Pad []byte
}

// Pong answers a Ping.
type Pong struct {
	N   uint64
	Pad []byte
}

// Done says that every stream that its sender opened has its reply or receipt.
type Done struct{}

// Paths names the addresses, each as ip:port, at which its sender may be dialled directly.
// It begins a round, or answers the one with its number (protocol, section 2). The
// addresses are claims: whoever reads them decides which it dials.
type Paths struct {
	Round uint64
	Addrs []string
}

// Renewal takes the place of the certificate that its sender has shown before.
type Renewal struct{ Cert []byte } // empty if the certificate was removed

// Agents says that an agent has come for which a message of the receiver was refused lately.
type Agents struct{}

// Unknown is an item of a type that this version does not know; it is ignored.
type Unknown struct{ Type uint64 }

const (
	itemHello = iota
	itemReceipt
	itemGoaway
	itemPing
	itemPong
	itemDone
	itemPaths
	itemRenewal
	itemAgents
)

func (h *Hello) listElements() []any { return []any{itemHello, h} }

func (r *Receipt) listElements() []any {
	a := []any{itemReceipt, r.Stream, uint8(r.State), r.Code, r.Message, r.RetryAfterMS}
	switch {
	case r.Undelivered:
		return append(a, "no")
	case r.RetryAfterMS > 0:
		return a
	case r.Code != "" || r.Message != "":
		return a[:5]
	}
	return a[:3]
}

func (g *Goaway) listElements() []any  { return []any{itemGoaway, g.Code} }
func (p *Ping) listElements() []any    { return []any{itemPing, p.N, p.Pad} }
func (p *Pong) listElements() []any    { return []any{itemPong, p.N, p.Pad} }
func (*Done) listElements() []any      { return []any{itemDone} }
func (p *Paths) listElements() []any   { return []any{itemPaths, p.Round, p.Addrs} }
func (r *Renewal) listElements() []any { return []any{itemRenewal, r.Cert} }
func (*Agents) listElements() []any    { return []any{itemAgents} }
func (u *Unknown) listElements() []any { return []any{u.Type} }

func (h *Hello) checkFields() error {
	if err := checkLabel("hello.name", h.Name, MaxLabel); err != nil {
		return err
	}
	if err := checkLabel("hello.software", h.Software, MaxLabel); err != nil {
		return err
	}
	for _, f := range h.Features {
		if err := checkLabel("hello.features", f, MaxLabel); err != nil {
			return err
		}
	}
	switch {
	case h.Boot == Boot{}:
		return newFormatError("hello.boot", "all zeros: expected 16 random bytes")
	case h.MaxMessage < MinMaxMessage:
		return newFormatError("hello.max_message", fmt.Sprintf("%d: expected at least %d", h.MaxMessage, MinMaxMessage))
	case len(h.Features) > maxFeatures:
		return newFormatError("hello.features", fmt.Sprintf("over %d entries", maxFeatures))
	case h.PQ != nil && (len(h.PQ.Key) == 0 || len(h.PQ.Sig) == 0):
		return newFormatError("hello.pq", "key or sig is empty")
	case len(h.Cert) > identity.MaxCertificate:
		return newFormatError("hello.cert", fmt.Sprintf("over %d bytes", identity.MaxCertificate))
	}
	return nil
}

func (r *Receipt) checkFields() error {
	switch {
	case r.State > Refused:
		return newFormatError("receipt.state", fmt.Sprintf("%d: expected 0 to %d", uint8(r.State), Refused))
	case r.State == Refused && r.Code == "":
		return newFormatError("receipt.code", "missing in a refusal")
	case !utf8.ValidString(r.Code) || !utf8.ValidString(r.Message):
		return newFormatError("receipt.message", "invalid UTF-8")
	}
	return nil
}

func (p *Paths) checkFields() error {
	if len(p.Addrs) > MaxPaths {
		return newFormatError("paths.addrs", fmt.Sprintf("%d entries: the limit is %d", len(p.Addrs), MaxPaths))
	}
	for _, a := range p.Addrs {
		if err := checkLabel("paths.addrs", a, MaxLabel); err != nil {
			return err
		}
	}
	return nil
}

func (r *Renewal) checkFields() error {
	if len(r.Cert) > identity.MaxCertificate {
		return newFormatError("cert.cert", fmt.Sprintf("over %d bytes", identity.MaxCertificate))
	}
	return nil
}

func (*Goaway) checkFields() error  { return nil }
func (*Ping) checkFields() error    { return nil }
func (*Pong) checkFields() error    { return nil }
func (*Done) checkFields() error    { return nil }
func (*Agents) checkFields() error  { return nil }
func (*Unknown) checkFields() error { return nil }

// AppendControlItem appends an item with its length, a QUIC variable-length integer
// (RFC 9000, section 16). It refuses what [ReadControlItem] would; b is then unchanged.
func AppendControlItem(b []byte, item Item) ([]byte, error) {
	if err := item.checkFields(); err != nil {
		return b, ownwords.Errorf("encode control item: %w", err)
	}
	body, err := MarshalCBOR(item.listElements())
	if err != nil {
		return b, ownwords.Errorf("encode control item: %w", err)
	}
	if len(body) > maxItem {
		return b, ownwords.Errorf("encode control item: %d bytes are over the limit of %d", len(body), maxItem)
	}
	return append(appendVarint(b, uint64(len(body))), body...), nil
}

// ReadControlItem reads one item. It blocks until the item is whole. At the end of the
// stream, between items, the error is io.EOF, within one io.ErrUnexpectedEOF;
// what does not decode is a [FormatError].
func ReadControlItem(r *bufio.Reader) (Item, error) {
	body, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	return parseControlItem(body)
}

// readFrame reads what stands behind its length. The error is io.EOF only where
// nothing was read.
func readFrame(r *bufio.Reader) ([]byte, error) {
	n, err := readVarint(r)
	if err != nil {
		return nil, err
	}
	if n == 0 || n > maxItem {
		return nil, newFormatError("length", fmt.Sprintf("%d: expected 1 to %d", n, maxItem))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return body, nil
}

// parseControlItem decodes an item's array; byte strings of the result alias body. Extra
// elements are ignored.
func parseControlItem(body []byte) (Item, error) {
	whole, err := parseValue(body)
	if err != nil {
		return nil, err
	}
	a, err := whole.readArray()
	if err != nil {
		return nil, err
	}
	e := elementReader{rest: a}
	item := e.readItemFields(e.readUint("type"))
	if e.err == nil {
		e.err = item.checkFields()
	}
	if e.err != nil {
		return nil, e.err
	}
	return item, nil
}

func (e *elementReader) readItemFields(typ uint64) Item {
	switch typ {
	case itemHello:
		return e.readHello()
	case itemReceipt:
		r := &Receipt{Stream: e.readUint("receipt.stream"), State: e.readReceiptState()}
		if e.hasMore() {
			r.Code = e.readText("receipt.code")
		}
		if e.hasMore() {
			r.Message = e.readText("receipt.message")
		}
		if e.hasMore() {
			r.RetryAfterMS = e.readUint("receipt.retry_after_ms")
		}
		if e.hasMore() {
			r.Undelivered = readElement(e, "receipt.delivered", func(v cborValue) (bool, error) {
				said, err := v.readText()
				return err == nil && said == "no", nil // anything else is of a later version
			})
		}
		return r
	case itemGoaway:
		return &Goaway{Code: e.readUint("goaway.code")}
	case itemPing:
		return &Ping{N: e.readUint("ping.n"), Pad: e.readBytes("ping.pad")}
	case itemPong:
		return &Pong{N: e.readUint("pong.n"), Pad: e.readBytes("pong.pad")}
	case itemDone:
		return &Done{}
	case itemPaths:
		return &Paths{Round: e.readUint("paths.round"), Addrs: readElement(e, "paths.addrs", cborValue.readTexts)}
	case itemRenewal:
		return &Renewal{Cert: e.readBytes("cert.cert")}
	case itemAgents:
		return &Agents{}
	}
	return &Unknown{Type: typ}
}

// elementReader takes an item's elements one after the other. After the first failure,
// which it keeps, it yields zeros.
type elementReader struct {
	rest []cborValue
	err  error
}

func (e *elementReader) hasMore() bool { return e.err == nil && len(e.rest) > 0 }

func readElement[T any](e *elementReader, field string, read func(cborValue) (T, error)) (v T) {
	if e.err != nil {
		return v
	}
	if len(e.rest) == 0 {
		e.err = newFormatError(field, "missing")
		return v
	}
	if v, e.err = read(e.rest[0]); e.err != nil {
		e.err = addErrorFieldName(field, e.err)
	}
	e.rest = e.rest[1:]
	return v
}

func (e *elementReader) readUint(field string) uint64 {
	return readElement(e, field, cborValue.readUint)
}
func (e *elementReader) readText(field string) string {
	return readElement(e, field, cborValue.readText)
}
func (e *elementReader) readBytes(field string) []byte {
	return readElement(e, field, cborValue.readBytes)
}

func (e *elementReader) readReceiptState() ReceiptState {
	return ReceiptState(min(e.readUint("receipt.state"), 255)) // what does not fit is refused like 255
}

func (e *elementReader) readHello() *Hello {
	h := new(Hello)
	readElement(e, "hello", func(v cborValue) (any, error) {
		return nil, v.readFields("hello.", func(key []byte, v cborValue) (err error) {
			switch string(key) {
			case "name":
				h.Name, err = v.readText()
			case "boot":
				err = v.readBytesInto(h.Boot[:])
			case "software":
				h.Software, err = v.readText()
			case "max_message":
				h.MaxMessage, err = v.readUint()
			case "features":
				h.Features, err = v.readTexts()
			case "pq":
				h.PQ, err = readHelloPQ(v)
			case "cert":
				if h.Cert, err = v.readBytes(); len(h.Cert) == 0 {
					h.Cert = nil // as if the field were not there
				}
			}
			return err
		}, "name", "boot", "software", "max_message", "features")
	})
	return h
}

func readHelloPQ(v cborValue) (*HelloPQ, error) {
	pq := new(HelloPQ)
	err := v.readFields("hello.pq.", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "key":
			pq.Key, err = v.readBytes()
		case "sig":
			pq.Sig, err = v.readBytes()
		}
		return err
	}, "key", "sig")
	return pq, err
}
