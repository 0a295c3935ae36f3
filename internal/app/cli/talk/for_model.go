package talk

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// addForModelFlag adds --for-model to a verb that prints what peers wrote.
func (v *verbs) addForModelFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&v.ForModel, "for-model", false, "print what a peer wrote as data for a model: below a line that says whose it is, between lines that no peer can write")
}

// checkForModel returns an error if both --for-model and --json were given.
func (v *verbs) checkForModel() error {
	if v.ForModel && v.JSON {
		return frame.UsageErrorf("--for-model prints text, --json prints JSON: give one of them")
	}
	return nil
}

// printForModel prints a message of the peer with an id for a model. If the peers cannot be
// listed it shows no petname.
func (v *verbs) printForModel(ctx context.Context, m client.PeerMessage) {
	m.Peer = v.FindPetname(ctx, m.ID.String()) // the id, which is not a petname, if it has no petname
	v.PrintForModel(m)
}

// printTaskForModel prints a result of a delegation, its error, or why it was refused, for a model.
// It reports whether it did: not without --for-model, nor what no peer wrote.
func (v *verbs) printTaskForModel(ctx context.Context, t *client.Task, payload wire.Payload) bool {
	if !v.ForModel || t.Direction != client.Given {
		return false
	}
	kind := kinds.FindReportKind(payload)
	switch {
	case kind != "":
	case t.State == client.TaskRefused: // the daemon keeps only the words of the refusal
		kind, payload = kinds.KindAck, kinds.EncodePayload(&kinds.Ack{Message: t.Outcome})
	default:
		return false // the delegation has no words
	}
	v.printForModel(ctx, client.PeerMessage{
		ID: v.findTaskPeer(ctx, t), Kind: kind, Ref: t.ID, Payload: payload,
		Answer: "It reports on the task that you handed over; nothing has to be sent back.",
	})
	return true
}

// findTaskPeer returns the id of a task's peer, the zero one if it cannot be found.
func (v *verbs) findTaskPeer(ctx context.Context, t *client.Task) identity.ID {
	if id, err := identity.ParseID(t.Peer); err == nil {
		return id
	}
	peers, err := v.Daemon.Peers(ctx)
	if i := slices.IndexFunc(peers, func(p client.Peer) bool { return p.Name == t.Peer }); err == nil && i >= 0 {
		return peers[i].ID
	}
	return identity.ID{}
}
