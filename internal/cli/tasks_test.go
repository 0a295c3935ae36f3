package cli

import (
	"testing"

	"github.com/acpd/acpd/client"
)

// TestTasksJSON: the pages of the daemon's list are not in what is printed.
func TestTasksJSON(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{}})
	f.WantResult(f.Run("tasks", "--json"), 0, `{"tasks":[]}`+"\n", "")
}
