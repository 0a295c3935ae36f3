package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// newLogger returns the daemon's log. It may hold ids, but never a payload or token.
func (d *Daemon) newLogger(cfg *config.Config) *slog.Logger {
	if d.options.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	d.setLogLevel(cfg)
	o := &slog.HandlerOptions{Level: &d.level}
	if cfg.Log.Format == config.FormatJSON {
		return slog.New(ownWordsHandler{slog.NewJSONHandler(d.options.Log, o)})
	}
	return slog.New(ownWordsHandler{slog.NewTextHandler(d.options.Log, o)})
}

// ownWordsHandler has errors in the log in words of this program alone. At level debug a line has what
// they leave out, as the attribute cause, which no bundle of a bug report holds.
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

// setLogLevel sets the configured level, unless the command line has set one. A level that counts
// for a time goes on counting.
func (d *Daemon) setLogLevel(cfg *config.Config) {
	var level slog.Level
	switch {
	case d.options.Level != nil:
		level = *d.options.Level
	case level.UnmarshalText([]byte(cfg.Log.Level)) != nil:
		level = slog.LevelInfo // a configuration that was not loaded
	}
	d.level.usual.Set(level)
}

// logLevel is the least level that is logged: the usual one, or one that counts for a time.
type logLevel struct {
	usual   slog.LevelVar
	forTime atomic.Pointer[levelForTime] // nil: the usual level counts
}

type levelForTime struct {
	level slog.Level
	until time.Time
}

// Level returns the level that counts now.
func (l *logLevel) Level() slog.Level {
	if t := l.findLevelForTime(); t != nil {
		return t.level
	}
	return l.usual.Level()
}

// findLevelForTime returns the level that counts for a time, nil if none does now.
func (l *logLevel) findLevelForTime() *levelForTime {
	t := l.forTime.Load()
	if t != nil && time.Now().After(t.until) {
		l.forTime.CompareAndSwap(t, nil)
		return nil
	}
	return t
}

// usualLevelTime is how long a level counts that comes without a time.
const usualLevelTime = 10 * time.Minute

// serveLogLevel sets the level of the log for a time, if the params have one, and returns it.
func (d *Daemon) serveLogLevel(ctx context.Context, _ *local.Conn, p *client.LogLevelParams) (any, error) {
	duration := usualLevelTime
	switch most := uint64(client.MaxLogLevelTime.Seconds()); {
	case p.Secs > most:
		return nil, kinds.Errorf(kinds.Invalid, "secs: %d: at most %d, which is %s", p.Secs, most, kinds.FormatDuration(client.MaxLogLevelTime))
	case p.Secs > 0 && p.Level == "":
		return nil, kinds.Errorf(kinds.Invalid, "secs: it limits how long a level is used, and no level is given: give level, or leave secs out")
	case p.Secs > 0:
		duration = time.Duration(p.Secs) * time.Second
	}
	if p.Level != "" {
		level, ok := findLogLevel(p.Level)
		if !ok {
			return nil, kinds.Errorf(kinds.Invalid, "level: %.64q: use debug, info, warn or error", p.Level)
		}
		until := time.Now().Add(duration)
		d.level.forTime.Store(&levelForTime{level, until})
		d.log.Log(ctx, max(level, slog.LevelInfo), "the level of the log is changed for a time", "level", p.Level, "until", until.UTC())
	}
	l := &client.LogLevel{Level: formatLogLevel(d.level.Level()), Usual: formatLogLevel(d.level.usual.Level())}
	if t := d.level.findLevelForTime(); t != nil {
		l.Until = client.Time{Time: t.until}
	}
	return l, nil
}

// findLogLevel returns the level of a word, as config.yaml may have it.
func findLogLevel(word string) (slog.Level, bool) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if formatLogLevel(level) == word {
			return level, true
		}
	}
	return 0, false
}

func formatLogLevel(level slog.Level) string { return strings.ToLower(level.String()) }
