package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// testID returns an id with n in its first bytes.
func testID(n int) ID { return ID{byte(n >> 8), byte(n), 0xab, 31: 1} }

func openTrust(t testing.TB, dir string) *TrustStore {
	t.Helper()
	store, warning, err := OpenTrustStore(dir)
	if err != nil || warning != nil {
		t.Fatalf("open: %v, warning %v", err, warning)
	}
	return store
}

func trust(t testing.TB, store *TrustStore, p Peer) Peer {
	t.Helper()
	p, err := store.Trust(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func untrust(t testing.TB, store *TrustStore, id ID) {
	t.Helper()
	if err := errors.Join(store.Untrust(id), store.Save()); err != nil {
		t.Fatal(err)
	}
}

// same reports whether both stores hold the same.
func same(a, b *TrustStore) bool {
	return slices.EqualFunc(a.Peers(), b.Peers(), Peer.isEqual) && slices.EqualFunc(a.Blocks(), b.Blocks(), sameBlock)
}

func sameBlock(a, b Block) bool {
	return a.ID == b.ID && a.Name == b.Name && slices.Equal(a.Addrs, b.Addrs)
}

func TestTrustStore(t *testing.T) {
	dir := t.TempDir()
	for name, store := range map[string]*TrustStore{"memory": NewMemoryTrustStore(), "files": openTrust(t, dir)} {
		t.Run(name, func(t *testing.T) {
			desk := Peer{ID: testID(1), Name: "desk", Addrs: []string{"desk.example:7117"}, PQ: PQHash{1}, Since: time.Unix(1e9, 5)}
			got := trust(t, store, desk)
			desk.Since = time.Unix(1e9, 0).UTC()
			if !got.isEqual(desk) {
				t.Errorf("trusted %+v", got)
			}
			before := time.Now().Add(-time.Second)
			laptop := trust(t, store, Peer{ID: testID(2)})
			if laptop.Name != "peer-"+testID(2).Label() || laptop.Since.Before(before) {
				t.Errorf("default peer %+v", laptop)
			}

			// An update keeps what is left zero.
			got = trust(t, store, Peer{ID: testID(1), Addrs: []string{"192.0.2.1:7117"}})
			desk.Addrs = []string{"192.0.2.1:7117"}
			if !got.isEqual(desk) {
				t.Errorf("updated %+v", got)
			}
			trust(t, store, Peer{ID: testID(1), Name: "tower"})
			if _, err := store.Resolve("desk"); err == nil {
				t.Error("the old name still resolves")
			}
			if got, ok := store.FindPeer(testID(1)); !ok || got.Name != "tower" || got.PQ != (PQHash{1}) {
				t.Errorf("renamed %+v", got)
			}
			taken, ok := errors.AsType[*NameTakenError](second(store.Trust(Peer{ID: testID(2), Name: "tower"})))
			if !ok || taken.By != testID(1) || taken.Name != "tower" {
				t.Errorf("taken name: %v", taken)
			}

			// Pins.
			for _, c := range []struct {
				id   ID
				hash PQHash
				ok   bool
			}{
				{testID(2), PQHash{}, false}, {testID(2), PQHash{2}, true}, {testID(2), PQHash{2}, true},
				{testID(2), PQHash{3}, false}, {testID(3), PQHash{3}, false},
			} {
				if err := store.PinPQ(c.id, c.hash); (err == nil) != c.ok {
					t.Errorf("Pin %s %s: %v", c.id.Label(), c.hash, err)
				}
			}
			if got, _ := store.FindPeer(testID(2)); got.PQ != (PQHash{2}) {
				t.Errorf("pinned %s", got.PQ)
			}

			// Blocks.
			untrust(t, store, testID(1))
			untrust(t, store, testID(9))
			untrust(t, store, testID(1))
			if _, ok := store.FindPeer(testID(1)); ok || !store.IsBlocked(testID(1)) || store.IsBlocked(testID(2)) {
				t.Error("untrusted, and yet known or not blocked")
			}
			blocks := []Block{{testID(1), "tower", []string{"192.0.2.1:7117"}}, {ID: testID(9)}}
			if got := store.Blocks(); !slices.EqualFunc(got, blocks, sameBlock) {
				t.Errorf("blocked %v", got)
			}

			// Trusted again, a peer has what it had, but its pin; under another name
			// where its own is taken.
			got = trust(t, store, Peer{ID: testID(1)})
			if got.Name != "tower" || !got.PQ.IsZero() || !slices.Equal(got.Addrs, []string{"192.0.2.1:7117"}) || store.IsBlocked(testID(1)) {
				t.Errorf("trusted again: %+v", got)
			}
			untrust(t, store, testID(1))
			trust(t, store, Peer{ID: testID(3), Name: "tower"})
			if got = trust(t, store, Peer{ID: testID(1)}); got.Name != "tower-2" {
				t.Errorf("trusted again: %+v", got)
			}
			untrust(t, store, testID(1))
			untrust(t, store, testID(3))
			if got = trust(t, store, Peer{ID: testID(1), Name: "desk", Addrs: []string{}}); got.Name != "desk" || len(got.Addrs) != 0 {
				t.Errorf("trusted again: %+v", got)
			}

			names := []string{}
			for _, p := range store.Peers() {
				names = append(names, p.Name)
			}
			if want := []string{"desk", "peer-" + testID(2).Label()}; !slices.Equal(names, want) {
				t.Errorf("peers %q", names)
			}
			if name == "files" && !same(store, openTrust(t, dir)) {
				t.Error("opened again, it differs")
			}
		})
	}
}

// TestAdmit: a join never lifts a block and never takes a name.
func TestAdmit(t *testing.T) {
	store := NewMemoryTrustStore()
	admit := func(id ID, claim string) Peer {
		t.Helper()
		p, err := store.TrustJoined(Peer{ID: id}, claim)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for i, tt := range []struct{ claim, name string }{
		{"Desk", "desk"}, {"desk", "desk-2"}, {"the desk", "peer-" + testID(3).Label()}, {"", "peer-" + testID(4).Label()},
	} {
		if p := admit(testID(i+1), tt.claim); p.Name != tt.name {
			t.Errorf("%q is called %q", tt.claim, p.Name)
		}
	}
	if p := admit(testID(1), "laptop"); p.Name != "desk" {
		t.Errorf("who is trusted was renamed to %q", p.Name)
	}
	for _, id := range []ID{testID(1), testID(9)} {
		untrust(t, store, id)
		_, err := store.TrustJoined(Peer{ID: id, Name: "desk"}, "desk")
		blocked, ok := errors.AsType[*BlockedError](err)
		if _, trusted := store.FindPeer(id); !ok || blocked.ID != id || trusted || !store.IsBlocked(id) {
			t.Errorf("a blocked key joins: %v", err)
		}
	}
	trust(t, store, Peer{ID: testID(1)})
	if p := admit(testID(1), "laptop"); p.Name != "desk" {
		t.Errorf("trusted again and joined it is called %q", p.Name)
	}
}

// TestReservedNames: only the owner's word calls a peer user, claude and such, no claim.
// holds: security.md#reserved-names
func TestReservedNames(t *testing.T) {
	store := NewMemoryTrustStore()
	for i, claim := range []string{
		"user", "human", "owner", "me", "self", "system", "admin", "operator", "root", "assistant", "model", "claude", "codex", "gemini", "opencode",
		"anthropic", "openai", "acpd", "localhost", "here", "User", "SYSTEM", "user-2", "claude-17",
		"your-user", "the-owner", "claude-code", "system-notice", "my-user", "user-", "the-user-2", "claude-code-agent", "system-message", "codex-user", "root7",
	} {
		id := testID(i + 1)
		p, err := store.TrustJoined(Peer{ID: id}, claim)
		if err != nil || p.Name != "peer-"+id.Label() {
			t.Errorf("%q joined as %q, %v", claim, p.Name, err)
		}
		if name := store.FindNameForClaim(claim); name != "" {
			t.Errorf("%q gets the name %q", claim, name)
		}
	}
	for i, name := range []string{"user", "claude", "system-2"} {
		if p, err := store.Trust(Peer{ID: testID(101 + i), Name: name}); err != nil || p.Name != name {
			t.Errorf("the owner gives %q: %+v, %v", name, p, err)
		}
	}
	p, err := store.TrustJoined(Peer{ID: testID(111), Name: "root"}, "laptop")
	if err != nil || p.Name != "root" {
		t.Errorf("the owner's invitation gives root: %+v, %v", p, err)
	}
	if p, err = store.TrustJoined(Peer{ID: testID(111), Name: "desk"}, "desk"); err != nil || p.Name != "root" {
		t.Errorf("who is known got another name: %+v, %v", p, err)
	}
	if p, err = store.TrustJoined(Peer{ID: testID(112), Name: "root"}, "laptop"); err != nil || p.Name != "root-2" {
		t.Errorf("a second root: %+v, %v", p, err)
	}
	for _, free := range []string{"users", "user-x", "claude-box", "ci-root", "rooted", "meg", "code-agent", "the-7", "agent-2", "message", "a"} {
		if IsReservedName(free) || CheckName(free) == nil && store.FindNameForClaim(free) != free {
			t.Errorf("%q is reserved", free)
		}
	}
}

// TestClaimsTakeNoKeptName: who calls itself by a name that rules mention, or that a blocked key had, gets
// it with a number, until the owner gives it.
func TestClaimsTakeNoKeptName(t *testing.T) {
	store := NewMemoryTrustStore()
	store.KeepFromClaims(func(name string) bool { return name == "desk" || name == "desk-2" || name == "root-2" })
	trust(t, store, Peer{ID: testID(1), Name: "laptop"})
	untrust(t, store, testID(1))
	join := func(n int, given, claim, want string) {
		t.Helper()
		if p, err := store.TrustJoined(Peer{ID: testID(n), Name: given}, claim); err != nil || p.Name != want {
			t.Errorf("%q, which calls itself %q, joined as %q, %v", given, claim, p.Name, err)
		}
	}
	join(2, "", "desk", "desk-3")
	join(3, "", "Desk-2", "desk-2-2")
	join(4, "", "laptop", "laptop-2")
	join(2, "", "desk", "desk-3") // again
	join(5, "desk", "laptop", "desk")
	join(6, "root", "laptop", "root")
	join(7, "root", "laptop", "root-3") // nobody gave it root-2
	if name := store.FindNameForClaim("laptop"); name != "laptop-3" {
		t.Errorf("a stranger is called %q", name)
	}
	if p := trust(t, store, Peer{ID: testID(4), Name: "laptop"}); p.Name != "laptop" {
		t.Errorf("the owner gave laptop: %q", p.Name)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTrustRefuses(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	for name, p := range map[string]Peer{
		"bad name":  {ID: testID(1), Name: "Desk"},
		"hex name":  {ID: testID(1), Name: "abcdef"},
		"bad addr":  {ID: testID(1), Addrs: []string{"desk.example"}},
		"9 addrs":   {ID: testID(1), Addrs: slices.Repeat([]string{"desk.example:1"}, 9)},
		"far since": {ID: testID(1), Since: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if _, err := store.Trust(p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := store.Untrust(ID{}); !errors.Is(err, ErrNobody) {
		t.Errorf("the zero id was blocked: %v", err)
	}
	if _, err := store.Trust(Peer{Name: "desk"}); !errors.Is(err, ErrNobody) {
		t.Errorf("the zero id was trusted: %v", err)
	}
	if len(store.Peers()) != 0 || len(list(t, dir)) != 0 {
		t.Error("a refusal left something")
	}
}

func TestTrustDoesNotShareAddrs(t *testing.T) {
	store := NewMemoryTrustStore()
	addrs := make([]string, 1, 4)
	addrs[0] = "desk.example:7117"
	trust(t, store, Peer{ID: testID(1), Name: "desk", Addrs: addrs})
	addrs[0] = "evil.example:7117"
	a, _ := store.FindPeer(testID(1))
	b, _ := store.FindPeer(testID(1))
	a.Addrs, b.Addrs = append(a.Addrs, "a.example:1"), append(b.Addrs, "b.example:1")
	if a.Addrs[0] != "desk.example:7117" || a.Addrs[1] != "a.example:1" {
		t.Errorf("addresses %q", a.Addrs)
	}
}

// fill returns a record of that many peers with that many addresses, and blocks.
func fill(peers, addrs, blocked int) trustRecord {
	r := trustRecord{Version: trustVersion, Sequence: 9, BlockSequence: 9}
	for i := range peers {
		r.Peers = append(r.Peers, Peer{ID: testID(i), Name: fmt.Sprintf("peer-%05d", i), Addrs: slices.Repeat([]string{"desk.example:7117"}, addrs)})
	}
	for i := range blocked {
		r.Blocked = append(r.Blocked, Block{ID: testID(20000 + i)})
	}
	return r
}

func TestTrustBounds(t *testing.T) {
	full, err := newSnapshot(fill(maxPeers, 1, maxBlocked))
	if err != nil {
		t.Fatal(err)
	}
	store := NewMemoryTrustStore()
	store.current.Store(full)
	if _, err := store.Trust(Peer{ID: testID(maxPeers)}); !errors.Is(err, ErrTrustFull) {
		t.Errorf("one more: %v", err)
	}
	trust(t, store, Peer{ID: testID(7), Name: "renamed"}) // an update needs no room
	untrust(t, store, testID(8))
	if store.IsBlocked(testID(20000)) || !store.IsBlocked(testID(20001)) || !store.IsBlocked(testID(8)) || len(store.Blocks()) != maxBlocked {
		t.Error("the oldest block, and no other, makes room")
	}
	trust(t, store, Peer{ID: testID(maxPeers)})

	data, err := trustFormat.Encode(store.current.Load())
	if err != nil {
		t.Fatal(err)
	}
	again := NewMemoryTrustStore()
	if s, err := trustFormat.Decode(data); err != nil {
		t.Error(err)
	} else if again.current.Store(s); !same(store, again) {
		t.Error("read again, it differs")
	}
	// The longest addresses must fit as well.
	longest := len(data) + maxPeers*MaxAddrs*len(strings.Repeat("a", 253)+":65535, ")
	if longest > maxTrustFileBytes {
		t.Errorf("a file of up to %d bytes could not be read again", longest)
	}
	for _, r := range []trustRecord{fill(maxPeers+1, 0, 0), fill(0, 0, maxBlocked+1)} {
		if _, err := newSnapshot(r); err == nil {
			t.Errorf("%d peers and %d blocks accepted", len(r.Peers), len(r.Blocked))
		}
	}
}

func TestFreeName(t *testing.T) {
	store := NewMemoryTrustStore()
	long := strings.Repeat("z", MaxName)
	for i, name := range []string{"desk", "desk-2", "desk-4", long} {
		trust(t, store, Peer{ID: testID(i), Name: name})
	}
	for name, want := range map[string]string{
		"laptop": "laptop", "desk": "desk-3", "desk-2": "desk-2-2", long: long[:30] + "-2",
	} {
		if got := store.FindFreeName(name); got != want || CheckName(got) != nil {
			t.Errorf("FreeName(%q) = %q", name, got)
		}
	}
	// A default name that somebody else has taken.
	trust(t, store, Peer{ID: testID(10), Name: "peer-" + testID(11).Label()})
	if p := trust(t, store, Peer{ID: testID(11)}); p.Name != "peer-"+testID(11).Label()+"-2" {
		t.Errorf("default name %q", p.Name)
	}
}

func TestResolve(t *testing.T) {
	store := NewMemoryTrustStore()
	a := mustID(t, "abcdef01"+strings.Repeat("1", 56))
	b := mustID(t, "abcdef02"+strings.Repeat("1", 56))
	c := mustID(t, "0123450a"+strings.Repeat("2", 56))
	for name, id := range map[string]ID{"desk": a, "laptop": b, "abcde": c, "desktop": testID(4)} {
		trust(t, store, Peer{ID: id, Name: name})
	}
	untrust(t, store, mustID(t, "eeeeee"+strings.Repeat("3", 58)))
	for ref, want := range map[string]ID{
		"desk": a, "abcde": c, "abcdef01": a, "abcdef0211": b, "012345": c, "0123450": c, c.String(): c,
		"ABCDEF01": a, "0123450A": c, strings.ToUpper(c.String()): c,
	} {
		if p, err := store.Resolve(ref); err != nil || p.ID != want {
			t.Errorf("Resolve(%q) = %v, %v", ref, p, err)
		}
	}
	for ref, near := range map[string][]string{
		"dsek": {"desk"}, "Desk": {"desk"}, "des": {"desk", "desktop"}, "lap": {"laptop"}, "laptpo": {"laptop"}, "laptop-2": {"laptop"},
		"": nil, "x": nil, "01234": nil, "eeeeee": nil, "abcdef03": nil, "ABCDEF03": nil, c.String() + "0": nil,
		strings.Repeat("desk", 100): nil, "\x1b": nil,
	} {
		_, err := store.Resolve(ref)
		unknown, ok := errors.AsType[*UnknownPeerError](err)
		if !ok || unknown.Ref != ref || !slices.Equal(unknown.Near, near) {
			t.Errorf("Resolve(%q): %v", ref, err)
		} else if len(err.Error()) > 200 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("error for %q: %q", ref, err)
		}
	}
	for _, ref := range []string{"abcdef", "abcdef0"} {
		_, err := store.Resolve(ref)
		ambiguous, ok := errors.AsType[*AmbiguousError](err)
		if !ok || len(ambiguous.Peers) != 2 || ambiguous.Peers[0].ID != a || !strings.Contains(err.Error(), "desk (abcdef0111), laptop (abcdef0211)") {
			t.Errorf("Resolve(%q): %v", ref, err)
		}
	}
}

func TestResolveNameDoesNotAllocate(t *testing.T) {
	store := NewMemoryTrustStore()
	trust(t, store, Peer{ID: testID(1), Name: "desk", Addrs: []string{"desk.example:7117"}})
	id := testID(1)
	if n := testing.AllocsPerRun(100, func() {
		if p, err := store.Resolve("desk"); err != nil || p.ID != id {
			t.Error(err)
		}
		if _, ok := store.FindPeer(id); !ok || store.IsBlocked(id) {
			t.Error("not trusted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTrustConcurrently(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	trust(t, store, Peer{ID: testID(500), Name: "desk"})
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if p, err := store.Resolve("desk"); err != nil || p.ID != testID(500) {
					t.Errorf("desk: %v, %v", p, err)
					return
				}
				for _, p := range store.Peers() {
					if got, ok := store.FindPeer(p.ID); ok && store.IsBlocked(got.ID) && !store.IsBlocked(p.ID) {
						t.Errorf("%s blocked and not", p.Name)
					}
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 8 {
				id := testID(10*w + i)
				if _, err := store.Trust(Peer{ID: id}); err != nil {
					t.Error(err)
				}
				if err := store.PinPQ(id, PQHash{1}); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if err := store.Untrust(id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if err := store.Save(); err != nil {
		t.Error(err)
	}
	if len(store.Peers()) != 1+16 || len(store.Blocks()) != 16 || !same(store, openTrust(t, dir)) {
		t.Errorf("%d peers, %d blocked", len(store.Peers()), len(store.Blocks()))
	}
}
