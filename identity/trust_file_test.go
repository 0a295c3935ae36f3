package identity

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/internal/sealed"
)

// stages returns the files' content after each of four changes: desk trusted, 1
// block, laptop trusted, another block. Both files are the same after each.
func stages(t *testing.T) (contents [][]byte) {
	t.Helper()
	dir := t.TempDir()
	store := openTrust(t, dir)
	for _, change := range []func(){
		func() { trust(t, store, Peer{ID: testID(1), Name: "desk", Addrs: []string{"[2001:db8::1]:7117"}}) },
		func() { untrust(t, store, testID(8)) },
		func() { trust(t, store, Peer{ID: testID(2), Name: "laptop"}) },
		func() { untrust(t, store, testID(9)) },
	} {
		change()
		main := read(t, dir, trustName)
		if names := list(t, dir); !bytes.Equal(main, read(t, dir, trustCopyName)) || len(names) != 2 {
			t.Fatalf("files differ or more than two: %q", names)
		}
		contents = append(contents, main)
	}
	return contents
}

func TestOpenTrust(t *testing.T) {
	s := stages(t)
	one, two, three, four := s[0], s[1], s[2], s[3]
	damage := func(data []byte) []byte { return bytes.Replace(data, []byte("name: desk"), []byte("name: dusk"), 1) }
	reseal := func(data []byte, old, new string) []byte {
		text := data[:bytes.LastIndex(data, []byte("# sha256 "))]
		return sealed.AppendChecksum(bytes.Replace(text, []byte(old), []byte(new), 1))
	}
	const (
		silent = ""
		copied = "its copy was used"
		mended = "was written again"
		lost   = "nobody is trusted"
	)
	for name, c := range map[string]struct {
		main, second []byte // nil: missing
		warning      string
		peers        string
		blocked      int
		kept         int
	}{
		"neither":                        {nil, nil, silent, "", 0, 0},
		"both":                           {four, four, silent, "desk laptop", 2, 0},
		"crash between, trust":           {two, three, silent, "desk laptop", 1, 0},
		"crash between, block":           {three, four, silent, "desk laptop", 2, 0},
		"no copy":                        {four, nil, silent, "desk laptop", 2, 0},
		"old copy":                       {four, one, silent, "desk laptop", 2, 0},
		"no main":                        {nil, four, copied, "desk laptop", 2, 0},
		"damaged main":                   {damage(four), four, copied, "desk laptop", 2, 1},
		"damaged main, copy newer":       {damage(three), four, copied, "desk laptop", 2, 1},
		"damaged main, copy lacks peer":  {damage(three), two, copied, "desk", 1, 1},
		"damaged main, copy lacks block": {damage(four), three, lost, "", 1, 2},
		"cut main":                       {four[:len(four)-10], four, copied, "desk laptop", 2, 1},
		"cut main, copy lacks block":     {four[:len(four)/2], three, lost, "", 1, 2},
		"main cut after the peers":       {four[:bytes.Index(four, []byte("blocked:"))], three, lost, "", 1, 2},
		"empty main":                     {[]byte{}, four, copied, "desk laptop", 2, 1},
		"zeroed main":                    {make([]byte, len(four)), four, copied, "desk laptop", 2, 1},
		"appended main":                  {append(bytes.Clone(four), '\n'), four, copied, "desk laptop", 2, 1},
		"huge main":                      {bytes.Repeat([]byte("#\n"), maxTrustFileBytes), four, copied, "desk laptop", 2, 1},
		"damaged copy":                   {four, damage(four), mended, "desk laptop", 2, 1},
		"damaged copy, main lacks block": {three, damage(four), lost, "", 1, 2},
		"main newer but lacks block":     {reseal(four, "block_sequence: 4", "block_sequence: 1"), three, lost, "", 2, 2},
		"both damaged":                   {damage(four), damage(four), lost, "", 0, 2},
		"both empty":                     {[]byte{}, []byte{}, lost, "", 0, 2},
		"damaged main, no copy":          {damage(four), nil, lost, "", 0, 1},
		"no main, damaged copy":          {nil, damage(four), lost, "", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range map[string][]byte{trustName: c.main, trustCopyName: c.second} {
				if data != nil {
					if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			store, warning, err := OpenTrustStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			var kept []string
			if w, ok := errors.AsType[*sealed.Warning](warning); ok {
				kept = w.Kept
			}
			if (warning == nil) != (c.warning == silent) || warning != nil && !strings.Contains(warning.Error(), c.warning) {
				t.Errorf("warning %v", warning)
			}
			var peers []string
			for _, p := range store.Peers() {
				peers = append(peers, p.Name)
			}
			if got := strings.Join(peers, " "); got != c.peers || len(store.Blocks()) != c.blocked {
				t.Errorf("peers %q, %d blocked", got, len(store.Blocks()))
			}

			// What was damaged or is lost is still there, byte for byte.
			if len(kept) != c.kept {
				t.Errorf("kept %q", kept)
			}
			for _, name := range kept {
				if data := read(t, dir, name); !bytes.Equal(data, c.main) && !bytes.Equal(data, c.second) {
					t.Errorf("%s differs from what was there", name)
				}
			}

			// The state is in both files: a second start has nothing to say.
			if !same(store, openTrust(t, dir)) {
				t.Error("opened again, it differs")
			}
			if c.main != nil || c.second != nil {
				if !bytes.Equal(read(t, dir, trustName), read(t, dir, trustCopyName)) {
					t.Error("the files differ")
				}
			}
			// And it is newer than all that was there: an old file cannot undo it.
			if len(c.main)+len(c.second) == 0 {
				return // nothing showed how new it was
			}
			trust(t, store, Peer{ID: testID(3), Name: "planner"})
			untrust(t, store, testID(1))
			if err := os.WriteFile(filepath.Join(dir, trustName), three, 0o600); err != nil {
				t.Fatal(err)
			}
			if again := openTrust(t, dir); !again.IsBlocked(testID(1)) || !same(store, again) {
				t.Error("an old file undid a block")
			}
		})
	}
}

func TestOpenTrustRefuses(t *testing.T) {
	good := stages(t)[3]
	for name, prepare := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link": func(path string) error {
			return errors.Join(os.WriteFile(path+".real", good, 0o600), os.Symlink(path+".real", path))
		},
		"too open": func(path string) error { return errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o666)) },
		"newer": func(path string) error {
			return os.WriteFile(path, sealed.AppendChecksum([]byte("version: 2\nfuture: true\n")), 0o600)
		},
	} {
		for _, file := range []string{trustName, trustCopyName} {
			dir := t.TempDir()
			if err := prepare(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			before := list(t, dir)
			if store, warning, err := OpenTrustStore(dir); store != nil || warning != nil || err == nil {
				t.Errorf("%s as %s: %v, %v, %v", name, file, store, warning, err)
			}
			if after := list(t, dir); !slices.Equal(before, after) {
				t.Errorf("%s as %s: changed to %q", name, file, after)
			}
		}
	}
}

// A temporary file that cannot be written stands for a full disk and for a
// directory that is read-only: root, under which tests run too, minds no mode.
// holds: security.md#against-strangers
func TestTrustWriteFails(t *testing.T) {
	obstruct := map[string]func(t *testing.T, dir string){
		"copy": func(t *testing.T, dir string) { mkdirs(t, filepath.Join(dir, trustCopyName+".tmp"), "x") },
		"main": func(t *testing.T, dir string) { mkdirs(t, filepath.Join(dir, trustName+".tmp"), "x") },
		"second rename": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, trustName)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			mkdirs(t, filepath.Join(dir, trustName), "x")
		},
		"no directory": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, obstruct := range obstruct {
		for _, empty := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " empty=", empty), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "home")
				mkdirs(t, dir)
				store := openTrust(t, dir)
				var before []byte
				if !empty {
					trust(t, store, Peer{ID: testID(1), Name: "desk"})
					untrust(t, store, testID(9))
					before = read(t, dir, trustCopyName)
					if err := store.PinPQ(testID(1), PQHash{1}); err != nil {
						t.Fatal(err)
					}
				}
				peers, blocked := store.Peers(), store.Blocks()
				obstruct(t, dir)
				if err := second(store.Trust(Peer{ID: testID(2), Name: "laptop"})); err == nil || !strings.Contains(err.Error(), "not in effect") {
					t.Errorf("trusted: %v", err)
				}
				if err := store.Save(); (err == nil) != empty {
					t.Errorf("a pin is saved: %v", err)
				}
				if !slices.EqualFunc(peers, store.Peers(), Peer.isEqual) || !slices.EqualFunc(blocked, store.Blocks(), sameBlock) {
					t.Error("memory has changed")
				}
				// What ends trust takes effect all the same, and is said to be unsaved.
				if err := store.Untrust(testID(1)); err != nil {
					t.Errorf("untrusted: %v", err)
				}
				if _, trusted := store.FindPeer(testID(1)); trusted || !store.IsBlocked(testID(1)) {
					t.Error("untrusted, and trusted still")
				}
				if err := second(store.TrustJoined(Peer{ID: testID(1)}, "desk")); err == nil {
					t.Error("a join lifts a block that is in memory alone")
				}
				for range 2 {
					if store.Save() == nil {
						t.Error("a block is saved where nothing can be")
					}
					select {
					case <-store.UnsavedSignal():
					default:
						t.Error("nobody is told that a block is not saved")
					}
				}
				for _, file := range []string{trustName, trustCopyName} {
					after, err := os.ReadFile(filepath.Join(dir, file))
					if name != "no directory" && (file != trustName || name != "second rename") && !bytes.Equal(before, after) {
						t.Errorf("%s has changed: %v\n%s", file, err, after)
					}
				}
			})
		}
	}
}

// TestUntrustWaitsForNoDisk: while another change is being written, an untrust takes
// effect at once; and what it took away is not given back by that change.
// holds: security.md#against-trusted-peers
func TestUntrustWaitsForNoDisk(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	trust(t, store, Peer{ID: testID(1), Name: "desk"})
	store.filesMu.Lock() // somebody writes
	if err := store.Untrust(testID(1)); err != nil || !store.IsBlocked(testID(1)) {
		t.Errorf("%v, and blocked %v", err, store.IsBlocked(testID(1)))
	}
	store.filesMu.Unlock()

	trust(t, store, Peer{ID: testID(1)})
	apply := func(during func()) error {
		return second(applyChange(store, func(s *trustSnapshot) (trustRecord, Peer, error) {
			if _, blocked := s.blocked[testID(1)]; blocked {
				return trustRecord{}, Peer{}, &BlockedError{ID: testID(1)}
			}
			next, p, err := s.newRecordWithPeer(Peer{ID: testID(1), Addrs: []string{"desk.example:7117"}})
			during()
			return next, p, err
		}))
	}
	// The change was decided on before the untrust, and is written after it.
	err := apply(sync.OnceFunc(func() { store.Untrust(testID(1)) }))
	if _, ok := errors.AsType[*BlockedError](err); !ok || !store.IsBlocked(testID(1)) {
		t.Errorf("%v, and blocked %v", err, store.IsBlocked(testID(1)))
	}
	if err := store.Save(); err != nil || !same(store, openTrust(t, dir)) || !openTrust(t, dir).IsBlocked(testID(1)) {
		t.Errorf("the files differ: %v", err)
	}
}

func mkdirs(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(elem...), 0o700); err != nil {
		t.Fatal(err)
	}
}

const crashDir = "IDENTITY_TEST_CRASH_DIR"

// TestMain is, for TestTrustSurvivesKill, also the program that is killed: it
// trusts and untrusts, and says what it was promised.
func TestMain(m *testing.M) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	store, warning, err := OpenTrustStore(dir)
	for n := len(store.Blocks()); err == nil && warning == nil; n++ {
		if _, err = store.Trust(Peer{ID: testID(n), Name: "desk"}); err == nil {
			fmt.Println("trusted", n)
			err = errors.Join(store.Untrust(testID(n)), store.Save())
			fmt.Println("blocked", n)
		}
	}
	fmt.Println("failed", warning, err)
	os.Exit(1)
}

func TestTrustSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed at another moment each time, but never before its first words.
		var once bool
		blocked, lines := -1, bufio.NewScanner(out)
		for lines.Scan() {
			if !once {
				once = true
				time.AfterFunc(time.Duration(1+7*round%30)*time.Millisecond, func() { cmd.Process.Kill() })
			}
			word, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(number)
			if word == "failed" || err != nil {
				t.Errorf("the program says %q", lines.Text())
			}
			if word == "blocked" {
				blocked = n
			}
		}
		cmd.Wait()
		store := openTrust(t, dir)
		for n := 0; n <= blocked; n++ {
			if !store.IsBlocked(testID(n)) {
				t.Fatalf("round %d: the promised block %d is gone", round, n)
			}
		}
	}
}

// TestOpenTrustRemovesWhatACrashLeft, which nothing else would before the next change.
func TestOpenTrustRemovesWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{trustName, trustCopyName} {
		if err := os.WriteFile(filepath.Join(dir, name+".tmp"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, warning, err := OpenTrustStore(dir); warning != nil || err != nil {
		t.Fatal(warning, err)
	}
	if names := list(t, dir); len(names) != 0 {
		t.Errorf("there is %q", names)
	}
}
