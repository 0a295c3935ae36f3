package frame

import (
	"slices"
	"strings"
	"testing"
)

func TestOnlyATimeBehindKeepBelongsToIt(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"query --keep 3d laptop Q", "query --keep=3d laptop Q"},
		{"query laptop --keep 36h Q", "query laptop --keep=36h Q"},
		{"query --keep 1d12h laptop Q", "query --keep=1d12h laptop Q"},
		{"query --keep laptop Q", "query --keep laptop Q"},
		{"query --keep 3d-printer Q", "query --keep 3d-printer Q"},
		{"notify --keep 9d laptop topic 3d", "notify --keep=9d laptop topic 3d"},
		{"notify laptop topic 3d --keep", "notify laptop topic 3d --keep"},
		{"query --keep=2h 3d Q", "query --keep=2h 3d Q"},
		{"query laptop -- --keep 3d", "query laptop -- --keep 3d"},
		{"channel create x --keep 5", "channel create x --keep 5"},
		{"query --keep --keep 3d laptop Q", "query --keep --keep=3d laptop Q"},
	} {
		typed := strings.Fields(c.typed)
		if got := strings.Join(joinKeepValue(typed), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.typed, got, c.want)
		}
		if !slices.Equal(typed, strings.Fields(c.typed)) {
			t.Errorf("%s: the caller's arguments have changed: %q", c.typed, typed)
		}
	}
}
