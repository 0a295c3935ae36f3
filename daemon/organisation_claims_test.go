package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

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
	if e := l.refused(kinds.UnknownPeer, "untrust", client.UntrustParams{Peer: "build-7.corp"}); !strings.Contains(e.Message, none) || !strings.Contains(e.Message, `write the line "name build-7" into `+filepath.Join(desk.dir, "revoked.txt")) {
		t.Error(e)
	}
	if e := l.refused(kinds.UnknownPeer, "trust", client.TrustParams{Peer: "build-7.corp"}); !strings.Contains(e.Message, none+"give the full id") {
		t.Error(e)
	}
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
	var gone client.Untrusted
	l.must("untrust", client.UntrustParams{Peer: "build-7.corp"}, &gone)
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
