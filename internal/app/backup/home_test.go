package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
)

// stateText is the beginning of an SQLite file with a version, and then text.
func stateText(version byte, text string) string {
	header := make([]byte, 100)
	copy(header, "SQLite format 3\x00")
	header[63] = version
	return string(header) + text
}

// makeHome makes a state directory as a daemon leaves it, which trusts peers of these names.
func makeHome(t testing.TB, state string, names ...string) (dir string, id identity.ID) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := identity.CreateKey(filepath.Join(dir, statedir.KeyName))
	if err != nil {
		t.Fatal(err)
	}
	trust, _, err := identity.OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.CreateFiles(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		peer, err := identity.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trust.Trust(identity.Peer{ID: peer.ID(), Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"config.yaml": "name: desk\n", "relays.yaml": "relays: []\n", "state.db": state, "reserve": "x", "lock": "",
		"profiles/review.yaml": "program: x\n", "state.db-shm": "x",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, key.ID()
}

// makeArchive returns an archive of a state directory.
func makeArchive(t testing.TB, dir string, id identity.ID, withIdentity bool) []byte {
	t.Helper()
	members, err := ListMembers(dir, filepath.Join(dir, statedir.StateName), true)
	if err != nil {
		t.Fatal(err)
	}
	if withIdentity {
		key, err := os.ReadFile(filepath.Join(dir, statedir.KeyName))
		if err != nil {
			t.Fatal(err)
		}
		secret, err := encryptIdentity(key, passphrase, 10)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, Member{Name: IdentityName, Text: secret})
	}
	return writeArchive(t, id, members)
}

func writeArchive(t testing.TB, id identity.ID, members []Member) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(t.Context(), &out, &Manifest{Identity: id, Program: "test"}, members); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// snapshot returns the files of a directory and what is in them, but for what a restore leaves alone.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		first, _, _ := strings.Cut(name, "/")
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name == statedir.StagingName {
				return fs.SkipDir
			}
			return nil
		case slices.Contains([]string{statedir.LockName, statedir.ReserveName, statedir.IncompleteName}, first):
			return nil
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func checkSame(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s is %.60q, want %.60q", what, name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: there is %s too", what, name)
		}
	}
}

// wanted returns what a restored directory has of what was in the old one.
func wanted(of map[string]string, withIdentity bool) map[string]string {
	want := make(map[string]string)
	for name, text := range of {
		if strings.HasPrefix(name, statedir.ProfilesName) || strings.HasSuffix(name, "-shm") || name == statedir.KeyName && !withIdentity {
			continue
		}
		want[name] = text
	}
	return want
}

func askFor(text string) func() (string, error) {
	return func() (string, error) { return text, nil }
}

func restore(t testing.TB, archive []byte, o Options) (*Restore, error) {
	t.Helper()
	r, err := Prepare(t.Context(), bytes.NewReader(archive), o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r, r.Commit()
}
