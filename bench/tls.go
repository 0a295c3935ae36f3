package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"time"
)

// An end is one side of a TLS connection. Its key and certificate follow from its name, so that the sides
// can pin each other without an exchange: good for a benchmark on loopback, and for nothing else.
type end string

const (
	askerEnd    end = "asker"
	answererEnd end = "answerer"
	brokerEnd   end = "broker"
)

func (e end) deriveKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bench " + e))
	return ed25519.NewKeyFromSeed(seed[:])
}

// makeCertificate makes the same certificate in each process.
func (e end) makeCertificate() ([]byte, error) {
	key := e.deriveKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

// newTLSConfig is TLS as the daemon has it: 1.3, self-signed Ed25519 certificates on both sides, each
// pinned, and the default key exchange (hybrid).
func (e end) newTLSConfig(other end) (*tls.Config, error) {
	der, err := e.makeCertificate()
	if err != nil {
		return nil, err
	}
	want := other.deriveKey().Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: e.deriveKey()}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection pins the key instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if !want.Equal(state.PeerCertificates[0].PublicKey) {
				return errors.New("another key answered")
			}
			return nil
		},
	}, nil
}

// writeKey writes the end's key as PEM.
func (e end) writeKey(path string) error {
	der, err := x509.MarshalPKCS8PrivateKey(e.deriveKey())
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// writeCertificates writes certificates as PEM.
func writeCertificates(path string, ends ...end) error {
	var text []byte
	for _, e := range ends {
		der, err := e.makeCertificate()
		if err != nil {
			return err
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return os.WriteFile(path, text, 0o600)
}
