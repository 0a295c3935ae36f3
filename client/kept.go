package client

import (
	"regexp"
	"strconv"
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

// daysOfKeep matches a number of days, with which the text of a time may begin.
var daysOfKeep = regexp.MustCompile(`^([0-9]{1,3})d`)

// ParseKeep reads for how long a message is to be kept, as a person or a model writes it: a duration of 1 s to [MaxKeep] that
// may begin with days, as in 3d or 1d12h.
func ParseKeep(text string) (time.Duration, error) {
	var days time.Duration
	rest := text
	if m := daysOfKeep.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		days, rest = time.Duration(n)*24*time.Hour, text[len(m[0]):]
	}
	more, err := time.ParseDuration(rest)
	if rest == "" && days > 0 {
		err = nil
	}
	if d := days + more; err == nil && more >= 0 && d >= time.Second && d <= MaxKeep {
		return d, nil
	}
	return 0, kinds.Errorf(kinds.Invalid, "keep: expected a time of 1s to 7d, like 36h or 3d")
}

// Kept says that a message certainly did not arrive, and that the daemon keeps it and sends it when the peer, or its
// agent, is there. [Client.Wait] waits for its end.
type Kept struct {
	ID        wire.MessageID `json:"id"`
	Until     Time           `json:"until"`
	Tries     uint64         `json:"tries"`      // how often it, or an older one for its recipient, was tried
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

// KeptEvent is the details of the event kept.
type KeptEvent struct {
	ID    wire.MessageID `json:"id"`
	Kind  string         `json:"kind"`
	State TaskState      `json:"state"` // kept, or how it has ended
}
