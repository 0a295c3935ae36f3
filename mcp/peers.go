package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

type peersArguments struct {
	Peer string `json:"peer"`
	Page int    `json:"page"`
}

// discoverPatience is how long a peer may take to describe its agents.
const discoverPatience = 2 * time.Second

// self says who the session is.
type self struct {
	Daemon string `json:"daemon"`         // the name of this machine's daemon
	ID     string `json:"id"`             // its id
	Agent  string `json:"agent,omitzero"` // as which the session is attached; "": it only calls
}

// peerRow describes one peer.
type peerRow struct {
	Name  string           `json:"name"`
	ID    string           `json:"id"` // its label
	State client.PeerState `json:"state"`
	RTTMS float64          `json:"rtt_ms,omitzero"`
	About string           `json:"about"` // what is known of its agents, in words of ours

	said string // by the peer of its agents and their domains, under the cover; "": nothing
}

// answerWords say to a model when an agent answers.
var answerWords = map[string]string{kinds.AnswersNow: "now", kinds.AnswersWakes: "wakes", kinds.AnswersTurn: "when-active"}

// callPeers lists the peers. Under the cover it shows only the names of agents and of domains that peers
// give, and what the agents are for.
func (s *Server) callPeers(ctx context.Context, call *toolCall) (*result, error) {
	var a peersArguments
	if err := call.readArguments(&a); err != nil {
		return nil, err
	}
	who, err := twice(ctx, s.Daemon.Whoami)
	if err != nil {
		return nil, err
	}
	peers, err := twice(ctx, s.Daemon.Peers)
	if err != nil {
		return nil, err
	}
	peers = slices.DeleteFunc(peers, func(p client.Peer) bool {
		return p.State != client.PeerConnected && p.State != client.PeerTrusted || a.Peer != "" && p.Name != a.Peer && p.ID.String() != a.Peer
	})
	if a.Peer != "" && len(peers) == 0 {
		return nil, kinds.Errorf(kinds.UnknownPeer, "peer: no peer is called %q", cutText(a.Peer, 64))
	}
	slices.SortFunc(peers, func(a, b client.Peer) int { return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Name, b.Name)) })
	me := self{Daemon: client.Line(who.Name), ID: who.ID.String(), Agent: cmp.Or(s.agent.currentName(), s.Daemon.SpeakAs.Name)}
	var text strings.Builder
	fmt.Fprintf(&text, "You: %s on %s\n", cmp.Or(me.Agent, "no agent, so others cannot reach you,"), me.Daemon)
	if len(peers) == 0 {
		text.WriteString("No peers: your user adds one with acpctl up, here and on the other machine.")
	}
	first, end, err := cutRows(len(peers), peersOfPage, a.Page)
	if err != nil {
		return nil, err
	}
	rows := s.describePeers(ctx, peers[first:end])
	for _, row := range rows {
		text.WriteString(row.describe() + "\n")
	}
	r := &result{State: "listed", Text: text.String(), Detail: map[string]any{"me": me, "peers": rows}}
	if end < len(peers) {
		r.Next = max(a.Page, 1) + 1
		r.addNextPage("acp_peers")
	}
	return r, nil
}

// describePeers asks the peers of a page that are connected, all at the same time, what their agents are.
func (s *Server) describePeers(ctx context.Context, peers []client.Peer) []peerRow {
	rows := make([]peerRow, len(peers))
	var g errgroup.Group
	for i, p := range peers {
		rows[i] = peerRow{Name: p.Name, ID: p.ID.Label(), State: p.State, About: "not connected now"}
		if p.Refuses {
			rows[i].About = "does not trust this daemon: its owner has to run acpctl trust there"
		}
		if p.State != client.PeerConnected {
			continue
		}
		if p.RTTUS != nil {
			rows[i].RTTMS = float64(*p.RTTUS) / 1000
		}
		g.Go(func() error {
			s.describeAgents(ctx, &rows[i], p.ID, rowsOfPage/len(rows)-rowWithoutAbout)
			return nil
		})
	}
	g.Wait()
	return rows
}

// describeAgents asks a peer for its agents. It shows at most room bytes of the agents' own descriptions.
func (s *Server) describeAgents(ctx context.Context, row *peerRow, id identity.ID, room int) {
	answer, err := s.Daemon.Discover(ctx, client.DiscoverParams{To: row.Name, Fresh: true, TimeoutMS: uint64(discoverPatience.Milliseconds())})
	if e := kinds.AsError(err); err != nil && e.Code == kinds.NotAuthorized && e.From == "" {
		row.About = "your owner does not let this session call it: agents in config.yaml, key to"
		return
	}
	if err != nil {
		row.About = "it does not say what its agents are: " + string(nameCode(kinds.AsError(err).Code))
		return
	}
	c, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	if err != nil {
		row.About = "it does not say what its agents are"
		return
	}
	var shown kinds.Capabilities
	agents := c.ListAgents()
	for _, a := range agents[:min(len(agents), mostAgents)] {
		line := plainName(a.Name) + " (" + cmp.Or(answerWords[a.Answers], "?") + ")"
		if about := plainMarks.Replace(client.Line(a.About)); about != "" && len(about) <= room {
			line, room = line+": "+about, room-len(about)
		}
		shown.Agents = append(shown.Agents, line)
	}
	for _, d := range c.Domains[:min(len(c.Domains), mostNames)] {
		shown.Domains = append(shown.Domains, plainName(d))
	}
	switch {
	case len(shown.Domains) > 0:
		row.About = "its agents, and the domains that they are for:"
	case len(shown.Agents) > 0:
		row.About = "its agents, which are for any domain:"
	default:
		row.About = "no agents now: notices wait in its inbox"
		return
	}
	if len(agents) > mostAgents || len(c.Domains) > mostNames {
		row.About = "some of " + row.About
	}
	row.said = client.RenderPeerMessage(client.PeerMessage{Peer: row.Name, ID: id, Kind: kinds.KindCapabilities, Payload: kinds.EncodePayload(&shown)})
}

// Bounds of what is shown of peers: together it is a page.
const (
	peersOfPage     = 5
	mostAgents      = 8
	mostNames       = 6
	rowsOfPage      = 7500 // bytes of all rows
	rowWithoutAbout = 1250 // bytes of the longest row without what agents say that they are for
)

// describe returns the row as a line, and below it what the peer says.
func (r *peerRow) describe() string {
	return strings.TrimSuffix(fmt.Sprintf("%s (%s, %s): %s\n%s", r.Name, r.ID, r.State, r.About, r.said), "\n")
}

// plainMarks replaces the marks that take more room where a model reads them.
var plainMarks = strings.NewReplacer(`"`, "'", `\`, "/", "<", "(", "[", "(")

// plainName returns a name that a peer claims, "?" unless it is plain.
func plainName(name string) string {
	if !client.IsPlainAgentName(name) {
		return "?"
	}
	return name
}
