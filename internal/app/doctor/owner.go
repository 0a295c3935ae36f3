package doctor

import (
	"context"
	"fmt"

	"github.com/acpd/acpd/client"
)

// examineOwnerNotify has the daemon start the command that tells the owner, if there is one. An older
// daemon knows of none.
func (x *examination) examineOwnerNotify(ctx context.Context) {
	if x.status == nil {
		return
	}
	set, err := x.Daemon.NotifyOwner(ctx, client.OwnerNotifyParams{Test: true})
	if err != nil || len(set.Command) == 0 {
		return
	}
	name := client.Line(set.Command[0])
	if set.Failed != "" {
		x.add("owner.failed", "owner", fmt.Sprintf("the command that tells you what waits for you failed, as %s says: %s", set.Source, client.Line(set.Failed)), "mend it: acpctl wake notify, or owner.notify in config.yaml")
		return
	}
	x.add("owner.ok", "owner", fmt.Sprintf("%s tells you what waits for you: it was started as a test", name), "")
}
