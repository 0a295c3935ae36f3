package backup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassphrases(t *testing.T) {
	if _, err := EncryptIdentity([]byte("x"), "short"); err == nil {
		t.Error("a short passphrase is taken")
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
