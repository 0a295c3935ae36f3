package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
)

type fileRow struct {
	rowKey
	ID        string    `json:"id"` // of the peer
	Peer      string    `json:"peer"`
	Agent     string    `json:"agent"` // of the peer, as the peer says
	Own       string    `json:"own"`   // the agent here that sends it, or that it is for; "": none, or any
	Direction string    `json:"dir"`
	Name      string    `json:"name"`
	Text      string    `json:"text"`
	Thread    string    `json:"thread"`
	Size      uint64    `json:"size"`
	Bytes     uint64    `json:"bytes"`
	State     string    `json:"state"`
	TakenBy   string    `json:"taken_by"`
	Since     time.Time `json:"since"`
}

func newFileRow(f *client.File) fileRow {
	r := fileRow{
		rowKey: rowKey{string(f.Direction) + " " + f.Peer.String() + " " + f.ID.String()}, ID: f.Peer.String(), Peer: showName(cmp.Or(f.PeerName, f.Peer.Label())),
		Agent: showName(f.FromAgent), Own: showName(f.Agent), Direction: string(f.Direction), Name: showLine(f.Name, maxShown), Text: showLine(f.Text, maxShown),
		Thread: showName(f.Thread), Size: f.Size, Bytes: f.Bytes, State: string(f.State), TakenBy: showName(f.TakenBy), Since: f.Since,
	}
	if f.Direction == client.Out {
		r.Agent, r.Own = r.Own, r.Agent
	}
	return r
}

// readFiles reads the newest files.
func (w *watcher) readFiles(ctx context.Context) error {
	const newest = 100
	page, err := w.reading.FilesPage(ctx, client.FilesParams{Limit: newest})
	if client.IsOlderDaemon(err) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(page.Files, func(a, b client.File) int { return b.Since.Compare(a.Since) })
	more := 0
	if page.Next != 0 {
		more = 1
	}
	setRows(w.board, partFiles, mapRows(page.Files, newFileRow), more)
	return nil
}
