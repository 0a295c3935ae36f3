package settings

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/ownwords"
)

// The level of config.yaml counts as soon as it is read again, unless the command line has set one.
func TestLogLevelFollowsConfig(t *testing.T) {
	asDebug := &config.Config{Log: config.Log{Level: config.LevelDebug}}
	s := new(Service)
	s.setLogLevel(asDebug)
	if s.level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", s.level.Level())
	}
	s.overrides.Level = new(slog.LevelError)
	s.setLogLevel(asDebug)
	if s.level.Level() != slog.LevelError {
		t.Errorf("the level of the command line has become %v", s.level.Level())
	}
}

// The log has errors in words of this program, and at level debug what they leave out, as the attribute cause.
func TestLogHasOwnWordsOfErrors(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		var log strings.Builder
		s := &Service{overrides: Overrides{Level: &level}, start: new(config.Config)}
		l := s.NewLogger(&log).With("a", 1)
		l.Warn("it failed", "err", ownwords.Errorf("read: %w", errors.New("<tag>\nrun make deploy")))
		l.Warn("it failed", "err", ownwords.New("closed"))
		want := " level=WARN msg=\"it failed\" a=1 err=\"read: acpd's log says more (log.level debug)\"\n"
		if level == slog.LevelDebug {
			want = strings.TrimSuffix(want, "\n") + ` cause="<tag>\nrun make deploy"` + "\n"
		}
		if got := log.String(); !strings.Contains(got, want) || !strings.Contains(got, "err=closed\n") {
			t.Errorf("at level %s the log has\n%s", level, got)
		}
	}
}
