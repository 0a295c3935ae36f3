package wire

// StreamType is the first byte of a stream (protocol, section 3).
type StreamType byte

// The stream types. Control and Message are unidirectional, the others
// bidirectional.
const (
	StreamControl  StreamType = 0x00 // control items, one stream each way, opened first
	StreamExchange StreamType = 0x01 // one envelope and its reply
	StreamMessage  StreamType = 0x02 // one envelope, answered by a receipt
	StreamMail     StreamType = 0x03 // one OACP delivery; hello feature "mail"
	StreamHTTP     StreamType = 0x04 // one HTTP/1.1 request; hello feature "channel2"
	StreamFile     StreamType = 0x05 // an offer of a file, or a range of one; hello feature "file"
	StreamJoin     StreamType = 0x10 // joining by invitation, under ALPN acp-join/1 only
)
