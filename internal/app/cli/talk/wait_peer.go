package talk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// peerWait says what acpctl wait waits for at a peer.
type peerWait struct {
	online, idle bool
	timeout      time.Duration
}

// peerFound is what acpctl wait prints of a peer.
type peerFound struct {
	Peer     string      `json:"peer"`
	ID       identity.ID `json:"id"`
	Agent    string      `json:"agent,omitzero"`
	Status   string      `json:"status"` // of the peer's daemon: idle, busy or overloaded
	RTTUS    uint64      `json:"rtt_us"` // of the ping
	WaitedMS int64       `json:"waited_ms"`
}

func (p *peerWait) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&p.online, "online", false, "wait until the peer answers, and the agent is attached there")
	f.BoolVar(&p.idle, "idle", false, "wait until it is online, and does nothing")
	f.DurationVar(&p.timeout, "timeout", 0, "how long to wait (default: until interrupted)")
}

// checkTimeout returns an error if --timeout leaves no time to wait.
func (p *peerWait) checkTimeout(cmd *cobra.Command) error {
	if cmd.Flags().Changed("timeout") && p.timeout <= 0 {
		return frame.UsageErrorf("--timeout: expected a duration like 5m")
	}
	return nil
}

// waitForPeer waits until a peer, or an agent there, is what p says, and prints one line.
func (v *verbs) waitForPeer(cmd *cobra.Command, to string, p peerWait) error {
	switch {
	case p.online && p.idle:
		return frame.UsageErrorf("--online and --idle: --idle waits for both: leave one of them out")
	case strings.TrimSpace(to) == "":
		return frame.UsageErrorf("PEER is empty")
	}
	if err := p.checkTimeout(cmd); err != nil {
		return err
	}
	ctx, began := cmd.Context(), time.Now()
	var found *peerFound
	last, isOver := v.awaitPeer(ctx, to, p.timeout, isNotYet, func(ctx context.Context) (err error) {
		found, err = v.findPeer(ctx, to, p.idle)
		return err
	})
	what := "online"
	if p.idle {
		what = "idle"
	}
	switch {
	case isOver:
		return kinds.Errorf(kinds.Timeout, "%s was not %s within %s: %s", client.Line(to), what, kinds.FormatDuration(p.timeout), describeWaiting(last))
	case last != nil:
		return last
	}
	found.WaitedMS = time.Since(began).Milliseconds()
	return v.PrintData(found, func() {
		v.PrintLine("%s is %s (%s)", client.Line(to), what, ui.FormatMilliseconds(found.RTTUS))
	})
}

// findPeer returns what a peer says of itself now. The error is a [notYetError] if it, or the agent that
// to names, is not what is wanted.
func (v *verbs) findPeer(ctx context.Context, to string, idle bool) (*peerFound, error) {
	name, agent, isAgent := strings.Cut(to, "/")
	answer, err := v.Daemon.Ping(ctx, client.PingParams{To: name})
	if err != nil {
		return nil, err
	}
	pong, err := kinds.ParsePayload[kinds.Pong](answer.Payload)
	if err != nil {
		return nil, err
	}
	found := &peerFound{Peer: name, ID: answer.From, Agent: agent, Status: pong.Status, RTTUS: answer.RTTUS}
	if !isAgent && !idle {
		return found, nil
	}
	can, err := v.Daemon.Discover(ctx, client.DiscoverParams{To: to, Fresh: true})
	if err != nil {
		return nil, err
	}
	if idle {
		c, err := kinds.ParsePayload[kinds.Capabilities](can.Payload)
		if err != nil {
			return nil, err
		}
		return found, checkIdle(pong, c, agent)
	}
	return found, nil
}

// checkIdle returns an error unless a peer says that nothing is under way there, and that the
// agent, or one of all if agent is "", takes work without waiting for a turn of its own.
func checkIdle(pong *kinds.Pong, c *kinds.Capabilities, agent string) error {
	agents := c.Agents
	if agent != "" {
		agents = []string{agent}
	}
	switch {
	case len(agents) == 0:
		return notYetError("no agent is attached there")
	case !slices.ContainsFunc(agents, func(name string) bool { return !slices.Contains(c.Sessions, name) }):
		return notYetError("it answers only while it has a turn, and questions from here do not wake it: acpctl wake allow, there, lets them")
	case pong.Status != string(client.DaemonIdle):
		return notYetError(fmt.Sprintf("%d questions and tasks are under way there", pong.ActiveTasks))
	}
	return nil
}

// isNotYet reports whether what is waited for may come after an error.
func isNotYet(err error) bool {
	if _, ok := errors.AsType[notYetError](err); ok || isPeerAway(err) {
		return true
	}
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && e.Code == kinds.NoAgent
}
