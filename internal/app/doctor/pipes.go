package doctor

import (
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// hasPipe reports whether config.yaml has a command that leads to the peer.
func (x *examination) hasPipe(p *client.Peer) bool {
	return len(x.config.Peers[p.ID.String()].Pipe) > 0 || len(x.config.Peers[p.Name].Pipe) > 0
}

// isByPipe reports whether an error of a ping is that of the peer's pipe: of the only way to it, or
// of that which says most.
func (x *examination) isByPipe(p *client.Peer, e *kinds.Error) bool {
	if e == nil || !x.hasPipe(p) || e.Code != kinds.Unreachable && e.Code != kinds.Timeout {
		return false
	}
	return len(p.Addrs) == 0 && !x.usesRelays() || strings.Contains(e.Message, pipeAddr(p))
}

// pipeAddr returns the address of the pipe to a peer, as errors have it.
func pipeAddr(p *client.Peer) string { return "pipe:" + p.Name }

const pipeRemedy = "do what that says; acpctl ping with the peer's name shows what the command said; run it by hand, as the daemon's user; docs/reach.md, Pipe, has what it may say, and what to do"

// addDeadPipe reports with the words of e, an error of a dial, why the peer's command does not lead to it.
// The command's own text is not among them: a ping shows it.
func (x *examination) addDeadPipe(p *client.Peer, e *kinds.Error) {
	why, isOfPipe := strings.CutPrefix(strings.TrimPrefix(e.Message, p.Name+": "), pipeAddr(p)+": ")
	if !isOfPipe && strings.Contains(why, noAddress) {
		x.addUnreadPipe(p)
		return
	}
	x.add("pipe.dead", pipeAddr(p), "the pipe to "+p.Name+" does not lead there: "+client.Line(why), pipeRemedy)
}

const noAddress = "there is no address to try" // of a daemon that knows no pipe

// addUnreadPipe reports a pipe in config.yaml that the daemon does not know.
func (x *examination) addUnreadPipe(p *client.Peer) {
	x.add("pipe.dead", pipeAddr(p), "config.yaml has a pipe to "+p.Name+", and the daemon that runs has not read it", "acpctl reload")
}
