package up

import (
	"context"
	"fmt"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// askWhoMayWake asks, for the peer that was found and for each program that is connected, whether the peer's questions
// may begin a turn. Without a new peer it asks of the only one. It does not ask again where a rule says so already.
func (u *run) askWhoMayWake(ctx context.Context) error {
	peers, err := u.listPeers(ctx)
	if err != nil {
		return err
	}
	programs := u.listConnected()
	rules, err := u.Daemon.WakeRules(ctx)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.ID != u.met && (len(peers) > 1 || !u.met.IsZero()) {
			continue
		}
		for i := range programs {
			agent := findAgentName(&programs[i])
			if findWakeRule(rules, p.ID, agent) != nil {
				continue
			}
			question := fmt.Sprintf("May %s's questions begin a turn of your %s session?", p.Name, programs[i].Title)
			answer, err := u.choose(ctx, question, "y = yes, a = ask me each time, n = no", "y", "a", "n")
			if err != nil {
				return err
			}
			if answer == "" {
				u.leaveOut("%s Only a person can say that, at a terminal", question)
			}
			if answer != "y" && answer != "a" {
				continue
			}
			if _, err := u.Daemon.AllowWake(ctx, client.WakeAllowParams{Peer: p.ID.String(), Kinds: []string{kinds.KindQuery}, Agent: agent, Ask: answer == "a"}); err != nil {
				return err
			}
			if answer == "a" {
				u.say("acpctl approvals lists what waits for your yes.")
				if err := u.OfferOwnerNotify(ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// findWakeRule returns the rule by which a peer's questions may wake an agent, nil if there is none. A rule
// for the agent goes before one for every session, as in the daemon.
func findWakeRule(rules *client.WakeRules, peer identity.ID, agent string) *client.WakeRule {
	for _, name := range []string{agent, ""} {
		i := slices.IndexFunc(rules.Rules, func(r client.WakeRule) bool {
			return r.Peer == peer && r.Kind == kinds.KindQuery && r.Agent == name
		})
		if i >= 0 {
			return &rules.Rules[i]
		}
	}
	return nil
}
