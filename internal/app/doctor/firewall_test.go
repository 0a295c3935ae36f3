package doctor

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/acpd/acpd/config"
)

const nftDrop = `table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		tcp dport 22 accept
RULE	}

	chain output {
		type filter hook output priority filter; policy accept;
	}
}
`

const iptablesDrop = `*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
RULECOMMIT
`

// TestFirewalls: of each firewall, what is said of a port.
func TestFirewalls(t *testing.T) {
	said := func(program, text string) func(*testing.T, *Machine) {
		return func(_ *testing.T, m *Machine) {
			m.RunProgram = func(_ context.Context, argv ...string) (string, error) {
				if argv[0] == program {
					return text, nil
				}
				return "", exec.ErrNotFound
			}
		}
	}
	firewalld := func(state, port, service string, err error) func(*testing.T, *Machine) {
		return func(_ *testing.T, m *Machine) {
			m.RunProgram = func(_ context.Context, argv ...string) (string, error) {
				switch {
				case argv[0] != "firewall-cmd":
					return "", exec.ErrNotFound
				case argv[1] == "--state":
					return state, nil
				case strings.HasPrefix(argv[1], "--query-port="):
					return port, err
				}
				return service, err
			}
		}
	}
	ufw := func(enabled, policy, rules string) func(*testing.T, *Machine) {
		return func(t *testing.T, m *Machine) {
			m.putFile(t, "etc/ufw/ufw.conf", "# comment\nENABLED="+enabled+"\n")
			m.putFile(t, "etc/default/ufw", "DEFAULT_INPUT_POLICY=\""+policy+"\"\n")
			if rules != "-" {
				m.putFile(t, "etc/ufw/user.rules", rules)
			}
		}
	}
	rule := func(text, by string) string { return strings.ReplaceAll(text, "RULE", by) }
	for name, c := range map[string]struct {
		prepare func(*testing.T, *Machine)
		want    Code
		says    string
	}{
		"none":                     {func(*testing.T, *Machine) {}, "firewall.ok", "no firewall"},
		"ufw off":                  {ufw("no", "DROP", ""), "firewall.ok", "no firewall"},
		"ufw closed":               {ufw("yes", "DROP", "### tuple ### allow tcp 7117 0.0.0.0/0 any 0.0.0.0/0 in\n### tuple ### deny udp 7117 0.0.0.0/0 any 0.0.0.0/0 in\n"), "firewall.closed", "ufw allow 7117/udp"},
		"ufw open":                 {ufw("yes", "DROP", "### tuple ### allow udp 7117 0.0.0.0/0 any 0.0.0.0/0 in\n"), "firewall.ok", "ufw is on"},
		"ufw open in a range":      {ufw("yes", "DROP", "### tuple ### allow any 7000:7200 0.0.0.0/0 any 0.0.0.0/0 in\n"), "firewall.ok", "ufw is on"},
		"ufw open by its profile":  {ufw("yes", "DROP", "### tuple ### allow udp 7117,5353 0.0.0.0/0 any 0.0.0.0/0 acpd - in\n"), "firewall.ok", "ufw is on"},
		"ufw lets all in":          {ufw("yes", "ACCEPT", ""), "firewall.ok", "ufw is on"},
		"ufw unread":               {ufw("yes", "DROP", "-"), "firewall.unread", "only root"},
		"firewalld closed":         {firewalld("running\n", "no\n", "no\n", nil), "firewall.closed", "--add-port=7117/udp"},
		"firewalld open":           {firewalld("running\n", "yes\n", "no\n", nil), "firewall.ok", "firewalld is on"},
		"firewalld open, service":  {firewalld("running\n", "no\n", "yes\n", nil), "firewall.ok", "firewalld is on"},
		"firewalld off":            {firewalld("not running\n", "", "", nil), "firewall.ok", "no firewall"},
		"firewalld unread":         {firewalld("running\n", "", "", errors.New("exit status 253")), "firewall.unread", "does not say"},
		"nft closed":               {said("nft", rule(nftDrop, "")), "firewall.closed", "udp dport 7117 accept"},
		"nft open":                 {said("nft", rule(nftDrop, "\t\tudp dport 7117 accept\n")), "firewall.ok", "nft is on"},
		"nft open, a set":          {said("nft", rule(nftDrop, "\t\tudp dport { 5353, 7117 } counter packets 0 bytes 0 accept\n")), "firewall.ok", "nft is on"},
		"nft other port":           {said("nft", rule(nftDrop, "\t\tudp dport 71170 accept\n")), "firewall.closed", "chain input"},
		"nft accepts all":          {said("nft", strings.Replace(nftDrop, "policy drop", "policy accept", 1)), "firewall.ok", "no firewall"},
		"iptables closed":          {said("iptables-save", rule(iptablesDrop, "")), "firewall.closed", "--dport 7117 -j ACCEPT"},
		"iptables open":            {said("iptables-save", rule(iptablesDrop, "-A INPUT -p udp -m udp --dport 7117 -j ACCEPT\n")), "firewall.ok", "iptables is on"},
		"iptables open, several":   {said("iptables-save", rule(iptablesDrop, "-A INPUT -p udp -m multiport --dports 5353,7000:7200 -j ACCEPT\n")), "firewall.ok", "iptables is on"},
		"iptables accepts what is": {said("iptables-save", strings.Replace(iptablesDrop, "DROP", "ACCEPT", 1)), "firewall.ok", "no firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &examination{Options: &Options{Machine: quietMachine(t)}, config: new(config.Config)}
			x.Machine.UID = 1000
			c.prepare(t, &x.Machine)
			x.examineFirewall(t.Context())
			if len(x.findings) != 1 || x.findings[0].Code != c.want || !strings.Contains(x.findings[0].What+x.findings[0].Remedy, c.says) {
				t.Errorf("%+v, want %s that says %q", x.findings, c.want, c.says)
			}
		})
	}
}
