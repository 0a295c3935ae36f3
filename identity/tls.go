package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// The application protocols (RFC 7301). The name is the protocol's version.
const (
	ALPN     = "acp/1"
	ALPNJoin = "acp-join/1"
)

// WrongIDError says that another key answered than the one dialled.
type WrongIDError struct {
	Want, Got ID
}

func (e *WrongIDError) Error() string {
	return fmt.Sprintf("dialled %s, but %s answered: the peer has a new key, or another machine answers at its address; "+
		"compare fingerprints with its owner before trusting the new id", e.Want.Label(), e.Got)
}

// OwnWords returns the text.
func (e *WrongIDError) OwnWords() string { return e.Error() }

// ServerTLS returns a listener's configuration: TLS 1.3, no session tickets, a
// certificate from every client. alpn is called now and in each handshake, for the
// protocols on offer then, and must be safe for concurrent use. requireHybrid
// refuses key exchange without X25519MLKEM768; else it is merely preferred. The
// handshake checks the form of the client's certificate and nothing more: [PeerID]
// returns the id of an accepted connection.
func (k *Key) ServerTLS(requireHybrid bool, alpn func() []string) (*tls.Config, error) {
	config, err := k.newTLSConfig(requireHybrid)
	if err != nil {
		return nil, err
	}
	certificate, err := k.certificate()
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{*certificate}
	config.ClientAuth = tls.RequireAnyClientCert
	config.NextProtos = alpn()
	listener := config.Clone()
	listener.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		protocols := alpn()
		if slices.Equal(protocols, config.NextProtos) {
			return nil, nil // the listener's serves, and the connection keeps none of its own
		}
		offered := config.Clone()
		offered.NextProtos = protocols
		return offered, nil
	}
	return listener, nil
}

// ClientTLS returns a dialler's configuration. It is as [Key.ServerTLS], but the handshake
// also fails, with a [*WrongIDError], unless the listener proves that it is peer. At least
// one protocol must be named.
func (k *Key) ClientTLS(peer ID, requireHybrid bool, alpn ...string) (*tls.Config, error) {
	config, err := k.newTLSConfig(requireHybrid)
	if err != nil {
		return nil, err
	}
	config.NextProtos = alpn
	// Names and authorities mean nothing here; VerifyConnection checks the key.
	config.InsecureSkipVerify = true
	// Unlike Certificates, this is sent whatever authorities the listener lists.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return k.certificate()
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := checkConnectionState(state); err != nil {
			return err
		}
		if got, _ := PeerID(state); got != peer {
			return &WrongIDError{Want: peer, Got: got}
		}
		return nil
	}
	return config, nil
}

func (k *Key) newTLSConfig(requireHybrid bool) (*tls.Config, error) {
	// Made now, so that a failure is a start-up error and not one per handshake.
	if _, err := k.certificate(); err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		VerifyConnection:       checkConnectionState,
	}
	if requireHybrid {
		config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
	return config, nil
}

// checkConnectionState checks the form of the other side's certificate, and that both sides speak the
// protocol: without one in common TLS would go on with none. It is used as
// VerifyConnection, which unlike VerifyPeerCertificate runs in every handshake.
func checkConnectionState(state tls.ConnectionState) error {
	if state.NegotiatedProtocol == "" {
		return ownwords.New("no application protocol in common")
	}
	_, err := PeerID(state)
	return err
}

// PeerID returns the id that the other end of a completed handshake has proved. The error
// says that it did not show exactly one certificate with an Ed25519 key; the rest of the
// certificate does not matter.
func PeerID(state tls.ConnectionState) (ID, error) {
	if n := len(state.PeerCertificates); n != 1 {
		return ID{}, ownwords.Errorf("peer sent %d certificates instead of one", n)
	}
	public, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || len(public) != ed25519.PublicKeySize {
		return ID{}, ownwords.New("peer's certificate has no Ed25519 key")
	}
	id := ID(public)
	if id.IsZero() {
		return ID{}, ownwords.New("peer's certificate has the zero key")
	}
	return id, nil
}

// makeCertificate wraps the public key as TLS wants it (RFC 8410). It is made
// anew at each start, so it may as well never expire (RFC 5280, 4.1.2.5).
func (k *Key) makeCertificate() (*tls.Certificate, error) {
	private := k.privateKey()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "acp"},
		NotBefore: time.Unix(0, 0),
		NotAfter:  time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, ownwords.Errorf("make certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, ownwords.Errorf("make certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, nil
}
