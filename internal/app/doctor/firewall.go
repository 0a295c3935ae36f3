package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/acpd/acpd/config"
)

// examineFirewall looks whether a firewall of this machine lets the UDP port in. It knows ufw,
// firewalld, nftables and iptables, in this order: the first one that is on is the one that its
// administrator uses. A rule that names the port counts, whatever it says of sources.
func (x *examination) examineFirewall(ctx context.Context) {
	host, port := x.listenAddr()
	if x.Machine.OS != "linux" || isLoopback(host) || port == "0" {
		return
	}
	for _, look := range []func(context.Context, string) (found bool){x.examineUFW, x.examineFirewalld, x.examineNFT, x.examineIPTables} {
		if look(ctx, port) {
			return
		}
	}
	x.add("firewall.ok", "firewall", "no firewall of this machine that can be read keeps UDP port "+port+" closed", "")
}

// examineUFW reads the files of ufw, as its command is for root alone.
func (x *examination) examineUFW(_ context.Context, port string) bool {
	text, err := x.Machine.readFile("etc/ufw/ufw.conf")
	if err != nil || !regexp.MustCompile(`(?m)^ENABLED=yes`).Match(text) {
		return false
	}
	defaults, _ := x.Machine.readFile("etc/default/ufw")
	if regexp.MustCompile(`(?m)^DEFAULT_INPUT_POLICY="?ACCEPT`).Match(defaults) {
		return x.addFirewall("ufw", port, true, "")
	}
	rules, err := x.Machine.readFile("etc/ufw/user.rules")
	if err != nil {
		return x.addUnreadFirewall("ufw is on, and only root reads its rules", "as root: ufw status; if UDP port "+port+" is missing: ufw allow "+port+"/udp")
	}
	for _, rule := range regexp.MustCompile(`(?m)^### tuple ### allow (\S+) (\S+) `).FindAllStringSubmatch(string(rules), -1) {
		if (rule[1] == "udp" || rule[1] == "any") && namesPort(rule[2], port) {
			return x.addFirewall("ufw", port, true, "")
		}
	}
	return x.addFirewall("ufw", port, false, "as root: ufw allow "+port+"/udp")
}

func (x *examination) examineFirewalld(ctx context.Context, port string) bool {
	state, err := x.Machine.RunProgram(ctx, "firewall-cmd", "--state")
	if err != nil || !strings.Contains(state, "running") || strings.Contains(state, "not running") {
		return false
	}
	remedy := "as root: firewall-cmd --permanent --add-port=" + port + "/udp && firewall-cmd --reload"
	open, err := x.Machine.RunProgram(ctx, "firewall-cmd", "--query-port="+port+"/udp")
	service, _ := x.Machine.RunProgram(ctx, "firewall-cmd", "--query-service=acpd")
	switch {
	case strings.HasPrefix(open, "yes"), strings.HasPrefix(service, "yes") && port == config.DefaultPort:
		return x.addFirewall("firewalld", port, true, "")
	case strings.HasPrefix(open, "no"):
		return x.addFirewall("firewalld", port, false, remedy)
	}
	return x.addUnreadFirewall(fmt.Sprintf("firewalld runs, and does not say which ports are open (%v)", err), "if UDP port "+port+" is not: "+remedy)
}

func (x *examination) examineNFT(ctx context.Context, port string) bool {
	rules, err := x.Machine.RunProgram(ctx, "nft", "list", "ruleset")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return false
	case err != nil && x.Machine.UID != 0:
		return x.addUnreadFirewall("nft is here, and only root reads its rules", "as root: nft list ruleset; if a chain with hook input drops what it does not know, it needs: udp dport "+port+" accept")
	case err != nil:
		return false
	}
	for _, chain := range regexp.MustCompile(`(?s)chain (\S+) \{(.*?)\n\t\}`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(chain[2], "hook input") || !strings.Contains(chain[2], "policy drop") {
			continue
		}
		if !nftAccepts(rules, port) {
			return x.addFirewall("nft", port, false, fmt.Sprintf("as root, in the chain %s: udp dport %s accept", chain[1], port))
		}
		return x.addFirewall("nft", port, true, "")
	}
	return false
}

var nftPorts = regexp.MustCompile(`udp dport (\{[^}]*\}|\S+)[^\n]*accept`)

// nftAccepts reports whether a rule, in any chain, accepts a UDP port.
func nftAccepts(rules, port string) bool {
	for _, m := range nftPorts.FindAllStringSubmatch(rules, -1) {
		if namesPort(strings.Trim(m[1], "{} "), port) {
			return true
		}
	}
	return false
}

func (x *examination) examineIPTables(ctx context.Context, port string) bool {
	rules, err := x.Machine.RunProgram(ctx, "iptables-save", "-t", "filter")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return false
	case err != nil && x.Machine.UID != 0:
		return x.addUnreadFirewall("iptables is here, and only root reads its rules", "as root: iptables -S INPUT; if it drops what it does not know, it needs: iptables -A INPUT -p udp --dport "+port+" -j ACCEPT")
	case err != nil || !strings.Contains(rules, "\n:INPUT DROP") && !strings.HasPrefix(rules, ":INPUT DROP"):
		return false
	}
	for _, m := range regexp.MustCompile(`(?m)^-A .*-p udp .*--dports? (\S+) .*-j ACCEPT`).FindAllStringSubmatch(rules, -1) {
		if namesPort(m[1], port) {
			return x.addFirewall("iptables", port, true, "")
		}
	}
	return x.addFirewall("iptables", port, false, "as root: iptables -I INPUT -p udp --dport "+port+" -j ACCEPT")
}

// namesPort reports whether a list of ports and ranges, as these firewalls write it, has a port.
func namesPort(list, port string) bool {
	want, _ := strconv.Atoi(port)
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimSpace(item)
		first, last, isRange := strings.Cut(strings.ReplaceAll(item, ":", "-"), "-")
		low, errLow := strconv.Atoi(first)
		high, errHigh := low, error(nil)
		if isRange {
			high, errHigh = strconv.Atoi(last)
		}
		if item == "any" || errLow == nil && errHigh == nil && low <= want && want <= high {
			return true
		}
	}
	return false
}

func (x *examination) addFirewall(name, port string, open bool, remedy string) bool {
	if open {
		x.add("firewall.ok", "firewall", name+" is on, and lets UDP port "+port+" in", "")
	} else {
		x.add("firewall.closed", "firewall", name+" is on, and no rule of it lets UDP port "+port+" in: peers that call are not heard", remedy)
	}
	return true
}

func (x *examination) addUnreadFirewall(what, remedy string) bool {
	x.add("firewall.unread", "firewall", what, remedy)
	return true
}
