//go:build interop

package interop

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/acpd/acpd/integration/authority"
)

// TestSSHRefusesCertificatesOfDaemons: the real ssh client, which believes the authority for every
// host, takes a host with a certificate of ssh for what it is, and none with one of acpd.
// holds: security.md#fleets
func TestSSHRefusesCertificatesOfDaemons(t *testing.T) {
	signer, host := authority.NewSigner(t), authority.NewSigner(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, append([]byte("@cert-authority * "), ssh.MarshalAuthorizedKey(signer.PublicKey())...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		principals []string
		host       string // as which the client takes the server
		want       string
	}{
		{[]string{"build.example.org"}, "build.example.org", "Permission denied"}, // the host is believed, and its user is not
		{[]string{"acp:build-7"}, "build-7", "Host key verification failed"},
		{[]string{"acp:build-7", "acp:group:ci"}, "build-7.corp", "Host key verification failed"},
		{[]string{"acp:build-7"}, "build.example.org", "Host key verification failed"},
	} {
		c := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: test.principals, ValidBefore: ssh.CertTimeInfinity}
		if err := c.SignCert(rand.Reader, signer); err != nil {
			t.Fatal(err)
		}
		certified, err := ssh.NewCertSigner(c, host)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, fmt.Errorf("nobody")
		}}
		cfg.AddHostKey(certified)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _, _, _ = ssh.NewServerConn(conn, cfg)
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		cmd := exec.CommandContext(t.Context(), "ssh", "-F", "/dev/null", "-p", port, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias="+test.host,
			"-o", "UserKnownHostsFile="+known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "IdentityFile=/dev/null", "nobody@127.0.0.1", "true")
		var out bytes.Buffer
		cmd.Stderr = &out
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("%v as %s: %v, expected %q:\n%s", test.principals, test.host, err, test.want, out.String())
		}
		l.Close()
		<-served
	}
}
