package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/live"
)

var module = live.Module + "/"

// arrows are the imports that are allowed: a package may import what its line names and what
// that imports in turn. A new arrow is a visible edit here.
var arrows = map[string][]string{
	"cmd/acpd":             {"daemon", "internal/buildinfo"},
	"cmd/acpctl":           {"internal/app/cli"},
	"daemon":               {"daemon/addresses", "daemon/admin", "daemon/agents", "daemon/channels", "daemon/delegation", "daemon/files", "daemon/inbox", "daemon/incoming", "daemon/kept", "daemon/known", "daemon/local", "daemon/mail", "daemon/measures", "daemon/organisation", "daemon/outgoing", "daemon/peers", "daemon/permissions", "daemon/registry", "daemon/relays", "daemon/schema", "daemon/sessions", "daemon/settings", "daemon/spending", "daemon/tasks", "daemon/waking", "daemon/watch", "openintent/remote", "peer", "store", "config", "client", "disk", "metrics", "internal/buildinfo", "internal/statedir"},
	"daemon/addresses":     {"client", "config", "discovery", "peer", "store", "internal/pace"},
	"daemon/admin":         {"daemon/local", "config", "peer", "store", "metrics", "internal/buildinfo", "internal/durable", "internal/pace", "internal/statedir"},
	"daemon/agents":        {"daemon/measures", "daemon/peers", "daemon/permissions", "daemon/sessions", "peer"},
	"daemon/channels":      {"daemon/admin", "daemon/local", "daemon/measures", "config", "openintent/remote", "peer", "store"},
	"daemon/delegation":    {"daemon/registry", "store", "client", "budget"},
	"daemon/files":         {"daemon/outgoing", "internal/durable", "internal/pace"},
	"daemon/inbox":         {"daemon/registry", "store", "client", "budget"},
	"daemon/incoming":      {"daemon/tasks"},
	"daemon/kept":          {"daemon/agents", "internal/pace"},
	"daemon/known":         {"daemon/delegation", "daemon/inbox"},
	"daemon/local":         {"daemon/registry", "disk", "internal/ownwords", "internal/pace"},
	"daemon/mail":          {"daemon/local", "oacp/transfer"},
	"daemon/measures":      {"daemon/traffic", "metrics", "oacp/transfer", "store"},
	"daemon/names":         {"kinds"},
	"daemon/organisation":  {"daemon/local", "config", "store", "internal/ownwords", "internal/pace"},
	"daemon/outgoing":      {"daemon/kept"},
	"daemon/peers":         {"daemon/addresses", "daemon/organisation", "daemon/relays", "daemon/settings", "pipe"},
	"daemon/permissions":   {"budget", "client", "config"},
	"daemon/registry":      {"client", "budget"},
	"daemon/relays":        {"daemon/local", "daemon/names", "config", "metrics", "peer", "relay", "internal/statedir"},
	"daemon/schema":        {"store"},
	"daemon/waking":        {"config", "client", "store", "internal/sealed", "internal/pace"},
	"daemon/sessions":      {"daemon/known", "daemon/waking", "daemon/watch", "disk", "internal/commandenv"},
	"daemon/settings":      {"config", "daemon/admin", "daemon/local", "metrics"},
	"daemon/spending":      {"config", "daemon/known", "daemon/local", "metrics"},
	"daemon/tasks":         {"daemon/outgoing"},
	"daemon/traffic":       {"client", "peer", "internal/pace", "internal/turns"},
	"daemon/watch":         {"daemon/delegation", "daemon/local", "daemon/traffic", "metrics"},
	"peer":                 {"kinds", "budget", "internal/workers"},
	"pipe":                 {"internal/commandenv", "kinds"},
	"budget":               {"identity"},
	"client":               {"client/jsonrpc", "internal/shellpath"},
	"client/channels":      {"client"},
	"client/jsonrpc":       {"kinds", "internal/workers"},
	"kinds":                {"wire", "internal/jsonscan"},
	"harness":              {"wire", "internal/pace"},
	"harness/run":          {},
	"harness/profile":      {"harness/run", "client", "internal/durable"},
	"harness/setup":        {"internal/durable", "internal/jsonscan"},
	"mcp":                  {"harness", "client"},
	"wire":                 {"identity", "internal/jsonscan"},
	"config":               {"kinds", "internal/yamldoc"},
	"discovery":            {"identity"},
	"openintent/remote":    {"openintent/api", "kinds"},
	"openintent/api":       {"openintent", "internal/jsonscan"},
	"openintent":           {"openintent/object", "internal/jsonscan", "store", "budget", "disk"},
	"openintent/object":    {"openintent/chain"},
	"openintent/chain":     {},
	"store":                {"disk", "internal/ownwords"},
	"disk":                 {},
	"metrics":              {},
	"relay":                {"identity", "internal/commandenv", "internal/pace", "kinds"},
	"oacp/mailbox":         {"oacp/message", "internal/durable", "internal/shellpath"},
	"oacp/transfer":        {"store", "oacp/message", "kinds", "budget", "internal/durable"},
	"oacp/message":         {},
	"identity":             {"internal/sealed", "internal/durable", "internal/pace"},
	"internal/sealed":      {"internal/durable"},
	"internal/statedir":    {"internal/ownwords", "internal/shellpath"},
	"internal/durable":     {"internal/ownwords"},
	"internal/ownwords":    {},
	"internal/jsonscan":    {},
	"internal/pace":        {},
	"internal/workers":     {},
	"internal/turns":       {},
	"internal/app/service": {"identity", "internal/durable", "packaging"},
	"internal/roster":      {"identity", "internal/yamldoc"},
	"internal/yamldoc":     {"internal/ownwords"},
	"packaging":            {},
	"internal/app/doctor":  {"client/channels", "config", "disk", "harness", "harness/setup", "oacp/mailbox", "internal/durable", "internal/sealed", "internal/app/service", "internal/statedir"},

	"internal/buildinfo":  {"identity"},
	"internal/commandenv": {"internal/ownwords"},
	"internal/shellpath":  {"internal/ownwords"},

	"internal/app/cli":         {"internal/buildinfo", "internal/app/cli/channel", "internal/app/cli/files", "internal/app/cli/oacp", "internal/app/cli/operate", "internal/app/cli/serve", "internal/app/cli/talk", "internal/app/cli/up", "internal/app/cli/watch", "mcp"},
	"internal/app/cli/channel": {"internal/app/cli/frame", "client/channels"},
	"internal/app/cli/connect": {"internal/app/cli/frame", "harness/setup"},
	"internal/app/cli/files":   {"internal/app/cli/frame"},
	"internal/app/cli/meet":    {"internal/app/cli/frame", "internal/roster"},
	"internal/app/cli/oacp":    {"internal/app/cli/frame", "oacp/mailbox"},
	"internal/app/cli/operate": {"internal/app/cli/frame", "config", "internal/app/backup", "internal/app/doctor", "internal/app/service", "internal/app/web"},
	"internal/app/cli/serve":   {"internal/app/cli/frame", "harness/profile", "internal/commandenv", "internal/statedir"},
	"internal/app/cli/talk":    {"internal/app/cli/frame"},
	"internal/app/cli/up":      {"internal/app/cli/connect", "internal/app/cli/meet", "internal/app/cli/operate"},
	"internal/app/cli/watch":   {"internal/app/cli/frame"},
	"internal/app/backup":      {"client", "internal/sealed", "internal/statedir", "internal/durable"},
	"internal/app/web":         {"client/channels", "internal/pace", "internal/turns"},
	"internal/app/cli/clitest": {"internal/app/cli/frame"},
	"internal/app/cli/frame":   {"internal/app/cli/ui"},
	"internal/app/cli/ui":      {"client"},

	"examples/go/answer":   {"client"},
	"examples/go/ask":      {"client"},
	"examples/go/delegate": {"client"},
}

// floors are those of docs/architecture.md: a package is on the floor of the first entry that is its path or begins it.
// The others are on floor 0.
var floors = []struct {
	path  string
	floor int
}{
	{"cmd", 6}, {"examples", 6},
	{"daemon/", 4}, {"daemon", 5}, {"mcp", 5}, {"internal/app", 5},
	{"openintent", 3}, {"oacp", 3}, {"harness", 3},
	{"peer", 2}, {"relay", 2}, {"pipe", 2}, {"discovery", 2}, {"client", 2}, {"config", 2},
	{"budget", 1}, {"metrics", 1}, {"internal/roster", 1}, {"packaging", 1},
}

func floorOf(pkg string) int {
	for _, f := range floors {
		if strings.HasPrefix(pkg, f.path) {
			return f.floor
		}
	}
	return 0
}

// TestArrowsPointDown: a package imports only from its own floor and from those below.
func TestArrowsPointDown(t *testing.T) {
	seen := make(map[int]bool)
	for pkg, imported := range arrows {
		seen[floorOf(pkg)] = true
		for _, below := range imported {
			if floorOf(below) > floorOf(pkg) {
				t.Errorf("%s, on floor %d, imports %s, on floor %d", pkg, floorOf(pkg), below, floorOf(below))
			}
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d floors have packages, want 7", len(seen))
	}
}

// importers names the packages that may import a heavy dependency: one, and what is below it.
var importers = map[string][]string{
	"github.com/quic-go/quic-go":   {"peer"},
	"github.com/fxamacker/cbor/v2": {"wire"},
	"modernc.org/sqlite":           {"store"},
	"github.com/cloudflare/circl":  {"identity"},
	"github.com/hashicorp/mdns":    {"discovery"},
	"github.com/miekg/dns":         {"discovery"},
	"github.com/spf13/cobra":       {"internal/app/cli"},
	"github.com/spf13/pflag":       {"cmd/acpd", "internal/app/cli"},
	"golang.org/x/term":            {"internal/app/cli/ui"},
	"filippo.io/age":               {"internal/app/backup"},
	"golang.org/x/crypto/ssh":      {"identity"},
	"github.com/coder/websocket":   {"harness"},
	"github.com/tailscale/hujson":  {"harness/setup"},
	"github.com/pelletier/go-toml": {"harness/setup"},

	"github.com/nats-io/nats.go": {"relay"},
	"github.com/nats-io/nkeys":   {"relay"},

	"github.com/modelcontextprotocol/go-sdk": {"mcp"},
	"github.com/coreos/go-systemd/v22":       {"daemon/admin"},
	"encoding/json":                          {},
	"github.com/rogpeppe/go-internal":        {}, // tests only
}

// speakers may import net/http: HTTP is theirs.
var speakers = []string{"openintent/api", "openintent/remote", "daemon", "client/channels", "internal/app/cli", "harness", "mcp", "relay", "internal/app/web"}

func TestImports(t *testing.T) {
	allowed := make(map[string][]string)
	var reach func(string) []string
	reach = func(pkg string) []string {
		if r, ok := allowed[pkg]; ok {
			return r
		}
		var r []string
		for _, p := range arrows[pkg] {
			r = append(append(r, p), reach(p)...)
		}
		allowed[pkg] = r
		return r
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		if pkg == "integration" || strings.HasPrefix(pkg, "integration/") {
			continue
		}
		if _, ok := arrows[pkg]; !ok {
			t.Errorf("%s is not in the import table", pkg)
			continue
		}
		seen++
		for _, imp := range fields[1:] {
			if own, ok := strings.CutPrefix(imp, module); ok {
				if !slices.Contains(reach(pkg), own) {
					t.Errorf("%s imports %s: the import table has no such arrow", pkg, own)
				}
				continue
			}
			if imp == "net/http" && !slices.ContainsFunc(speakers, func(s string) bool { return pkg == s || strings.HasPrefix(pkg, s+"/") }) {
				t.Errorf("%s imports net/http: only %s may", pkg, strings.Join(speakers, ", "))
			}
			for dep, only := range importers {
				if within(imp, dep) && !slices.ContainsFunc(only, func(p string) bool { return within(pkg, p) }) {
					t.Errorf("%s imports %s: only %q may", pkg, imp, only)
				}
			}
		}
	}
	if seen != len(arrows) {
		t.Errorf("%d packages of the import table exist, want %d", seen, len(arrows))
	}
}

// notInDaemon are packages that the daemon reaches by no way: what talks to a person at a
// terminal, and what talks MCP to an agent program.
var notInDaemon = []string{
	module + "internal/app/cli",
	module + "harness",
	module + "mcp",
	"github.com/modelcontextprotocol",
	"github.com/spf13/cobra",
	"golang.org/x/term",
	"filippo.io/age",
}

func TestWhatTheDaemonReaches(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"cmd/acpd").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if slices.ContainsFunc(notInDaemon, func(p string) bool { return within(pkg, p) }) {
			t.Errorf("cmd/acpd reaches %s", pkg)
		}
	}
}

// within reports whether a package is the one at path or below it.
func within(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }
