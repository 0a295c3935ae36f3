package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"

	"github.com/quic-go/quic-go"
)

// An end is one of the two sides of a QUIC connection. Its key follows from its
// name, so that the sides can pin each other without an exchange: good for a
// benchmark on loopback and for nothing else.
type end string

const (
	nearEnd end = "near" // dials
	farEnd  end = "far"  // listens
)

func (e end) deriveKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bench " + e))
	return ed25519.NewKeyFromSeed(seed[:])
}

// newTLSConfig is TLS as the daemon has it: 1.3, self-signed Ed25519 certificates on
// both sides, each pinned, the default key exchange (hybrid) and no tickets.
func (e end) newTLSConfig(other end) (*tls.Config, error) {
	key := e.deriveKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	want := other.deriveKey().Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"bench"},
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection pins the key instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if !want.Equal(state.PeerCertificates[0].PublicKey) {
				return errors.New("bench: another key answered")
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}, nil
}

// idleTimeout is far longer than a variant waits for its turn.
const idleTimeout = 10 * time.Minute

// loopback is the address at which every process listens.
const loopback = "127.0.0.1:0"

// listenQUIC listens on a port that the kernel chooses.
func listenQUIC(config *quic.Config) (*quic.Listener, error) {
	tlsConfig, err := farEnd.newTLSConfig(nearEnd)
	if err != nil {
		return nil, err
	}
	return quic.ListenAddr(loopback, tlsConfig, config)
}

// dialQUIC connects to the far end.
func dialQUIC(addr string) (*quic.Conn, error) {
	tlsConfig, err := nearEnd.newTLSConfig(farEnd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return quic.DialAddr(ctx, addr, tlsConfig, &quic.Config{MaxIdleTimeout: idleTimeout})
}
