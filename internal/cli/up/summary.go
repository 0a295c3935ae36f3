package up

import (
	"context"
	"fmt"
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
	told, before := make([]string, len(peers)), make([]string, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() { told[i], before[i] = u.describePeer(ctx, p) })
	}
	asked.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	u.say("")
	u.tell("This machine is %s.", client.Line(u.me.Name))
	first := 0 // the peer to ask
	for i, p := range peers {
		if p.ID == u.met {
			first = i
		}
		u.tell("%s", told[i])
		for j := range programs {
			u.tell("  %s", describeWaking(rules, &p, &programs[j]))
		}
	}
	for _, what := range u.left {
		u.tell("Left out: %s", what)
	}
	for _, s := range u.connected {
		u.tell("%s", setup.DescribeRestart(&s))
	}
	if len(peers) == 0 {
		return nil
	}
	if name := peers[first].Name; len(programs) == 0 {
		u.tell("%sAsk a question: acpctl query %s 'Which branch is checked out there?'", before[first], name)
	} else {
		u.tell("%sSay to %s: Ask %s which branch is checked out there.", before[first], programs[0].Title, name)
	}
	return nil
}

// maxNamed bounds the agents of a peer that are named.
const maxNamed = 8

// describePeer says whether a peer answers, how fast, and which agents it has. It also returns what has to happen
// before one of them can be asked.
func (u *run) describePeer(ctx context.Context, p client.Peer) (text, before string) {
	ctx, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	pong, err := u.Daemon.Ping(ctx, client.PingParams{To: p.ID.String(), TimeoutMS: uint64(summaryTime.Milliseconds())})
	if err != nil {
		return p.Name + " does not answer now: acpctl ping " + p.Name + " says why.", "When it answers: "
	}
	text = fmt.Sprintf("%s answers in %s", p.Name, ui.FormatMilliseconds(pong.RTTUS))
	answer, err := u.Daemon.Discover(ctx, client.DiscoverParams{To: p.ID.String(), Fresh: true})
	if err != nil {
		return text + ".", ""
	}
	c, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	switch {
	case err != nil:
		return text + ".", ""
	case len(c.Agents) == 0:
		return text + ", and has no agent yet.", "At " + p.Name + ", " + kinds.StartAgent + ". Then: "
	}
	return text + ". Its agents: " + ui.FormatAgentNames(c.Agents, maxNamed) + ".", ""
}

// describeWaking says whether a peer's questions may begin a turn of a program here.
func describeWaking(rules *client.WakeRules, p *client.Peer, s *setup.Status) string {
	agent := findAgentName(s)
	r := findWakeRule(rules, p.ID, agent)
	if r == nil {
		return fmt.Sprintf("Its questions wait for the next turn of %s.", s.Title)
	}
	which, after := agent, ""
	if r.Agent == "" {
		which = "every session"
	}
	if r.Ask {
		after = " after your yes: acpctl approvals"
	}
	return fmt.Sprintf("Its questions begin a turn of %s (%s)%s.", s.Title, which, after)
}
