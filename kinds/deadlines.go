package kinds

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/wire"
)

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

// LimitDeadline returns the payload of a query with a deadline of at most a time, in whole
// milliseconds. All else stays as it was written. It returns an invalid payload unchanged; the check of
// the payload reports the mistake.
func LimitDeadline(p wire.Payload, most time.Duration) wire.Payload {
	return replaceDeadline(p, most, func(named, limit float64) bool { return named > limit })
}

// SetDeadline does what LimitDeadline does, but also lengthens a deadline.
func SetDeadline(p wire.Payload, to time.Duration) wire.Payload {
	return replaceDeadline(p, to, func(named, limit float64) bool { return named != limit })
}

// replaceDeadline replaces the deadline in the payload of a query if the function says so of the one that it names.
func replaceDeadline(p wire.Payload, most time.Duration, replaces func(named, limit float64) bool) wire.Payload {
	limit, named := max((most+time.Millisecond-1).Milliseconds(), 1), float64(DefaultQueryDeadline.Milliseconds())
	d := jsontext.NewDecoder(bytes.NewReader(p))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' || d.PeekKind() != '"' {
		return p
	}
	begin := d.InputOffset()
	from, to := begin, begin // where the deadline is
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return p
		}
		isDeadline := name.String() == "deadline_ms"
		value, err := d.ReadValue()
		if err != nil {
			return p
		}
		if !isDeadline {
			continue
		}
		to = d.InputOffset()
		from = to - int64(len(value))
		if n, err := strconv.ParseFloat(string(value), 64); err == nil && n > 0 {
			named = n
		} else if value.Kind() != 'n' && string(value) != "0" {
			return p
		}
	}
	text := strconv.FormatInt(limit, 10)
	switch {
	case !replaces(named, float64(limit)):
		return p
	case to == begin:
		text = `"deadline_ms":` + text + ","
	}
	return slices.Concat(p[:from], wire.Payload(text), p[to:])
}

// QueryTimeout returns how long a query may take.
func (c Checked) QueryTimeout() time.Duration { return cmp.Or(c.Deadline, DefaultQueryDeadline) }
