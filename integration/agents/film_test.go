//go:build agents

package agents

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/integration/picture"
)

var updateFilm = flag.Bool("update-film", false, "draw docs/pictures/film.svg anew")

// What is said in the film.
const (
	filmLine     = "Ask laptop/codex which schema the parser uses."
	filmQuestion = "Which schema does the parser use?"
	filmAnswer   = "It uses schema v4, since release 2.1."
	filmEnd      = "The Codex on your laptop says: the parser uses schema v4, since release 2.1."
)

const filmAbout = `Two terminals, recorded with the programs as they are. At the desk, a user types to Claude Code: ` + filmLine + `
Claude Code calls acp_query. On the laptop, where nobody types, an idle Codex wakes up, reads a file and calls acp_reply.
Claude Code gets the answer in the same turn, and says: ` + filmEnd

// renameModel changes the name of the model that Codex shows.
func (p *person) renameModel(name string) {
	p.t.Helper()
	const config = ".codex/config.toml"
	text, err := os.ReadFile(filepath.Join(p.home, config))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(config, strings.Replace(string(text), `model = "stub"`, `model = "`+name+`"`, 1))
}

// A camera films a terminal.
type camera struct {
	*picture.Window
	program *program
	screen  *picture.Screen
	written int // bytes of the program's output that the screen has
}

// TestFilm films Claude Code at the desk, which is told to ask, and an idle Codex on the laptop, which wakes up, looks
// and answers. The answer arrives in the same turn. With -update-film the film becomes docs/pictures/film.svg.
func TestFilm(t *testing.T) {
	t.Parallel()
	const rows, columns = 22, 52
	const slow = 200 * time.Millisecond // between two frames
	desk, laptop := live.NewFriends(t)
	allowWake(laptop, desk, false)
	newActor := func(rules ...rule) *person {
		p := newPerson(t, rules...)
		p.rows, p.columns, p.dir = rows, columns, filepath.Join(p.home, "parser")
		p.makeDir(p.dir)
		return p
	}
	think := func(s step, time time.Duration, text string) step {
		s.think, s.text = time, text
		return s
	}

	worker := newActor(rule{"Call acp_inbox.", []step{
		think(call("acp_inbox", map[string]any{}), time.Second, ""),
		think(call("exec_command", map[string]any{"cmd": "cat schema.txt"}), 1200*time.Millisecond, "desk asks: "+filmQuestion+" I look it up."),
		think(reply(filmAnswer), 1200*time.Millisecond, ""),
		think(step{}, 1500*time.Millisecond, "I told desk: "+filmAnswer),
	}})
	worker.write("parser/schema.txt", "v4, since release 2.1\n")
	worker.configureCodex(serverCommand(laptop))
	worker.renameModel("scripted")
	codex := worker.openCodex()
	awaitSession(laptop, "codex")
	asker := newActor(rule{filmLine, []step{
		think(call("acp_query", map[string]any{"to": "laptop/codex", "question": filmQuestion}), 1500*time.Millisecond, "I ask the Codex on the laptop."),
		think(step{}, 1200*time.Millisecond, filmEnd),
	}})
	claude := asker.openClaude(serverCommand(desk), "--permission-mode", "default")
	awaitSession(desk, "claude")

	cameras := []*camera{
		{&picture.Window{Title: "desk · Claude Code"}, claude, picture.NewScreen(rows, columns), 0},
		{&picture.Window{Title: "laptop · Codex"}, codex.program, picture.NewScreen(rows, columns), 0},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screens show\n%s\n%s", cameras[0].screen.Text(), cameras[1].screen.Text())
		}
	})
	began := time.Now()
	shoot := func(every time.Duration) (at time.Duration) {
		time.Sleep(every)
		at = time.Since(began)
		for _, c := range cameras {
			text := c.program.Stdout.String()
			if err := c.screen.Write(text[c.written:]); err != nil {
				t.Fatal(err)
			}
			c.written = len(text)
			c.Shoot(at, c.screen)
		}
		return at
	}
	shootFor := func(d time.Duration) (at time.Duration) {
		for end := time.Since(began) + d; at < end; {
			at = shoot(slow)
		}
		return at
	}
	shootUntil := func(c *camera, text string) (at time.Duration) {
		await.Until(t, text, func() bool {
			at = shoot(slow)
			return strings.Contains(c.screen.Text(), text)
		})
		return at
	}

	shoot(0)
	typed := shootFor(800 * time.Millisecond)
	for _, key := range filmLine {
		claude.press(string(key))
		shoot(60 * time.Millisecond)
	}
	shootUntil(cameras[0], filmLine)
	shootFor(500 * time.Millisecond)
	claude.press("\r")
	woken := shootUntil(cameras[1], "1 message from desk waits")
	answered := shootUntil(cameras[0], "The Codex on your laptop says")
	asker.model.awaitRequest("result", filmAnswer)
	end := shootFor(5 * time.Second)

	cameras[0].Active = []picture.Interval{{From: typed, To: woken}, {From: answered, To: end}}
	cameras[1].Active = []picture.Interval{{From: woken, To: answered}}
	film := picture.Film{
		Length:  end,
		Windows: []*picture.Window{cameras[0].Window, cameras[1].Window},
		Captions: []picture.Caption{
			{At: typed, Text: "Claude at the desk asks"}, {At: woken, Text: "Codex on the laptop wakes"}, {At: answered, Text: "The answer arrives"},
		},
		Note: "Recorded with the programs as they are; what their models say is written in advance.",
	}
	drawn := film.Draw("Claude Code at the desk asks the Codex on the laptop", filmAbout)
	t.Logf("typed at %s, woken at %s, answered at %s, %s long; %d bytes", typed, woken, answered, end, len(drawn))
	if *updateFilm {
		if err := os.WriteFile("../../docs/pictures/film.svg", drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
