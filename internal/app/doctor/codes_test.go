package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/service"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/mailbox"
	"github.com/acpd/acpd/wire"
)

var reproductions = []reproduction{
	{codes("home.ok", "file.ok", "disk.ok", "config.ok", "record.ok", "state.ok", "daemon.ok", "identity.ok", "port.ok", "port.loopback",
		"clock.ok", "descriptors.ok", "budget.ok", "peer.ok", "agent.none", "mailbox.ok", "channel.ok"), func(t *testing.T) []Finding {
		desk, _ := startPair(t)
		return examine(t, options(t, desk.home))
	}},

	// The state directory.
	{codes("home.missing"), func(t *testing.T) []Finding {
		return examine(t, options(t, filepath.Join(live.MakeTempDir(t), "none")))
	}},
	ended(func(_ *site, o *Options) { o.Machine.UID++ }, "home.owner"),
	ended(func(s *site, _ *Options) { os.Chmod(s.home, 0o755) }, "home.open"),
	{codes("home.path"), func(t *testing.T) []Finding {
		dir := filepath.Join(live.MakeTempDir(t), strings.Repeat("x", 120))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return examine(t, options(t, dir))
	}},
	ended(func(s *site, _ *Options) { s.write(statedir.IncompleteName, "") }, "home.incomplete"),
	ended(func(s *site, _ *Options) { os.Chmod(filepath.Join(s.home, "identity.key"), 0o644) }, "file.open"),
	ended(func(_ *site, o *Options) {
		o.Machine.OwnerOf = func(info fs.FileInfo) int {
			if info.Name() == "trust.yaml" {
				return o.Machine.UID + 1
			}
			return o.Machine.UID
		}
	}, "file.owner"),
	ended(func(s *site, _ *Options) {
		s.remove("trust.yaml")
		os.Symlink("trust.copy.yaml", filepath.Join(s.home, "trust.yaml"))
	}, "file.kind"),
	ended(func(_ *site, o *Options) {
		o.Machine.MeasureSpace = func(string) (disk.Space, error) { return disk.Space{Free: 1500 << 20, Total: 100 << 30}, nil }
	}, "disk.near"),
	ended(func(s *site, o *Options) { s.write("config.yaml", "limits: {min_free: 99999999999999}\n") }, "disk.low"),
	ended(func(_ *site, o *Options) {
		o.Machine.MeasureSpace = func(string) (disk.Space, error) {
			return disk.Space{Free: 50 << 30, Total: 100 << 30, TotalFiles: 200}, nil
		}
	}, "disk.low"),
	ended(func(_ *site, o *Options) {
		o.Machine.MeasureSpace = func(string) (disk.Space, error) {
			return disk.Space{Free: 50 << 30, Total: 100 << 30, ReadOnly: true}, nil
		}
	}, "disk.low"),
	{codes("disk.later", "disk.ok"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		s.write("config.yaml", "limits: {min_free: 99999999999999}\n") // in which the disk would be full
		all := examine(t, options(t, s.home))
		_, err := s.client.Reload(await.NewContext(t))
		again := findCode(examine(t, options(t, s.home)), "disk.later")
		if f := findCode(all, "disk.later"); err != nil || again.Code != "" || !strings.Contains(f.What, "99999999999999") {
			t.Errorf("%+v, and after a reload (%v), which says it itself, %+v", f, err, again)
		}
		return all
	}},

	// Its files.
	ended(func(s *site, _ *Options) { s.write("config.yaml", "name: desk\nlog:\n  level: loud\n") }, "config.broken"),
	{codes("config.broken"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		s.write("config.yaml", "log: {level: loud}\n")
		if _, err := s.client.Reload(await.NewContext(t)); err == nil {
			t.Error("it is taken over")
		}
		all := examine(t, options(t, s.home))
		if f := findCode(all, "daemon.warning"); f.Code != "" {
			t.Errorf("it is said twice: %+v", f)
		}
		return all
	}},
	ended(func(s *site, _ *Options) { s.damage("trust.yaml") }, "record.copy"),
	ended(func(s *site, _ *Options) { s.damage("trust.copy.yaml") }, "record.copy_damaged"),
	ended(func(s *site, _ *Options) { s.damage("trust.yaml"); s.damage("trust.copy.yaml") }, "record.lost"),
	ended(func(s *site, _ *Options) {
		s.write("trust.yaml", string(sealed.AppendChecksum([]byte("version: 99\nsequence: 1\n"))))
	}, "record.newer"),
	{codes("record.kept"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		s.stop()
		s.damage("trust.yaml")
		s.start() // which keeps it
		return examine(t, options(t, s.home))
	}},
	{codes("state.none"), func(t *testing.T) []Finding { return examine(t, options(t, live.MakeTempDir(t))) }},
	ended(func(s *site, _ *Options) { s.write("state.db", strings.Repeat("no database ", 1000)) }, "state.damaged"),
	ended(func(s *site, _ *Options) {
		text, err := os.ReadFile(filepath.Join(s.home, "state.db"))
		if err != nil {
			s.t.Fatal(err)
		}
		binary.BigEndian.PutUint32(text[60:], statedir.StateVersion+1) // https://sqlite.org/fileformat2.html, 1.3.16
		s.write("state.db", string(text))
	}, "state.newer"),

	// The daemon.
	ended(func(*site, *Options) {}, "daemon.down"),
	{codes("daemon.down"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		s.stop()
		lock, err := statedir.LockDir(s.home, "acpctl backup")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		all := examine(t, options(t, s.home))
		if f := findCode(all, "daemon.down"); !strings.Contains(f.Remedy, fmt.Sprintf("acpctl backup (process %d) has ended", os.Getpid())) {
			t.Errorf("while acpctl works there: %q", f.Remedy)
		}
		return all
	}},
	{codes("daemon.silent"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		s.stop()
		lock, err := statedir.LockDir(s.home, "")
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		return examine(t, options(t, s.home))
	}},
	ended(func(s *site, _ *Options) { leaveSocket(s.t, s.home) }, "daemon.socket"),
	{codes("daemon.version"), func(t *testing.T) []Finding {
		o := options(t, startSite(t, "desk").home)
		o.Version = "2.0.0"
		return examine(t, o)
	}},
	faked(func(_ *clitest.FakeDaemon, s *client.Status, _ *Options) { s.State = client.DaemonDraining }, "daemon.draining"),
	{codes("daemon.warning"), func(t *testing.T) []Finding {
		s := newSite(t, "desk")
		s.write("config.yaml", "policy: {nobody-here: {kinds: [ping]}}\n")
		s.start()
		return examine(t, options(t, s.home))
	}},
	ended(func(s *site, _ *Options) { s.remove("identity.key") }, "identity.missing"),
	ended(func(s *site, _ *Options) { s.write("identity.key", "no key\n") }, "identity.damaged"),
	faked(func(_ *clitest.FakeDaemon, s *client.Status, _ *Options) {
		s.Process = client.Process{Descriptors: 820, MaxDescriptors: 1024}
	}, "descriptors.near"),
	ended(func(_ *site, o *Options) { o.Machine.MaxDescriptors = func() int { return 256 } }, "descriptors.few"),
	faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		d.SetAnswer(client.MethodBudget, &client.Budget{
			Rows:  []client.BudgetRow{{Name: "tasks", Peer: 100, All: 1000, Held: 80}},
			Usage: []client.BudgetUsage{{Row: "tasks", Peer: clitest.DeskID, Name: "laptop", Held: 80, Refused: 3}},
		})
	}, "budget.near", "budget.refused"),

	// The network and the machine.
	{codes("port.taken"), func(t *testing.T) []Finding {
		taken, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		s := newSite(t, "desk")
		s.write("config.yaml", "listen: "+taken.LocalAddr().String()+"\n")
		o := options(t, s.home)
		o.Machine.Root, o.Machine.ListenUDP = "", listenUDP
		return examine(t, o)
	}},
	listening("", syscall.EADDRINUSE, "port.other"),
	listening("0.0.0.0:80", syscall.EACCES, "port.forbidden"),
	listening("192.0.2.99:7117", syscall.EAFNOSUPPORT, "port.address"),
	{codes("port.absent"), func(t *testing.T) []Finding {
		s := newSite(t, "desk")
		s.write("config.yaml", "listen: 192.0.2.99:7117\n")
		o := options(t, s.home)
		o.Machine.ListenUDP, o.Machine.OS = listenUDP, "linux"
		return examine(t, o)
	}},
	ended(func(s *site, o *Options) {
		o.Machine.putFile(s.t, "proc/sys/net/core/rmem_max", "212992\n")
		o.Machine.putFile(s.t, "proc/sys/net/core/wmem_max", "212992\n")
	}, "buffers.small"),
	ended(func(s *site, o *Options) {
		o.Machine.putFile(s.t, "proc/sys/net/core/rmem_max", "7500000\n")
		o.Machine.putFile(s.t, "proc/sys/net/core/wmem_max", "7500000\n")
	}, "buffers.ok"),
	{codes("port.ok"), func(t *testing.T) []Finding { // the flag chose another port than that which a program has
		all := faked(func(_ *clitest.FakeDaemon, s *client.Status, o *Options) {
			s.Listen, s.Process.PID = []string{"192.0.2.1:7118"}, 7
			o.Machine.ListenUDP = func(string) error { return syscall.EADDRINUSE }
			o.Machine.putFile(t, "proc/7/cmdline", "acpd\x00--listen\x00:7118\x00")
		}).find(t)
		if findCode(all, "port.other").Code != "" {
			t.Errorf("%+v", all)
		}
		return all
	}},
	{codes("port.ok"), func(t *testing.T) []Finding {
		all := faked(func(*clitest.FakeDaemon, *client.Status, *Options) {}).find(t)
		if f := findCode(all, "port.ok"); !strings.Contains(f.What, "a firewall of this machine must let in UDP port 7117, and UDP port 5353") {
			t.Errorf("%+v", f)
		}
		return all
	}},
	ended(func(*site, *Options) {}, "multicast.ok"),
	ended(func(s *site, _ *Options) { s.write("config.yaml", "discovery: {mdns: off}\n") }, "multicast.off"),
	{codes("multicast.off"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		o := options(t, s.home)
		o.Machine.putFile(t, fmt.Sprintf("proc/%d/cmdline", os.Getpid()), "acpd\x00--no-mdns\x00")
		return examine(t, o)
	}},
	ended(func(s *site, _ *Options) { s.write("config.yaml", "discovery: {exclude: [eth0]}\n") }, "multicast.none"),
	ended(func(_ *site, o *Options) {
		o.Machine.HearMulticast = func(context.Context, net.Interface) error { return errDeaf }
	}, "multicast.deaf"),
	ended(func(_ *site, o *Options) {
		o.Machine.HearMulticast = func(context.Context, net.Interface) error { return &net.OpError{Op: "listen", Err: syscall.EADDRINUSE} }
	}, "multicast.taken"),
	ended(func(_ *site, o *Options) { o.Machine.IsClockSynced = func() (bool, bool) { return false, true } }, "clock.unsynchronised"),
	ended(func(_ *site, o *Options) { o.Machine.Now = func() time.Time { return time.Now().Add(-anHour) } }, "clock.wrong"),

	// Peers.
	{codes("peer.none"), func(t *testing.T) []Finding { return examine(t, options(t, startSite(t, "desk").home)) }},
	{codes("peer.unasked"), func(t *testing.T) []Finding {
		desk, _ := startPair(t)
		desk.stop()
		all := examine(t, options(t, desk.home))
		if f := findCode(all, "peer.unasked"); !strings.HasSuffix(f.Remedy, "--home "+desk.home) {
			t.Errorf("%+v", f)
		}
		return all
	}},
	{codes("peer.away"), func(t *testing.T) []Finding {
		desk, laptop := startPair(t)
		laptop.stop()
		desk.awaitState(laptop, client.PeerTrusted)
		return examine(t, options(t, desk.home))
	}},
	{codes("peer.refuses"), func(t *testing.T) []Finding {
		desk, laptop := startPair(t)
		if _, err := laptop.client.Untrust(await.NewContext(t), "desk"); err != nil {
			t.Fatal(err)
		}
		desk.awaitState(laptop, client.PeerTrusted)
		all := examine(t, options(t, desk.home))
		if f := findCode(all, "peer.refuses"); !strings.Contains(f.Remedy, "on laptop: acpctl trust "+desk.id.String()) {
			t.Errorf("what to do there: %q", f.Remedy)
		}
		desk.write("config.yaml", "organisation: {certificate: acpd-cert.pub}\n")
		if f := findCode(examine(t, options(t, desk.home)), "peer.refuses"); f.Remedy != "see acpctl cert show: a certificate that has ended, or is revoked there, is signed anew; else on laptop: acpctl trust "+desk.id.String() {
			t.Errorf("with a certificate: %q", f.Remedy)
		}
		return all
	}},
	{codes("peer.conflict", "address.wrong"), func(t *testing.T) []Finding {
		desk, laptop := startPair(t)
		laptop.stop()
		laptop.remove("identity.key") // another identity, at the same address
		laptop.start()
		await.Until(t, "desk hears of another key there", func() bool {
			_, err := desk.client.Ping(await.NewContext(t), client.PingParams{To: "laptop"})
			return kinds.AsError(err).Code == kinds.IdentityConflict
		})
		o := options(t, desk.home)
		o.Peer = "laptop"
		return examine(t, o)
	}},
	pinged(kinds.Errorf(kinds.IncompatibleVersion, "laptop speaks another version of the protocol; update the older side"), "peer.incompatible"),
	pinged(kinds.Errorf(kinds.NotAuthorized, "policy: ping is not allowed"), "peer.forbids"),
	{codes("peer.waiting"), func(t *testing.T) []Finding {
		desk, laptop := startSite(t, "desk"), startSite(t, "laptop")
		laptop.trust(desk, desk.addr)
		desk.awaitState(laptop, client.PeerPending)
		return examine(t, options(t, desk.home))
	}},
	{codes("peer.version"), func(t *testing.T) []Finding {
		desk, laptop := startSite(t, "desk"), newSite(t, "laptop")
		laptop.version = "0.9.0"
		laptop.start()
		desk.trust(laptop, laptop.addr)
		laptop.trust(desk)
		desk.awaitState(laptop, client.PeerConnected)
		return examine(t, options(t, desk.home))
	}},
	inDepth(func(_, _ *site, o *Options) { o.Machine.Now = func() time.Time { return time.Now().Add(anHour) } },
		"peer.ok", "peer.clock", "peer.pinned", "address.ok", "policy.here", "policy.there"),
	{codes("peer.unpinned", "address.none", "peer.unreached"), func(t *testing.T) []Finding {
		desk, laptop := startSite(t, "desk"), startSite(t, "laptop")
		desk.trust(laptop)
		o := options(t, desk.home)
		o.Peer = laptop.id.String()[:8]
		return examine(t, o)
	}},
	{codes("peer.unreached", "address.dead"), func(t *testing.T) []Finding { // on a relay nobody needs an address
		desk, laptop := newSite(t, "desk"), startSite(t, "laptop")
		desk.write(statedir.RelaysName, "relays: [{name: hub, url: \"tls://127.0.0.1:1\"}]\n")
		desk.start()
		desk.trust(laptop)
		await.Until(t, "the relay is found to be down", func() bool {
			status, err := desk.client.Status(await.NewContext(t))
			return err == nil && len(status.Relays) == 1 && status.Relays[0].State == client.RelayDown
		})
		o := options(t, desk.home)
		o.Peer = "laptop"
		all := examine(t, o)
		for _, code := range []Code{"peer.unreached", "address.dead"} {
			if f := findCode(all, code); !strings.Contains(f.What, "relay:hub is down; acpctl relay test hub") || !strings.HasPrefix(f.Remedy, "do what it says") {
				t.Errorf("%+v", f)
			}
		}
		return all
	}},
	inDepth(func(desk, laptop *site, _ *Options) {
		laptop.stop()
		desk.awaitState(laptop, client.PeerTrusted)
	}, "address.dead", "peer.unreached"),

	{codes("owner.ok"), func(t *testing.T) []Finding { return examineOwnerNotify(t, "exit 0") }},
	{codes("owner.failed"), func(t *testing.T) []Finding {
		all := examineOwnerNotify(t, "exit 7")
		if f := findCode(all, "owner.failed"); !strings.Contains(f.What, "as wake.yaml says: ") || !strings.Contains(f.What, "ended with exit code 7") {
			t.Errorf("%+v", f)
		}
		return all
	}},

	// What is connected.
	{codes("agent.ok"), func(t *testing.T) []Finding {
		s := startSite(t, "desk")
		ctx, detach := context.WithCancel(t.Context())
		agent := &client.Client{Socket: filepath.Join(s.home, client.SocketName)}
		attached := make(chan error, 1)
		go func() {
			attached <- agent.Attach(ctx, client.AttachParams{Name: "reviewer"}, client.Handler{Query: func(context.Context, *client.Inbound) (any, error) { return nil, nil }})
		}()
		defer func() { detach(); <-attached; agent.Close() }()
		await.Until(t, "the agent is attached", func() bool {
			status, err := s.client.Status(await.NewContext(t))
			return err == nil && len(status.Agents) == 1
		})
		return examine(t, options(t, s.home))
	}},
	{codes("message.kept"), findLongKept},
	{codes("agent.away"), func(t *testing.T) []Finding { // one finding for each agent, with the oldest of its delegations
		all := faked(func(d *clitest.FakeDaemon, s *client.Status, _ *Options) {
			away, until := client.Time{Time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}, client.Time{Time: time.Date(2026, 11, 27, 12, 10, 0, 0, time.UTC)}
			tasks := []client.Task{
				{ID: wire.NewMessageID(), Agent: "reviewer", AgentAwaySince: away},
				{ID: wire.NewMessageID(), Agent: "tester"},
				{ID: clitest.SomeID, Agent: "reviewer", AgentAwaySince: away, AgentAwaitedUntil: until},
			}
			for i := range tasks {
				tasks[i].Peer, tasks[i].Direction, tasks[i].State = "laptop", client.Taken, client.TaskAccepted
			}
			s.TasksTaken = len(tasks)
			d.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: tasks})
		}).find(t)
		f := findCode(all, "agent.away")
		for _, want := range []string{"2026-11-27T12:00:00Z", "acpctl serve --name reviewer", "at laptop: acpctl cancel " + clitest.SomeID.String(), "2026-11-27T12:10:00Z"} {
			if !strings.Contains(f.What+f.Remedy, want) {
				t.Errorf("%+v lacks %q", f, want)
			}
		}
		if n := strings.Count(render(all), "agent.away"); n != 1 {
			t.Errorf("%d findings", n)
		}
		return all
	}},
	ended(func(s *site, o *Options) {
		there, gone := filepath.Join(s.home, "acpd"), filepath.Join(s.home, "0.1", "acpd")
		s.write("acpd", "")
		o.Services = []service.Installed{{File: "/units/acpd.service", Program: there}, {File: "/units/acpd@planner.service", Program: gone}}
	}, "service.gone"),
	program("codex-cli 0.169.0", setUp, "program.ok"),
	program("codex-cli 0.169.0", func(*testing.T, *setup.Options) {}, "program.absent"),
	program("codex-cli 0.169.0", func(t *testing.T, o *setup.Options) { setUp(t, o); os.Remove(o.Command) }, "program.broken"),
	program("codex-cli 0.169.0", func(t *testing.T, o *setup.Options) {
		dir := filepath.Join(o.Home, ".codex")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[mcp_servers.acp]\ncommand = \"other\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, "program.foreign"),
	program("codex-cli 0.169.0", func(t *testing.T, o *setup.Options) { setUp(t, o); o.Socket = "/elsewhere/agent/acp.sock" }, "program.elsewhere"),
	program("codex-cli 0.168.9", setUp, "program.untested"),
	ended(func(s *site, o *Options) {
		o.OACPHome = s.t.TempDir()
		if _, _, _, err := mailbox.Home(o.OACPHome).InitProject("demo", mailbox.Workspace{Agents: []string{"planner"}}); err != nil {
			s.t.Fatal(err)
		}
		for _, dir := range []string{"", "projects", "projects/demo", "projects/demo/agents", "projects/demo/agents/planner", "projects/demo/agents/planner/inbox"} {
			if err := os.Chmod(filepath.Join(o.OACPHome, dir), 0o755); err != nil {
				s.t.Fatal(err)
			}
		}
	}, "mailbox.open"),
	{codes("mailbox.elsewhere"), func(t *testing.T) []Finding {
		s := newSite(t, "desk")
		s.write("config.yaml", "oacp: {home: "+t.TempDir()+"}\n")
		s.start()
		return examine(t, options(t, s.home))
	}},
	// Relays.
	faked(func(d *clitest.FakeDaemon, s *client.Status, _ *Options) {
		s.Relays = []client.Relay{
			{Name: "hub", URL: "tls://nats.example.org:4222", State: client.RelayUp, Server: "hub 2.15.2", Clone: true, Error: "nobody finds this daemon by its name here"},
			{Name: "two", URL: "tls://nats.example.net:4222", State: client.RelayDown, Error: "nothing listens there: start the server"},
			{Name: "three", URL: "tls://nats.example.com:4222", State: client.RelayRefused, Error: "the server refuses a token"},
			{Name: "four", URL: "tls://nats.example.com:4223", State: client.RelayUnused, Error: "hub has the same URL"},
			{Name: "five", URL: "tls://nats.example.com:4224", State: client.RelayConnecting},
		}
		d.SetHandler(client.MethodRelayTest, func(r *jsonrpc.Request) (any, error) {
			var p client.RelayTestParams
			if err := r.ReadParams(&p); err != nil || p.Name != "hub" { // no other one is tried
				return nil, fmt.Errorf("%v: %s", err, p.Name)
			}
			return &client.RelayChecks{Checks: []client.RelayCheck{{Name: "hub", Steps: []client.RelayStep{
				{Step: "connect", Verdict: client.StepOK}, {Step: client.StepForeignSubscribe, Verdict: client.StepWarning, What: "it may listen", Remedy: "permit less"},
			}}}}, nil
		})
	}, "relay.ok", "relay.limited", "relay.down", "relay.refused", "relay.unused", "relay.clone", "relay.snoop"),
	{codes("relay.unused"), func(t *testing.T) []Finding { // one of config.yaml, which acpctl relay remove does not take out
		s := newSite(t, "desk")
		s.write("config.yaml", "reach: {relays: [{name: two, url: \"tls://127.0.0.1:1\", credentials: nats.creds}]}\n")
		s.start()
		all := examine(t, options(t, s.home))
		if f := findCode(all, "relay.unused"); !strings.HasPrefix(f.What, "two: credentials: ") || !strings.Contains(f.Remedy, "config.yaml") || strings.Contains(f.Remedy, "relay remove") {
			t.Errorf("%+v", f)
		}
		return all
	}},
	ended(func(s *site, _ *Options) { s.write(statedir.RelaysName, "relays: [{url: nowhere}]\n") }, "relay.file"),

	faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		d.SetAnswer(client.MethodOACPQueue, &client.OACPQueue{Entries: []client.OACPQueued{{Project: "demo", Agent: "planner", Peer: "laptop", State: client.MailParked, Reason: "too large"}}})
		d.SetAnswer(client.MethodOACPBindings, &client.OACPBindings{Twins: []client.OACPTwin{{Project: "demo", Agent: "reviewer", Peer: "laptop"}}})
	}, "mailbox.parked", "mailbox.twin"),
	faked(func(*clitest.FakeDaemon, *client.Status, *Options) {}, "channel.silent"), // it has no http.sock
	faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		d.SetHTTPAnswers(map[string]string{"GET unsent": `[{"id": "m1", "status": "pending", "seq": 0}]`})
	}, "channel.unsent"),
}

// TestEveryCodeIsReproduced finds each code of the table where a test has made it so.
func TestEveryCodeIsReproduced(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("OACP_HOME", filepath.Join(user, "oacp"))
	reproduced := make(map[Code]bool)
	for _, r := range slices.Concat(reproductions, pipeReproductions, namedFileReproductions) {
		t.Run(string(r.codes[0]), func(t *testing.T) {
			all := r.find(t)
			for _, c := range r.codes {
				reproduced[c] = true
				if f := findCode(all, c); f.Code == "" {
					t.Errorf("%s is not found:\n%s", c, render(all))
				}
			}
			for _, f := range all {
				checkForm(t, &f)
			}
		})
	}
	for _, c := range ListCodes() {
		if !reproduced[c.Code] {
			t.Errorf("%s: no test makes it", c.Code)
		}
	}
}
