//go:build netns

package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// Two hosts, each behind a NAT, meet by an invitation that names a relay, and have all that peers
// have: answers, notices that are held, delegations with results. When one is gone the other one's
// calls fail soon, and say that nothing was delivered. That holds however the NATs map, and where no
// UDP leaves at all. Where the NATs keep the port, the two are soon connected directly: the relay's server
// has told them where the world sees them.
func TestRelayBetweenNATs(t *testing.T) {
	t.Parallel()
	for _, kind := range []natKind{keepsPort, symmetric, dropsUDP} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			n := newInternet(t, kind, kind)
			s := n.hub.nats(hubAddr)
			desk, laptop := n.desk.relayed("desk", s, ""), n.laptop.relayed("laptop", s, "")
			joinOverRelay(desk, laptop, s, s.tls)
			if kind == keepsPort {
				becomesDirect(desk, laptop, natBAddr+":7117")
				becomesDirect(laptop, desk, natAAddr+":7117")
			} else if a, b := desk.findPath(laptop), laptop.findPath(desk); a != client.PathRelay || b != client.PathRelay {
				t.Errorf("paths %q and %q", a, b)
			}
			speak(desk, laptop)

			laptop.KillDaemon()
			if kind == keepsPort { // the NATs drop what would tell that nobody is there
				failsWithin(8*time.Second, desk, "no", "unknown")
				failsWithin(3*time.Second, desk, "no")
			} else {
				failsWithin(0, desk, "no", "unknown") // it may have left before that was known
				failsWithin(0, desk, "no")
			}
			laptop.StartDaemon()
			desk.connects(laptop, time.Now(), await.Patience)
			desk.MustOutput("ping", "laptop", "-c", "1")
		})
	}
}

// callSlack is the time that a loaded machine may add to that of a call that fails. What breaks a promise
// takes longer: where nobody tells that a peer is gone, calls try for 2.8 s, and wait for 7.4 s.
const callSlack = 2 * time.Second

// failsWithin lets the desk call the laptop, which is gone. The call must fail in that time, and say of
// the message what is one of delivered.
func failsWithin(most time.Duration, desk *daemon, delivered ...string) {
	t := desk.T
	t.Helper()
	asking := desk.StartAcpctl("query", "laptop", "there?", "--json")
	said := asking.AwaitExit(5)
	await.CheckDuration(t, "failure of a call to who was killed", asking.Took, most+callSlack)
	if !strings.Contains(said, `"code":"unreachable"`) || !slices.ContainsFunc(delivered, func(d string) bool { return strings.Contains(said, `"delivered":"`+d+`"`) }) {
		t.Errorf("got %s, want delivered %q", said, delivered)
	}
}

// speak lets each of two daemons do with the other what peers do.
func speak(desk, laptop *daemon) {
	t := desk.T
	t.Helper()
	serving := laptop.Serve("reviewer", "--prompt", "--", "sed", "s/^/You asked: /")
	if said := desk.MustOutput("query", "laptop", "Is the parser safe?"); said != "You asked: Is the parser safe?\n" {
		t.Errorf("query: %q", said)
	}
	if said := desk.MustOutput("delegate", "laptop", "Review the parser.", "--wait"); said != "You asked: Review the parser.\n" {
		t.Errorf("delegate: %q", said)
	}
	if said := laptop.MustOutput("notify", "desk", "build.done", `{"commit": "4f2a"}`); said != "held\n" {
		t.Errorf("notify: %q", said)
	}
	if said := desk.MustOutput("inbox"); !strings.Contains(said, "build.done") {
		t.Errorf("inbox: %q", said)
	}
	serving.Stop()
}

// Where only an HTTPS proxy leads out, whose login changes, the relay is reached by WebSocket through
// it. A tunnel that is open outlives its login; the next one has the new login.
func TestRelayThroughProxies(t *testing.T) {
	t.Parallel()
	n := newInternet(t, onlyProxy, onlyProxy)
	s := n.hub.nats(hubAddr)
	var proxies []*httpsProxy
	var logins []string
	setLogin := func(i int, login string) {
		t.Helper()
		proxies[i].setLogin(login)
		line := strings.Replace(proxies[i].url, "://", "://"+login+"@", 1) + "\n"
		if err := os.WriteFile(logins[i], []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var daemons []*daemon
	for i, h := range []*host{n.desk, n.laptop} {
		nat, inner := []*host{n.natA, n.natB}[i], []string{innerAAddr, innerBAddr}[i]
		proxies = append(proxies, nat.proxy(inner+":3128", ""))
		logins = append(logins, filepath.Join(s.dir, fmt.Sprintf("login-%d", i)))
		setLogin(i, "acp:first")
		daemons = append(daemons, h.relayed([]string{"desk", "laptop"}[i], s, fmt.Sprintf("reach: {proxy: {command: [cat, %q]}}\n", logins[i])))
	}
	desk, laptop := daemons[0], daemons[1]
	joinOverRelay(desk, laptop, s, s.wss)
	speak(desk, laptop)
	for i, p := range proxies {
		if tunnels, refused := p.counts(); tunnels == 0 || refused != 0 {
			t.Errorf("proxy %d: %d tunnels, %d refused", i, tunnels, refused)
		}
	}

	// What is open goes on; then the proxies end it, and only the new login opens another one.
	before := make([]int, len(proxies))
	for i := range proxies {
		setLogin(i, "acp:second")
		before[i], _ = proxies[i].counts()
	}
	desk.MustOutput("ping", "laptop", "-c", "1")
	for i, p := range proxies {
		if tunnels, _ := p.counts(); tunnels != before[i] {
			t.Errorf("proxy %d: a login that ended has ended a tunnel", i)
		}
	}
	at := time.Now()
	for _, p := range proxies {
		p.cutTunnels()
	}
	for i, p := range proxies {
		eventually(t, at, await.Patience, "a tunnel with the new login", func() bool {
			tunnels, _ := p.counts()
			return tunnels > before[i]
		})
		if _, refused := p.counts(); refused != 0 {
			t.Errorf("proxy %d: %d requests with an old login", i, refused)
		}
	}
	t.Logf("answer after the tunnels were cut: %s", eventually(t, at, await.Patience, "an answer over the new tunnels", func() bool {
		_, err := desk.Client.Ping(t.Context(), client.PingParams{To: "laptop"})
		return err == nil
	}).Round(time.Millisecond))
	speak(desk, laptop)
}
