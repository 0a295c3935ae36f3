package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/internal/durable"
)

// rfcKey is the example of RFC 8410, section 10.3.
const (
	rfcKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`
	rfcSeed = "d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842"
)

func newTestKey(t testing.TB) *Key {
	t.Helper()
	key, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustParseKey(t testing.TB, data string) *Key {
	t.Helper()
	key, err := parseKey([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeyKnownAnswers(t *testing.T) {
	key := mustParseKey(t, rfcKey)
	if key.ID() != mustID(t, rfcID) {
		t.Errorf("id %s", key.ID())
	}
	// Computed with another implementation of RFC 5869.
	for label, want := range map[string]string{
		pqSeedLabel:       "b4295d643046f25c7d220ed8f8ea5263461bde6a479c4ef0241bae8444e4ae2d",
		"stateless reset": "19d6d930d76762f908d4f40b635e7b24b1553c234b016da55a4020be3fbe2a92",
	} {
		if got := key.DeriveSecret(label); hex.EncodeToString(got[:]) != want {
			t.Errorf("Derive(%q) = %x, want %s", label, got, want)
		}
	}
}

func TestKeyPrintsRedacted(t *testing.T) {
	key := mustParseKey(t, rfcKey)
	seed, _ := hex.DecodeString(rfcSeed)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%c", "%U"} {
		fmt.Fprintf(&out, verb+"\n", key)
		fmt.Fprintf(&out, verb+"\n", *key)
		fmt.Fprintf(&out, verb+"\n", struct{ k Key }{*key})
		fmt.Fprintf(&out, verb+"\n", struct{ k *Key }{key})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("start", "key", key, "value", *key)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "key", key, "value", *key)
	text := strings.ToLower(out.String())
	for _, secret := range []string{
		rfcSeed[:8], string(seed[:4]), strings.Trim(fmt.Sprint(seed[:4]), "[]"), fmt.Sprintf("%#v", seed[:3])[7:20],
		strings.Trim(fmt.Sprintf("%o", seed[:4]), "[]"),
	} {
		if strings.Contains(text, strings.ToLower(secret)) {
			t.Errorf("the output shows %q", secret)
		}
	}
	if n := strings.Count(text, "key of 19bf440969"); n < 26 {
		t.Errorf("redacted form %d times in:\n%s", n, text)
	}
}

func TestCreateAndLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	if _, err := LoadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("load of nothing: %v", err)
	}
	key, created, err := LoadOrCreateKey(path)
	if err != nil || !created {
		t.Fatalf("create: %v, %v", created, err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if names := list(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
	before, _ := os.ReadFile(path)
	again, created, err := LoadOrCreateKey(path)
	if err != nil || created || again.ID() != key.ID() || again.DeriveSecret("x") != key.DeriveSecret("x") {
		t.Errorf("load: %v, %v, %v", again, created, err)
	}
	if _, err := CreateKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a key: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) || len(list(t, filepath.Dir(path))) != 1 {
		t.Error("create over a key changed something")
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); err != nil {
		t.Errorf("read-only key: %v", err)
	}
	if _, err := CreateKey(filepath.Join(t.TempDir(), "missing", "identity.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create in no directory: %v", err)
	}
}

// TestKeysThatCrashesLeft: they are secrets that nobody looks after.
func TestKeysThatCrashesLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	others := []string{".old", ".backup-of-the-year-2025-xx"}
	for _, suffix := range others {
		if err := os.WriteFile(path+suffix, []byte(rfcKey), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"create", "load"} {
		if err := os.WriteFile(path+"."+rand.Text(), []byte(rfcKey), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := LoadOrCreateKey(path); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if names := list(t, filepath.Dir(path)); len(names) != 1+len(others) {
			t.Errorf("%s: there is %q", when, names)
		}
	}
}

func TestCreateKeyOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	ids := make([]ID, 8)
	var created [8]bool
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			key, made, err := LoadOrCreateKey(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], created[i] = key.ID(), made
		})
	}
	wg.Wait()
	winners := 0
	for i := range ids {
		if created[i] {
			winners++
		}
		if ids[i] != ids[0] || ids[i].IsZero() {
			t.Errorf("ids %s and %s", ids[i].Label(), ids[0].Label())
		}
	}
	if winners != 1 {
		t.Errorf("%d created the key", winners)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	write := func(data string, mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := errors.Join(os.WriteFile(path, []byte(data), 0o600), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(p256)
	cases := map[string]struct {
		make func(*testing.T, string)
		want durable.Problem
	}{
		"empty":         {write("", 0o600), durable.ProblemCorrupt},
		"cut":           {write(rfcKey[:70], 0o600), durable.ProblemCorrupt},
		"one bit":       {write(strings.Replace(rfcKey, "MC4C", "MC5C", 1), 0o600), durable.ProblemCorrupt},
		"before":        {write("key:\n"+rfcKey, 0o600), durable.ProblemCorrupt},
		"two keys":      {write(rfcKey+rfcKey, 0o600), durable.ProblemCorrupt},
		"headers":       {write(strings.Replace(rfcKey, "\nMC4C", "\na: b\n\nMC4C", 1), 0o600), durable.ProblemCorrupt},
		"other label":   {write(strings.ReplaceAll(rfcKey, "PRIVATE", "PUBLIC"), 0o600), durable.ProblemCorrupt},
		"too long":      {write(rfcKey+strings.Repeat("\n", maxKeyFile), 0o600), durable.ProblemCorrupt},
		"other kind":    {write(string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})), 0o600), durable.ProblemCorrupt},
		"group":         {write(rfcKey, 0o640), durable.ProblemTooOpen},
		"world":         {write(rfcKey, 0o604), durable.ProblemTooOpen},
		"world writes":  {write(rfcKey, 0o602), durable.ProblemTooOpen},
		"executable":    {write(rfcKey, 0o700), durable.ProblemTooOpen},
		"directory":     {func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, durable.ProblemNotRegular},
		"pipe":          {func(t *testing.T, path string) { syscall.Mkfifo(path, 0o600) }, durable.ProblemNotRegular},
		"link":          {func(t *testing.T, path string) { write(rfcKey, 0o600)(t, path+".real"); os.Symlink(path+".real", path) }, durable.ProblemSymlink},
		"dangling link": {func(t *testing.T, path string) { os.Symlink(path+".none", path) }, durable.ProblemSymlink},
		"socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, durable.ProblemNotRegular},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "key") // short: a socket's path is limited
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			path := filepath.Join(dir, "identity.key")
			c.make(t, path)
			key, created, err := LoadOrCreateKey(path)
			problem, ok := errors.AsType[*durable.FileError](err)
			if key != nil || created || !ok || problem.Problem != c.want || problem.Path != path || problem.Remedy == "" {
				t.Fatalf("got %v, %v, %v", key, created, err)
			}
			if strings.Contains(err.Error(), "MC4C") {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}

// A file of another user needs the right to give one away, which only root has;
// others meet one that is there.
func TestLoadKeyOfAnotherUser(t *testing.T) {
	path := "/etc/passwd"
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "identity.key")
		if err := errors.Join(os.WriteFile(path, []byte(rfcKey), 0o600), os.Chown(path, 12345, -1)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := LoadKey(path)
	if problem, ok := errors.AsType[*durable.FileError](err); !ok || problem.Problem != durable.ProblemForeign {
		t.Errorf("got %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte(rfcKey))
	f.Add([]byte(rfcKey + "\n\n"))
	f.Add([]byte(rfcKey[:60]))
	f.Add([]byte(strings.Replace(rfcKey, "\nMC4C", "\na: b\n\nMC4C", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := parseKey(data)
		if err != nil {
			return
		}
		encoded, err := key.encodePEM()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseKey(encoded)
		if err != nil || again.ID() != key.ID() || !bytes.Equal(again.seed(), key.seed()) {
			t.Errorf("%q comes back as %v, %v", data, again, err)
		}
	})
}

func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
