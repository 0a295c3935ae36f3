package integration

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/picture"
)

var updatePictures = flag.Bool("update-pictures", false, "draw docs/pictures/demo.svg anew")

// demoSections are the beginnings of the remarks above those parts of the demonstration that the
// README shows.
var demoSections = []string{"# Two machines, ", "# One invites, ", "# Any program "}

// demoColumns is how wide the terminal is.
const demoColumns = 84

// TestDemoPicture runs make demo in a terminal, and holds the picture of it to what is seen there.
func TestDemoPicture(t *testing.T) {
	const path = "../docs/pictures/demo.svg"
	shown := pinDemo(pickDemoSections(t, runInTerminal(t, "make", "--silent", "demo")))
	drawn := picture.DrawTerminal("make demo", "A part of what make demo prints, with stand-ins for what differs from run to run.\n"+shown, demoColumns, strings.Split(shown, "\n"))
	if *updatePictures {
		if err := os.WriteFile(path, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, drawn) {
		t.Errorf("make demo prints something else than %s shows: run make pictures, and look at it. With stand-ins it prints:\n%s", path, shown)
	}
}

// TestTheDemoIsAnnounced: in a fresh clone the demonstration is built without the compiler's profile, and says first
// what is done and for how long.
func TestTheDemoIsAnnounced(t *testing.T) {
	typed := commandWithin(t, buildTime, "..", nil, "make", "--no-print-directory", "--dry-run", "demo")
	if !strings.HasPrefix(typed, "echo 'Building acpd and acpctl: ") || !strings.Contains(typed, " -pgo=off ") {
		t.Errorf("make demo would run\n%s", typed)
	}
}

// pickDemoSections returns those parts of the demonstration's output, with an empty line between them.
func pickDemoSections(t *testing.T, out string) string {
	t.Helper()
	var parts []string
	for section := range strings.SplitSeq("\n"+out, "\n# ") {
		section = "# " + strings.TrimSpace(section)
		if len(parts) < len(demoSections) && strings.HasPrefix(section, demoSections[len(parts)]) {
			parts = append(parts, section)
		}
	}
	if len(parts) < len(demoSections) {
		t.Fatalf("make demo prints no part that begins with %q:\n%s", demoSections[len(parts)], out)
	}
	return strings.Join(parts, "\n\n")
}

// demoPins replace what differs from run to run: the folder of the state, ids, ports and times, and
// the padding of a table that has them.
var demoPins = []struct{ differs, stands string }{
	{`/tmp/acpd-demo\.[A-Za-z0-9]{6}/`, "~/"},
	{`acp://[-_0-9A-Za-z]{43}`, "acp://Pxyae-LQ…"},
	{`pq=[-_0-9A-Za-z]{43}`, "pq=wrfwkT0P…"},
	{`127\.0\.0\.1:\d+`, "127.0.0.1:7117"},
	{`\d+\.\d+ ms\b|\b\d+(\.\d+)?(µs|ms|s)\b(\))`, "0.5 ms$3"},
	{`([0-9a-f]{10})[0-9a-f]{54}`, "$1…"},
	{`RTT +SEEN +SOURCE`, "RTT     SEEN  SOURCE"},
	{`(connected  \d       0\.5 ms) +(now|\d+s ago) +worked`, "$1  now   worked"},
	{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "6d9b2f04-…"},
}

// demoID matches an id as it is shortened in a table, and as it is grouped.
var demoID = regexp.MustCompile(`\b[0-9a-f]{10}\b|\b[0-9a-f]{4}( [0-9a-f]{4}){7}\b`)

// pinDemo puts stand-ins for what differs from run to run. Each id has its own, wherever it is shown.
func pinDemo(text string) string {
	for _, pin := range demoPins {
		text = regexp.MustCompile(pin.differs).ReplaceAllString(text, pin.stands)
	}
	stands := []string{"3f1c9a7be2", "a80d54e61f", "c2b7f0913d"} // of whom is seen first: desk, laptop, desk's second key
	var seen []string
	return demoID.ReplaceAllStringFunc(text, func(id string) string {
		short := strings.ReplaceAll(id, " ", "")[:10]
		if !slices.Contains(seen, short) {
			seen = append(seen, short)
		}
		stand := "more ids than stand-ins"
		if i := slices.Index(seen, short); i < len(stands) {
			stand = stands[i]
		}
		if strings.Contains(id, " ") {
			return stand[:4] + " " + stand[4:8] + " …"
		}
		return stand
	})
}

func TestPinDemo(t *testing.T) {
	const desk, laptop = "8ed31da3e072d0a6355cc1bf011f3e855dfe35d8482f8cdfa9c2578f5f440f43", "d57dbb25d73c7915521cb65489230f6ca9504e342d22e77128d930475e15d75b"
	got := pinDemo("New identity " + desk + "\nListening on 127.0.0.1:42342\nConnect: ACP_HOME=/tmp/acpd-demo.nnRw8j/desk acpctl invite\n" +
		"New identity " + laptop + "\ntrusted desk (8ed3 1da3 e072 d0a6 355c c1bf 011f 3e85)\n" +
		"NAME  ID          STATE      AGENTS  RTT        SEEN    SOURCE  ADDRESSES\ndesk  8ed31da3e0  connected  1       13.181 ms  2s ago  worked  127.0.0.1:42342\n" +
		"ping -i 100ms\ntime=0.387 ms idle, 0 active\ndesk/reviewer · 2.9 ms\naccepted: 1f1063ed-abcd-42c0-b048-3849bf52acc3")
	const want = `New identity 3f1c9a7be2…
Listening on 127.0.0.1:7117
Connect: ACP_HOME=~/desk acpctl invite
New identity a80d54e61f…
trusted desk (3f1c 9a7b …)
NAME  ID          STATE      AGENTS  RTT     SEEN  SOURCE  ADDRESSES
desk  3f1c9a7be2  connected  1       0.5 ms  now   worked  127.0.0.1:7117
ping -i 100ms
time=0.5 ms idle, 0 active
desk/reviewer · 0.5 ms
accepted: 6d9b2f04-…`
	if got != want {
		t.Errorf("pinned:\n%s\nwant:\n%s", got, want)
	}
}

// runInTerminal runs a command that must succeed in a terminal without colours, and returns what is
// seen there.
func runInTerminal(t *testing.T, name string, args ...string) string {
	t.Helper()
	master, slave, err := live.OpenTerminal(50, demoColumns)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "NO_COLOR=1", "TERM=dumb", "MAKEFLAGS=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var seen bytes.Buffer
	read := make(chan struct{})
	go func() { // ends when nobody has the terminal any more, or it is closed
		defer close(read)
		seen.ReadFrom(master)
	}()
	err = cmd.Wait()
	if err != nil {
		master.Close()
	}
	<-read
	text := strings.ReplaceAll(seen.String(), "\r\n", "\n")
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return text
}
