package identity

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/internal/sealed"
)

// FuzzTrustFiles opens two files of any content, as a crash, damage or somebody's
// editor may leave them. Whatever they hold, it trusts nobody whom no sound file
// trusts, and forgets no block that a file shows.
func FuzzTrustFiles(f *testing.F) {
	dir := f.TempDir()
	var contents [][]byte
	store, _, err := OpenTrustStore(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, change := range []func() error{
		func() error {
			return second(store.Trust(Peer{ID: testID(1), Name: "desk", Addrs: []string{"[2001:db8::1]:7117"}}))
		},
		func() error { return errors.Join(store.Untrust(testID(8)), store.Save()) },
		func() error { return second(store.Trust(Peer{ID: testID(2), Name: "laptop", PQ: PQHash{1}})) },
		func() error { return errors.Join(store.Untrust(testID(1)), store.Save()) },
	} {
		if err := change(); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, trustName))
		if err != nil {
			f.Fatal(err)
		}
		contents = append(contents, data)
	}
	for _, a := range contents {
		for _, b := range contents {
			f.Add(a, b, uint8(3))
			f.Add(a[:len(a)-9], b, uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte, seals uint8) {
		dir := t.TempDir()
		var sound []*trustSnapshot
		for i, data := range [][]byte{a, b} {
			if at := bytes.LastIndex(data, []byte("# sha256 ")); at >= 0 && seals>>i&1 == 1 {
				data = sealed.AppendChecksum(bytes.Clone(data[:at])) // so that what is inside is read
			}
			if s, err := trustFormat.Decode(data); err == nil {
				sound = append(sound, s)
			}
			if err := os.WriteFile(filepath.Join(dir, []string{trustName, trustCopyName}[i]), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		store, warning, err := OpenTrustStore(dir)
		if err != nil {
			return // of a newer version
		}
		best := store.current.Load()
		if _, err := newSnapshot(best.trustRecord); err != nil {
			t.Fatalf("what is chosen is not sound: %v", err)
		}
		if again := openTrust(t, dir); !same(store, again) {
			t.Fatal("written and read it differs")
		}
		if warning != nil && strings.Contains(warning.Error(), "nobody is trusted") && len(best.Peers) > 0 {
			t.Error("nothing can be believed, and somebody is trusted")
		}
		for _, p := range best.Peers {
			if !slices.ContainsFunc(sound, func(s *trustSnapshot) bool { return slices.ContainsFunc(s.Peers, p.isEqual) }) {
				t.Errorf("%s is trusted, and no sound file does so", p.Name)
			}
		}
		for _, s := range sound {
			if len(best.Peers) > 0 && s.BlockSequence > best.BlockSequence {
				t.Errorf("a file knows blocks up to %d, and those up to %d count", s.BlockSequence, best.BlockSequence)
			}
		}
	})
}

// FuzzTrustStore does to a store whatever may be done, in any order, beside a plain
// account of what has to come of it.
func FuzzTrustStore(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 0, 0, 4, 0, 3, 1})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const ids, names = 6, 4
		type state struct {
			trusted, blocked bool
			pin              PQHash
		}
		var want [ids]state
		store := NewMemoryTrustStore()
		for ; len(steps) >= 2; steps = steps[2:] {
			what, arg := steps[0], int(steps[1])
			n := arg % ids
			w, id := &want[n], testID(n+1)
			name := []string{"", "desk", "laptop", "The desk"}[arg/ids%names]
			hash := PQHash{byte(1 + arg/ids/names%2)}
			switch what % 5 {
			case 0: // a person trusts
				if _, err := store.Trust(Peer{ID: id}); err != nil {
					t.Fatal(err)
				}
				if w.blocked {
					w.pin = PQHash{}
				}
				w.trusted, w.blocked = true, false
			case 1: // a join
				_, err := store.TrustJoined(Peer{ID: id, PQ: hash}, name)
				_, blocked := errors.AsType[*BlockedError](err)
				_, pinned := errors.AsType[*PinMismatchError](err)
				switch {
				case blocked != w.blocked:
					t.Fatalf("blocked %t, and a join says %v", w.blocked, err)
				case blocked:
				case pinned != (w.pin != PQHash{} && w.pin != hash):
					t.Fatalf("pinned %v, joined with %v: %v", w.pin, hash, err)
				case pinned:
				case err != nil:
					t.Fatal(err)
				default:
					w.trusted, w.pin = true, hash
				}
			case 2: // a first meeting
				if err := store.PinPQ(id, hash); (err == nil) != (w.trusted && (w.pin == PQHash{} || w.pin == hash)) {
					t.Fatalf("trusted %t, pinned %v, shows %v: %v", w.trusted, w.pin, hash, err)
				} else if err == nil {
					w.pin = hash
				}
			case 3:
				if err := store.Untrust(id); err != nil {
					t.Fatal(err)
				}
				*w = state{blocked: true}
			case 4:
				if err := store.Save(); err != nil || store.current.Load() != store.files.Newest {
					t.Fatalf("saved: %v", err)
				}
			}
			if _, err := newSnapshot(store.current.Load().trustRecord); err != nil {
				t.Fatalf("the current snapshot is not sound: %v", err)
			}
			for i, w := range want {
				p, trusted := store.FindPeer(testID(i + 1))
				if trusted != w.trusted || p.PQ != w.pin || store.IsBlocked(testID(i+1)) != w.blocked {
					t.Fatalf("%d: trusted %t, pinned %v, blocked %t; want %+v", i, trusted, p.PQ, store.IsBlocked(testID(i+1)), w)
				}
			}
		}
	})
}
