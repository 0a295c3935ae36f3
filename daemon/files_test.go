package daemon

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// randomBytes returns bytes in which no two ranges are alike.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return b
}

// paramsFor returns the params with which content is sent.
func paramsFor(to, name string, content []byte) client.FileSendParams {
	hash := sha256.Sum256(content)
	return client.FileSendParams{ID: wire.NewMessageID(), To: to, Name: name, Size: uint64(len(content)), SHA256: hex.EncodeToString(hash[:])}
}

// callAlone calls a method on a connection of its own, which carries bytes afterwards.
func callAlone(t testing.TB, socket, method string, params, result any) (net.Conn, *bufio.Reader, error) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, text)
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return c, in, err
	}
	var answer struct {
		Result any
		Error  *jsonrpc.Error
	}
	answer.Result = result
	if err := json.Unmarshal(line, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if answer.Error != nil {
		return c, in, answer.Error
	}
	return c, in, nil
}

// sendFile sends a file as a client does. on, which may be nil, is called with each line before it is answered.
func sendFile(t testing.TB, socket string, p client.FileSendParams, content io.ReaderAt, on func(net.Conn, client.FileSendLine)) (*client.FileSent, error) {
	t.Helper()
	c, in, err := callAlone(t, socket, client.MethodFileSend, p, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var line client.FileSendLine
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if on != nil {
			on(c, line)
		}
		switch {
		case line.Error != nil:
			return nil, line.Error
		case line.Done != nil:
			return line.Done, nil
		case line.Range != nil:
			buf := make([]byte, line.Range[1])
			if n, _ := content.ReadAt(buf, int64(line.Range[0])); n < len(buf) {
				c.Close()
				return nil, io.ErrUnexpectedEOF
			}
			if _, err := c.Write(buf); err != nil {
				return nil, err
			}
		}
	}
}

// takeFile takes a file as a client does.
func takeFile(t testing.TB, socket string, p client.FileTakeParams) (client.File, []byte, error) {
	t.Helper()
	var f client.File
	_, in, err := callAlone(t, socket, client.MethodFileTake, p, &f)
	if err != nil {
		return f, nil, err
	}
	content, err := io.ReadAll(in)
	return f, content, err
}

// ownerSends sends content from a daemon to a peer.
func (d *running) ownerSends(p client.FileSendParams, content []byte) (*client.FileSent, error) {
	d.t.Helper()
	return sendFile(d.t, d.home.ownerSocketPath(), p, bytes.NewReader(content), nil)
}

// answerNext answers the next approval.
func (d *running) answerNext(answer string) {
	d.t.Helper()
	a := d.nextApproval()
	d.decide(a.ID, answer)
}

func (d *running) listFiles() []client.File {
	d.t.Helper()
	return get[client.Files](d.dial(), client.MethodFiles, client.FilesParams{}).Files
}

// A file comes with the owner's yes, byte for byte, and lies in the inbox and in the list until it is taken.
func TestAFileComes(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	content := randomBytes(5<<20 + 77)
	p := paramsFor("laptop", "../build\u202e.log", content)
	p.Text, p.Ref = "The log", wire.NewMessageID()
	go laptop.answerNext("yes")
	var states []client.FileState
	sent, err := sendFile(t, desk.home.ownerSocketPath(), p, bytes.NewReader(content), func(_ net.Conn, line client.FileSendLine) {
		if line.State != "" {
			states = append(states, line.State)
		}
	})
	if err != nil || sent.State != client.Held || sent.ID != p.ID || sent.Had {
		t.Fatalf("sent %+v, %v", sent, err)
	}
	if fmt.Sprint(states) != "[asked moving]" {
		t.Errorf("the client saw %v", states)
	}
	held := get[client.Inbox](laptop.dial(), client.MethodInbox, client.InboxParams{}).Messages
	if len(held) != 1 || held[0].Envelope.ID != p.ID || held[0].Origin != client.OriginDaemon || held[0].Envelope.From != desk.ID() {
		t.Fatalf("in the inbox: %+v", held)
	}
	n := parse[kinds.Notify](t, held[0].Envelope.Payload)
	var notice client.FileNotice
	if err := json.Unmarshal(n.Data, &notice); err != nil || n.Topic != client.FileTopic || notice.Name != "build.log" || notice.Size != p.Size || notice.SHA256 != p.SHA256 || notice.Text != "The log" || notice.Ref != p.Ref {
		t.Errorf("%s: %+v, %v", n.Topic, notice, err)
	}
	files := laptop.listFiles()
	if len(files) != 1 || files[0].State != client.FileHere || files[0].Name != "build.log" || files[0].PeerName != "desk" || files[0].Bytes != p.Size || time.Until(files[0].Until.Time) < 29*24*time.Hour {
		t.Errorf("%+v", files)
	}
	f, got, err := takeFile(t, laptop.home.ownerSocketPath(), client.FileTakeParams{ID: p.ID})
	if err != nil || !bytes.Equal(got, content) || f.SHA256 != p.SHA256 {
		t.Errorf("%d bytes of %+v: %v", len(got), f, err)
	}
	info, err := os.Stat(filepath.Join(laptop.dir, "files", desk.ID().String(), p.ID.String()))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if again, err := desk.ownerSends(p, content); err != nil || !again.Had || again.State != client.Held {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	laptop.dial().must(client.MethodFileRemove, client.FileRemoveParams{ID: p.ID}, nil)
	if left := laptop.listFiles(); len(left) != 0 {
		t.Errorf("%+v is left", left)
	}
	if rest, _ := os.ReadDir(filepath.Join(laptop.dir, "files", desk.ID().String())); len(rest) != 0 {
		t.Errorf("%v are left", rest)
	}
}
