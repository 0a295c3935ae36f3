package files

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// serveTake gives a file to whoever calls: its bytes follow the answer. Of the agents that may have a file that is
// for any, the first one gets it.
func (s *Service) serveTake(ctx context.Context, c *local.Conn, r *jsonrpc.Request) (any, error) {
	p := new(client.FileTakeParams)
	if err := r.ReadParams(p); err != nil {
		return nil, err
	}
	if err := s.checkIsFree(c, "file.take"); err != nil {
		return nil, err
	}
	of, err := readerOf(c, "file.take")
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, c, "file.take", p.Peer, p.ID, of)
	if err != nil {
		return nil, err
	}
	if !found.whole {
		return nil, kinds.Errorf(kinds.NotFound, "file.take: id: the file has not come whole yet: files says how much is there")
	}
	leave, err := s.takePlace(c, "file.take")
	if err != nil {
		return nil, err
	}
	defer leave()
	f, err := os.Open(s.path(found.key()))
	if err != nil {
		return nil, ownwords.Errorf("file.take: %w", err)
	}
	defer f.Close()
	isFirst := false
	if of != nil {
		taken, err := s.takeRecord(ctx, found.key(), *of)
		if err != nil {
			return nil, ownwords.Errorf("file.take: %w", err)
		}
		if !taken {
			return nil, kinds.Errorf(kinds.NotAuthorized, "file.take: another agent has taken this file: ask your owner, who can read it with acpctl files save")
		}
		isFirst, found.takenBy = found.takenBy == "", *of
	}
	conn, err := r.TakeOver(s.describe(found))
	if err != nil && isFirst {
		return nil, errors.Join(err, s.untakeRecord(context.WithoutCancel(ctx), found.key(), *of))
	}
	for err == nil {
		conn.SetWriteDeadline(time.Now().Add(idleTime))
		_, err = io.CopyN(conn, f, pieceBytes)
	}
	if err == io.EOF {
		err = nil
	}
	return nil, err
}
