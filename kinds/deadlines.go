package kinds

import "time"

// How long a daemon waits for what it asks a peer. Package client waits a moment longer for
// the daemon.
const (
	ProbeDeadline        = 5 * time.Second     // ping and discover, unless the caller names another
	PipeProbeDeadline    = 20 * time.Second    // where a command leads to the peer, which may log in before
	DefaultQueryDeadline = 30 * time.Second    // a query whose payload names none
	MaxQueryDeadline     = 600 * time.Second   // that a payload may name
	MaxTaskDeadline      = 30 * 24 * time.Hour // that a payload may name
	AckDeadline          = 30 * time.Second    // the ack of a delegate or cancel
	ReceiptDeadline      = 5 * time.Second     // the receipt of a notify, result or error
	JoinDeadline         = 10 * time.Second
)
