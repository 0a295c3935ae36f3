package peer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestReceipts(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func() (wire.ReceiptState, error)
		want   kinds.Code
		text   string
	}{
		"before any agent": {func() (wire.ReceiptState, error) {
			return 0, kinds.MarkNotDelivered(kinds.Errorf(kinds.Overloaded, "full"))
		}, kinds.Overloaded, "full"},
		"perhaps with an agent": {func() (wire.ReceiptState, error) { return 0, kinds.Errorf(kinds.Overloaded, "later") }, kinds.Overloaded, "later"},
		"refused":               {func() (wire.ReceiptState, error) { return 0, kinds.Errorf(kinds.NotFound, "no such task") }, kinds.NotFound, "no such task"},
		"bad UTF-8":             {func() (wire.ReceiptState, error) { return 0, kinds.Errorf(kinds.Invalid, "got %s", "\xff\xfex") }, kinds.Invalid, "got x"},
		"cut in a letter": {func() (wire.ReceiptState, error) {
			return 0, kinds.Errorf(kinds.Invalid, "%s", strings.Repeat("é", 2000))
		}, kinds.Invalid, strings.Repeat("é", 512)},
		"bytes of none": {func() (wire.ReceiptState, error) {
			return 0, kinds.Errorf(kinds.Invalid, "%s", strings.Repeat("\x80", 2000))
		}, kinds.Invalid, ""},
		"plain error":     {func() (wire.ReceiptState, error) { return 0, errors.New("disk") }, kinds.Internal, ownwords.Unknown},
		"own words":       {func() (wire.ReceiptState, error) { return 0, ownwords.New("disk") }, kinds.Internal, "disk"},
		"refused, no why": {func() (wire.ReceiptState, error) { return wire.Refused, nil }, kinds.Internal, ""},
		"no such state":   {func() (wire.ReceiptState, error) { return 77, nil }, kinds.Internal, ""},
		"no code":         {func() (wire.ReceiptState, error) { return 0, &kinds.Error{Message: "odd"} }, kinds.Internal, "odd"},
		"panic":           {func() (wire.ReceiptState, error) { panic("at once") }, kinds.Internal, "the handler failed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, w *network) {
				a, b := w.pair(func(c *Config) {
					c.Message = func(context.Context, *Passing) (wire.ReceiptState, error) { return tt.answer() }
				})
				_, err := a.Send(t.Context(), b.ID(), notify("a.b"), true)
				if e := kinds.AsError(err); err == nil || e.Code != tt.want || tt.text != "" && e.Message != tt.text || (e.Delivered() == kinds.DeliveredNo) != (tt.text == "full") {
					t.Errorf("got %v", err)
				}
				a.ask(b, "it lives on")
			})
		})
	}
}

// TestReceiptsThatNeverCome has a peer that takes messages and says nothing: what
// waits for it is bounded, and a call that waits ends.
func TestReceiptsThatNeverCome(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		c := h.trusted(a)
		go func() {
			for {
				s, err := c.qc.AcceptUniStream(context.Background())
				if err != nil {
					return
				}
				io.Copy(io.Discard, s)
			}
		}()
		go c.answerPings()
		start := time.Now()
		_, err := a.Send(t.Context(), c.key.ID(), notify("a.b"), true)
		outcome{err, time.Since(start)}.want(t, kinds.Timeout, kinds.DeliveredUnknown, kinds.ReceiptDeadline, kinds.ReceiptDeadline)
		for i := range maxReceiptsOwed + 1 {
			_, err = a.Send(t.Context(), c.key.ID(), notify("a.b"), false)
			if (err != nil) != (i == maxReceiptsOwed) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		outcome{err, 0}.want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
	})
}
