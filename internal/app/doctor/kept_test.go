package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/wire"
)

// findLongKept returns what is found where messages are kept: one finding for each peer for which one is kept for long.
func findLongKept(t *testing.T) []Finding {
	all := faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		var tasks []client.Task
		for _, c := range []struct {
			id    wire.MessageID
			peer  string
			hours time.Duration
		}{{wire.MessageID{1}, "laptop", 1}, {wire.MessageID{2}, "build", 2}, {wire.MessageID{3}, "laptop", 25}, {clitest.SomeID, "laptop", 30}} {
			tasks = append(tasks, client.Task{
				ID: c.id, Peer: c.peer, Direction: client.Given, State: client.TaskKept, Began: client.Time{Time: time.Now().Add(-c.hours * time.Hour)},
				Kept: &client.Kept{ID: c.id, LastError: "nothing listens there"},
			})
		}
		ended := tasks[3]
		ended.Peer, ended.Kept = "build", nil
		d.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: append(tasks, ended)})
	}).find(t)
	f := findCode(all, "message.kept")
	for _, want := range []string{"2 messages for laptop", clitest.SomeID.String() + ": nothing listens there", "acpctl doctor laptop", "acpctl cancel " + clitest.SomeID.String()} {
		if !strings.Contains(f.What+"; "+f.Remedy, want) {
			t.Errorf("%+v lacks %q", f, want)
		}
	}
	if n := strings.Count(render(all), "message.kept"); n != 1 {
		t.Errorf("%d findings", n)
	}
	return all
}
