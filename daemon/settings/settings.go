// Package settings holds the settings of a daemon: those of config.yaml, behind what the command line has set.
// It reads the file again while the daemon runs, and says what that has changed, what takes effect only at the
// next start, and which settings have no effect.
//
// It leaves to package config what is valid, and to the parts of the daemon how they obey.
package settings

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
)

// Overrides are what the command line has set. They go before config.yaml.
type Overrides struct {
	Listen string      // UDP host:port, "" if it is not set
	Name   string      // of the daemon, "" if it is not set
	Level  *slog.Level // of the log, nil if it is not set
	NoMDNS bool
}

// Deps is what a [Service] needs of its daemon before it reads the file again.
type Deps struct {
	Trust   *identity.TrustStore
	Log     *slog.Logger
	Systemd *admin.Systemd

	// Prepare reads the files that settings name. If they are valid, apply makes the parts of the daemon obey
	// the settings that are now in effect, and returns what has changed in those files.
	Prepare func(next *config.Config) (apply func(old *config.Config) []client.SettingChange, err error)
	// ListWarnings returns what the owner should know of how the settings work out.
	ListWarnings func() []string
}

// Service holds the settings of one daemon. Its methods may be called from any goroutine.
type Service struct {
	Deps
	path      string
	overrides Overrides
	current   atomic.Pointer[config.Config]
	start     *config.Config
	level     slog.LevelVar
	reloading sync.Mutex              // held while the file is read again
	failure   atomic.Pointer[failure] // why the file was not taken over, nil if it was
}

// Open reads the settings. The caller sets Deps before anything else than [Service.Load], [Service.Start] and
// [Service.NewLogger] is called.
func Open(path string, o Overrides) (*Service, error) {
	s := &Service{path: path, overrides: o}
	cfg, err := s.read()
	if err != nil {
		return nil, err
	}
	s.start = cfg
	s.current.Store(cfg)
	return s, nil
}

// read reads config.yaml and puts the overrides before it.
func (s *Service) read() (*config.Config, error) {
	cfg, err := config.LoadConfig(s.path)
	if err != nil {
		return nil, err
	}
	cfg.Listen = cmp.Or(s.overrides.Listen, cfg.Listen)
	cfg.Name = cmp.Or(s.overrides.Name, cfg.Name)
	if s.overrides.NoMDNS {
		cfg.Discovery.MDNS = config.Off
	}
	return cfg, nil
}

// Load returns the settings that are in effect.
func (s *Service) Load() *config.Config { return s.current.Load() }

// Start returns the settings with which the daemon was started.
func (s *Service) Start() *config.Config { return s.start }

// Methods returns the method that reads config.yaml again.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{client.MethodReload: local.ForOwner(s.serveReload)}
}

// Run reads config.yaml again on each signal, until ctx ends.
func (s *Service) Run(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			s.Reload() // logs what is wrong
		}
	}
}

// Reload reads config.yaml again, and returns what has changed. If the file is not valid, the old settings stay
// in effect, and the status has a warning until a later call succeeds. [immediateSettings] take effect at once, all
// others at the next start; the log and the status name those.
func (s *Service) Reload() (*client.Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.Systemd.Tell(admin.StateReloading())
	defer s.Systemd.Tell(admin.StateReady)
	next, err := s.read()
	var apply func(old *config.Config) []client.SettingChange
	if err == nil {
		apply, err = s.Prepare(next)
	}
	if err != nil {
		s.failure.Store(&failure{time.Now(), err})
		s.Log.Error("the old configuration stays", "err", err)
		return nil, err
	}
	s.failure.Store(nil)
	old := s.current.Swap(next)
	files := apply(old)
	s.setLogLevel(next)
	r := s.describeReload(old, next)
	changed := next.ListChangedSettings(old)
	if later := slices.DeleteFunc(slices.Clone(r.Deferred), func(name string) bool { return !slices.Contains(changed, name) }); len(later) > 0 {
		s.Log.Warn("settings have changed that take effect at the next start: start acpd again", "settings", strings.Join(later, ", "))
	}
	s.LogWithoutEffect()
	s.Log.Info("configuration reloaded", "changed", strings.Join(changed, ", "))
	r.Changed = append(r.Changed, files...)
	return r, nil
}

// serveReload reads config.yaml again. An error has a line for each thing that is wrong in it.
func (s *Service) serveReload(context.Context, *local.Conn, *local.NoParams) (any, error) {
	r, err := s.Reload()
	if err == nil {
		return r, nil
	}
	lines := []string{"reload: the old configuration stays in force, since this is wrong:"}
	for _, e := range config.ListErrors(err) {
		lines = append(lines, strings.TrimPrefix(e.Error(), "config: "))
	}
	if len(lines) == 1 { // the file cannot be read
		lines = append(lines, ownwords.Of(err))
	}
	return nil, kinds.Errorf(kinds.Invalid, "%s", strings.Join(lines, "\n"))
}

// describeReload returns in what the settings that are in effect now differ from those before.
func (s *Service) describeReload(old, next *config.Config) *client.Reloaded {
	r := &client.Reloaded{Changed: []client.SettingChange{}, Deferred: append([]string{}, listDeferred(s.start, next)...), Warnings: append(s.ListWithoutEffect(), s.ListWarnings()...)}
	for _, c := range next.ListChanges(old) {
		r.Changed = append(r.Changed, client.SettingChange{Setting: c.Key, From: c.From, To: c.To, Deferred: slices.Contains(r.Deferred, c.Setting)})
	}
	return r
}

// DescribeProblems returns what the owner should know: that config.yaml was not taken over, and which settings
// take effect only at the next start.
func (s *Service) DescribeProblems() (all []string) {
	if f := s.failure.Load(); f != nil {
		all = append(all, f.String())
	}
	if later := listDeferred(s.start, s.Load()); len(later) > 0 {
		all = append(all, "settings in config.yaml that have changed take effect at the next start: "+strings.Join(later, ", ")+"; start acpd again for them")
	}
	return all
}

// HasFailed reports whether config.yaml was not taken over when it was read again last.
func (s *Service) HasFailed() bool { return s.failure.Load() != nil }

// ListFamilies returns the metric of failed reloads.
func (s *Service) ListFamilies() []metrics.Family {
	failed := 0
	if s.HasFailed() {
		failed = 1
	}
	return []metrics.Family{{Name: "acpd_config_reload_failed", Type: metrics.Gauge, Help: "1 if config.yaml was not taken over when it was reloaded last, else 0.", Write: metrics.One(failed)}}
}

// immediateSettings are the settings that take effect on reload. All others take effect at the next start.
var immediateSettings = []string{"peers", "policy", "limits.rate", "discovery.mdns", "discovery.include", "discovery.exclude", "reach.relays", "reach.proxy", "channels.open_to", "files.max", "files.ask", "agents", "owner.notify", "log.level",
	"history", "spending", "organisation.certificate", "organisation.authorities"}

// listDeferred returns the settings that have changed and take effect at the next start.
func listDeferred(old, next *config.Config) []string {
	return slices.DeleteFunc(next.ListChangedSettings(old), func(name string) bool { return slices.Contains(immediateSettings, name) })
}

// failure holds the time and the reason of a failed reload.
type failure struct {
	at  time.Time
	why error
}

// maxReasonBytes bounds the reason in a warning, in bytes.
const maxReasonBytes = 1024

func (f *failure) String() string {
	why := ownwords.Of(f.why)
	if len(why) > maxReasonBytes {
		why = strings.ToValidUTF8(why[:maxReasonBytes], "") + " …"
	}
	return fmt.Sprintf("config.yaml was not taken over at %s (%s): the settings of before stay in effect, and acpd will not start with this file; fix it and reload it",
		f.at.UTC().Format(time.RFC3339), why)
}
