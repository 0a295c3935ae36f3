package daemon

import (
	"errors"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
)

// check checks what has become of a message: task is zero if its sender has none.
func (w *keptWeather) check(m *keptMessage, task client.Task, isHeld bool) {
	if problem := m.findProblem(task, isHeld, w.sides[m.from].epoch.Load()); problem != "" {
		w.t.Errorf("%s (%s of %s, byAgent %v, %q, called %v): %s\nkind %q, state %q, outcome %q, held %v, handled %d times, told %+v",
			m.id, m.kind, w.sides[m.from].name, m.byAgent, m.manner, m.err, problem, task.Kind, task.State, task.Outcome, isHeld, len(m.handled), m.reports)
	}
	switch {
	case len(m.handled) > 0 || isHeld:
		m.ended(storm.Succeeded)
	case task.State == client.TaskUnknown || task.ID.IsZero() && !m.isUndelivered():
		m.ended(storm.Failed)
	default:
		m.ended(storm.NotDelivered)
	}
}

// isUndelivered reports whether the call has failed and says that the message was not delivered.
func (m *keptMessage) isUndelivered() bool {
	return m.err != nil && kinds.AsError(m.err).Delivered() == kinds.DeliveredNo
}

// isToBeTold reports whether the agent that has sent a message hears of its end.
func (m *keptMessage) isToBeTold(t client.Task) bool {
	return m.byAgent && (t.Kind != "" && t.Over || m.isKept && (t.State == client.TaskUnknown || t.State == client.TaskRefused))
}

// findProblem returns what is wrong with a message, or "".
func (m *keptMessage) findProblem(t client.Task, held bool, epoch int64) string {
	isThere, wasOffered := !t.ID.IsZero(), len(m.handled) == 1
	if len(m.handled) > 1 {
		return "it was handled more than once"
	}
	if !isThere && m.isKept {
		return "it was kept, and is lost"
	}
	if m.isKept && wasOffered && m.handled[0].After(m.until.Add(time.Second)) {
		return "it was handled after its time: " + m.handled[0].Sub(m.until).String()
	}
	if !isThere && m.isUndelivered() && (wasOffered || held) {
		return "its call says that it was not delivered"
	}
	ended := isThere && t.Over && t.Kind != ""
	switch {
	case !ended:
	case m.kind == kinds.KindQuery && t.State == client.TaskCompleted && wasOffered && m.manner == "" && t.Outcome == m.id.String():
	case m.kind == kinds.KindNotify && (t.State == client.TaskHanded && wasOffered || t.State == client.TaskHeld && held):
	case t.State == client.TaskRefused && wasOffered && (m.manner == "decline" || m.manner == "fail" && m.kind == kinds.KindDelegate):
	case t.State == client.TaskRefused || t.State == client.TaskExpired || t.State == client.TaskWithdrawn:
		if wasOffered || held {
			return "it has arrived"
		}
	case t.State == client.TaskUnknown:
	default:
		return "the end is not true"
	}
	if m.isToBeTold(t) && len(m.reports) == 0 {
		return "it was not told"
	}
	isUnknown := t.State == client.TaskUnknown || isThere && t.Kind == "" && t.State == client.TaskCancelled // after it was unknown
	mayBeTold := isUnknown || t.State == client.TaskRefused && errors.Is(m.err, jsonrpc.ErrClosed)           // nobody knows whether it was kept
	if len(m.reports) > 0 && !m.isToBeTold(t) && !(m.byAgent && mayBeTold) {
		return "it should not have been told"
	}
	told := make(map[int64]bool)
	for _, r := range m.reports {
		if r.id != m.reports[0].id || r.said != m.reports[0].said {
			return "it was told two ends"
		}
		if told[r.epoch] || r.epoch == 0 && told[epoch] {
			return "it was told twice"
		}
		told[r.epoch] = true
		if strings.Contains(r.said, "may have arrived") != isUnknown {
			return "it was told another end"
		}
		if isUnknown && r.epoch > 0 && r.links == m.links {
			return "no byte of it can have left"
		}
	}
	return ""
}
