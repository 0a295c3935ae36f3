package identity

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/acpd/acpd/internal/ownwords"
)

// Key is both halves of an identity. It is safe for concurrent use, prints
// without its secret under every verb of fmt, and holds a few kilobytes.
type Key struct {
	id ID
	// A closure: fmt prints the fields of a struct that contains a Key without
	// asking its methods, and for some verbs follows a pointer.
	seed        func() []byte
	publicPQ    func() []byte
	certificate func() (*tls.Certificate, error)
}

// GenerateKey makes a new identity in memory.
func GenerateKey() (*Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, ownwords.Errorf("generate key: %w", err)
	}
	return newKey(private), nil
}

func newKey(private ed25519.PrivateKey) *Key {
	seed := private.Seed()
	k := &Key{
		id:   ID(private.Public().(ed25519.PublicKey)),
		seed: func() []byte { return seed },
	}
	k.publicPQ = sync.OnceValue(k.derivePublicPQ)
	k.certificate = sync.OnceValues(k.makeCertificate)
	return k
}

// ID returns the public half.
func (k *Key) ID() ID { return k.id }

func (k *Key) privateKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.seed()) }

// DeriveSecret returns a secret of this identity for one purpose: HKDF-SHA256 (RFC
// 5869) of the seed, without salt, the label as info. The same label gives the
// same secret after a restart; different labels give unrelated ones. A label
// belongs to one purpose; "acp ml-dsa-65 v1" is taken by the post-quantum half.
func (k *Key) DeriveSecret(label string) [32]byte {
	secret, err := hkdf.Key(sha256.New, k.seed(), nil, label, 32)
	if err != nil {
		// Only a length over 255 hashes or a FIPS policy against the key size fails.
		panic("identity: derive: " + err.Error())
	}
	return [32]byte(secret)
}

// String names the key without its secret.
func (k Key) String() string { return "key of " + k.id.Label() + " (secret not shown)" }

// Format prints String for every verb: %d and %x would otherwise show fields.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue keeps the secret out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
