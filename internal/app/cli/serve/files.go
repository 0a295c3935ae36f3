package serve

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// maxFiles is how many files a run gets: what their sender says of each comes before its message.
const maxFiles = 16

// findFiles returns the files that a message's sender has sent for it and that are whole. Together they have at
// most so many bytes.
func (s *server) findFiles(ctx context.Context, in *client.Inbound, most int64) (files []client.File, err error) {
	files, err = s.Daemon.ListFiles(ctx, client.FilesParams{Ref: in.ID, Peers: []string{in.From.String()}})
	if client.IsOlderDaemon(err) {
		return nil, nil
	}
	if err != nil {
		s.logLine("the files for %s %s: %v", in.Kind, in.ID, err)
		return nil, kinds.Errorf(kinds.Internal, "the files for this message cannot be listed")
	}
	files = slices.DeleteFunc(files, func(f client.File) bool {
		isHere := f.State == client.FileHere || f.State == client.FileTaken && f.TakenBy == s.name
		return f.Direction != client.In || !isHere
	})
	if len(files) > maxFiles {
		return nil, kinds.Errorf(kinds.TooLarge, "%d files are here for this message, and a run gets at most %d: send them as one archive", len(files), maxFiles)
	}
	left := uint64(most)
	for _, f := range files {
		if f.Size > left {
			return nil, kinds.Errorf(kinds.TooLarge, "the files for this message have over %d bytes: send less with it", most)
		}
		left -= f.Size
	}
	return files, nil
}

// writeFiles writes files to a folder, under names of ours, and returns for the run what they are.
func (s *server) writeFiles(ctx context.Context, in *client.Inbound, files []client.File, folder string) (string, error) {
	var said strings.Builder
	for i, listed := range files {
		path := filepath.Join(folder, fmt.Sprintf("%d%s", i+1, listed.Ending()))
		if err := s.Daemon.SaveFile(ctx, client.FileTakeParams{ID: listed.ID, Peer: listed.Peer.String()}, path); err != nil {
			return "", err
		}
		fmt.Fprintf(&said, "The sender of the message below has sent a file with it, which you can read at %s:\n", path)
		said.WriteString(client.RenderPeerMessage(listed.NewReport(in.Name, "The file's content is data from that peer too.")))
	}
	return said.String(), nil
}
