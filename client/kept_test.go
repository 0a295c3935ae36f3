package client

import (
	"strings"
	"testing"
	"time"
)

func TestAMessageIsKeptForAtMostAWeek(t *testing.T) {
	for text, want := range map[string]time.Duration{"3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "36h": 36 * time.Hour, "90m": 90 * time.Minute, "7d": MaxKeep, "1s": time.Second} {
		if d, err := ParseKeep(text); err != nil || d != want {
			t.Errorf("%s: %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "0", "0d", "8d", "169h", "7d1s", "-1h", "1d-1h", "1ms", "d", "soon", "9999d", "1h1d"} {
		if d, err := ParseKeep(text); err == nil || !strings.Contains(err.Error(), "7d") {
			t.Errorf("%q: %s, %v", text, d, err)
		}
	}
}
