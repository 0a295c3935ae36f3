package harness

import (
	"errors"
	"testing"
)

// A program is probed once for each version. Only a verdict is kept: a failed call is repeated.
func TestAVersionIsProbedOnce(t *testing.T) {
	var v verdict
	calls := 0
	for _, row := range []struct {
		version string
		found   error
		calls   int
	}{
		{"1.0.0", ErrGone, 1},
		{"1.0.0", nil, 2},
		{"1.0.0", ErrGone, 2},
		{"1.0.1", lacks("codex", "1.0.1", "thread/read"), 3},
		{"1.0.1", nil, 3},
		{"1.0.0", nil, 4},
	} {
		err := v.judge(row.version, func() error { calls++; return row.found })
		if calls != row.calls {
			t.Errorf("%+v: %d calls", row, calls)
		}
		switch {
		case row.version == "1.0.1" && (!errors.Is(err, ErrUnsupported) || err.Error() != "codex 1.0.1 cannot be woken: it has no thread/read"):
			t.Errorf("%+v: %v", row, err)
		case row.version == "1.0.0" && err != nil && calls != 1:
			t.Errorf("%+v: %v", row, err)
		}
	}
}
