package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// newFileServer returns a server that has a connection carry a file, as carry does it. Speak is answered.
func newFileServer(t *testing.T, result any, carry func(p FileSendParams, conn net.Conn)) *Client {
	s := newServer(t, func(_ context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
		if r.Method == MethodSpeak {
			r.Respond(nil)
			return
		}
		var p FileSendParams
		if err := r.ReadParamsIgnoringUnknown(&p); err != nil {
			r.RespondError(err)
			return
		}
		conn, err := r.TakeOver(result)
		if err != nil {
			r.RespondError(err)
			return
		}
		carry(p, conn)
	})
	return &Client{Socket: s.path, SpeakAs: SpeakParams{Name: "fixer", Key: "k"}}
}

func tellLine(conn net.Conn, line FileSendLine) {
	text, _ := json.Marshal(&line)
	conn.Write(append(text, '\n'))
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// The daemon gets the ranges that it asks for, in its order, and the client hears how it ended.
func TestSendFile(t *testing.T) {
	content := strings.Repeat("0123456789", 50_000)
	id := wire.NewMessageID()
	got := make(chan string, 1)
	c := newFileServer(t, nil, func(p FileSendParams, conn net.Conn) {
		if p.SHA256 != hashOf(content) || p.Size != uint64(len(content)) {
			t.Errorf("params: %+v", p)
		}
		tellLine(conn, FileSendLine{State: FileMoving, ID: id, Relay: true})
		whole := make([]byte, len(content))
		for _, r := range [][2]uint64{{300_000, 200_000}, {0, 300_000}, {7, 0}} {
			tellLine(conn, FileSendLine{Range: &r, Moved: r[0]})
			io.ReadFull(conn, whole[r[0]:r[0]+r[1]])
		}
		got <- string(whole)
		tellLine(conn, FileSendLine{Done: &FileSent{ID: id, State: Held}})
	})
	var seen []FileSendLine
	sent, err := c.SendFile(t.Context(), FileSendParams{To: "desk", Name: "n", Size: uint64(len(content))}, strings.NewReader(content+"more"), func(l FileSendLine) { seen = append(seen, l) })
	if err != nil || sent != (FileSent{ID: id, State: Held}) || <-got != content {
		t.Errorf("%+v, %v", sent, err)
	}
	if len(seen) != 4 || !seen[0].Relay || seen[1].Moved != 300_000 {
		t.Errorf("lines: %+v", seen)
	}
}

func TestSendFileFails(t *testing.T) {
	refused := kinds.Errorf(kinds.NotAuthorized, "no")
	for name, test := range map[string]struct {
		size  uint64
		carry func(conn net.Conn)
		wrong func(error) bool
	}{
		"the peer refuses": {3, func(conn net.Conn) { tellLine(conn, FileSendLine{Error: refused}) },
			func(err error) bool {
				e, ok := errors.AsType[*kinds.Error](err)
				return ok && e.Code == kinds.NotAuthorized && e.Message == "no"
			}},
		"the daemon ends": {3, func(net.Conn) {},
			func(err error) bool { return kinds.AsError(err).Code == kinds.DaemonUnavailable }},
		"it asks for too much": {3, func(conn net.Conn) { tellLine(conn, FileSendLine{Range: &[2]uint64{1, 3}}); io.ReadAll(conn) },
			func(err error) bool { return strings.Contains(err.Error(), "does not have") }},
		"the file is shorter when it is looked at": {4, func(net.Conn) { t.Error("something was sent") },
			func(err error) bool { return err == errFileChanged }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFileServer(t, nil, func(_ FileSendParams, conn net.Conn) { test.carry(conn) })
			_, err := c.SendFile(t.Context(), FileSendParams{To: "desk", Name: "n", Size: test.size}, strings.NewReader("abc"), nil)
			if err == nil || !test.wrong(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("the file becomes shorter", func(t *testing.T) {
		c := newFileServer(t, nil, func(_ FileSendParams, conn net.Conn) {
			tellLine(conn, FileSendLine{Range: &[2]uint64{0, 4}})
			io.ReadAll(conn)
		})
		_, err := c.SendFile(t.Context(), FileSendParams{To: "desk", Name: "n", Size: 4, SHA256: hashOf("abcd")}, strings.NewReader("abc"), nil)
		if err != errFileChanged {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the daemon ends it while bytes are on their way", func(t *testing.T) {
		large := strings.Repeat("x", 4<<20)
		c := newFileServer(t, nil, func(_ FileSendParams, conn net.Conn) {
			tellLine(conn, FileSendLine{Range: &[2]uint64{0, uint64(len(large))}})
			tellLine(conn, FileSendLine{Error: refused})
		})
		_, err := c.SendFile(t.Context(), FileSendParams{To: "desk", Name: "n", Size: uint64(len(large))}, strings.NewReader(large), nil)
		if kinds.AsError(err).Code != refused.Code {
			t.Errorf("got %v", err)
		}
	})
	t.Run("its context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newFileServer(t, nil, func(_ FileSendParams, conn net.Conn) {
			tellLine(conn, FileSendLine{State: FileAsked})
			io.ReadAll(conn)
		})
		_, err := c.SendFile(ctx, FileSendParams{To: "desk", Name: "n"}, strings.NewReader(""), func(FileSendLine) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTakeFile(t *testing.T) {
	const content = "the log"
	file := &File{ID: wire.NewMessageID(), Direction: In, Peer: identity.ID{1}, Name: "n", Size: uint64(len(content)), SHA256: hashOf(content), State: FileHere}
	for sent, code := range map[string]kinds.Code{content: "", "the lag": kinds.Internal, "the": kinds.DaemonUnavailable, content + "more": ""} {
		c := newFileServer(t, file, func(_ FileSendParams, conn net.Conn) { io.WriteString(conn, sent) })
		var to bytes.Buffer
		f, err := c.TakeFile(t.Context(), FileTakeParams{ID: file.ID}, func(f *File) (io.Writer, error) { return &to, nil })
		switch {
		case code == "" && (err != nil || f.Name != "n" || to.String() != content):
			t.Errorf("%q: %+v, %v", sent, f, err)
		case code != "" && (err == nil || kinds.AsError(err).Code != code):
			t.Errorf("%q: %v", sent, err)
		}
	}
	c := newFileServer(t, file, func(_ FileSendParams, conn net.Conn) { io.ReadAll(conn) })
	full := errors.New("no room")
	if _, err := c.TakeFile(t.Context(), FileTakeParams{ID: file.ID}, func(*File) (io.Writer, error) { return nil, full }); err != full {
		t.Errorf("got %v", err)
	}
}
