//go:build web

package web

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

var updatePicture = flag.Bool("update-picture", false, "write docs/pictures/web.png anew")

func TestMain(m *testing.M) {
	flag.Parse()
	given := os.Getenv(live.Built) != ""
	code := m.Run()
	if !given {
		live.RemovePrograms()
	}
	os.Exit(code)
}

// startScene starts four daemons, of which laptop is watched, and has their agents talk.
func startScene(t *testing.T) (laptop *live.Machine) {
	laptop = live.NewMachine(t, "laptop")
	desk, build, archive := live.NewMachine(t, "desk"), live.NewMachine(t, "build"), live.NewMachine(t, "archive")
	config := "peers: {build: {pipe: [" + laptop.ProgramPath("acpctl") + ", --home, " + build.Home + ", pipe]}}\n"
	if err := os.WriteFile(filepath.Join(laptop.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	laptop.Env = append(laptop.Env, "OACP_HOME="+filepath.Join(laptop.Home, "oacp"))
	for _, m := range []*live.Machine{desk, build, archive, laptop} {
		m.StartDaemon()
	}
	for _, m := range []*live.Machine{desk, archive} {
		live.Befriend(laptop, m)
	}
	build.Trust(laptop)
	laptop.Trust(build)
	ctx := await.NewContext(t)

	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	think := func(ctx context.Context) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return kinds.Errorf(kinds.Cancelled, "it is over")
	}
	answers := strings.NewReplacer("Which branch has the new frame reader?", "parser-2; it is ready for a look", "And an empty frame?", "It is valid, and keeps the stream open")
	reviewer := desk.Attach(client.AttachParams{Name: "reviewer", Domains: []string{"code.review"}}, client.Handler{
		Query: func(ctx context.Context, in *client.Inbound) (any, error) {
			q, err := kinds.ParsePayload[kinds.Query](in.Payload)
			if err != nil {
				return nil, err
			}
			if answer := answers.Replace(q.Question); answer != q.Question {
				return &kinds.Response{Summary: answer}, nil
			}
			return nil, think(ctx)
		},
	})
	tester := build.Attach(client.AttachParams{Name: "tester"}, client.Handler{
		Query:    func(ctx context.Context, in *client.Inbound) (any, error) { return nil, think(ctx) },
		Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
		Cancel:   func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
	})
	planner := laptop.Attach(client.AttachParams{Name: "planner", Session: &client.SessionInfo{Harness: "claude", Version: "2.1"}}, client.Handler{
		Query: func(ctx context.Context, in *client.Inbound) (any, error) {
			return nil, think(ctx) // nobody has said yet that it may wake the session
		},
		Result: func(context.Context, *client.Inbound) error { return nil },
		Notify: func(context.Context, *client.Inbound) error { return nil },
		Wake:   func(context.Context, *client.Inbound) (*client.WakeAnswer, error) { return nil, nil },
	})
	var releaser *client.Client
	releaser = laptop.Attach(client.AttachParams{Name: "releaser"}, client.Handler{
		Query: func(ctx context.Context, in *client.Inbound) (any, error) {
			return releaser.Query(ctx, client.QueryParams{Head: client.Head{Parent: in.ID}, To: "build/tester", Payload: kinds.EncodePayload(&kinds.Query{Question: "Do the long tests pass on main?", DeadlineMS: 500_000})})
		},
	})
	if _, err := laptop.Client.AllowWake(ctx, client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}, Ask: true}); err != nil {
		t.Fatal(err)
	}

	ask := func(from *client.Client, to, thread, text string) error {
		_, err := from.Query(ctx, client.QueryParams{Head: client.Head{Thread: thread}, To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: text, DeadlineMS: 600_000})})
		return err
	}
	delegate := func(text string) *client.DelegateAnswer {
		t.Helper()
		given, err := planner.Delegate(ctx, client.DelegateParams{Head: client.Head{Thread: "release"}, To: "build/tester", Payload: kinds.EncodePayload(&kinds.Delegate{Task: text, DeadlineMS: 3_600_000})})
		if err != nil {
			t.Fatal(err)
		}
		return given
	}
	report := func(given *client.DelegateAnswer, r kinds.Result) {
		t.Helper()
		if _, err := tester.SendResult(ctx, client.ResultParams{Ref: given.ID, Payload: kinds.EncodePayload(&r)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(planner, "desk/reviewer", "parser", "Which branch has the new frame reader?"); err != nil {
		t.Fatal(err)
	}
	report(delegate("Fuzz the frame reader for a minute"), kinds.Result{Status: "completed", Outcome: "no crash in 41 million inputs"})
	built, part := delegate("Build the release and run the long tests"), 0.62
	report(built, kinds.Result{Status: "partial", Outcome: "", Progress: &part, Message: "tests of the peer package"})
	if err := ask(planner, "desk/reviewer", "parser", "And an empty frame?"); err != nil {
		t.Fatal(err)
	}
	for topic, data := range map[string]string{"ci.nightly": `{"branch":"main","passed":true}`} {
		if _, err := reviewer.Notify(ctx, client.NotifyParams{To: client.To("laptop/planner"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic, Data: []byte(data)})}); err != nil {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	t.Cleanup(calls.Wait)
	calls.Go(func() { ask(reviewer, "laptop/releaser", "ship", "May 0.2 be released today?") })
	await.Until(t, "it has asked on", func() bool {
		a, err := laptop.Client.Traffic(ctx, &client.TrafficParams{Open: true, Limit: 1})
		return err == nil && slices.ContainsFunc(a.Open, func(e client.TrafficEntry) bool { return e.Hops == 1 && e.FromAgent == "releaser" })
	})
	calls.Go(func() {
		ask(reviewer, "laptop/planner", "", "May I merge the parser branch, or do you still change it?")
	})
	await.Until(t, "the owner is asked", func() bool { a, err := laptop.Client.Approvals(ctx); return err == nil && len(a) == 1 })
	calls.Go(func() { ask(planner, "desk/reviewer", "parser", "Is line 214 safe for an input of no bytes?") })

	channel := strings.TrimSpace(laptop.MustOutput("channel", "create", "review", "--title", "Ship 0.2", "--member", "planner", "--member", "reviewer", "--as", "planner"))
	for _, text := range []string{"The parser is first", "Then the release notes"} {
		laptop.MustOutput("channel", "send", channel, text, "--as", "planner")
	}
	laptop.MustOutput("oacp", "init", "demo", "--agents", "planner,reviewer")
	archive.StopDaemon()
	laptop.MustOutput("oacp", "bind", "demo", "reviewer", "archive")
	laptop.MustOutput("oacp", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "The old figures?", "--body", "Which release were they of?")
	await.Until(t, "the archive is away", func() bool { return laptop.FindPeer(archive.ID).State == client.PeerTrusted })
	return laptop
}

// serveReal runs acpctl web for a daemon, and returns the link.
func serveReal(t *testing.T, m *live.Machine) (link string) {
	t.Helper()
	p := m.StartAcpctl("web", "--no-open")
	await.Until(t, "the link is printed", func() bool { return strings.HasSuffix(p.Stdout.String(), "\n") })
	t.Cleanup(func() { p.Signal(syscall.SIGINT); p.AwaitExit(0) })
	return strings.TrimSpace(p.Stdout.String())
}

// TestPicture shows four daemons at work as the README shows them, and finds there what everybody
// has said. With -update-picture it writes docs/pictures/web.png.
func TestPicture(t *testing.T) {
	b := startBrowser(t)
	laptop := startScene(t)
	p := show(t, b, serveReal(t, laptop), 1360, 1000, false)
	p.until("all is there", `document.querySelectorAll("#waiting-list > li").length === 3 && document.querySelectorAll("#log .row").length > 5 && document.querySelectorAll("#mail-list > li").length === 1 && document.querySelector("#peers [data-path=direct]") && document.querySelector("#peers [data-path=pipe]") && document.querySelectorAll("#channels-list > li").length === 1`)
	if chain := eval[[]string](p, `[...document.querySelectorAll("#waiting-list .path")].map((e) => e.innerText.replace(/\s+/g, ""))`); !slices.Contains(chain, "desk/reviewerwaitsforhere/releaserwaitsforbuild/tester") {
		t.Errorf("no chain from desk to build: %q", chain)
	}
	text := eval[string](p, `document.body.innerText`)
	for _, want := range []string{
		"desk/reviewer", "build/tester", "62 %", "tests of the peer package", "May I merge the parser branch", "parser-2; it is ready for a look",
		"no crash in 41 million inputs", "topic: ci.nightly", "Ship 0.2", "is at archive", "not connected",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	p.checkLayout(t)
	p.checkProblems(t)
	for name, size := range map[string][2]int{"real-wide-dark": {1360, 1000}, "real-narrow-light": {360, 740}, "real-narrow-dark": {390, 844}} {
		p.look(size[0], size[1], strings.HasSuffix(name, "dark"))
		p.checkLayout(t)
		if err := os.WriteFile(filepath.Join(pictureDir(t), name+".png"), p.picture(true), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.look(1360, 1000, false)
	if *updatePicture {
		if found := regexp.MustCompile(`\+[0-9a-f]{7,}|-dirty`).FindString(text); found != "" {
			t.Fatalf("the picture would show a commit, %s: use make web-picture", found)
		}
		p.until("it has lasted a while", `Date.now() - document.querySelector("#waiting-list [data-since]").dataset.since > 25000`)
		p.until("it says so", `document.querySelector("#waiting-list [data-since]").textContent === "26 s"`)
	}
	picture := shrink(t, p.picture(false))
	if most := 200 << 10; len(picture) > most {
		t.Errorf("the picture has %d bytes, want %d at most", len(picture), most)
	}
	if *updatePicture {
		if err := os.MkdirAll("../../docs/pictures", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../../docs/pictures/web.png", picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shrink writes a picture anew, with the 256 colours that it has most: the page has few, and shades of
// them at the edges of letters.
func shrink(t *testing.T, picture []byte) []byte {
	t.Helper()
	in, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[color.Color]int)
	size := in.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			count[in.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	palette := color.Palette(colours[:min(len(colours), 256)])
	nearest := make(map[color.Color]uint8)
	out := image.NewPaletted(size, palette)
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := in.At(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
