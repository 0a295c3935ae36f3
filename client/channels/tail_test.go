package channels

import (
	"testing"
	"time"
)

// A host that has nothing and does not wait is asked ever more rarely.
func TestNextPause(t *testing.T) {
	var pause, all time.Duration
	for range 20 {
		pause = nextPollPause(pause, 0, time.Millisecond)
		all += pause
	}
	if pause != 2*time.Second || all < 20*time.Second {
		t.Errorf("20 empty answers take %v, the last pause is %v", all, pause)
	}
	if nextPollPause(pause, 1, 0) != 0 || nextPollPause(pause, 0, time.Minute) != 0 {
		t.Error("news, or a host that waits, is followed by a pause")
	}
}
