package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	besideRounds = 5
	besideWindow = 2 * time.Second
	besideTarget = 5                    // times a quiet peer's p99
	besidePause  = 4 * time.Millisecond // between the calls of a peer that asks for little
	endWord      = "end"
)

// besideVariant is no way for a request to travel: it is a daemon with two peers, one
// that asks for little and one that takes all that it can.
var besideVariant = variant{
	name:     "beside",
	programs: []string{"acpd"},
	roles:    map[string]role{"host": {serve: serveBesideHost}, "mill": {obey: startMillRole}, "modest": {obey: startModestRole}},
}

// benchBeside measures how much later a peer's calls are answered while another trusted peer
// does one thing as often as it can: the 99th percentile of each kind of call, as a
// multiple of what it is while nobody else calls. Both take turns.
func benchBeside(ctx context.Context, names []string, to *report, log io.Writer) error {
	if len(names) == 0 {
		names = listMills()
	}
	var parts []part
	for _, name := range names {
		if !slices.Contains(listMills(), name) {
			return fmt.Errorf("%q is not measured: choose from %q", name, listMills())
		}
		parts = append(parts, part{name, func(f *fleet) ([]figure, error) {
			return measureBeside(f, name, besideRounds, besideWindow, log)
		}})
	}
	return measureParts(ctx, besideVariant, to, log, parts...)
}

// measureBeside starts the daemon, its agent and its two peers, and returns a figure for
// each kind of call, with a ratio for each round.
func measureBeside(f *fleet, mill string, rounds int, window time.Duration, log io.Writer) ([]figure, error) {
	desk, err := createHome(f.joinPath("desk"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(desk.dir, "config.yaml"), []byte("channels: {open_to: [\"*\"]}\n"), 0o600); err != nil {
		return nil, err
	}
	homes := map[string]home{}
	for _, name := range []string{"modest", "mill"} {
		if homes[name], err = createHome(f.joinPath(name)); err != nil {
			return nil, err
		}
		if err := desk.trustPeer(name, homes[name]); err != nil {
			return nil, err
		}
	}
	who, err := f.spawnDaemon(desk.dir, "--no-mdns")
	if err != nil {
		return nil, err
	}
	for _, h := range homes {
		if err := h.trustPeer("desk", desk, who.Listen...); err != nil {
			return nil, err
		}
	}
	if _, err := f.spawnRole("host", desk.socketPath()); err != nil {
		return nil, err
	}
	planner := newWebAgent(f.ctx, desk, "planner")
	for _, role := range []string{"mill", "modest"} {
		intent, channel, err := makeIntentAndChannel(planner)
		if err != nil {
			return nil, err
		}
		if _, err := f.spawnRole(role, homes[role].dir, intent, channel); err != nil {
			return nil, err
		}
	}
	loud := f.procs[len(f.procs)-2]
	figures := make([]figure, len(modestCalls))
	for i, c := range modestCalls {
		figures[i] = figure{what: fmt.Sprintf("%s, beside %s", c.name, mill), unit: "times", target: besideTarget}
	}
	if _, err := f.measurePercentiles(window / 5); err != nil { // warm-up
		return nil, err
	}
	for range rounds {
		quiet, err := f.measurePercentiles(window)
		if err != nil {
			return nil, err
		}
		// New ones each time: what a peer may write on an intent is soon used up.
		intent, channel, err := makeIntentAndChannel(planner)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(loud.stdin, intent, channel, mill); err != nil {
			return nil, err
		}
		if err := loud.awaitWord(mill, patience); err != nil {
			return nil, err
		}
		busy, err := f.measurePercentiles(window)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(loud.stdin, endWord); err != nil {
			return nil, err
		}
		did, err := loud.readLine(2 * patience)
		if err != nil {
			return nil, fmt.Errorf("%s does not end: %w", mill, err)
		}
		for i := range figures {
			figures[i].values = append(figures[i].values, busy[i]/quiet[i])
		}
		fmt.Fprintf(log, "  p99 in ms, of %s: quiet %.2f, beside it %.2f (%s)\n", listModestCalls(), quiet, busy, did)
	}
	return figures, nil
}

// makeIntentAndChannel makes an intent with a channel.
func makeIntentAndChannel(planner *webAgent) (intent, channel string, err error) {
	if intent, err = planner.createObject("intents", `{"title":"bench"}`); err == nil {
		channel, err = planner.createObject("intents/"+intent+"/channels", `{"name":"talk"}`)
	}
	return intent, channel, err
}

// measurePercentiles has the modest peer call for so long, and returns the p99 of each kind of
// call in milliseconds.
func (f *fleet) measurePercentiles(window time.Duration) ([]float64, error) {
	modest := f.lastProcess()
	if _, err := fmt.Fprintln(modest.stdin, window); err != nil {
		return nil, err
	}
	line, err := modest.readLine(window + 3*patience)
	if err != nil {
		return nil, err
	}
	p99 := make([]float64, len(modestCalls))
	for i, text := range strings.Fields(line) {
		if p99[i], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, err
		}
	}
	return p99, nil
}

// serveBesideHost attaches the agent that echoes queries and takes delegations, and empties
// the inbox so that it never fills.
func serveBesideHost(args []string) error {
	agent := &client.Client{Socket: args[0]}
	ctx := context.Background() // ends with the process
	failed := make(chan error, 2)
	go func() { // ends with the process
		for {
			page, err := agent.Inbox(ctx, client.InboxParams{Limit: 1000})
			if err == nil && len(page.Messages) > 0 {
				_, err = agent.Ack(ctx, client.AckParams{UpTo: page.Messages[len(page.Messages)-1].Seq})
			}
			if err != nil {
				failed <- err
				return
			}
			time.Sleep(100 * time.Millisecond) // how often a person's program would look
		}
	}()
	printReady("")
	go func() { // ends with the process
		failed <- (&client.Client{Socket: args[0]}).Attach(ctx, client.AttachParams{Name: "reviewer", Kinds: []string{kinds.KindQuery, kinds.KindDelegate}, MaxConcurrent: maxConc}, client.Handler{
			Query: func(_ context.Context, in *client.Inbound) (any, error) {
				return &kinds.Response{Summary: "done"}, nil
			},
			Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
		})
	}()
	return <-failed
}

// partner is a peer of the daemon.
type partner struct {
	*peer.Node
	desk            identity.ID
	intent, channel string
}

func startPartner(args []string) (*partner, error) {
	n, desk, err := startNode(args[0], "desk")
	if err != nil {
		return nil, err
	}
	return &partner{Node: n, desk: desk, intent: args[1], channel: args[2]}, nil
}

func (p *partner) sendRequest(ctx context.Context, kind string, payload wire.Payload) error {
	request, err := kinds.CheckEnvelope(wire.NewEnvelope(p.ID(), p.desk, kind, payload))
	if err != nil {
		return err
	}
	_, _, err = p.Exchange(ctx, request)
	return err
}

func (p *partner) sendPing(ctx context.Context) error {
	return p.sendRequest(ctx, kinds.KindPing, nil)
}

func (p *partner) sendQuery(ctx context.Context, size int) error {
	return p.sendRequest(ctx, kinds.KindQuery, kinds.EncodePayload(&kinds.Query{Question: strings.Repeat("x", size)}))
}

func (p *partner) sendNotify(ctx context.Context, size int) error {
	data := []byte(`"` + strings.Repeat("x", size) + `"`)
	note, err := kinds.CheckEnvelope(wire.NewEnvelope(p.ID(), p.desk, kinds.KindNotify, kinds.EncodePayload(&kinds.Notify{Topic: "build", Data: data})))
	if err != nil {
		return err
	}
	o, err := p.Send(ctx, note, true)
	if err == nil && o != "held" {
		err = fmt.Errorf("the notify was %s", o)
	}
	return err
}

func (p *partner) sendDelegation(ctx context.Context) error {
	return p.sendRequest(ctx, kinds.KindDelegate, kinds.EncodePayload(&kinds.Delegate{Task: "review"}))
}

// callChannels is web for who does not look at the answer, which must be a success.
func (p *partner) callChannels(ctx context.Context, method, path, body string) error {
	_, err := p.fetchChannels(ctx, method, path, body)
	return err
}

// fetchChannels makes a request about channels and returns the body of its answer.
func (p *partner) fetchChannels(ctx context.Context, method, path, body string, header ...string) ([]byte, error) {
	s, err := p.openRequest(ctx, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	answer, err := http.ReadResponse(bufio.NewReader(s), nil)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.100s", method, path, answer.Status, text)
	}
	return text, err
}

// openRequest begins a request about channels. The caller resets the stream.
func (p *partner) openRequest(ctx context.Context, method, path, body string, header ...string) (*peer.Stream, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Agent-ID", "worker")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s, err := p.OpenStream(ctx, p.desk, wire.StreamHTTP)
	if err != nil {
		return nil, err
	}
	if err := r.Write(s); err != nil {
		s.Cancel()
		return nil, err
	}
	s.CloseWrite() // fails where the answer is there already
	return s, nil
}

// modestCalls are the calls of a peer that asks for little.
var modestCalls = []struct {
	name string
	call func(context.Context, *partner) error
}{
	{"ping", func(ctx context.Context, p *partner) error { return p.sendPing(ctx) }},
	{"query", func(ctx context.Context, p *partner) error { return p.sendQuery(ctx, 200) }},
	{"notify", func(ctx context.Context, p *partner) error { return p.sendNotify(ctx, 200) }},
	{"message", func(ctx context.Context, p *partner) error {
		return p.callChannels(ctx, "POST", "channels/"+p.channel+"/messages", `{"payload":{}}`)
	}},
}

func listModestCalls() string {
	var names []string
	for _, c := range modestCalls {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// startModestRole makes each kind of call, one after the other, for the time that it is
// ordered, and answers with the p99 of each in milliseconds. Every call must succeed.
func startModestRole(args []string) (answer func(string) (string, error), end func(), err error) {
	p, err := startPartner(args)
	if err != nil {
		return nil, nil, err
	}
	return func(order string) (string, error) {
		window, err := time.ParseDuration(order)
		if err != nil {
			return "", err
		}
		p99 := make([]string, len(modestCalls))
		end := time.Now().Add(window)
		var calls errgroup.Group
		for i, c := range modestCalls {
			calls.Go(func() error {
				var all []time.Duration
				for len(all) == 0 || time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					began := time.Now()
					err := c.call(ctx, p)
					all = append(all, time.Since(began))
					cancel()
					if err != nil {
						return fmt.Errorf("%s: %w", c.name, err)
					}
					time.Sleep(besidePause)
				}
				slices.Sort(all)
				p99[i] = fmt.Sprint(toMillis(all[len(all)*99/100]))
				return nil
			})
		}
		err = calls.Wait()
		return strings.Join(p99, " "), err
	}, p.Close, nil
}
