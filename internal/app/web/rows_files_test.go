package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestFilesHaveRows: the newest files have rows, whose two ends are the right way round. An older daemon has none.
func TestFilesHaveRows(t *testing.T) {
	in := client.File{Direction: client.In, Peer: deskID, PeerName: "desk", Agent: "planner", FromAgent: "reviewer"}
	out := client.File{Direction: client.Out, Peer: deskID, Agent: "reviewer", FromAgent: "planner"}
	if a, b := newFileRow(&in), newFileRow(&out); a.Own != "planner" || a.Agent != "reviewer" || b.Own != "planner" || b.Agent != "reviewer" || b.Peer != deskID.Label() || a.Key == b.Key {
		t.Errorf("%+v, %+v", a, b)
	}
	f := newFixture(t, nil)
	files := make([]client.File, 130)
	for i := range files {
		files[i] = client.File{ID: wire.MessageID{1, byte(i)}, Direction: client.In, Peer: deskID, Name: fmt.Sprint(i), Since: began.Add(-time.Duration(i) * time.Second)}
	}
	read := func() (map[string]boardRow, int) {
		w := &watcher{board: newBoard(), reading: &client.Client{Socket: f.daemon.Home + "/" + client.SocketName}}
		defer w.reading.Close()
		if err := w.readFiles(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := w.board.part(partFiles)
		return p.rows, p.more
	}
	f.daemon.SetHandler(client.MethodFiles, func(r *jsonrpc.Request) (any, error) {
		var p client.FilesParams
		err := r.ReadParams(&p)
		if p.After != 0 {
			t.Error("it reads more than one page")
		}
		return client.Files{Files: files[:p.Limit], Next: 100}, err
	})
	rows, more := read()
	newest, oldest := newFileRow(&files[0]), newFileRow(&files[100])
	if len(rows) != 100 || more != 1 || rows[newest.Key].text == nil || rows[oldest.Key].text != nil {
		t.Errorf("%d rows, %d more", len(rows), more)
	}
	f.daemon.SetAnswer(client.MethodFiles, jsonrpc.NewMethodNotFound(client.MethodFiles))
	if rows, more := read(); len(rows) != 0 || more != 0 {
		t.Errorf("an older daemon: %d rows, %d more", len(rows), more)
	}
}

// TestHeldReports: the report of a file stands in the inbox as a file. One that a peer has forged is a notice.
func TestHeldReports(t *testing.T) {
	file := client.File{ID: wire.MessageID{1}, Peer: deskID, Name: "build.log", Text: "The log"}
	m := client.HeldMessage{Envelope: wire.Envelope{Kind: kinds.KindNotify, Payload: file.NewReport("desk", "").Payload}}
	if r := newHeldRow(&m, nil); r.Kind != kinds.KindNotify {
		t.Errorf("%+v", r)
	}
	m.Origin = client.OriginDaemon
	if r := newHeldRow(&m, nil); r.Kind != fileKind || r.Text != "build.log The log" {
		t.Errorf("%+v", r)
	}
}
