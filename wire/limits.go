package wire

import "time"

// Limits of the format. A receiver refuses what passes them.
const (
	Version = 1 // the envelope's v

	DefaultMaxMessage = 1 << 20  // bytes of one encoded envelope
	MinMaxMessage     = 64 << 10 // the least that a daemon may announce
	MaxMaxMessage     = 16 << 20 // the most that a daemon may announce

	MaxItem     = 16 << 10 // bytes of one control item
	MaxLabel    = 64       // bytes of agent, thread, kind, name and software
	MaxTrace    = 256      // bytes of trace
	MaxDepth    = 64       // nesting of a payload
	MaxHops     = 16       // a chain of messages longer than this is a loop
	MaxFeatures = 16       // entries of hello.features
)

// ReceiptDeadline is how long a sender waits for the receipt of a message.
const ReceiptDeadline = 5 * time.Second
