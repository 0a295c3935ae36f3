package up

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/internal/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// summaryTime bounds how long the peers have to answer for the summary.
const summaryTime = 3 * time.Second

// tellAll says who is there, who may wake whom, what was left out, and what to do next. It sends no question.
func (u *run) tellAll(ctx context.Context) error {
	peers, err := u.listPeers(ctx)
	if err != nil {
		return err
	}
	rules, err := u.Daemon.WakeRules(ctx)
	if err != nil {
		return err
	}
	programs := u.listConnected()
	told := make([]string, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() { told[i] = u.describePeer(ctx, p) })
	}
	asked.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	u.say("")
	u.PrintLine("This machine is %s.", client.Line(u.me.Name))
	first := ""
	for i, p := range peers {
		if p.ID == u.met || first == "" {
			first = p.Name
		}
		u.PrintLine("%s", told[i])
		for j := range programs {
			u.PrintLine("  %s", describeWaking(rules, &p, &programs[j]))
		}
	}
	for _, what := range u.left {
		u.PrintLine("Left out: %s", what)
	}
	for _, s := range u.connected {
		u.PrintLine("%s", setup.DescribeRestart(&s))
	}
	switch {
	case first == "":
	case len(programs) == 0:
		u.PrintLine("Ask a question: acpctl query %s 'Which branch is checked out there?'", first)
	default:
		u.PrintLine("Say to %s: Ask %s which branch is checked out there.", programs[0].Title, first)
	}
	return nil
}

// describePeer says whether a peer answers, how fast, and which agents it has.
func (u *run) describePeer(ctx context.Context, p client.Peer) string {
	ctx, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	pong, err := u.Daemon.Ping(ctx, client.PingParams{To: p.ID.String(), TimeoutMS: uint64(summaryTime.Milliseconds())})
	if err != nil {
		return p.Name + " does not answer now: acpctl ping " + p.Name + " says why."
	}
	text := fmt.Sprintf("%s answers in %s", p.Name, ui.FormatMilliseconds(pong.RTTUS))
	answer, err := u.Daemon.Discover(ctx, client.DiscoverParams{To: p.ID.String(), Fresh: true})
	if err != nil {
		return text + "."
	}
	c, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	switch {
	case err != nil:
		return text + "."
	case len(c.Agents) == 0:
		return text + ", and has no agent yet."
	}
	return text + ". Its agents: " + client.Line(strings.Join(c.Agents, ", ")) + "."
}

// describeWaking says whether a peer's questions may begin a turn of a program here.
func describeWaking(rules *client.WakeRules, p *client.Peer, s *setup.Status) string {
	agent := findAgentName(s)
	switch r := findWakeRule(rules, p.ID, agent); {
	case r == nil:
		return fmt.Sprintf("Its questions wait for the next tool call of %s (%s).", s.Title, agent)
	case r.Ask:
		return fmt.Sprintf("Its questions begin a turn of %s (%s) after your yes: acpctl approvals.", s.Title, agent)
	}
	return fmt.Sprintf("Its questions begin a turn of %s (%s).", s.Title, agent)
}
