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
	roles:    map[string]role{"host": {serve: besideHost}, "mill": {obey: besideMill}, "modest": {obey: besideModest}},
}

// beside measures how much later a peer's calls are answered while another trusted peer
// does one thing as often as it can: the 99th percentile of each kind of call, as a
// multiple of what it is while nobody else calls. Both take turns.
func beside(ctx context.Context, names []string, out, log io.Writer) error {
	if len(names) == 0 {
		names = millNames()
	}
	var parts []part
	for _, name := range names {
		if !slices.Contains(millNames(), name) {
			return fmt.Errorf("%q is not measured: choose from %q", name, millNames())
		}
		parts = append(parts, part{name, func(f *fleet) ([]figure, error) {
			return measureBeside(f, name, besideRounds, besideWindow, log)
		}})
	}
	return measureParts(ctx, besideVariant, out, log, parts...)
}

// measureBeside starts the daemon, its agent and its two peers, and returns a figure for
// each kind of call, with a ratio for each round.
func measureBeside(f *fleet, mill string, rounds int, window time.Duration, log io.Writer) ([]figure, error) {
	desk, err := makeHome(f.path("desk"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(desk.dir, "config.yaml"), []byte("channels: {open_to: [\"*\"]}\n"), 0o600); err != nil {
		return nil, err
	}
	homes := map[string]home{}
	for _, name := range []string{"modest", "mill"} {
		if homes[name], err = makeHome(f.path(name)); err != nil {
			return nil, err
		}
		if err := desk.trust(name, homes[name]); err != nil {
			return nil, err
		}
	}
	who, err := f.spawnDaemon(desk.dir, "--no-mdns")
	if err != nil {
		return nil, err
	}
	for _, h := range homes {
		if err := h.trust("desk", desk, who.Listen...); err != nil {
			return nil, err
		}
	}
	if _, err := f.spawn("host", desk.socket()); err != nil {
		return nil, err
	}
	planner := newWeb(f.ctx, desk, "planner")
	for _, role := range []string{"mill", "modest"} {
		intent, channel, err := makeTalk(planner)
		if err != nil {
			return nil, err
		}
		if _, err := f.spawn(role, homes[role].dir, intent, channel); err != nil {
			return nil, err
		}
	}
	loud := f.procs[len(f.procs)-2]
	figures := make([]figure, len(modestCalls))
	for i, c := range modestCalls {
		figures[i] = figure{what: fmt.Sprintf("%s, beside %s", c.name, mill), unit: "times", target: besideTarget}
	}
	if _, err := f.percentiles(window / 5); err != nil { // warm-up
		return nil, err
	}
	for range rounds {
		quiet, err := f.percentiles(window)
		if err != nil {
			return nil, err
		}
		// New ones each time: what a peer may write on an intent is soon used up.
		intent, channel, err := makeTalk(planner)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(loud.stdin, intent, channel, mill); err != nil {
			return nil, err
		}
		if err := loud.expect(mill, patience); err != nil {
			return nil, err
		}
		busy, err := f.percentiles(window)
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
		fmt.Fprintf(log, "  p99 in ms, of %s: quiet %.2f, beside it %.2f (%s)\n", modestNames(), quiet, busy, did)
	}
	return figures, nil
}

// makeTalk makes an intent with a channel.
func makeTalk(planner *web) (intent, channel string, err error) {
	if intent, err = planner.made("intents", `{"title":"bench"}`); err == nil {
		channel, err = planner.made("intents/"+intent+"/channels", `{"name":"talk"}`)
	}
	return intent, channel, err
}

// percentiles has the modest peer call for so long, and returns the p99 of each kind of
// call in milliseconds.
func (f *fleet) percentiles(window time.Duration) ([]float64, error) {
	modest := f.driver()
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

// besideHost attaches the agent that echoes queries and takes delegations, and empties
// the inbox so that it never fills.
func besideHost(args []string) error {
	agent := &client.Client{Socket: args[0]}
	ctx := context.Background() // ends with the process
	emptied := make(chan error, 1)
	go func() { // ends with the process
		for {
			page, err := agent.Inbox(ctx, client.InboxParams{Limit: 1000})
			if err == nil && len(page.Messages) > 0 {
				_, err = agent.Ack(ctx, client.AckParams{UpTo: page.Messages[len(page.Messages)-1].Seq})
			}
			if err != nil {
				emptied <- err
				return
			}
			time.Sleep(100 * time.Millisecond) // how often a person's program would look
		}
	}()
	announce("")
	attached := make(chan error, 1)
	go func() { // ends with the process
		attached <- (&client.Client{Socket: args[0]}).Attach(ctx, client.AttachParams{Name: "reviewer", Kinds: []string{kinds.KindQuery, kinds.KindDelegate}, MaxConcurrent: maxConc}, client.Handler{
			Query: func(_ context.Context, in *client.Inbound) (any, error) {
				return &kinds.Response{Summary: "done"}, nil
			},
			Delegate: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
		})
	}()
	select {
	case err := <-emptied:
		return err
	case err := <-attached:
		return err
	}
}

// partner is a peer of the daemon.
type partner struct {
	*peer.Node
	desk            identity.ID
	intent, channel string
}

func newPartner(args []string) (*partner, error) {
	cfg, err := nodeConfig(args[0])
	if err != nil {
		return nil, err
	}
	desk, err := cfg.Trust.Resolve("desk")
	if err != nil {
		return nil, err
	}
	n, err := peer.Listen(cfg)
	if err != nil {
		return nil, err
	}
	go n.Serve(context.Background()) // ends with the process
	return &partner{Node: n, desk: desk.ID, intent: args[1], channel: args[2]}, nil
}

func (p *partner) exchange(ctx context.Context, kind string, payload wire.Payload) error {
	request, err := kinds.Check(wire.NewEnvelope(p.ID(), p.desk, kind, payload))
	if err != nil {
		return err
	}
	_, _, err = p.Exchange(ctx, request)
	return err
}

func (p *partner) ping(ctx context.Context) error {
	return p.exchange(ctx, kinds.KindPing, nil)
}

func (p *partner) query(ctx context.Context, size int) error {
	return p.exchange(ctx, kinds.KindQuery, kinds.Encode(&kinds.Query{Question: strings.Repeat("x", size)}))
}

func (p *partner) notify(ctx context.Context, size int) error {
	data := []byte(`"` + strings.Repeat("x", size) + `"`)
	note, err := kinds.Check(wire.NewEnvelope(p.ID(), p.desk, kinds.KindNotify, kinds.Encode(&kinds.Notify{Topic: "build", Data: data})))
	if err != nil {
		return err
	}
	o, err := p.Send(ctx, note, true)
	if err == nil && o != "held" {
		err = fmt.Errorf("the notify was %s", o)
	}
	return err
}

func (p *partner) delegate(ctx context.Context) error {
	return p.exchange(ctx, kinds.KindDelegate, kinds.Encode(&kinds.Delegate{Task: "review"}))
}

// ask is web for who does not look at the answer, which must be a success.
func (p *partner) ask(ctx context.Context, method, path, body string) error {
	_, err := p.web(ctx, method, path, body)
	return err
}

// web makes a request about channels and returns the body of its answer.
func (p *partner) web(ctx context.Context, method, path, body string, header ...string) ([]byte, error) {
	s, err := p.request(ctx, method, path, body, header...)
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

// request begins a request about channels. The caller resets the stream.
func (p *partner) request(ctx context.Context, method, path, body string, header ...string) (*peer.Stream, error) {
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
	{"ping", func(ctx context.Context, p *partner) error { return p.ping(ctx) }},
	{"query", func(ctx context.Context, p *partner) error { return p.query(ctx, 200) }},
	{"notify", func(ctx context.Context, p *partner) error { return p.notify(ctx, 200) }},
	{"message", func(ctx context.Context, p *partner) error {
		return p.ask(ctx, "POST", "channels/"+p.channel+"/messages", `{"payload":{}}`)
	}},
}

func modestNames() string {
	var names []string
	for _, c := range modestCalls {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// besideModest makes each kind of call, one after the other, for the time that it is
// ordered, and answers with the p99 of each in milliseconds. Every call must succeed.
func besideModest(args []string) (answer func(string) (string, error), end func(), err error) {
	p, err := newPartner(args)
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
				p99[i] = fmt.Sprint(millis(all[len(all)*99/100]))
				return nil
			})
		}
		err = calls.Wait()
		return strings.Join(p99, " "), err
	}, p.Close, nil
}
