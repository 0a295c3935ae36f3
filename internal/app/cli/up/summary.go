package up

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/internal/app/cli/ui"
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
	told := make([]peerSummary, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() { told[i] = u.describePeer(ctx, p) })
	}
	asked.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	u.Tell("")
	u.printSummary("This machine is %s.", client.Line(u.me.Name))
	first := 0 // the peer to ask
	for i, p := range peers {
		if p.ID == u.met {
			first = i
		}
		u.printSummary("%s", told[i].text)
		for j := range programs {
			u.printSummary("  %s", describeWaking(rules, &p, &programs[j]))
		}
	}
	for _, what := range u.left {
		u.printSummary("Left out: %s", what)
	}
	for _, s := range u.connected {
		u.printSummary("%s", setup.DescribeRestart(&s))
	}
	if len(peers) == 0 {
		return nil
	}
	if ask := &told[first]; len(programs) == 0 {
		u.printSummary("%sAsk a question: acpctl query %s 'Which branch is checked out there?'", ask.before, ask.whom)
	} else {
		u.printSummary("%sSay to %s: Ask %s which branch is checked out there.", ask.before, programs[0].Title, ask.whom)
	}
	return nil
}

// peerSummary is what the summary says of a peer.
type peerSummary struct {
	text   string // whether it answers, how fast, and which agents it has
	before string // what has to happen before one of them can be asked
	whom   string // to ask: a session of it, if it has one
}

func (u *run) describePeer(ctx context.Context, p client.Peer) peerSummary {
	ctx, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	s := peerSummary{whom: p.Name}
	pong, err := u.Daemon.Ping(ctx, client.PingParams{To: p.ID.String(), TimeoutMS: uint64(summaryTime.Milliseconds())})
	if err != nil {
		s.text, s.before = p.Name+" does not answer now: acpctl ping "+p.Name+" says why.", "When it answers: "
		return s
	}
	s.text = fmt.Sprintf("%s answers in %s", p.Name, ui.FormatMilliseconds(pong.RTTUS))
	var c *kinds.Capabilities
	answer, err := u.Daemon.Discover(ctx, client.DiscoverParams{To: p.ID.String(), Fresh: true})
	if err == nil {
		c, err = kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	}
	switch {
	case err != nil:
		s.text += "."
	case len(c.Agents) == 0:
		s.text, s.before = s.text+", and has no agent yet.", "At "+p.Name+", "+kinds.RemedyNoAgent+". Then: "
	default:
		s.text += ". Its agents: " + ui.FormatAgentNames(c.Agents, kinds.MaxDetails) + "."
		s.whom += findSession(c)
	}
	return s
}

// findSession returns "/" and the name of a session of a peer, first of all of one that wakes. It returns "" if the
// peer names none.
func findSession(c *kinds.Capabilities) string {
	for _, answers := range []string{kinds.AnswersWakes, kinds.AnswersTurn} {
		for _, a := range c.Details {
			if a.Answers == answers && client.IsPlainAgentName(a.Name) {
				return "/" + a.Name
			}
		}
	}
	return ""
}

// describeWaking says which messages of a peer may begin a turn of a program here, and whether its questions may.
func describeWaking(rules *client.WakeRules, p *client.Peer, s *setup.Status) string {
	agent, said := findAgentName(s), ""
	ways, names := []string{}, make(map[string][]string) // of the kinds that may wake in each way
	for _, k := range kinds.ListKinds() {
		r := findWakeRule(rules, p.ID, k.Name, agent)
		if r == nil || !k.Has(kinds.Wakes) {
			continue
		}
		way := fmt.Sprintf(" may begin a turn of %s (%s)", s.Title, cmp.Or(r.Agent, "every session"))
		if r.Ask {
			way += " after your yes: acpctl approvals"
		}
		if names[way] == nil {
			ways = append(ways, way)
		}
		names[way] = append(names[way], k.Plural)
	}
	if findWakeRule(rules, p.ID, kinds.KindQuery, agent) == nil {
		said = fmt.Sprintf(" Its questions begin no turn of %s: one that names its session waits for the next turn.", s.Title)
	}
	for _, way := range ways {
		said += " Its " + strings.Join(names[way], ", ") + way + "."
	}
	return said[1:]
}
