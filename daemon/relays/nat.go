package relays

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/peer"
)

const stepNAT = "nat"

// tryNAT returns a step that says what kind of NAT this machine is behind, or no step without reach.stun. It asks
// from the UDP socket of the node.
func (r *Service) tryNAT(ctx context.Context) []client.RelayStep {
	reach := r.Start // what the node has
	if len(reach.STUN) == 0 || reach.Direct == config.Off {
		return nil
	}
	began := time.Now()
	step := describeNAT(r.Node.AskSTUN(ctx), r.Node.LocalAddrs())
	step.TookUS = uint64(time.Since(began).Microseconds())
	return []client.RelayStep{step}
}

// describeNAT returns what kind of NAT the answers show. It uses the first family of addresses in which two servers
// have answered, else the first answer. own has the addresses of the socket on this machine.
func describeNAT(answers []peer.STUNAnswer, own []string) client.RelayStep {
	step := client.RelayStep{Step: stepNAT, Verdict: client.StepOK}
	if len(answers) == 0 {
		step.Verdict, step.What = client.StepWarning, "no STUN server answers"
		step.Remedy = "look at reach.stun, and whether a firewall lets UDP out: without that there is no direct path, and the relay carries all"
		return step
	}
	judged := answers[:1]
	for _, is4 := range []bool{true, false} {
		var family []peer.STUNAnswer // of different hosts: a NAT may keep the port for all of one
		for _, a := range answers {
			isSame := func(b peer.STUNAnswer) bool { return a.Server.Addr() == b.Server.Addr() }
			if a.Mapped.Addr().Is4() == is4 && !slices.ContainsFunc(family, isSame) {
				family = append(family, a)
			}
		}
		if len(family) > 1 {
			judged = family
			break
		}
	}
	var seen []string
	for _, a := range judged {
		if text := a.Mapped.String(); !slices.Contains(seen, text) {
			seen = append(seen, text)
		}
	}
	isOwn := slices.ContainsFunc(own, func(text string) bool {
		a, err := netip.ParseAddrPort(text)
		return err == nil && a == judged[0].Mapped
	})
	switch {
	case len(seen) > 1:
		step.Verdict, step.What = client.StepWarning, "the NAT takes another port for each peer: "+strings.Join(seen, ", ")
		step.Remedy = "only peers that no NAT stands before are reached directly; have the NAT keep one port, or leave it so: the relay carries the rest"
	case isOwn:
		step.What = fmt.Sprintf("no NAT: this machine is seen at its own address %s", seen[0])
	case len(judged) > 1:
		step.What = fmt.Sprintf("the NAT keeps one port for all peers: %s", seen[0])
	default:
		step.Verdict, step.What = client.StepWarning, fmt.Sprintf("one STUN server sees this machine at %s, and the kind of NAT is not known", seen[0])
		step.Remedy = "name a second STUN server, at another address, in reach.stun"
	}
	return step
}
