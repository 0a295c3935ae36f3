package cli

import (
	"context"
	"fmt"

	"github.com/acpd/acpd/client"
)

// askForAnswers asks whether answers to what sessions asked may wake them, and tells the daemon.
// agent is the session that is meant; "" means every one.
func (a *app) askForAnswers(ctx context.Context, name, agent string) error {
	rules, err := a.Daemon.WakeRules(ctx)
	if err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	for _, rule := range rules.Answers {
		if rule.Agent == "" || rule.Agent == agent {
			a.tell("Answers wake sessions already.")
			return nil
		}
	}
	who := "any session here, of whichever program,"
	if agent != "" {
		who = "the session " + agent
	}
	a.tell("")
	a.tell(fmt.Sprintf("May the final answer, error or question to what %s asked of a peer wake it? It then takes a turn, which costs money, while you may be away; 20 an hour at most.", who))
	if err := a.requireYes(ctx); err != nil {
		return fmt.Errorf("setup: --wake: %w, so answers wake no session; what was accepted before is written", err)
	}
	if _, err := a.Daemon.SetWakeAnswers(ctx, client.WakeAnswersParams{On: true, Agent: agent}); err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	a.tell("Answers wake sessions from now on. acpctl setup " + name + " --undo --wake ends that.")
	return nil
}

// takeBackAnswers tells the daemon that answers wake no session.
func (a *app) takeBackAnswers(ctx context.Context, agent string) error {
	if _, err := a.Daemon.SetWakeAnswers(ctx, client.WakeAnswersParams{Agent: agent}); err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	a.tell("Answers wake no session from now on, unless agents in config.yaml says so.")
	return nil
}

// tellOfAnswers tells a person whose setup was undone that answers still wake sessions.
func (a *app) tellOfAnswers(ctx context.Context, name string) {
	if rules, err := a.Daemon.WakeRules(ctx); err == nil && len(rules.Answers) > 0 {
		a.tell("Answers still wake sessions of other programs: acpctl setup " + name + " --undo --wake ends that.")
	}
}
