package connect

import (
	"context"
	"fmt"

	"github.com/acpd/acpd/client"
)

// askForAnswers asks whether answers to what sessions asked may wake them, and tells the daemon.
// agent is the session that is meant; "" means every one.
func (v *Verbs) askForAnswers(ctx context.Context, name, agent string) error {
	rules, err := v.Daemon.WakeRules(ctx)
	if err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	for _, rule := range rules.Answers {
		if rule.Agent == "" || rule.Agent == agent {
			v.TellLine("Answers wake sessions already.")
			return nil
		}
	}
	v.TellLine("")
	v.TellLine(formatWakeQuestion(agent))
	if err := v.requireYes(ctx); err != nil {
		return fmt.Errorf("setup: --wake: %w, so answers wake no session; what was accepted before is written", err)
	}
	if _, err := v.Daemon.SetWakeAnswers(ctx, client.WakeAnswersParams{On: true, Agent: agent}); err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	v.TellLine("Answers wake sessions from now on. acpctl setup " + name + " --undo --wake ends that.")
	return nil
}

// stepWake is the name of the question of --wake in what --dry-run --json prints.
const stepWake = "wake"

// formatWakeQuestion returns the question whether answers may wake a session; "" means all sessions.
func formatWakeQuestion(agent string) string {
	who := "any session here? This concerns the sessions of all programs, not only of this one."
	if agent != "" {
		who = "the session " + agent + "?"
	}
	return "May answers wake " + who + " An answer, error or question to what a session asked of a peer then begins a turn of it, which costs money, while you may be away; 20 an hour at most."
}

// takeBackAnswers tells the daemon that answers wake no session.
func (v *Verbs) takeBackAnswers(ctx context.Context, agent string) error {
	if _, err := v.Daemon.SetWakeAnswers(ctx, client.WakeAnswersParams{Agent: agent}); err != nil {
		return fmt.Errorf("setup: --wake: %w", err)
	}
	v.TellLine("From now on answers wake no session, unless agents in config.yaml allows it.")
	return nil
}

// tellOfAnswers tells a person whose setup was undone that answers still wake sessions.
func (v *Verbs) tellOfAnswers(ctx context.Context, name string) {
	if rules, err := v.Daemon.WakeRules(ctx); err == nil && len(rules.Answers) > 0 {
		v.TellLine("Answers still wake sessions of other programs: acpctl setup " + name + " --undo --wake ends that.")
	}
}
