package daemon

import (
	"log/slog"

	"github.com/acpd/acpd/config"
)

// newLogger returns the daemon's log. It may hold ids, but never a payload or token.
func (d *Daemon) newLogger(cfg *config.Config) *slog.Logger {
	if d.options.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	d.setLogLevel(cfg)
	o := &slog.HandlerOptions{Level: &d.level}
	if cfg.Log.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(d.options.Log, o))
	}
	return slog.New(slog.NewTextHandler(d.options.Log, o))
}

// setLogLevel sets the configured level, unless the command line has set one.
func (d *Daemon) setLogLevel(cfg *config.Config) {
	var level slog.Level
	switch {
	case d.options.Level != nil:
		level = *d.options.Level
	case level.UnmarshalText([]byte(cfg.Log.Level)) != nil:
		level = slog.LevelInfo // a configuration that was not loaded
	}
	d.level.Set(level)
}
