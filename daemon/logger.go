package daemon

import (
	"log/slog"

	"github.com/acpd/acpd/config"
)

// newLogger makes the daemon's log: ids everywhere, a payload or token nowhere.
func (d *Daemon) newLogger(cfg *config.Config) *slog.Logger {
	if d.options.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	d.setLevel(cfg)
	o := &slog.HandlerOptions{Level: &d.level}
	if cfg.Log.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(d.options.Log, o))
	}
	return slog.New(slog.NewTextHandler(d.options.Log, o))
}

// setLevel makes a configured level count, unless the command line set one.
func (d *Daemon) setLevel(cfg *config.Config) {
	var level slog.Level
	switch {
	case d.options.Level != nil:
		level = *d.options.Level
	case level.UnmarshalText([]byte(cfg.Log.Level)) != nil:
		level = slog.LevelInfo // a configuration that was not loaded
	}
	d.level.Set(level)
}
