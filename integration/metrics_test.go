package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// scrape returns the metrics of a daemon that serves them on a socket in its home.
func scrape(t *testing.T, m *live.Machine) string {
	t.Helper()
	at := http.Client{Timeout: await.Patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Home, "metrics.sock"))
	}}}
	answer, err := at.Get("http://127.0.0.1/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", answer.Status, err)
	}
	return string(text)
}

// startMeasured starts a daemon that serves metrics, and that has a connected peer and a relay where nothing
// listens.
func startMeasured(t *testing.T) *live.Machine {
	t.Helper()
	desk, laptop := live.NewMachine(t, "desk"), live.NewMachine(t, "laptop")
	text := fmt.Sprintf("metrics: {listen: %q}\nreach: {relays: [{name: hub, url: \"tls://127.0.0.1:1\"}]}\n", filepath.Join(desk.Home, "metrics.sock"))
	if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	laptop.StartDaemon()
	desk.Trust(laptop, laptop.Addr)
	laptop.Trust(desk, desk.Addr)
	desk.MustOutput("ping", "laptop", "-c", "1")
	return desk
}

// runPromtool runs promtool, of the package prometheus, with an input.
func runPromtool(t *testing.T, input string, args ...string) {
	t.Helper()
	tool := exec.CommandContext(t.Context(), findTool(t, "promtool"), args...)
	tool.Stdin = strings.NewReader(input)
	if out, err := tool.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus takes what a daemon says, and its tool finds nothing wrong in it.
func TestPrometheusTakesTheMetrics(t *testing.T) {
	t.Parallel()
	runPromtool(t, scrape(t, startMeasured(t)), "check", "metrics")
}

func TestPrometheusTakesTheRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "acpd.rules.yml"}, {"test", "rules", "acpd.rules.test.yml"}} {
		args[2] = filepath.Join("../packaging/prometheus", args[2])
		runPromtool(t, "", args...)
	}
}

var (
	familyLine  = regexp.MustCompile(`(?m)^# TYPE ([a-z_]+) ([a-z]+)$`)
	metricName  = regexp.MustCompile(`\b(?:acpd|process|go)_[a-z_]+`)
	metricInRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\|")
)

// The table in docs/operate.md has each metric that a daemon has, and no other; alerts and
// dashboard ask for none that there is not.
func TestTheMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	has := make(map[string]string) // name to type
	for _, family := range familyLine.FindAllStringSubmatch(scrape(t, startMeasured(t)), -1) {
		has[family[1]] = family[2]
	}
	if len(has) < 30 {
		t.Fatalf("a scrape has %d metrics", len(has))
	}
	documented := make(map[string]string)
	for _, row := range metricInRow.FindAllStringSubmatch(readFile(t, "../docs/operate.md"), -1) {
		documented[row[1]] = row[2]
	}
	for name, typ := range has {
		if documented[name] != typ {
			t.Errorf("docs/operate.md says of %s that it is a %q, and it is a %s", name, documented[name], typ)
		}
	}
	for name := range documented {
		if has[name] == "" {
			t.Errorf("docs/operate.md has %s, and a daemon has not", name)
		}
	}
	for _, file := range []string{"prometheus/acpd.rules.yml", "prometheus/acpd.rules.test.yml", "grafana/acpd.json"} {
		names := metricName.FindAllString(readFile(t, "../packaging/"+file), -1)
		if len(names) < 20 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			family := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if cut, ok := strings.CutSuffix(name, suffix); ok && has[cut] == "histogram" {
					family = cut
				}
			}
			if has[family] == "" {
				t.Errorf("%s names %s, which a daemon has not", file, name)
			}
		}
	}
}

// Grafana can import the dashboard: its panels have ids and places of their own, and queries
// that name the data source and the variables.
func TestTheDashboardIsWhole(t *testing.T) {
	t.Parallel()
	var board struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct{ List []struct{ Name, Type string } }
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct {
				RefID, Expr string
				Datasource  struct{ Type, UID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "../packaging/grafana/acpd.json")), &board, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || board.SchemaVersion < 39 || len(board.Templating.List) != 3 {
		t.Errorf("the dashboard: %q %q %d %v", board.Title, board.UID, board.SchemaVersion, board.Templating)
	}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id is taken, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if by := taken[[2]int{x, y}]; by != "" || x > 23 {
					t.Fatalf("%q lies on %q, or outside", p.Title, by)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("%s: %d queries", p.Title, len(p.Targets))
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || !strings.Contains(q.Expr, `job="$job", instance=~"$instance"`) || q.RefID == "" {
				t.Errorf("%s: %+v", p.Title, q)
			}
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
