package talk

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// taskChoice says which delegations an argument may mean.
type taskChoice struct {
	noun      string // of them
	fits      func(*client.Task) bool
	questions bool // it may mean an open question about one too
}

var (
	anyTask     = taskChoice{noun: "delegation", fits: func(*client.Task) bool { return true }}
	givenTask   = taskChoice{noun: "delegation that was given here", fits: func(t *client.Task) bool { return t.Direction == client.Given }}
	takenTask   = taskChoice{noun: "delegation that was taken here", fits: func(t *client.Task) bool { return t.Direction == client.Taken }}
	repliedTask = taskChoice{noun: "delegation, and no open question about one,", fits: anyTask.fits, questions: true}
)

// findTaskID returns the id that an argument means: a whole one, or the beginning of one that may be meant.
// It asks the daemon only about a beginning. The error names the argument.
func (v *verbs) findTaskID(ctx context.Context, name, text string, among taskChoice) (wire.MessageID, error) {
	id, err := frame.ParseMessageID(name, text)
	if err == nil {
		return id, nil
	}
	begun := strings.ToLower(text)
	if !frame.IsIDPrefix(begun) {
		return id, fmt.Errorf("%w, or %d or more characters that begin the id of a delegation", err, frame.LeastIDPrefix)
	}
	tasks, err := v.Daemon.Tasks(ctx)
	if err != nil {
		return id, err
	}
	found := among.find(tasks, begun)
	switch len(found) {
	case 0:
		return id, kinds.Errorf(kinds.NotFound, "%s: no %s has an id that begins with %s: see acpctl tasks", name, among.noun, begun)
	case 1:
		return found[0], nil
	}
	return id, frame.UsageErrorf("%s: %s begins %d ids: write more of the one that is meant: acpctl tasks lists them", name, begun, len(found))
}

// find returns the ids of what may be meant that begin so, each once.
func (c *taskChoice) find(tasks []client.Task, begun string) (found []wire.MessageID) {
	add := func(id wire.MessageID) {
		if strings.HasPrefix(id.String(), begun) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	for i := range tasks {
		t := &tasks[i]
		if c.fits(t) {
			add(t.ID)
		}
		if c.questions && t.Question != nil {
			add(t.Question.ID)
		}
	}
	return found
}
