package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/organisation"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

func readPins(d *running) ([]identity.CertifiedPin, error) {
	return store.ReadValue(d.t.Context(), d.store, organisation.ReadPins)
}

func (d *running) write(name, text string) {
	d.t.Helper()
	writeFile(d.t, filepath.Join(d.dir, name), text)
}

// joinFleet has the authority's word count at a daemon, which gets a certificate. more is further
// configuration.
func (d *running) joinFleet(a *authority.Authority, more string, principals ...string) {
	d.t.Helper()
	d.write("acpd-cert.pub", a.SignFile(d.ID(), 300*24*time.Hour, principals...))
	d.write("config.yaml", "organisation:\n  certificate: acpd-cert.pub\n  authorities:\n    corp:\n      key: "+a.Line()+"\n      revoked: revoked.txt\n"+more)
	if _, err := os.Stat(filepath.Join(d.dir, "revoked.txt")); err != nil {
		d.write("revoked.txt", "")
	}
	d.dial().must("reload", nil, nil)
}

// fleet runs desk and build, which know each other by certificates alone. desk has build's address.
func fleet(t testing.TB, deskMore, buildMore string) (a *authority.Authority, desk, build *running) {
	t.Helper()
	a = authority.New(t, "corp")
	desk, build = start(t, stateDir(t), "desk"), start(t, stateDir(t), "build-7")
	build.joinFleet(a, buildMore, "acp:build-7", "acp:group:ci")
	desk.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n%s", build.ID(), build.node.Addr(), deskMore), "acp:desk")
	return a, desk, build
}

// reach pings a peer that has to show its certificate first, until it answers. A stranger has a second for its hello,
// and a dial less than three: too little where others compute.
func (l *program) reach(to string) {
	l.t.Helper()
	await.Until(l.t, to+" answers", func() bool { return l.call("ping", client.PingParams{To: to}, nil) == nil })
}

// refuseReached is refused, of a peer that is unknown when it has shown its certificate: it tries as reach does.
func (l *program) refuseReached(to string) {
	l.t.Helper()
	var err error
	await.Until(l.t, to+" shows its certificate", func() bool {
		err = l.call("ping", client.PingParams{To: to}, nil)
		return err == nil || !slices.Contains([]kinds.Code{kinds.Unreachable, kinds.Timeout}, kinds.AsError(err).Code)
	})
	if err == nil || kinds.AsError(err).Code != kinds.UnknownPeer {
		l.t.Fatalf("ping %s: %v, want %s", to, err, kinds.UnknownPeer)
	}
}

// holds: security.md#fleets
func TestPeersByCertificateAlone(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "policy: {desk.corp: {kinds: [ping, query]}}\n")
	build.agent(client.AttachParams{Name: "builder", Kinds: []string{"query"}}, say(`{"summary":"green"}`))
	l := desk.dial()
	var reply client.Answer
	await.Until(t, "an answer", func() bool { // as reach has it
		return l.call("query", client.QueryParams{To: "build-7.corp", Payload: query("Which tests fail?")}, &reply) == nil
	})
	if got := parse[kinds.Response](t, reply.Payload); got.Summary != "green" {
		t.Errorf("%+v", got)
	}

	// What nobody has named for it is not for it; back, the authority allows a ping.
	e := l.refused(kinds.NotAuthorized, "notify", client.NotifyParams{To: client.To("build-7.corp"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})})
	if !strings.Contains(e.Message, "policy.desk.corp") {
		t.Error(e)
	}
	back := build.dial()
	back.reach("desk.corp")
	back.reach(desk.ID().String())
	back.refused(kinds.NotAuthorized, "query", client.QueryParams{To: "desk.corp", Payload: query("May I?")}, "organisation.authorities.corp: allow [ping, discover] does not include")
	if err := desk.checkStreamPermission(build.ID(), config.PolicyMail); err == nil {
		t.Error("mail is taken")
	}
	if err := desk.checkStreamPermission(build.ID(), config.PolicyChannel); err == nil {
		t.Error("channels are open")
	}

	var status client.Status
	if l.must("status", nil, &status); len(status.Warnings) > 0 {
		t.Errorf("%q", status.Warnings)
	}

	// It is listed, and stands in no file.
	peers := get[client.Peers](l, "peers", nil)
	if len(peers.Peers) != 1 || peers.Peers[0].Name != "build-7.corp" || peers.Peers[0].State != client.PeerConnected || peers.Peers[0].Certificate == nil || peers.Peers[0].Certificate.Groups[0] != "ci.corp" {
		t.Errorf("%+v", peers.Peers)
	}
	if n := desk.trust.Len(); n != 0 {
		t.Errorf("%d peers are trusted", n)
	}
	decision := get[client.Policy](l, "policy", client.PolicyParams{Peer: "build-7.corp", Kind: "query"})
	if decision.Allowed || decision.Key != "organisation.authorities.corp" || decision.Line == 0 {
		t.Errorf("%+v", decision)
	}
	l.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Agent: "claude", Peer: "build-7.corp"})
	for _, name := range []string{"build-9.corp", "build-7.lab", "build-7"} {
		l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: name}, name)
	}

	// The key that was seen stays pinned over a restart.
	await.Until(t, "pinned", func() bool {
		pins, err := readPins(desk)
		return err == nil && len(pins) == 1 && pins[0].ID == build.ID() && pins[0].PQ == identity.HashPQ(build.key.PublicPQ())
	})
	desk.stop()
	desk = start(t, desk.dir, "desk")
	if addr, _ := desk.addresses.FindLast(build.ID()); addr != "" {
		t.Errorf("its address was on disk: %s", addr)
	}
	if p, ok := desk.trust.FindPeer(build.ID()); ok {
		t.Errorf("known before it has come: %+v", p)
	}
	desk.dial().reach("build-7.corp")
	if p, _ := desk.trust.FindPeer(build.ID()); p.PQ != identity.HashPQ(build.key.PublicPQ()) {
		t.Errorf("%+v", p)
	}

	// Once the owner trusts it, all of that is on disk.
	await.Until(t, "the connection is recorded", func() bool { addr, _ := desk.addresses.FindLast(build.ID()); return addr != "" })
	desk.dial().must("trust", client.TrustParams{Peer: "build-7.corp", Name: "builder"}, nil)
	desk.stop()
	desk = start(t, desk.dir, "desk")
	p, _ := desk.trust.FindPeer(build.ID())
	if addr, _ := desk.addresses.FindLast(build.ID()); p.Name != "builder" || p.PQ.IsZero() || addr == "" {
		t.Errorf("%+v, %q", p, addr)
	}
}

func TestUntrustOfACertifiedPeer(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	l := desk.dial()
	l.reach("build-7.corp")
	l.must("untrust", client.UntrustParams{Peer: "build-7.corp"}, nil)
	l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"}, "acpctl trust "+build.ID().String())
	// Another key under that name is none either.
	other := start(t, stateDir(t), "build-7")
	other.joinFleet(a, "", "acp:build-7")
	desk.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n", other.ID(), other.node.Addr()), "acp:desk")
	l.refuseReached(other.ID().String())
	// To trust the key lifts both.
	trusted := get[client.NamedPeer](l, "trust", client.TrustParams{Peer: build.ID().String()})
	if trusted.Name != "build-7" {
		t.Errorf("%+v", trusted)
	}
	l.reach(other.ID().String())
	l.reach("build-7.corp")
}

func TestReloadTakesCertificatesOver(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	l := desk.dial()
	l.reach("build-7.corp")

	// What is wrong changes nothing.
	desk.write("revoked.txt", "serial 0\n")
	l.refused(kinds.Invalid, "reload", nil, "organisation.authorities.corp.revoked: revoked.txt: line 1: serial")
	l.reach("build-7.corp")

	// A renewed certificate gets to the other side without a new connection.
	before, _ := desk.node.Peer(build.ID())
	build.write("acpd-cert.pub", a.SignFile(build.ID(), 20*24*time.Hour, "acp:build-8"))
	build.dial().must("reload", nil, nil)
	await.Until(t, "renewed", func() bool { p, _ := desk.trust.FindPeer(build.ID()); return p.Name == "build-8.corp" })
	if after, _ := desk.node.Peer(build.ID()); after.Boot != before.Boot || after.Addr != before.Addr {
		t.Errorf("%+v before, %+v after", before, after)
	}

	// What is revoked is gone, without a restart.
	desk.write("revoked.txt", "serial 7\n")
	l.must("reload", nil, nil)
	await.Until(t, "revoked", func() bool { _, there := build.node.Peer(desk.ID()); return !there })
	l.refuseReached(build.ID().String())

	// Without the setting nobody counts.
	desk.write("config.yaml", "")
	l.must("reload", nil, nil)
	if desk.trust.HasAuthorities() {
		t.Error("an authority is left")
	}
}

func TestOwnCertificateIsLookedAt(t *testing.T) {
	t.Parallel()
	a := authority.New(t, "corp")
	desk := start(t, stateDir(t), "desk")
	l := desk.dial()
	warnings := func() string {
		s := get[client.Status](l, "status", nil)
		return strings.Join(s.Warnings, "\n")
	}
	c := get[client.Certificates](l, "certificate", nil)
	if c.Request != desk.ID().RenderPublicKey() || c.Certificate != nil || len(c.Authorities) != 0 || c.Problem != "" {
		t.Errorf("%+v", c)
	}
	l.refused(kinds.Invalid, "certificate", client.CertificateParams{File: "ssh"}, "certificate file")
	desk.joinFleet(a, "", "acp:desk")
	for name, test := range map[string]struct {
		file, warning string
	}{
		"good for long":      {a.SignFile(desk.ID(), 300*24*time.Hour, "acp:desk"), ""},
		"ends soon":          {a.SignFile(desk.ID(), 13*24*time.Hour, "acp:desk"), "the certificate of this daemon expires at"},
		"counts a while on":  {a.SignFile(desk.ID(), -time.Minute, "acp:desk"), "the certificate of this daemon expired at"},
		"has ended":          {a.SignFile(desk.ID(), -time.Hour, "acp:desk"), "the certificate of this daemon expired at"},
		"is for another key": {a.SignFile(identity.ID{1}, time.Hour, "acp:desk"), "it is for the key 0100000000"},
		"is for ssh":         {a.SignFile(desk.ID(), time.Hour, "desk.example.org"), "does not begin with acp:"},
		"is none":            {"x", "not one line that begins with"},
	} {
		desk.write("acpd-cert.pub", test.file)
		l.must("reload", nil, nil)
		if got := warnings(); test.warning == "" && strings.Contains(got, "certificate") || !strings.Contains(got, test.warning) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if err := os.Remove(filepath.Join(desk.dir, "acpd-cert.pub")); err != nil {
		t.Fatal(err)
	}
	l.must("reload", nil, nil)
	if got := warnings(); !strings.Contains(got, "there is no file") {
		t.Errorf("missing: %q", got)
	}
	l.must("certificate", client.CertificateParams{File: a.SignFile(desk.ID(), time.Hour, "acp:desk", "acp:group:ci")}, &c)
	if c.Certificate == nil || c.Certificate.Name != "desk.corp" || c.Certificate.Authority != "corp" || c.Problem != "" || len(c.Authorities) != 1 || c.Authorities[0].Name != "corp" {
		t.Errorf("%+v", c)
	}
	l.must("certificate", client.CertificateParams{File: authority.New(t, "corp").SignFile(desk.ID(), time.Hour, "acp:desk")}, &c)
	if c.Certificate == nil || c.Certificate.Name != "desk" || !strings.Contains(c.Problem, "no authority that is configured here") {
		t.Errorf("%+v", c)
	}
}

// The result of what a certified peer has delegated gets to it also after a restart, when its
// certificate has not come again.
func TestAResultFindsACertifiedPeerAfterARestart(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "policy: {desk.corp: {kinds: [ping, delegate]}}\n")
	build.agent(client.AttachParams{Name: "builder"}, say(`{"accepted":true}`))
	var given client.DelegateAnswer
	l := desk.dial()
	l.reach("build-7.corp")
	l.must("delegate", client.DelegateParams{To: "build-7.corp", Payload: task1("")}, &given)
	build.write("config.yaml", build.read("config.yaml")+fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n", desk.ID(), desk.node.Addr()))
	build.stop()
	build = start(t, build.dir, "build-7")
	if _, known := build.trust.FindPeer(desk.ID()); known {
		t.Fatal("known before it has come")
	}
	worker, result := build.dial(), client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: given.ID, Payload: completed("done")}
	await.Until(t, "the result is sent", func() bool { return worker.call("result", result, nil) == nil }) // as reach has it
	if s := l.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("%+v", s)
	}
}

// A message that was handed before the certificate of its sender ended is not handed again when the
// sender, certified anew, repeats it.
func TestARepeatAfterACertificateHasEnded(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "policy: {desk.corp: {kinds: [ping, notify]}}\n")
	var handed atomic.Int32
	build.agent(client.AttachParams{Name: "builder", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) {
		handed.Add(1)
		r.Respond(wire.Payload("{}"))
	})
	l := desk.dial()
	l.reach("build-7.corp")
	note := client.NotifyParams{Head: client.Head{ID: wire.NewMessageID()}, To: client.To("build-7.corp"), Payload: wire.Payload(`{"topic":"t"}`)}
	l.notify(note)
	await.Until(t, "handed", func() bool { return handed.Load() == 1 })
	for _, revoked := range []string{"name desk\n", ""} {
		build.write("revoked.txt", revoked)
		build.dial().must("reload", nil, nil)
		if revoked != "" {
			await.Until(t, "revoked", func() bool { _, there := build.node.Peer(desk.ID()); return !there })
		}
	}
	l.reach("build-7.corp")
	l.notify(note)
	l.notify(client.NotifyParams{To: client.To("build-7.corp"), Payload: wire.Payload(`{"topic":"another"}`)})
	await.Until(t, "the next one", func() bool { return handed.Load() >= 2 })
	if n := handed.Load(); n != 2 {
		t.Errorf("%d messages were handed", n)
	}
}

// Errors about names that only a certificate could give say what to do.
func TestNamesThatNoCertificateHasShown(t *testing.T) {
	t.Parallel()
	_, desk, _ := fleet(t, "", "")
	l := desk.dial()
	l.refused(kinds.UnknownPeer, "untrust", client.UntrustParams{Peer: "build-9.corp"}, "revoked")
	desk.write("config.yaml", strings.Replace(desk.read("config.yaml"), "peers:", "# ", 1))
	l.must("reload", nil, nil)
	l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"}, "give its id an address under peers in config.yaml")
	if e := l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.lab"}); strings.Contains(e.Message, "certificate") {
		t.Error(e)
	}
}

// Whoever calls itself by the name of a certificate is not blocked, trusted or offered in the place of who
// has it, while that one shows no certificate.
// holds: security.md#fleets
func TestAClaimIsNoNameOfAnAuthority(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	l := desk.dial()
	l.reach("build-7.corp")
	desk.trust.Decertify(build.ID()) // as it does when the certificate is withdrawn
	build.stop()

	decoy := start(t, stateDir(t), "build-7.corp")
	d := decoy.dial()
	d.must("trust", client.TrustParams{Peer: desk.ID().String(), Name: "desk", Addrs: []string{desk.node.Addr().String()}}, nil)
	await.Until(t, "the decoy has called", func() bool {
		all := desk.node.Pending()
		return len(all) == 1 && all[0].ID == decoy.ID() && all[0].Claim == "build-7.corp"
	})
	const none = `no key shows a certificate with the name "build-7.corp" now: `
	l.refused(kinds.UnknownPeer, "untrust", client.UntrustParams{Peer: "build-7.corp"}, none, `write the line "name build-7" into `+filepath.Join(desk.dir, "revoked.txt"))
	l.refused(kinds.UnknownPeer, "trust", client.TrustParams{Peer: "build-7.corp"}, none+"give the full id")
	for method, params := range map[string]any{"ping": client.PingParams{To: "build-7.corp"}, "policy": client.PolicyParams{Peer: "build-7.corp", Kind: "query"}} {
		err := l.call(method, params, nil)
		if err == nil || strings.Contains(err.Error(), "acpctl trust") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, ok := desk.trust.FindPeer(decoy.ID()); ok || len(desk.trust.Blocks()) > 0 {
		t.Errorf("the decoy is trusted: %t; %+v are blocked", ok, desk.trust.Blocks())
	}

	// While the certificate is shown, the name is blocked with its key.
	build = start(t, build.dir, "build-7")
	build.joinFleet(a, "", "acp:build-7")
	desk.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n", build.ID(), build.node.Addr()), "acp:desk")
	l.reach("build-7.corp")
	gone := get[client.Untrusted](l, "untrust", client.UntrustParams{Peer: "build-7.corp"})
	if b, ok := desk.trust.FindBlock(build.ID()); !ok || b.Name != "build-7.corp" || gone.ID != build.ID() || desk.trust.IsBlocked(decoy.ID()) {
		t.Errorf("%+v; %+v are blocked", gone, desk.trust.Blocks())
	}

	// A stranger's plain claim still means it.
	if !identity.MatchesClaim("build-7", "build-7") || identity.MatchesClaim("", "") || identity.MatchesClaim("a.b", "a.b") {
		t.Error("claims")
	}
}

// What untrust says of a name that nobody shows now has that name refused, before it calls.
func TestANameIsRefusedBeforeItCalls(t *testing.T) {
	t.Parallel()
	_, desk, build := fleet(t, "", "")
	l := desk.dial()
	withFile := desk.read("config.yaml")
	desk.write("config.yaml", strings.Replace(withFile, "      revoked: revoked.txt\n", "", 1))
	l.must("reload", nil, nil)
	e := l.refused(kinds.UnknownPeer, "untrust", client.UntrustParams{Peer: "build-7.corp"})
	if want := `write "revoked: revoked.txt" under organisation.authorities.corp in config.yaml, and the line "name build-7" into ` + filepath.Join(desk.dir, "revoked.txt"); !strings.Contains(e.Message, want) {
		t.Error(e)
	}
	desk.write("config.yaml", withFile)
	desk.write("revoked.txt", "name build-7\n")
	l.must("reload", nil, nil)
	for _, to := range []string{"build-7.corp", build.ID().String()} {
		l.refuseReached(to)
	}
	desk.write("revoked.txt", "")
	l.must("reload", nil, nil)
	l.reach("build-7.corp")
}
