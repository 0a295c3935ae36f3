package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// howToNeeds is what the pages by task take for granted, beside two machines that trust each other: the agent
// that is attached at the laptop, as acpctl serve has it.
var howToNeeds = map[string][]string{
	"ask-a-colleague.md": {"--name", "codex", "--prompt", "--", "cat"},
	"stop.md":            {"--name", "reviewer", "--prompt", "--", "sleep", "600"},

	"when-they-are-away.md": {"--name", "codex", "--prompt", "--", "cat"},
}

// TestHowTo types every command of the pages by task, in their order, on two machines that trust each other.
// Each succeeds; one that goes on until it is interrupted shows something first.
func TestHowTo(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/howto/*.md")
	if err != nil || len(pages) < 6 {
		t.Fatalf("pages: %q, %v", pages, err)
	}
	block, prompt := regexp.MustCompile("(?s)```console\n(.*?)```"), regexp.MustCompile(`^(desk|laptop)\$ (.*)$`)
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text := readFile(t, page)
			if words := len(strings.Fields(text)); words > 500 {
				t.Errorf("%d words: a page by task has at most 500", words)
			}
			blocks := block.FindAllStringSubmatch(text, -1)
			if len(blocks) == 0 {
				return // what it shows is for other programs
			}
			desk, laptop := friends(t)
			if err := os.WriteFile(filepath.Join(desk.Home, "build.log"), []byte("FAIL\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			needs := howToNeeds[filepath.Base(page)]
			if needs != nil {
				laptop.StartAcpctl(append([]string{"serve"}, needs...)...)
				laptop.AwaitAgent(needs[1])
			}
			given := ""
			if strings.Contains(text, "acpctl cancel 3f2b8c ") {
				desk.MustOutput("wake", "allow", "laptop")
				given = strings.Fields(desk.MustOutput("delegate", "laptop/reviewer", "Review the parser."))[0]
			}
			for _, b := range blocks {
				for line := range strings.Lines(b[1]) {
					m := prompt.FindStringSubmatch(strings.TrimSpace(line))
					if m == nil {
						t.Fatalf("a console line without a machine: %q", line)
					}
					if strings.HasPrefix(m[2], "acpctl files save ") {
						given = laptop.awaitFile()
					}
					if strings.HasPrefix(m[2], "acpctl approvals yes ") {
						approval, _, _ := strings.Cut(laptop.MustOutput("approvals"), "\t")
						m[2] = "acpctl approvals yes " + approval
					}
					at := map[string]*machine{"desk": desk, "laptop": laptop}[m[1]]
					at.typeLine(strings.Replace(m[2], "3f2b8c", given, 1), desk)
				}
			}
		})
	}
}

// awaitFile waits until a file has come whole, and returns its id.
func (m *machine) awaitFile() (id string) {
	m.T.Helper()
	await.Until(m.T, "a file has come", func() bool {
		files := m.MustOutput("files")
		id, _, _ = strings.Cut(files, "\t")
		return strings.Contains(files, "\there\t")
	})
	return id
}

// typeLine types a line of a document at a machine, in its state directory.
func (m *machine) typeLine(line string, desk *machine) {
	m.T.Helper()
	m.T.Log(line)
	line, background := strings.CutSuffix(line, " &")
	p := m.PrepareProcess("bash", "-c", "exec "+line)
	p.Cmd.Env = append(p.Cmd.Env, "ACP_HOME="+m.Home)
	p.Cmd.Dir = m.Home
	if err := m.In(p.Start); err != nil {
		m.T.Fatal(err)
	}
	switch {
	case background:
		m.AwaitAgent(regexp.MustCompile(`--name (\S+)`).FindStringSubmatch(line)[1])
	case line == "acpctl web" || line == "acpctl tail":
		await.Until(m.T, line+" shows something", func() bool {
			desk.MustOutput("ping", "laptop", "-c", "1")
			return p.Stdout.String() != ""
		})
		p.Signal(syscall.SIGINT)
		p.AwaitEnd()
	case strings.HasPrefix(line, "acpctl send "): // which ends when the lines that follow have answered
		await.Until(m.T, line+" waits for the owner's answer", func() bool { return strings.Contains(p.Stderr.String(), " is asked ") })
	default:
		p.AwaitExit(0)
	}
}

// TestHowToBehindNAT writes what the page on machines behind NAT writes into config.yaml, with a command of this
// machine in the place of ssh, and types what follows it on two machines that do not know each other.
func TestHowToBehindNAT(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../docs/howto/behind-nat.md")
	config := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(text)
	if config == nil || !strings.Contains(config[1], "[ssh, laptop.example, acpctl, pipe]") {
		t.Fatalf("the page shows %q", config)
	}
	desk, laptop := newMachine(t, "desk"), running(t, "laptop")
	desk.StartDaemon()
	command := "[" + laptop.ProgramPath("acpctl") + ", --home, " + laptop.Home + ", pipe]"
	err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(strings.Replace(config[1], "[ssh, laptop.example, acpctl, pipe]", command, 1)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```console pipe\n(.*?)```").FindStringSubmatch(text)
	if block == nil {
		t.Fatal("the page types nothing")
	}
	block[1] = strings.NewReplacer("LAPTOPS-FULL-ID", laptop.ID.String(), "DESKS-FULL-ID", desk.ID.String()).Replace(block[1])
	for line := range strings.Lines(block[1]) {
		name, line, _ := strings.Cut(strings.TrimSpace(line), "$ ")
		map[string]*machine{"desk": desk, "laptop": laptop}[name].typeLine(line, desk)
	}
}
