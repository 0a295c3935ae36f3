package files

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	someID      = "3f2b8c1e-6f0a-4d3c-9e57-010203040506"
	abcSHA256   = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	ten         = "0123456789"
	atATerminal = "" // standard input of a command that reads none
)

func newDaemon(t *testing.T) *clitest.FakeDaemon {
	t.Chdir(t.TempDir())
	return clitest.NewFakeDaemonOf(t, NewCmds)
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// onSend has the daemon take over the connection of acpctl send.
func onSend(f *clitest.FakeDaemon, receive func(p client.FileSendParams, conn net.Conn, tell func(client.FileSendLine))) {
	f.SetHandler(client.MethodFileSend, func(r *jsonrpc.Request) (any, error) {
		var p client.FileSendParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		conn, err := r.TakeOver(nil)
		if err == nil {
			receive(p, conn, func(line client.FileSendLine) {
				text, _ := json.Marshal(&line)
				conn.Write(append(text, '\n'))
			})
		}
		return nil, err
	})
}

func readRange(conn net.Conn, tell func(client.FileSendLine), offset, length, moved uint64) string {
	tell(client.FileSendLine{Range: &[2]uint64{offset, length}, Moved: moved})
	b := make([]byte, length)
	io.ReadFull(conn, b)
	return string(b)
}

func TestSend(t *testing.T) {
	f := newDaemon(t)
	writeFile(t, "build.log", ten)
	writeFile(t, "fix.patch", "abc")
	var got []string
	onSend(f, func(p client.FileSendParams, conn net.Conn, tell func(client.FileSendLine)) {
		tell(client.FileSendLine{State: client.FileAsked, ID: p.ID})
		tell(client.FileSendLine{State: client.FileMoving, ID: p.ID, Relay: true})
		got = append(got, strings.Join([]string{p.To, p.Agent, p.Name, p.Text, p.Ref.String()[:8], readRange(conn, tell, 0, p.Size, 0)}, " "))
		tell(client.FileSendLine{Done: &client.FileSent{ID: p.ID, State: client.Held, Had: p.Name == "fix.patch"}})
	})
	asked := func(name string) string {
		return name + ": the owner of desk is asked (acpctl approvals there): waiting for at most 10m\n"
	}
	f.WantResult(f.Run("send", "desk/fixer", "build.log", "fix.patch", "--text", "two", "--ref", someID), 0, "build.log\theld\nfix.patch\theld\n", asked("build.log")+asked("fix.patch"))
	if want := []string{"desk fixer build.log two 3f2b8c1e " + ten, "desk fixer fix.patch two 3f2b8c1e abc"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the daemon got %q", got)
	}
	got = nil
	f.WantResult(f.RunAtTerminal(ui.Terminal{}, "abc", "send", "desk", "-", "--name", "src.tgz", "--json", "--id", someID), 0, `{"name":"src.tgz","id":"`+someID+`","state":"held"}`+"\n", asked("src.tgz"))
	if len(got) != 1 || got[0] != "desk  src.tgz  00000000 abc" {
		t.Errorf("the daemon got %q", got)
	}
	if got := f.Run("send", "desk", "fix.patch", "--deadline", "30s"); got.Code != 0 || !strings.Contains(got.Err, "waiting for at most 30s") {
		t.Errorf("a short deadline: %+v", got)
	}
	shown := f.RunInteractive(atATerminal, "send", "desk", "fix.patch")
	for _, want := range []string{"over a relay: at most 1 MiB a second\n", "\rfix.patch [", "]   0 %  0 bytes of 3 bytes", "desk had it already. acpctl files there shows it.\n"} {
		if !strings.Contains(shown.Err, want) {
			t.Errorf("a person sees no %q: %q", want, shown.Err)
		}
	}
}

// What is interrupted, or fails in a way that may pass, says how to continue; else nothing is promised.
func TestSendContinues(t *testing.T) {
	f := newDaemon(t)
	writeFile(t, "a b", ten)
	writeFile(t, "c", "abc")
	var ids []wire.MessageID
	failure := kinds.Errorf(kinds.Unreachable, "file.send: no path")
	onSend(f, func(p client.FileSendParams, conn net.Conn, tell func(client.FileSendLine)) {
		ids = append(ids, p.ID)
		readRange(conn, tell, 0, 5, 0)
		tell(client.FileSendLine{Error: failure})
	})
	got := f.Run("send", "desk", "a b", "c", "--text", "it's", "--deadline", "1h")
	want := "acpctl send: no path; what desk has of a b is kept there for 24 hours\n" +
		`Type: acpctl send desk 'a b' c --deadline=1h0m0s --home=` + f.Home + ` --text='it'\''s' --id ` + ids[0].String() + "\n"
	f.WantResult(got, kinds.Unreachable.Info().Exit, "", want)
	if got := f.RunAtTerminal(ui.Terminal{}, ten, "send", "desk", "-", "--name", "c"); !strings.Contains(got.Err, "\nType: … | acpctl send desk - ") {
		t.Errorf("standard input: %+v", got)
	}
	failure = kinds.Errorf(kinds.TooLarge, "too large")
	f.WantResult(f.Run("send", "desk", "a b", "c"), frame.ExitLocal, "", "acpctl send: too large; not sent: a b, c\n")

	onSend(f, func(p client.FileSendParams, conn net.Conn, tell func(client.FileSendLine)) {
		tell(client.FileSendLine{State: client.FileAsked})
		io.Copy(io.Discard, conn)
	})
	got = f.RunUntil(ui.Terminal{}, 1, "send", "desk", "c", "--id", someID)
	if want := "acpctl send: interrupted\nType: acpctl send desk c --home=" + f.Home + " --id " + someID + "\n"; got.Code != frame.ExitInterrupted || !strings.HasSuffix(got.Err, want) {
		t.Errorf("interrupted: %+v", got)
	}
}

func TestSendRefusesWhatIsNoFile(t *testing.T) {
	f := newDaemon(t)
	writeFile(t, "c", "abc")
	writeFile(t, "\xff", "abc")
	tests := [][]string{
		{"--name: standard input has no name", "desk", "-"},
		{"--name: several files keep their names", "desk", "c", "c", "--name", "x"},
		{"/dev/null is not a regular file", "desk", "/dev/null"},
		{"there is no file d here", "desk", "c", "d"}, // and c is not sent
		{"--id: ", "desk", "c", "--id", "x"},
		{"--text: it is not UTF-8", "desk", "c", "--text", "\xff"},
		{"--name: it is not UTF-8", "desk", "c", "--name", "\xff"},
		{`FILE: the name "\xff" is not UTF-8`, "desk", "\xff"},
		{"--deadline: expected a duration of 1ms to 24h", "desk", "c", "--deadline", "25h"},
	}
	if runtime.GOOS == "linux" {
		tests = append(tests, []string{"/proc/self/stat has bytes", "desk", "/proc/self/stat"})
	}
	for _, test := range tests {
		if got := f.Run(append([]string{"send"}, test[1:]...)...); got.Code == 0 || !strings.HasPrefix(got.Err, "acpctl send: "+test[0]) {
			t.Errorf("%q: %+v", test[1:], got)
		}
	}
}

// The bar is no wider than it may be, and says how fast it is and how long it will take.
func TestBar(t *testing.T) {
	var out strings.Builder
	p := &progress{terminal: &ui.Terminal{Err: &out}, name: strings.Repeat("long", 30), size: 100 << 20}
	p.began, p.had, p.moved = time.Unix(100, 0), 10<<20, 60<<20
	p.draw(time.Unix(110, 0))
	if got := out.String(); !regexp.MustCompile(`^\r\S+…\S+ \[=+ +\]  60 %  60 MiB of 100 MiB  5 MiB/s  8s left\x1b\[K$`).MatchString(got) || ui.CountCells(strings.Trim(got, "\r\x1b[K")) > mostBar {
		t.Errorf("%q", got)
	}
	p.update(client.FileSendLine{Range: new([2]uint64), Moved: 50 << 20})
	if p.moved != 60<<20 {
		t.Errorf("it runs backwards to %d", p.moved)
	}
	out.Reset()
	p.moved = 1 << 62 // as a peer may say
	p.draw(time.Unix(110, 0))
	if got := out.String(); !strings.Contains(got, "] 100 %") || ui.CountCells(strings.Trim(got, "\r\x1b[K")) > mostBar {
		t.Errorf("%q", got)
	}
	out.Reset()
	p.drawn = time.Unix(110, 0)
	p.clear()
	if got := out.String(); got != "\r\x1b[K" {
		t.Errorf("%q is left", got)
	}
}

func someFile() client.File {
	id, _ := wire.ParseMessageID(someID)
	return client.File{
		ID: id, Direction: client.In, Peer: clitest.DeskID, PeerName: "desk", FromAgent: "planner", Agent: "fixer", Name: "build.log", Text: "the log",
		Size: 3, SHA256: abcSHA256, State: client.FileHere, Bytes: 3, Since: time.Unix(1_800_000_000, 0),
	}
}

func TestFiles(t *testing.T) {
	f := newDaemon(t)
	came, going := someFile(), someFile()
	going.ID, going.Direction, going.State, going.Bytes, going.Text, going.FromAgent = clitest.SomeID, client.Out, client.FileMoving, 1, "", ""
	going.ID[0]++
	f.SetHandler(client.MethodFiles, func(r *jsonrpc.Request) (any, error) {
		var p client.FilesParams
		err := r.ReadParams(&p)
		if p.After == 0 {
			return &client.Files{Files: []client.File{came}, Next: 1}, err
		}
		return &client.Files{Files: []client.File{going}}, err
	})
	f.WantResult(f.Run("files"), 0, someID+"\tin\tdesk/planner\tfixer\t3\t3\there\t2027-01-15T08:00:00Z\tbuild.log\tthe log\n"+
		going.ID.String()+"\tout\tdesk/fixer\tfixer\t3\t1\tmoving\t2027-01-15T08:00:00Z\tbuild.log\t\n", "")
	shown := f.RunAtTerminal(ui.Terminal{OutTTY: true}, atATerminal, "files")
	for _, want := range []string{"3f2b8c1e  fixer ← desk/planner  3 bytes  here ", " build.log: the log\n", "402b8c1e  → desk/fixer ", "  moving, 33 %  "} {
		if !strings.Contains(shown.Out, want) {
			t.Errorf("no %q in\n%s", want, shown.Out)
		}
	}
	if got := f.Run("files", "--json"); got.Code != 0 || strings.Count(got.Out, `"sha256"`) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestSave(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodFiles, &client.Files{Files: []client.File{someFile()}})
	content := "abc"
	f.SetHandler(client.MethodFileTake, func(r *jsonrpc.Request) (any, error) {
		var p client.FileTakeParams
		if err := r.ReadParams(&p); err != nil || p.Peer != clitest.DeskID.String() {
			return nil, err
		}
		file := someFile()
		conn, err := r.TakeOver(&file)
		if err == nil {
			io.WriteString(conn, content)
		}
		return nil, err
	})
	if err := os.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range [][]string{{"build.log"}, {filepath.Join("d", "build.log"), "d"}, {"x", "x"}} {
		f.WantResult(f.Run(append([]string{"files", "save", someID[:8]}, test[1:]...)...), 0, test[0]+"\n", "")
		info, err := os.Stat(test[0])
		b, _ := os.ReadFile(test[0])
		if err != nil || info.Mode() != 0o600 || string(b) != content {
			t.Errorf("%s: %v, %q, %v", test[0], info, b, err)
		}
	}
	f.WantResult(f.Run("files", "save", someID), frame.ExitLocal, "", "acpctl files save: build.log exists, and is not overwritten: give another PATH\n")
	for path, want := range map[string]string{"nosuch/": "PATH: there is no folder nosuch: make it first", "": "PATH is empty", "-": "PATH: - is no name"} {
		if got := f.Run("files", "save", someID, path); got.Code == 0 || !strings.HasPrefix(got.Err, "acpctl files save: "+want) {
			t.Errorf("%q: %+v", path, got)
		}
	}
	if err := os.Symlink("nowhere", "link"); err != nil {
		t.Fatal(err)
	}
	if got := f.Run("files", "save", someID, "link"); got.Code == 0 || !strings.Contains(got.Err, "link exists") {
		t.Errorf("a link: %+v", got)
	}
	for _, content = range []string{"abd", "ab"} { // damaged, and cut
		if got := f.Run("files", "save", someID, "y"); got.Code == 0 {
			t.Errorf("%q: %+v", content, got)
		}
		if _, err := os.Stat("y"); err == nil {
			t.Errorf("%q is left", content)
		}
	}
}

func TestFilesAreFoundByTheirIDs(t *testing.T) {
	f := newDaemon(t)
	one, same, other := someFile(), someFile(), someFile()
	same.Peer, same.PeerName = clitest.MyID, "laptop"
	other.Direction = client.Out
	f.SetAnswer(client.MethodFiles, &client.Files{Files: []client.File{one, same, other}})
	f.SetHandler(client.MethodFileRemove, func(r *jsonrpc.Request) (any, error) {
		var p client.FileRemoveParams
		err := r.ReadParams(&p)
		if p.Peer != clitest.MyID.String() {
			t.Errorf("%+v", p)
		}
		return &same, err
	})
	f.WantResult(f.Run("files", "rm", someID[:8], "--peer", "laptop"), 0, "build.log of laptop was removed\n", "")
	for id, want := range map[string]string{someID[:8]: "ID: 2 files", "3f2b": `ID: "3f2b" is no id of a file: write at least six digits`, "999999": "ID: no file that came"} {
		if got := f.Run("files", "rm", id); got.Code == 0 || !strings.HasPrefix(got.Err, "acpctl files rm: "+want) {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if got := f.Run("files", "rm", someID, "--peer", "nobody"); got.Code == 0 || !strings.Contains(got.Err, `--peer: no file of a peer "nobody"`) {
		t.Errorf("another peer: %+v", got)
	}
	asked := one
	asked.State = client.FileAsked
	f.SetAnswer(client.MethodFiles, &client.Files{Files: []client.File{asked}})
	if got := f.Run("files", "rm", someID); got.Code == 0 || !strings.Contains(got.Err, "acpctl approvals no") {
		t.Errorf("one that waits: %+v", got)
	}
	f.SetAnswer(client.MethodFiles, &client.Files{Files: []client.File{one, same, other}})
	if got := f.Run("__completeNoDesc", "files", "save", "3f"); got.Out != someID+"\n"+someID+"\n:4\n" {
		t.Errorf("completion: %q", got.Out)
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{Name: "desk", State: client.PeerConnected}}})
	if got := f.Run("__completeNoDesc", "files", "ask", "d"); got.Out != "desk\n:4\n" {
		t.Errorf("completion: %q", got.Out)
	}
	if got := f.Run("files", "ask"); got.Code == 0 || !strings.Contains(got.Err, "PEER is missing: it may be desk") {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodFileAsk, struct{}{})
	f.WantResult(f.Run("files", "ask", "desk"), 0, "you are asked again about what desk sends on one day beyond files.ask (64 MiB unless config.yaml has another)\n", "")
}
