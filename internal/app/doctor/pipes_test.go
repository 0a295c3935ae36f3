package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

const asPipe = "as-pipe"

// This binary is also acpctl pipe.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asPipe {
		if err := joinPipe(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// joinPipe joins the standard streams to the daemon in home, until either ends.
func joinPipe(home string) error {
	c := client.Client{Socket: filepath.Join(home, client.SocketName)}
	conn, err := c.OpenPipe(context.Background())
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { _, err := io.Copy(conn, os.Stdin); ended <- err }()
	go func() { _, err := io.Copy(os.Stdout, conn); ended <- err }()
	return <-ended
}

// writePipe has the site reach another one by a script of sh, which begins with script and goes on
// with the command that leads there.
func (s *site) writePipe(other *site, script string) {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("config.yaml", fmt.Sprintf("peers: {%s: {pipe: [sh, -c, %s, %s, %s, %s]}}\n", other.name,
		strconv.Quote(script+` "$0" "$1" "$2"`), strconv.Quote(exe), asPipe, strconv.Quote(other.home)))
}

// startPiped starts two sites that trust each other and know no addresses. The desk reaches build by
// a script.
func startPiped(t *testing.T, script string) (desk, build *site) {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // a second at the end of each command
	desk, build = newSite(t, "desk"), startSite(t, "build")
	desk.writePipe(build, script)
	desk.start()
	desk.trust(build)
	build.trust(desk)
	return desk, build
}

var pipeReproductions = []reproduction{
	{codes("pipe.ok", "peer.ok"), func(t *testing.T) []Finding {
		desk, build := startPiped(t, "exec")
		o := options(t, desk.home)
		o.Peer = "build"
		all := examine(t, o)
		if f := findCode(all, "address.none"); f.Code != "" {
			t.Errorf("with a pipe: %+v", f)
		}
		o = options(t, build.home) // which is called by it alone
		o.Peer = "desk"
		if f := findCode(examine(t, o), "address.none"); !strings.Contains(f.What, "pipe:in-") || !strings.HasPrefix(f.Remedy, "nothing") {
			t.Errorf("at the other end: %+v", f)
		}
		return all
	}},
	{codes("pipe.dead", "peer.unreached"), func(t *testing.T) []Finding {
		const said = "sh: line 1: acpctl; command not found"
		desk, _ := startPiped(t, "echo '"+said+"' >&2; exit 127;")
		o := options(t, desk.home)
		o.Peer = "build"
		all := examine(t, o)
		for _, mode := range [][]Finding{all, examine(t, options(t, desk.home))} {
			f := findCode(mode, "pipe.dead")
			if !strings.Contains(f.What, "exit code 127") || !strings.Contains(f.Remedy, "docs/reach.md") {
				t.Errorf("%+v", f)
			}
			if s, err := desk.client.Status(await.NewContext(t)); err != nil || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "pipe:build led nowhere at ") || strings.Contains(s.Warnings[0], said) {
				t.Errorf("status: %+v, %v", s, err)
			}
			for _, code := range []Code{"address.none", "peer.away", "daemon.warning"} {
				if f := findCode(mode, code); f.Code != "" {
					t.Errorf("beside it: %+v", f)
				}
			}
		}
		return all
	}},
	{codes("pipe.dead", "peer.unreached"), func(t *testing.T) []Finding { // the daemon does not know it yet
		desk, build := startSite(t, "desk"), startSite(t, "build")
		desk.trust(build)
		desk.writePipe(build, "exec")
		o := options(t, desk.home)
		o.Peer = "build"
		all := examine(t, o)
		for _, mode := range [][]Finding{all, examine(t, options(t, desk.home))} {
			if f := findCode(mode, "pipe.dead"); f.Remedy != "acpctl reload" {
				t.Errorf("%+v", f)
			}
		}
		return all
	}},
}
