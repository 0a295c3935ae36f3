package settings

import (
	"cmp"
	"context"
	"io"
	"log/slog"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/ownwords"
)

// NewLogger returns the daemon's log, which follows log.level. It may hold ids, but never a payload or token.
func (s *Service) NewLogger(to io.Writer) *slog.Logger {
	if to == nil {
		return slog.New(slog.DiscardHandler)
	}
	s.setLogLevel(s.start)
	return slog.New(ownWordsHandler{slog.NewTextHandler(to, &slog.HandlerOptions{Level: &s.level})})
}

// ownWordsHandler writes errors to the log only in words of this program. At level debug a line has what
// they leave out, as the attribute cause.
type ownWordsHandler struct{ slog.Handler }

func (h ownWordsHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i], _ = showOwnWords(a)
	}
	return ownWordsHandler{h.Handler.WithAttrs(shown)}
}

func (h ownWordsHandler) WithGroup(name string) slog.Handler {
	return ownWordsHandler{h.Handler.WithGroup(name)}
}

func (h ownWordsHandler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	cause := ""
	r.Attrs(func(a slog.Attr) bool {
		a, foreign := showOwnWords(a)
		cause = cmp.Or(foreign, cause)
		attrs = append(attrs, a)
		return true
	})
	if cause == "" {
		return h.Handler.Handle(ctx, r)
	}
	if h.Enabled(ctx, slog.LevelDebug) {
		attrs = append(attrs, slog.String("cause", cause))
	}
	told := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	told.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, told)
}

// showOwnWords returns an attribute with the words of an error that may be shown, and those that may not.
func showOwnWords(a slog.Attr) (shown slog.Attr, foreign string) {
	if err, ok := a.Value.Any().(error); ok {
		if foreign = ownwords.FindForeign(err); foreign != "" {
			a.Value = slog.StringValue(ownwords.Of(err))
		}
	}
	return a, foreign
}

// setLogLevel sets the configured level, unless the command line has set one.
func (s *Service) setLogLevel(cfg *config.Config) {
	var level slog.Level
	switch {
	case s.overrides.Level != nil:
		level = *s.overrides.Level
	case level.UnmarshalText([]byte(cfg.Log.Level)) != nil:
		level = slog.LevelInfo // a configuration that was not loaded
	}
	s.level.Set(level)
}
