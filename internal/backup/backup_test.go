package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

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
		"config.yaml": "name: desk\n", "state.db": state, "reserve": "x", "lock": "",
		"profiles/review.yaml": "program: x\n", "profiles/.review.yaml.swp": "x", "state.db-shm": "x",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, key.ID()
}

const passphrase = "correct horse battery staple"

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
			if strings.HasPrefix(name, asidePrefix) || name == statedir.StagingName {
				return fs.SkipDir
			}
			return nil
		case slices.Contains(stays, first):
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
		if strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, "-shm") || name == statedir.KeyName && !withIdentity {
			continue
		}
		want[name] = text
	}
	return want
}

func askFor(text string) func(int) (string, error) {
	return func(wrong int) (string, error) {
		if wrong > 0 {
			return "", ErrWrongPassphrase
		}
		return text, nil
	}
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

func TestRoundTrip(t *testing.T) {
	home, id := makeHome(t, stateText(1, strings.Repeat("rows", 100_000)), "laptop", "reviewer")
	if err := os.WriteFile(filepath.Join(home, "state.db-wal"), []byte("log"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := makeArchive(t, home, id, true)
	if bytes.Contains(archive, []byte("PRIVATE KEY")) {
		t.Error("the key is in the archive as it is")
	}
	before := snapshot(t, home)
	for name, c := range map[string]struct {
		ask    func(int) (string, error)
		source IdentitySource
	}{"with the identity": {askFor(passphrase), IdentityFromBackup}, "without": {nil, IdentityNone}} {
		dir := filepath.Join(t.TempDir(), "new")
		r, err := restore(t, archive, Options{Dir: dir, Passphrase: c.ask})
		if err != nil {
			t.Fatal(name, err)
		}
		if r.Identity != c.source || r.Aside != "" || r.Old != nil || len(r.Peers) != 2 || r.Peers[0].Name != "laptop" {
			t.Errorf("%s: %+v", name, r)
		}
		checkSame(t, name, snapshot(t, dir), wanted(before, c.ask != nil))
		info, err := os.Stat(filepath.Join(dir, "state.db"))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: state.db has mode %v, %v", name, info.Mode(), err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "re*")); left != nil {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
}

func TestRestoreKeepsWhatWasThere(t *testing.T) {
	home, id := makeHome(t, stateText(1, "old"), "laptop", "reviewer")
	archive := makeArchive(t, home, id, false)
	trust, _, err := identity.OpenTrustStore(home)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := trust.Resolve("laptop")
	if err := errors.Join(err, trust.Untrust(peer.ID), trust.Save(), os.WriteFile(filepath.Join(home, "state.db"), []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, home)
	_, err = restore(t, archive, Options{Dir: home})
	if _, ok := errors.AsType[*NotEmptyError](err); !ok {
		t.Fatalf("without Force: %v", err)
	}
	checkSame(t, "after a refusal", snapshot(t, home), before)
	r, err := restore(t, archive, Options{Dir: home, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if returning, blocked := r.ListReturning(); len(returning) != 1 || returning[0].Name != "laptop" || !blocked[peer.ID] {
		t.Errorf("returning %v, blocked %v", returning, blocked)
	}
	if r.Identity != IdentityKept {
		t.Errorf("the identity is %s", r.Identity)
	}
	checkSame(t, "what was there", snapshot(t, r.Aside), before)
	if got := snapshot(t, home); got["state.db"] != stateText(1, "old") || got["identity.key"] != before["identity.key"] {
		t.Errorf("restored: %v", got)
	}

	other, _ := makeHome(t, stateText(1, ""))
	if r, err := restore(t, archive, Options{Dir: other, Force: true}); err != nil || r.Identity != IdentityNone {
		t.Errorf("over another identity: %v, %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(other, "identity.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another identity stays with the state: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	home, id := makeHome(t, stateText(1, "x"), "laptop")
	archive := makeArchive(t, home, id, true)
	held, err := statedir.LockDir(home, "")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"a running daemon", Options{Dir: home, Force: true}, "stop it, or name another directory"},
		{"a directory that is open", Options{Dir: open}, "chmod 700"},
		{"no folder for it", Options{Dir: filepath.Join(open, "none", "home")}, "make the folder"},
		{"a wrong passphrase", Options{Dir: filepath.Join(t.TempDir(), "new"), Passphrase: askFor("wrong and long")}, "passphrase is wrong"},
	} {
		if _, err := restore(t, archive, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.name == "a wrong passphrase" {
			if _, err := os.Stat(c.o.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: the directory stays: %v", c.name, err)
			}
		}
	}
}

// rawArchive makes an archive of a manifest and of members as they come.
func rawArchive(t testing.TB, manifest any, members ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	put := func(h *tar.Header, text []byte) {
		h.Size = int64(len(text))
		if h.Typeflag != tar.TypeReg {
			h.Size, text = 0, nil
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	put(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg}, text)
	for _, h := range members {
		put(h, []byte(h.Uname))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostileArchives(t *testing.T) {
	home, id := makeHome(t, stateText(1, "x"), "laptop")
	good := makeArchive(t, home, id, false)
	sum := sha256.Sum256([]byte("x"))
	file := func(name string, bytes int64) File { return File{name, bytes, hex.EncodeToString(sum[:])} }
	reg := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Uname: "x", Mode: 0o777}
	}
	manifest := func(files ...File) *Manifest {
		return &Manifest{Format: Format, Identity: id, Files: append([]File{file("state.db", 1), file("trust.yaml", 1)}, files...)}
	}
	base := []*tar.Header{reg("state.db"), reg("trust.yaml")}
	with := func(more ...*tar.Header) []*tar.Header { return slices.Concat(base, more) }
	flip := slices.Clone(good)
	flip[bytes.LastIndex(good, []byte("SQLite format 3"))+100] ^= 1
	newer := *manifest()
	newer.State, newer.Program = statedir.StateVersion+1, "9.9.9"
	format := *manifest()
	format.Format = Format + 1
	nobody := *manifest()
	nobody.Identity = identity.ID{}
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"nothing":              {nil, "no backup"},
		"no archive":           {bytes.Repeat([]byte("text"), 1000), "no backup"},
		"cut off":              {good[:len(good)/2], "cut off"},
		"cut off at a member":  {good[:1024], "cut off"},
		"damaged":              {flip, "damaged"},
		"a path upwards":       {rawArchive(t, manifest(file("../x", 1)), with(reg("../x"))...), `"../x"`},
		"a path from the root": {rawArchive(t, manifest(file("/etc/x", 1)), with(reg("/etc/x"))...), `"/etc/x"`},
		"a profile upwards":    {rawArchive(t, manifest(file("profiles/../x.yaml", 1)), with(reg("profiles/../x.yaml"))...), "none of a backup"},
		"the lock":             {rawArchive(t, manifest(file("lock", 1)), with(reg("lock"))...), `"lock"`},
		"a key as it is":       {rawArchive(t, manifest(file("identity.key", 1)), with(reg("identity.key"))...), `"identity.key"`},
		"not listed":           {rawArchive(t, manifest(), with(reg("config.yaml"))...), "more in it"},
		"missing":              {rawArchive(t, manifest(file("config.yaml", 1)), base...), "ends before config.yaml"},
		"another order":        {rawArchive(t, manifest(), reg("trust.yaml"), reg("state.db")), "state.db"},
		"listed twice":         {rawArchive(t, manifest(file("state.db", 1)), with(reg("state.db"))...), "twice"},
		"too large":            {rawArchive(t, manifest(file("config.yaml", 1<<30)), base...), "may have"},
		"larger than the disk": {rawArchive(t, manifest(file("state.db-wal", 1<<40)), base...), "free some space"},
		"less than nothing":    {rawArchive(t, manifest(file("config.yaml", -1)), base...), "-1 bytes"},
		"another size":         {rawArchive(t, manifest(file("config.yaml", 2)), with(reg("config.yaml"))...), "of 2 bytes"},
		"a symbolic link":      {rawArchive(t, manifest(file("config.yaml", 0)), with(&tar.Header{Name: "config.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})...), "config.yaml"},
		"a hard link":          {rawArchive(t, manifest(file("config.yaml", 0)), with(&tar.Header{Name: "config.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"})...), "config.yaml"},
		"no database":          {rawArchive(t, manifest(), base...), "no SQLite database"},
		"no state":             {rawArchive(t, &Manifest{Format: Format, Identity: id}), "state.db is not in it"},
		"of nobody":            {rawArchive(t, &nobody, base...), "no identity"},
		"a newer format":       {rawArchive(t, &format, base...), "newer version"},
		"a newer state":        {rawArchive(t, &newer, base...), "9.9.9"},
		"a manifest of text":   {rawArchive(t, "text", base...), "manifest is damaged"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := restore(t, c.archive, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); left != nil {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
}

// TestNewerFiles: what a newer acpd wrote is refused, whatever the manifest says of it.
func TestNewerFiles(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"state.db": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state.db"), []byte(stateText(statedir.StateVersion+1, "")), 0o600)
		},
		"wake.yaml": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "wake.yaml"), []byte("# x\nversion: 2\n"), 0o600)
		},
		"trust.yaml": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "trust.yaml"), []byte("# x\nversion: 2\n"), 0o600)
		},
	} {
		home, id := makeHome(t, stateText(1, "x"))
		if err := change(home); err != nil {
			t.Fatal(err)
		}
		_, err := restore(t, makeArchive(t, home, id, false), Options{Dir: filepath.Join(t.TempDir(), "new")})
		newer, ok := errors.AsType[*NewerError](err)
		if !ok || newer.Name != name || newer.Has != newer.Knows+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedRestore ends a restore at each of its steps, as a crash would: then the
// directory is as it was, or no daemon starts in it; and another restore makes it whole and keeps
// all that was there.
func TestInterruptedRestore(t *testing.T) {
	crash := errors.New("crash")
	for last, finished := 0, false; !finished; last++ {
		home, id := makeHome(t, stateText(1, "old"), "laptop")
		archive := makeArchive(t, home, id, false)
		restored := wanted(snapshot(t, home), true)
		if err := os.WriteFile(filepath.Join(home, "state.db"), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, home)
		r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: home, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		r.onStep = func() error {
			if steps++; steps > last {
				return crash
			}
			return nil
		}
		err = r.Commit()
		r.lock.Close() // and nothing more
		what := fmt.Sprintf("after %d steps", last)
		switch incomplete := statedir.CheckComplete(home); {
		case err == nil:
			finished = true
			if incomplete != nil {
				t.Error(incomplete)
			}
		case !errors.Is(err, crash):
			t.Fatal(what, err)
		case incomplete == nil && last > 0:
			t.Errorf("%s: a daemon starts", what)
		case incomplete == nil:
			checkSame(t, what, snapshot(t, home), before)
		}
		if finished {
			checkSame(t, what, snapshot(t, home), restored)
			if last < 10 {
				t.Errorf("there are %d steps only", last)
			}
			return
		}
		if last > 0 {
			if _, err := restore(t, archive, Options{Dir: home}); err == nil || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%s, without Force: %v", what, err)
			}
		}
		again, err := restore(t, archive, Options{Dir: home, Force: true})
		if err != nil {
			t.Fatal(what, err)
		}
		if again.Identity != IdentityKept || again.Old.Identity != id || len(again.Old.Peers) != 1 {
			t.Errorf("%s: the identity is %s; of before it finds %+v", what, again.Identity, again.Old)
		}
		checkSame(t, what+" and another restore", snapshot(t, home), restored)
		checkSame(t, what+", what was there", snapshot(t, again.Aside), before)
		if err := statedir.CheckComplete(home); err != nil {
			t.Error(what, err)
		}
	}
}

func TestInterruptedRestoreIntoNothing(t *testing.T) {
	home, id := makeHome(t, stateText(1, "old"), "laptop")
	archive := makeArchive(t, home, id, true)
	dir := filepath.Join(t.TempDir(), "new")
	r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: dir, Passphrase: askFor(passphrase)})
	if err != nil {
		t.Fatal(err)
	}
	left := 4
	r.onStep = func() error {
		if left--; left < 0 {
			return errors.New("crash")
		}
		return nil
	}
	if err := r.Commit(); err == nil {
		t.Fatal("it is not interrupted")
	}
	r.lock.Close()
	if err := statedir.CheckComplete(dir); err == nil {
		t.Error("a daemon starts")
	}
	again, err := restore(t, archive, Options{Dir: dir, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.Identity != IdentityNone || again.Aside != "" || len(again.Old.Peers) != 0 {
		t.Errorf("half of what was restored counts as what was there before: %+v", again)
	}
	checkSame(t, "restored again", snapshot(t, dir), wanted(snapshot(t, home), false))
}

// TestWriteFindsChanges: a file that changes while it is read spoils no archive unseen.
func TestWriteFindsChanges(t *testing.T) {
	home, id := makeHome(t, stateText(1, strings.Repeat("x", 1<<20)), "laptop")
	members, err := ListMembers(home, filepath.Join(home, "state.db"), true)
	if err != nil {
		t.Fatal(err)
	}
	change := writerFunc(func(p []byte) (int, error) {
		return len(p), os.WriteFile(filepath.Join(home, "state.db"), []byte(stateText(1, strings.Repeat("y", 1<<20))), 0o600)
	})
	if err := Write(t.Context(), change, &Manifest{Identity: id}, members); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("it changes: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ended, io.Discard, &Manifest{Identity: id}, members); !errors.Is(err, context.Canceled) {
		t.Errorf("its context ends: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPassphrases(t *testing.T) {
	if _, err := EncryptIdentity([]byte("x"), "short"); err == nil {
		t.Error("a short passphrase is taken")
	}
	dir := t.TempDir()
	for text, want := range map[string]string{"pass phrase\n": "pass phrase", "pass\r\n": "pass", "pass": "pass", "a\nb\n": ""} {
		path := filepath.Join(dir, "pw")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadPassphraseFile(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPassphraseFile(path); err == nil {
			t.Error("a file that is open to others is taken")
		}
		os.Remove(path)
	}
	// 2^22 would take 4 GiB.
	costly := "age-encryption.org/v1\n-> scrypt rF0/NwblUHHTpgQgRpe5CQ 22\ngUjEymFKMVXQEKdMMHL24oYexjE3TIC0O0zGSqJ2aUY\n--- 4/FeaOGHCk3hZZQJYyVYqiKSG7GXpBXhiXoJi7Aaf4o\n"
	if _, err := decryptIdentity([]byte(costly), passphrase); err == nil || errors.Is(err, ErrWrongPassphrase) {
		t.Errorf("a costly passphrase: %v", err)
	}
}

// TestAgeDecrypts has the program age decrypt an identity with the passphrase typed at its terminal.
func TestAgeDecrypts(t *testing.T) {
	for _, program := range []string{"age", "script"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	secret, err := encryptIdentity([]byte("the key\n"), passphrase, 10)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, IdentityName), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "script", "-qec", "age -d -o identity.key "+IdentityName, filepath.Join(dir, "log"))
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(passphrase+"\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "identity.key")); err != nil || string(text) != "the key\n" {
		t.Errorf("age made %q of it, %v", text, err)
	}
}

// FuzzPrepare: no archive writes beside its folder, makes a directory that a daemon
// would take, or hangs.
func FuzzPrepare(f *testing.F) {
	home, id := makeHome(f, stateText(1, "x"), "laptop")
	good := makeArchive(f, home, id, false)
	f.Add(good)
	f.Add(good[:len(good)-1024])
	f.Add(makeArchive(f, home, id, true))
	f.Fuzz(func(t *testing.T, archive []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "new")
		r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: dir})
		if err == nil {
			r.Close()
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
	})
}
