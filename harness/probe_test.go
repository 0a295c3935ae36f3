package harness

import (
	"errors"
	"testing"
)

// A program is probed once for each version. Only a verdict is kept: a failed call is repeated.
func TestAVersionIsProbedOnce(t *testing.T) {
	var v verdict
	calls := 0
	lacksRead := lacks("codex", "1.0.1", "thread/read")
	if want := "codex 1.0.1 cannot be woken: it has no thread/read"; !errors.Is(lacksRead, ErrUnsupported) || lacksRead.Error() != want {
		t.Errorf("%v, want %s", lacksRead, want)
	}
	for _, row := range []struct {
		version     string
		found, want error
		calls       int
	}{
		{"1.0.0", ErrGone, ErrGone, 1},
		{"1.0.0", nil, nil, 2},
		{"1.0.0", ErrGone, nil, 2},
		{"1.0.1", lacksRead, lacksRead, 3},
		{"1.0.1", nil, lacksRead, 3},
		{"1.0.0", nil, nil, 4},
	} {
		err := v.judge(row.version, func() error { calls++; return row.found })
		if calls != row.calls || err != row.want {
			t.Errorf("%+v: %v, %d calls", row, err, calls)
		}
	}
}

// While a program that does not answer is probed, nobody else waits for that.
func TestAProbeKeepsNobodyWaiting(t *testing.T) {
	var v verdict
	v.judge("1.0.0", func() error {
		if !v.mu.TryLock() {
			t.Error("others wait for the probe")
			return nil
		}
		v.mu.Unlock()
		return nil
	})
}
