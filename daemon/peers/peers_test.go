package peers

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/addresses"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/peer"
)

// Whom the owner has given an address is dialled for a name. A key without an address is dialled by its id if a link
// leads to it.
// holds: security.md#fleets
func TestWhoIsDialledForAName(t *testing.T) {
	trust, _, err := identity.OpenTrustStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	node, err := peer.Listen(peer.Config{Key: key, Trust: trust, Name: "desk", Software: "test", Listen: "127.0.0.1:0", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	build, piped, corp := identity.ID{7}, identity.ID{8}, authority.New(t, "corp")
	trust.SetAuthorities([]identity.Authority{corp.Authority})
	cfg := &config.Config{
		Organisation: config.Organisation{Authorities: map[string]config.Authority{"corp": {Key: corp.Line()}}},
		Peers:        map[string]config.Peer{build.String(): {Addrs: []string{"192.0.2.7:7117"}}},
	}
	settings := func() *config.Config { return cfg }
	at, err := addresses.Open(t.Context(), addresses.Deps{Self: key.ID(), Name: "desk", DB: statedb.New(t, schema.Migrate), Trust: trust, Config: settings, Node: func() *peer.Node { return node }, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	at.UpdateConfigured()
	s, err := Open(Deps{Self: key.ID(), Name: "desk", Trust: trust, Node: node, Addresses: at, Config: settings, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(ref string, want ...identity.ID) {
		t.Helper()
		if got := s.listCandidates(ref); !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", ref, got, want)
		}
	}
	expect("build-7.corp", build)
	expect(build.String(), build)
	expect(piped.String())
	cfg.Peers[piped.String()] = config.Peer{Pipe: []string{"cat"}}
	expect(piped.String(), piped)
}

// Keys to which the owner has given an address come before those that call themselves so.
func TestIDsForAName(t *testing.T) {
	var entries []discovery.Entry
	for i := range 2 * maxIntroduced {
		entries = append(entries, discovery.Entry{ID: identity.ID{byte(i)}, Claim: "Build-7"})
	}
	entries = append(entries, discovery.Entry{ID: identity.ID{0xaa}, Claim: "desk"}, discovery.Entry{ID: identity.ID{0xbb}})
	got := listIDsForName(entries, "build-7", func(id identity.ID) bool { return id == identity.ID{0xbb} || id == identity.ID{7} })
	if len(got) != 2*maxIntroduced+1 || got[0] != (identity.ID{7}) || got[1] != (identity.ID{0xbb}) || slices.Contains(got, identity.ID{0xaa}) {
		t.Errorf("%v", got)
	}
}

// What an untrust has left on the disk is tried again until the disk takes it, all parts each time; then it is done.
func TestLeftoversAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trust, _, err := identity.OpenTrustStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var inbox, wake atomic.Int64
		s := &Service{leftovers: leftovers{wake: pace.NewSignal()}, Deps: Deps{Trust: trust, Log: slog.New(slog.DiscardHandler), Removals: func() []Removal {
			return []Removal{
				{client.PartInbox, func(context.Context, identity.ID, string) error {
					if inbox.Add(1) < 3 {
						return ownwords.Errorf("the disk is full")
					}
					return nil
				}},
				{client.PartWake, func(context.Context, identity.ID, string) error { wake.Add(1); return nil }},
			}
		}}}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.runLeftoverRemoval(ctx) }()
		s.AddLeftover(identity.ID{1})
		time.Sleep(time.Minute) // of the virtual clock
		synctest.Wait()
		if _, left := s.leftovers.get(identity.ID{1}); left || inbox.Load() != 3 || wake.Load() != 3 {
			t.Errorf("left: %t; %d and %d attempts", left, inbox.Load(), wake.Load())
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The command of a peer is that of its id, else of its name, as config.yaml has it now.
func TestFindPipe(t *testing.T) {
	trust, _, err := identity.OpenTrustStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id, cfg := identity.ID{9}, new(config.Config)
	s := &Service{Deps: Deps{Trust: trust, Config: func() *config.Config { return cfg }}}
	check := func(name string, want ...string) {
		t.Helper()
		if got, argv := s.findPipe(id); got != name || !slices.Equal(argv, want) {
			t.Errorf("findPipe: %s, %q; want %s, %q", got, argv, name, want)
		}
	}
	check("")
	cfg = &config.Config{Peers: map[string]config.Peer{"build": {Pipe: []string{"ssh", "a"}}}}
	check("")
	if _, err := trust.Trust(identity.Peer{ID: id, Name: "build"}); err != nil {
		t.Fatal(err)
	}
	check("build", "ssh", "a")
	cfg = &config.Config{Peers: map[string]config.Peer{"build": {Pipe: []string{"ssh", "a"}}, id.String(): {Pipe: []string{"ssh", "b"}}}}
	check("build", "ssh", "b")
	cfg = new(config.Config)
	check("build")
}
