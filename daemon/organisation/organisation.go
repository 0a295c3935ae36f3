// Package organisation has what the settings of certificates mean: the authorities whose certificates are
// valid here, the certificate that the daemon shows to others, and the post-quantum keys of peers with
// certificates, which it keeps on disk. It serves the method that shows the certificates.
//
// It leaves to others who is a peer by a certificate (package identity), and how a peer shows it (package peer).
package organisation

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// Deps is what certificates need of their daemon.
type Deps struct {
	Self   identity.ID
	Dir    string // the state directory
	DB     *store.DB
	Trust  *identity.TrustStore
	Config func() *config.Config // the settings as they are now
	Log    *slog.Logger
}

// Service has the certificates of one daemon. It is safe for concurrent use.
type Service struct {
	Deps

	own     atomic.Pointer[ownCertificate]
	changed pace.Signal // set if own was set

	// unsavedPins has the post-quantum keys of peers with certificates that the disk has not taken yet. Only the
	// goroutine that saves them uses it, and Close after that.
	unsavedPins map[identity.ID]identity.CertifiedPin
}

// Open reads the files that the settings name, and the keys on disk, and applies both.
func Open(ctx context.Context, deps Deps) (*Service, error) {
	s := newService(deps)
	pins, err := store.ReadValue(ctx, s.DB, ReadPins)
	if err != nil {
		return nil, err
	}
	s.Trust.LoadCertifiedPins(pins)
	files, err := s.Read(s.Config())
	if err != nil {
		return nil, err
	}
	s.Apply(files)
	return s, nil
}

func newService(deps Deps) *Service {
	return &Service{Deps: deps, changed: pace.NewSignal(), unsavedPins: make(map[identity.ID]identity.CertifiedPin)}
}

// Run warns of the end of the daemon's certificate, and writes the keys of peers to disk, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchOwnCertificate(ctx) })
	saver := pace.Saver{What: "post-quantum keys of peers with certificates", Changed: s.Trust.UnsavedPinsSignal(), Pause: pinsPause, Save: s.savePins, Log: s.Log}
	g.Go(func() error { return saver.Run(ctx) })
	return g.Wait()
}

// Methods returns the methods of the local API for certificates.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{client.MethodCertificate: local.ForOwner(s.serveCertificate)}
}

// Files is the content of the files that the settings name.
type Files struct {
	authorities []identity.Authority
	own         ownCertificate
}

// Read reads the files that settings name. It returns an error if it cannot read those of an authority:
// what the authority has revoked must be known.
func (s *Service) Read(cfg *config.Config) (*Files, error) {
	files, o := new(Files), &cfg.Organisation
	for _, name := range slices.Sorted(maps.Keys(o.Authorities)) {
		as, err := o.ReadAuthority(name, s.Dir)
		if err != nil {
			return nil, err
		}
		files.authorities = append(files.authorities, as...)
	}
	if o.Certificate != "" {
		files.own = s.readOwnCertificate(o)
	}
	return files, nil
}

// Apply makes the files take effect. Connections of peers that lose their certificate by it end soon
// after. If the daemon's certificate cannot be read, maybe because it is being written, the daemon continues
// to show the previous one, because connections end without one.
func (s *Service) Apply(files *Files) {
	own := files.own
	if before := s.own.Load(); own.err != nil && before != nil && before.raw != nil {
		own.raw, own.says = before.raw, before.says
		own.err = ownwords.Errorf("%w; until then the one before is shown", own.err)
	}
	s.own.Store(&own)
	s.Trust.SetAuthorities(files.authorities)
	s.changed.Set()
}

// ListChanges returns in what the files differ from those that are in effect, as changes of the settings that
// name them.
func (s *Service) ListChanges(files *Files) (all []client.SettingChange) {
	if before := s.own.Load(); before.raw != nil && files.own.raw != nil && !bytes.Equal(before.raw, files.own.raw) {
		all = append(all, client.SettingChange{Setting: "organisation.certificate", From: before.describe(), To: files.own.describe()})
	}
	before := make(map[string]*identity.Revocations)
	for _, a := range s.Trust.Authorities() {
		before[a.Name] = a.Revoked
	}
	for _, a := range files.authorities {
		if old := before[a.Name]; old != nil && a.Revoked != nil && !reflect.DeepEqual(old, a.Revoked) {
			all = append(all, client.SettingChange{Setting: fmt.Sprintf("organisation.authorities.%s.revoked", a.Name), From: fmt.Sprintf("%d revoked", old.Len()), To: fmt.Sprintf("%d revoked", a.Revoked.Len())})
		}
		delete(before, a.Name) // it may have two keys
	}
	return all
}

// FindFleetName is [budget.Book.Certified]: it reports whether a key is that of another daemon that the owner does
// not trust. It returns the name in its certificate, or "" without a certificate now.
func (s *Service) FindFleetName(id identity.ID) (name string, ok bool) {
	if budget.AreStrangers(id) || id == s.Self || s.Trust.IsTrusted(id) {
		return "", false
	}
	name, _ = s.Trust.IsCertified(id)
	return name, true
}
