package outgoing

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/kinds"
)

// That the parent is over may be seen first by the peer, which answers that the time is over. Any other answer of it
// stays as it is.
func TestWhoSeesFirstThatAParentHasEnded(t *testing.T) {
	open, ended := t.Context(), newEndedContext(delegation.ErrParentEnded)
	now := time.Now()
	past, later := now.Add(-time.Minute), now.Add(time.Hour)
	for _, test := range []struct {
		ctx   context.Context
		code  kinds.Code
		from  string
		until time.Time
		want  bool
	}{
		{open, kinds.Timeout, "build", past, true},
		{open, kinds.Timeout, "", past, true},
		{open, kinds.Timeout, "build", later, false},
		{open, kinds.Timeout, "", time.Time{}, false},
		{open, kinds.NotAuthorized, "build", past, false},
		{ended, kinds.Cancelled, "", time.Time{}, true},
		{ended, kinds.Timeout, "build", time.Time{}, true},
		{ended, kinds.NotAuthorized, "build", time.Time{}, false},
	} {
		e := kinds.Errorf(test.code, "x")
		e.From = test.from
		if got := hasEndedWithParent(test.ctx, e, test.until); got != test.want {
			t.Errorf("%s of %q until %s: %v", test.code, test.from, test.until, got)
		}
	}
}

func newEndedContext(cause error) context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	end(cause)
	return ctx
}
