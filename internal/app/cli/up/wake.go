package up

import (
	"context"
	"fmt"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// wakeMeaning says what the answers to the question who may wake mean. It has a place for what is so of Claude Code.
const wakeMeaning = "In a turn your model reads the question and answers it, which costs money.\n" +
	"yes (y): they do so in every session that asks you before it runs tools, now and later.%s\n" +
	"ask (a): they do so after your yes in acpctl approvals. Until then a session reads the question only if it has a turn anyway.\n" +
	"no (n): a question is refused, or waits for the session's next turn if it names the session. The next acpctl up asks again."

// forWork says what lets a peer's work wake sessions too: the question is only about questions.
const forWork = "To let work that it delegates begin turns too: acpctl wake allow %s --kinds delegate"

// askWhoMayWake asks whether questions of the peer that was found may begin a turn of the sessions here. Without a new
// peer it asks about the only one. It does not ask if a rule for that peer's questions is there, because a yes is for
// every session, and replaces the rules for single ones.
func (u *run) askWhoMayWake(ctx context.Context) error {
	peers, err := u.listPeers(ctx)
	if err != nil {
		return err
	}
	rules, err := u.Daemon.WakeRules(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(peers, func(p client.Peer) bool { return p.ID == u.met })
	if u.met.IsZero() && len(peers) == 1 {
		i = 0
	}
	if i < 0 || len(u.listConnected()) == 0 || findRule(rules, peers[i].ID, kinds.KindQuery) != nil {
		return nil
	}
	ofClaude := ""
	if slices.ContainsFunc(u.listConnected(), func(s setup.Status) bool { return s.Program == "claude" }) {
		ofClaude = " They also do so in a Claude Code in its default mode (auto), which decides itself what to ask you."
	}
	question := fmt.Sprintf("May %s's questions begin a turn of your sessions?", peers[i].Name)
	answer := ""
	if u.asks {
		if answer, err = u.Choose(ctx, question+"\n"+fmt.Sprintf(wakeMeaning, ofClaude)+"\n"+fmt.Sprintf(forWork, peers[i].Name), "yes", "ask", "no"); err != nil {
			return err
		}
	}
	switch answer {
	case "no":
		return nil
	case "":
		u.leaveOut("%s Only a person can say that, at a terminal", question)
		return nil
	}
	p := client.WakeAllowParams{Peer: peers[i].ID.String(), Kinds: []string{kinds.KindQuery}, Ask: answer == "ask"}
	if _, err := u.Daemon.AllowWake(ctx, p); err != nil || !p.Ask {
		return err
	}
	u.Tell("acpctl approvals lists the questions that may begin a turn after your yes.")
	return u.OfferOwnerNotify(ctx)
}

// findRule returns a rule by which messages of a kind may wake an agent, or nil.
func findRule(rules *client.WakeRules, peer identity.ID, kind string) *client.WakeRule {
	i := slices.IndexFunc(rules.Rules, func(r client.WakeRule) bool { return r.Peer == peer && r.Kind == kind })
	if i < 0 {
		return nil
	}
	return &rules.Rules[i]
}

// findWakeRule returns the rule by which a peer's messages of a kind may wake an agent, or nil. A rule
// for the agent is preferred over one for every session, as in the daemon.
func findWakeRule(rules *client.WakeRules, peer identity.ID, kind, agent string) *client.WakeRule {
	for _, name := range []string{agent, ""} {
		i := slices.IndexFunc(rules.Rules, func(r client.WakeRule) bool {
			return r.Peer == peer && r.Kind == kind && r.Agent == name
		})
		if i >= 0 {
			return &rules.Rules[i]
		}
	}
	return nil
}
