package client

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// How long a daemon keeps a message that did not arrive, if its caller wants that: keep_ms in the params of
// query, delegate and notify.
const (
	DefaultKeep = 24 * time.Hour
	MaxKeep     = 7 * 24 * time.Hour
)

// Kept says that a message certainly did not arrive, and that the daemon keeps it and sends it when the peer, or its
// agent, is there. [Client.Wait] waits for its end.
type Kept struct {
	ID        wire.MessageID `json:"id"`
	Until     Time           `json:"until"`
	Tries     uint64         `json:"tries"`      // how often it was tried
	LastError string         `json:"last_error"` // of the last try, in words of the daemon
}

// FindKept returns what the error of a call says of a message that is kept: with keep_ms such a call fails with the code
// [kinds.Kept]. It returns nil for any other error.
func FindKept(err error) *Kept {
	e := kinds.AsError(err)
	if err == nil || e.Code != kinds.Kept {
		return nil
	}
	var details struct {
		Kept *Kept `json:"kept"`
	}
	if json.Unmarshal(e.Details, &details) != nil {
		return nil
	}
	return details.Kept
}
