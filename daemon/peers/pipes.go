package peers

import (
	"context"
	"net"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/pipe"
)

// pipeLink is the link of all pipes, as package peer takes it.
type pipeLink struct{ *pipe.Link }

var _ peer.Opener = pipeLink{}

func (l pipeLink) Path() peer.Path { return peer.ViaPipe }

func (l pipeLink) Run(ctx context.Context, o peer.LinkObserver) error { return l.Link.Run(ctx, o) }

// findPipe returns the peer's name, and its command in config.yaml, which is empty unless one is configured.
func (s *Service) findPipe(id identity.ID) (name string, argv []string) {
	peers := s.Config().Peers
	p, trusted := s.Trust.FindPeer(id)
	if argv = peers[id.String()].Pipe; len(argv) == 0 && trusted {
		argv = peers[p.Name].Pipe
	}
	return p.Name, argv
}

// servePipe makes the connection a pipe, until it ends.
func (s *Service) servePipe(ctx context.Context, c *local.Conn, r *jsonrpc.Request) (any, error) {
	if err := r.ReadParams(nil); err != nil {
		return nil, err
	}
	if s.IsInUse(c) {
		return nil, kinds.Errorf(kinds.Invalid, "pipe: an agent or a subscription has this connection: open one only for this call")
	}
	return nil, s.Pipes.Join(ctx, func() (net.Conn, error) { return r.TakeOver(nil) })
}
