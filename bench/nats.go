package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/internal/pace"
)

const (
	natsServer = "nats-server"
	natsModule = "github.com/nats-io/nats-server/v2"
	natsFolder = "../integration/relay" // the module that has the server
	natsEcho   = "echo"                 // the subject
)

// natsVariant is a request and its reply through a NATS server, with mutual TLS between it and both sides.
var natsVariant = variant{
	name: "NATS",
	start: func(f *fleet) error {
		url, err := f.spawnServer()
		if err != nil {
			return err
		}
		if _, err := f.spawnRole(answerer, url); err != nil {
			return err
		}
		_, err = f.spawnRole(asker, url)
		return err
	},
	connect: connectNATS,
	serve:   serveNATS,
}

// buildServer builds nats-server below bin, of the version that the tests of relays have.
func buildServer(ctx context.Context, bin string) error {
	return runGo(ctx, natsFolder, "build", "-trimpath", "-o", filepath.Join(bin, natsServer), natsModule)
}

// findServerVersion returns the version that buildServer builds.
func findServerVersion() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", natsModule)
	cmd.Dir = natsFolder
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the version of %s: %w: run the benchmark in its own folder", natsServer, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), nil
}

// spawnServer starts a NATS server for the two ends, and returns its URL when it listens.
func (f *fleet) spawnServer() (url string, err error) {
	key, own, clients := f.joinPath("server.key"), f.joinPath("server.crt"), f.joinPath("clients.crt")
	if err := brokerEnd.writeKey(key); err != nil {
		return "", err
	}
	if err := writeCertificates(own, brokerEnd); err != nil {
		return "", err
	}
	if err := writeCertificates(clients, askerEnd, answererEnd); err != nil {
		return "", err
	}
	p, err := f.spawnProgram(natsServer, syscall.SIGINT, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", f.dir, "-l", f.joinPath("nats.log"),
		"--tls", "--tlskey", key, "--tlscert", own, "--tlsverify", "--tlscacert", clients)
	if err != nil {
		return "", err
	}
	path := f.joinPath(fmt.Sprintf("%s_%d.ports", natsServer, p.cmd.Process.Pid))
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

func (e end) dialNATS(url string, options ...nats.Option) (*nats.Conn, error) {
	config, err := e.newTLSConfig(brokerEnd)
	if err != nil {
		return nil, err
	}
	return nats.Connect(url, append(options, nats.Secure(config), nats.NoReconnect())...)
}

func connectNATS(args []string) (newCall, error) {
	conn, err := askerEnd.dialNATS(args[0])
	if err != nil {
		return nil, err
	}
	return func() func([]byte) ([]byte, error) {
		return func(payload []byte) ([]byte, error) {
			answer, err := conn.Request(natsEcho, payload, patience)
			if err != nil {
				return nil, err
			}
			return answer.Data, nil
		}
	}, nil
}

func serveNATS(args []string) error {
	ended := make(chan error, 1)
	conn, err := answererEnd.dialNATS(args[0], nats.ClosedHandler(func(c *nats.Conn) { ended <- c.LastError() }))
	if err != nil {
		return err
	}
	if _, err := conn.Subscribe(natsEcho, func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil { // now the server knows of the subscription
		return err
	}
	printReady("")
	return <-ended
}
