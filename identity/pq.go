package identity

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"

	"github.com/acpd/acpd/internal/ownwords"
)

// ExporterLabel is the label under which both ends of a connection export the 32
// bytes (RFC 8446, section 7.5, no context) that [Key.SignHello] signs.
const ExporterLabel = "EXPORTER-acp-hello-v1"

const (
	pqSeedLabel  = "acp ml-dsa-65 v1"
	helloContext = "acp-hello-v1"
	exporterSize = 32
)

// PQHash is the SHA-256 of an ML-DSA-65 public key, to which a peer's post-quantum half is
// pinned. The zero value means no pin. Its text is 64 lower-case hex digits.
type PQHash [sha256.Size]byte

// HashPQ returns the pin for a public key as [Key.PublicPQ] gives it.
func HashPQ(publicPQ []byte) PQHash { return sha256.Sum256(publicPQ) }

// String returns 64 lower-case hex digits.
func (h PQHash) String() string { return fmt.Sprintf("%x", h[:]) }

// IsZero reports whether h is zero, which means no pin.
func (h PQHash) IsZero() bool { return h == PQHash{} }

// MarshalText returns 64 lower-case hex digits.
func (h PQHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText takes exactly 64 lower-case hex digits. On an error h is
// unchanged.
func (h *PQHash) UnmarshalText(text []byte) error {
	var parsed PQHash
	if err := parseHex(parsed[:], string(text)); err != nil {
		return ownwords.Errorf("post-quantum key hash: %w", err)
	}
	*h = parsed
	return nil
}

// PublicPQ returns the public key of the identity's post-quantum half: ML-DSA-65
// (FIPS 204), 1952 bytes, from a seed that is derived from the identity's own.
func (k *Key) PublicPQ() []byte { return bytes.Clone(k.publicPQ()) }

func (k *Key) derivePublicPQ() []byte {
	public, _ := k.derivePQKeys()
	return public.Bytes()
}

func (k *Key) derivePQKeys() (*mldsa65.PublicKey, *mldsa65.PrivateKey) {
	seed := k.DeriveSecret(pqSeedLabel)
	return mldsa65.NewKeyFromSeed(&seed)
}

// SignHello signs, with the post-quantum half, that this identity speaks to
// other on the connection with that exporter value: 3309 bytes over exporter ‖
// own id ‖ other, context "acp-hello-v1". It expands the private key each time,
// about 0.2 ms, rather than keep its tens of kilobytes.
func (k *Key) SignHello(exporter []byte, other ID) ([]byte, error) {
	if len(exporter) != exporterSize {
		return nil, ownwords.Errorf("sign hello: exporter of %d bytes instead of %d", len(exporter), exporterSize)
	}
	_, private := k.derivePQKeys()
	sig := make([]byte, mldsa65.SignatureSize)
	if err := mldsa65.SignTo(private, composeHelloText(exporter, k.id, other), []byte(helloContext), true, sig); err != nil {
		return nil, ownwords.Errorf("sign hello: %w", err)
	}
	return sig, nil
}

// VerifyHello checks the signature that signer made with [Key.SignHello] for self. It
// takes the public key as the peer sent it: the caller compares it with the pin, by
// [HashPQ].
func VerifyHello(publicPQ, sig, exporter []byte, signer, self ID) error {
	if len(exporter) != exporterSize {
		return ownwords.Errorf("verify hello: exporter of %d bytes instead of %d", len(exporter), exporterSize)
	}
	var public mldsa65.PublicKey
	if err := public.UnmarshalBinary(publicPQ); err != nil {
		return ownwords.Errorf("verify hello: post-quantum key: %w", err)
	}
	if !mldsa65.Verify(&public, composeHelloText(exporter, signer, self), []byte(helloContext), sig) {
		return ownwords.New("verify hello: the post-quantum signature does not fit this key and connection")
	}
	return nil
}

func composeHelloText(exporter []byte, signer, other ID) []byte {
	text := make([]byte, 0, exporterSize+2*len(ID{}))
	text = append(text, exporter...)
	text = append(text, signer[:]...)
	return append(text, other[:]...)
}
