package wire

// How big a message may be, in bytes of the encoded envelope. Each daemon announces its own
// limit in its hello: the setting max_message.
const (
	DefaultMaxMessage = 1 << 20
	MinMaxMessage     = 64 << 10 // the least that a daemon may announce
	MaxMaxMessage     = 16 << 20 // the most that a daemon may announce
)
