package daemon

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/wire"
)

// measuredPair is a pair whose daemons serve metrics on loopback.
func measuredPair(t *testing.T, more string) (desk, laptop *running) {
	t.Helper()
	var both []*running
	for _, name := range []string{"desk", "laptop"} {
		dir := stateDir(t)
		writeConfig(t, dir, "metrics: {listen: \":0\""+more+"}\n")
		both = append(both, start(t, dir, name))
	}
	befriend(t, both[0], both[1])
	return both[0], both[1]
}

// series returns the values of all series now, by name and labels as they are written.
func (d *running) series() map[string]float64 {
	d.t.Helper()
	all := make(map[string]float64)
	for line := range strings.Lines(string(metrics.AppendFamilies(nil, d.listMetricFamilies(d.t.Context())))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			d.t.Fatalf("%q: %v", line, err)
		}
		if _, twice := all[line[:at]]; twice {
			d.t.Errorf("%s: twice", line[:at])
		}
		all[line[:at]] = value
	}
	return all
}

// countsTo waits until a series has a value.
func (d *running) countsTo(series string, want float64) {
	d.t.Helper()
	await.Until(d.t, series+" is "+strconv.FormatFloat(want, 'g', -1, 64), func() bool {
		got, ok := d.series()[series]
		if !ok {
			d.t.Fatalf("no series %s", series)
		}
		return got == want
	})
}

// get asks for a path of the metrics server and returns the answer with its body.
func (d *running) get(path string) (*http.Response, string) {
	d.t.Helper()
	answer, err := (&http.Client{Timeout: await.Patience}).Get("http://" + d.metrics.Addr().String() + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer, string(body)
}

// What is sent, and what becomes of it, is counted at both ends.
func TestMetricsCountMessages(t *testing.T) {
	t.Parallel()
	desk, laptop := measuredPair(t, "")
	asker := desk.dial()
	notify := func(want client.ReceiptState, code kinds.Code) {
		t.Helper()
		var got client.Receipt
		err := asker.call("notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"build"}`)}, &got)
		if got.State != want || err != nil && kinds.AsError(err).Code != code {
			t.Errorf("notify: %v, %v, want %v %s", got.State, err, want, code)
		}
	}
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("Is it safe?")})
	notify(client.Held, "")
	laptop.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"It is."}`))
	notify(client.Handed, "")
	asker.must("query", client.QueryParams{To: "laptop", Payload: query("Is it safe?")}, nil)
	asker.must("ping", client.PingParams{To: "laptop"}, nil)
	laptop.configure("metrics: {listen: \":0\"}\npolicy: {desk: {kinds: [query]}}\n")
	notify("", kinds.NotAuthorized)

	for direction, d := range map[string]*running{"out": desk, "in": laptop} {
		for series, want := range map[string]float64{
			`acpd_calls_total{direction="DIR",kind="query",outcome="ok"}`:               1,
			`acpd_calls_total{direction="DIR",kind="query",outcome="no_agent"}`:         1,
			`acpd_calls_total{direction="DIR",kind="query",outcome="timeout"}`:          0,
			`acpd_calls_total{direction="DIR",kind="ping",outcome="ok"}`:                1,
			`acpd_calls_total{direction="DIR",kind="notify",outcome="ok"}`:              2,
			`acpd_calls_total{direction="DIR",kind="notify",outcome="not_authorized"}`:  1,
			`acpd_call_duration_seconds_count{direction="DIR",kind="query"}`:            2,
			`acpd_call_duration_seconds_bucket{direction="DIR",kind="query",le="+Inf"}`: 2,
			`acpd_messages_total{direction="DIR",kind="query"}`:                         2,
			`acpd_messages_total{direction="DIR",kind="notify"}`:                        3,
			`acpd_receipts_total{direction="DIR",state="held"}`:                         1,
			`acpd_receipts_total{direction="DIR",state="handed"}`:                       1,
			`acpd_receipts_total{direction="DIR",state="refused"}`:                      1,
		} {
			d.countsTo(strings.Replace(series, "DIR", direction, 1), want) // what came is counted after it was answered
		}
	}
	for series, want := range map[string]float64{
		`acpd_messages_total{direction="out",kind="response"}`: 1,
		`acpd_messages_total{direction="out",kind="error"}`:    1,
		`acpd_budget_refusals_total{row="policy"}`:             1,
		"acpd_agents_attached":                                 1, "acpd_peers_trusted": 1, "acpd_peers_connected": 1, "acpd_ready": 1, "acpd_config_reload_failed": 0,
	} {
		laptop.countsTo(series, want)
	}
	is := laptop.series()
	for series := range is {
		if strings.Contains(series, "desk") || strings.Contains(series, "peer=") {
			t.Errorf("%s names a peer", series)
		}
	}
	if is["acpd_store_commits_total{outcome=\"ok\"}"] < 1 || is["acpd_store_commit_writes_sum"] < 1 || is["acpd_store_commit_duration_seconds_sum"] <= 0 {
		t.Error("a message that is held is no commit")
	}
	if is["acpd_connections"] < 1 || is["process_open_fds"] < 5 || is["go_goroutines"] < 5 || is["process_cpu_seconds_total"] <= 0 || is["acpd_disk_free_bytes{of=\"state\"}"] <= 0 {
		t.Errorf("the daemon's own figures: %v", is)
	}
}

// Each dial has one outcome.
// It runs alone: a daemon of another test could take the port of one that has ended.
func TestMetricsCountDials(t *testing.T) {
	desk, laptop := measuredPair(t, "")
	await.Until(t, "a dial that has led to a connection", func() bool {
		return desk.series()[`acpd_dials_total{outcome="ok"}`]+laptop.series()[`acpd_dials_total{outcome="ok"}`] > 0
	})
	laptop.stop()
	desk.dial().refused(kinds.Unreachable, "ping", client.PingParams{To: "laptop"})
	await.Until(t, "a dial that has failed", func() bool { return desk.series()[`acpd_dials_total{outcome="unreachable"}`] > 0 })
	desk.countsTo(`acpd_calls_total{direction="out",kind="ping",outcome="unreachable"}`, 1)
	desk.countsTo(`acpd_receipts_total{direction="out",state="refused"}`, 0)
	desk.countsTo("acpd_peers_connected", 0)
	desk.countsTo("acpd_connections", 0)
}

// Refusals stay counted when the peer is gone: a counter never falls.
func TestRefusalsOutliveTrust(t *testing.T) {
	t.Parallel()
	desk, laptop := measuredPair(t, "")
	laptop.permissions.ReplaceConfig(&config.Config{Policy: config.Policy{"*": {Kinds: []string{}}}})
	desk.dial().refused(kinds.NotAuthorized, "ping", client.PingParams{To: "laptop"})
	laptop.countsTo(`acpd_budget_refusals_total{row="policy"}`, 1)
	laptop.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
	laptop.countsTo(`acpd_budget_refusals_total{row="policy"}`, 1)
}

// Requests about channels are counted, and event streams still come as they happen.
func TestMetricsCountChannels(t *testing.T) {
	t.Parallel()
	desk, laptop := measuredPair(t, "}\nchannels: {open_to: [\"*\"]")
	planner := desk.web("planner")
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	planner.must(404, "GET", "intents/none", nil)
	stream := desk.web("reviewer").do("GET", "intents/"+intent+"/subscribe", nil)
	defer stream.Body.Close()
	planner.must(201, "POST", "intents/"+intent+"/channels/build/messages", object{"message_type": "notify", "payload": object{"n": 7}})
	events := bufio.NewScanner(stream.Body)
	for seen := false; !seen; seen = strings.Contains(events.Text(), `"n":7`) {
		if !events.Scan() {
			t.Fatalf("the event stream ends: %v", events.Err())
		}
	}
	laptop.web("welder").must(200, "GET", "intents/"+intent, nil)
	desk.countsTo(`acpd_channel_requests_total{from="agent",status="2xx"}`, 3)
	desk.countsTo(`acpd_channel_requests_total{from="agent",status="4xx"}`, 1)
	await.Until(t, "a request of the peer's agent", func() bool { return desk.series()[`acpd_channel_requests_total{from="peer",status="2xx"}`] > 0 })
	laptop.countsTo(`acpd_channel_requests_total{from="agent",status="2xx"}`, 1)
}

func TestMetricsCountMail(t *testing.T) {
	t.Parallel()
	_, laptop, out, _ := mailPair(t, "metrics: {listen: \":0\"}\n")
	writeMail(t, out, "20261120T130000Z_planner_question.yaml")
	laptop.countsTo(`acpd_mails_total{direction="in",result="stored"}`, 1)
	back := "id: n\nfrom: reviewer\nto: planner\ntype: question\npriority: P2\ncreated_at_utc: \"2026-11-20T13:00:00Z\"\nsubject: s\nbody: x\n"
	inbox := mailDir(t, laptop.mail.Home, "planner")
	writeFile(t, filepath.Join(inbox, ".x"), back)
	if err := os.Rename(filepath.Join(inbox, ".x"), filepath.Join(inbox, "20261120T130001Z_reviewer_question.yaml")); err != nil {
		t.Fatal(err)
	}
	laptop.countsTo(`acpd_mails_total{direction="out",result="stored"}`, 1)
}

// A daemon that is not ready says why in one line.
func TestReadinessSaysWhy(t *testing.T) {
	t.Parallel()
	desk, _ := measuredPair(t, "")
	if err := os.Remove(desk.home.ownerSocketPath()); err != nil {
		t.Fatal(err)
	}
	answer, body := desk.get("/readyz")
	if answer.StatusCode != 503 || !strings.HasPrefix(body, "not ready: ") || strings.Count(body, "\n") != 1 {
		t.Errorf("%d %q", answer.StatusCode, body)
	}
	if answer, _ := desk.get("/healthz"); answer.StatusCode != 200 {
		t.Errorf("healthz: %d", answer.StatusCode)
	}
	desk.countsTo("acpd_ready", 0)
}

func BenchmarkScrape(b *testing.B) {
	dir := stateDir(b)
	writeConfig(b, dir, "metrics: {listen: \":0\"}\n")
	desk := start(b, dir, "desk")
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = metrics.AppendFamilies(text[:0], desk.listMetricFamilies(b.Context()))
	}
}

// TestProbe: each address says what is there: the peer, another key, nothing. The connection in use
// stays, and nobody becomes pending.
func TestProbe(t *testing.T) {
	desk, laptop := pair(t)
	other := start(t, stateDir(t), "other")
	at := func(r *running) string { return r.node.Addr().String() }
	l := desk.dial()
	const nothing, nowhere = "127.0.0.1:9", "no-such-host.invalid:7117"
	l.must(client.MethodTrust, &client.TrustParams{Peer: laptop.ID().String(), Addrs: []string{at(laptop), at(other), nothing, nowhere}}, new(client.NamedPeer))
	await.Until(t, "they are connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })
	before, _ := desk.node.Peer(laptop.ID())

	got := get[client.Probe](l, client.MethodProbe, &client.ProbeParams{Peer: "laptop"})
	found := make(map[string]client.ProbedAddr)
	for _, a := range got.Addrs {
		if _, twice := found[a.Addr]; twice {
			t.Errorf("%s is there twice", a.Addr)
		}
		found[a.Addr] = a
	}
	if a := found[at(laptop)]; a.Error != nil || a.RTTUS == 0 {
		t.Errorf("the peer: %+v", a)
	}
	for addr, want := range map[string]kinds.Code{at(other): kinds.IdentityConflict, nothing: kinds.Unreachable, nowhere: kinds.Unreachable} {
		if a := found[addr]; a.Error == nil || a.Error.Code != want || a.RTTUS != 0 {
			t.Errorf("%s: %+v", addr, a)
		}
	}
	if after, ok := desk.node.Peer(laptop.ID()); !ok || after.Addr != before.Addr || after.Boot != before.Boot {
		t.Errorf("the connection was %+v, and is %+v", before, after)
	}
	if n := len(other.node.Pending()); n != 0 {
		t.Errorf("%d pending", n)
	}
	if e := l.refused(kinds.UnknownPeer, client.MethodProbe, &client.ProbeParams{Peer: "nobody"}); !strings.HasPrefix(e.Message, "peer: ") {
		t.Errorf("the error begins with what no user has typed: %v", e)
	}
	l.refused(kinds.UnknownPeer, client.MethodProbe, &client.ProbeParams{Peer: other.ID().String()})
}

// TestStatusOfTheProcess: status says what the process has of its machine, and peers what a peer
// runs and shows.
func TestStatusOfTheProcess(t *testing.T) {
	desk, laptop := pair(t)
	l := desk.dial()
	s := get[client.Status](l, client.MethodStatus, nil)
	p := s.Process
	if p.PID != os.Getpid() || p.Goroutines < 5 || p.HeapBytes == 0 || p.MaxDescriptors == 0 || p.Descriptors < 5 || p.Descriptors > p.MaxDescriptors || p.UDPReceiveBytes == 0 || p.UDPSendBytes == 0 {
		t.Errorf("%+v", p)
	}
	await.Until(t, "the key of the peer is pinned", func() bool { return l.row(laptop).Pinned })
	if row := l.row(laptop); row.Software != "acpd test" {
		t.Errorf("%+v", row)
	}
	pong := get[client.PingAnswer](l, client.MethodPing, &client.PingParams{To: "laptop"})
	if pong.TS == 0 {
		t.Error("a pong without a time")
	}
	if desk.measures != nil || desk.metrics != nil {
		t.Error("something is counted, or served, that nobody has asked for")
	}
}
