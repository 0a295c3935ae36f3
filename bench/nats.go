package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/internal/pace"
)

const (
	natsServer = "nats-server"
	natsModule = "github.com/nats-io/nats-server/v2"
	relayTests = "../integration/relay" // the module that has the server
	natsToken  = "s3cret"               // a daemon without credentials logs in by a key, which the server would have to know
)

// buildServer builds nats-server below bin, of the version that the tests of relays have in a
// module of their own.
func buildServer(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(bin, natsServer), natsModule)
	cmd.Dir = relayTests
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: run the benchmark in its own folder\n%s", natsServer, err, out)
	}
	return nil
}

// findServerVersion returns the version that buildServer builds.
func findServerVersion(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", natsModule)
	cmd.Dir = relayTests
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the version of %s: %w: run the benchmark in its own folder", natsServer, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
}

// spawnServer starts a NATS server on a port of loopback, for those who have the token, and
// returns its URL when it listens.
func (f *fleet) spawnServer() (url string, err error) {
	cmd := exec.CommandContext(f.ctx, filepath.Join(f.bin, natsServer),
		"-a", "127.0.0.1", "-p", "-1", "--auth", natsToken, "--ports_file_dir", f.dir, "-l", f.joinPath("nats.log"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // as for a daemon
	if err := cmd.Start(); err != nil {
		return "", err
	}
	f.procs = append(f.procs, &proc{cmd: cmd, hangUp: func() { cmd.Process.Signal(syscall.SIGINT) }})
	path := f.joinPath(fmt.Sprintf("%s_%d.ports", natsServer, cmd.Process.Pid))
	for began := time.Now(); ; {
		var ports struct {
			URLs []string `json:"nats"`
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &ports)
		}
		if err == nil && len(ports.URLs) > 0 {
			return ports.URLs[0], nil
		}
		if time.Since(began) > patience {
			return "", fmt.Errorf("waiting for %s: %v", natsServer, err)
		}
		if err := pace.Sleep(f.ctx, time.Millisecond); err != nil {
			return "", err
		}
	}
}

const echoSubject = "echo"

// newNATSVariant is two processes that ask and answer through the NATS server at url, with
// nats.go and nothing else: a message's way over a relay, without QUIC and without daemons.
func newNATSVariant(url string) variant {
	return variant{
		name:  "nats",
		roles: map[string]role{"asker": {connect: connectNATSAsker}, "answerer": {serve: serveNATSAnswerer}},
		start: func(f *fleet) error {
			if _, err := f.spawnRole("answerer", url); err != nil {
				return err
			}
			_, err := f.spawnRole("asker", url)
			return err
		},
	}
}

func connectNATSAsker(args []string) (newCall, error) {
	conn, err := nats.Connect(args[0], nats.Token(natsToken))
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			answer, err := conn.Request(echoSubject, payload, patience)
			if err != nil {
				return nil, err
			}
			return answer.Data, nil
		}
	}, nil
}

func serveNATSAnswerer(args []string) error {
	ended := make(chan error, 1)
	conn, err := nats.Connect(args[0], nats.Token(natsToken), nats.ClosedHandler(func(c *nats.Conn) { ended <- c.LastError() }), nats.NoReconnect())
	if err != nil {
		return err
	}
	if _, err := conn.Subscribe(echoSubject, func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil { // now the server knows of the subscription
		return err
	}
	printReady("")
	return <-ended
}
