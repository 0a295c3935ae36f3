package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	relayRounds = 5
	relayWindow = 250 * time.Millisecond
	relayTurns  = 6
	relayRest   = 5 // daemons with a relay, and as many without, whose memory is looked at

	silence       = 10 * time.Second
	relaySilences = 3 // in a round

	absentCalls = 20                     // in a round
	absentPause = 150 * time.Millisecond // a failure is shared for 100 ms with calls that come after it

	mebibyte = 1 << 20
	relayed  = "hub" // what daemons call their relay
)

// relayCells are the loads that a relay and UDP are compared by.
var relayCells = struct{ single, many, large cell }{cell{200, 1}, cell{200, 16}, cell{mebibyte, 1}}

// pathVariant is acpdVariant, with messages that are larger than a daemon takes unasked. With a
// URL the daemons know of each other only that both use that relay.
func pathVariant(url string) variant {
	v := acpdVariant
	v.start = func(f *fleet) error {
		near, far, err := createPair(f)
		if err != nil {
			return err
		}
		text := "max_message: 2097152\n" + describeRelay(url)
		for _, h := range []home{near, far} {
			if err := h.configure(text); err != nil {
				return err
			}
		}
		if url == "" {
			err = f.spawnPairOn(near, far)
		} else {
			err = f.spawnRelayedPair(near, far)
		}
		if err != nil {
			return err
		}
		if _, err := f.spawnRole("answerer", far.socketPath()); err != nil {
			return err
		}
		_, err = f.spawnRole("asker", near.socketPath())
		return err
	}
	return v
}

// describeRelay returns the lines of a config.yaml for the relay at url; none without one.
func describeRelay(url string) string {
	if url == "" {
		return ""
	}
	return fmt.Sprintf("reach: {relays: [{name: %s, url: %q, token: %s}], direct: off}\n", relayed, url, natsToken)
}

// configure writes the config.yaml of the daemon that is started next on h.
func (h home) configure(text string) error {
	return os.WriteFile(filepath.Join(h.dir, "config.yaml"), []byte(text), 0o600)
}

// spawnRelayedPair starts the daemons of two homes that have a relay, and waits until the near one
// is connected to the far one. The near one also trusts a peer that is nowhere.
func (f *fleet) spawnRelayedPair(near, far home) error {
	absent, err := createHome(f.joinPath("absent"))
	if err != nil {
		return err
	}
	if err := near.trustPeer("absent", absent); err != nil {
		return err
	}
	for _, h := range []home{far, near} {
		if _, err := f.spawnDaemon(h.dir, "--no-mdns"); err != nil {
			return err
		}
	}
	daemon := client.Client{Socket: near.socketPath()}
	defer daemon.Close()
	for began := time.Now(); time.Since(began) < patience; {
		peers, err := daemon.Peers(f.ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(peers, func(p client.Peer) bool { return p.Name == "far" && p.Path == client.PathRelay }) {
			return nil
		}
		if err := pace.Sleep(f.ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the peer cannot be reached over the relay")
}

// benchRelay measures what calls over a relay take beside calls over UDP and beside the relay's own
// echo, and what a relay costs a daemon that rests.
func benchRelay(ctx context.Context, to *report, log io.Writer) error {
	version, err := findServerVersion(ctx)
	if err != nil {
		return err
	}
	to.versions = map[string]string{natsServer: version}
	return measureParts(ctx, acpdVariant, to, log,
		part{"calls", func(f *fleet) ([]figure, error) {
			return measureRelayCalls(f, relayRounds, relayTurns, relayWindow, silence, log)
		}},
		part{"rest", func(f *fleet) ([]figure, error) { return measureRelayMemory(f, relayRest, idleTime, log) }})
}

// relayFigures are what rounds of calls add to.
type relayFigures struct {
	echo, udp, relay    figure // p50
	added, share, large figure // bounded
	udpLarge            figure
	silentUDP, silent   figure
	silentMore          figure // bounded
	absent, absentMore  figure // the second is bounded
}

func newRelayFigures() *relayFigures {
	return &relayFigures{
		echo:       figure{what: "bare echo through the NATS server, 200 bytes, p50", unit: "µs"},
		udp:        figure{what: "query of 200 bytes over UDP, p50", unit: "µs"},
		relay:      figure{what: "query of 200 bytes over the relay, p50", unit: "µs"},
		added:      figure{what: "– (relay − UDP) / bare echo", unit: "times", target: 1.5, strict: true},
		share:      figure{what: "queries/s of 200 bytes, 16 at a time: relay / UDP", unit: "times", target: 0.35, high: true, strict: true},
		large:      figure{what: "query of 1 MiB over the relay, answered with the same", unit: "MiB/s", target: 25, high: true, strict: true},
		udpLarge:   figure{what: "– over UDP", unit: "MiB/s"},
		silentUDP:  figure{what: "first query after silence over UDP", unit: "ms"},
		silent:     figure{what: "first query after silence over the relay", unit: "ms"},
		silentMore: figure{what: "– less two bare echoes", unit: "ms", target: 2, strict: true},
		absent:     figure{what: "query to an id that is not at the relay, until its error, p50", unit: "ms"},
		absentMore: figure{what: "– less a bare echo", unit: "ms", target: 2, strict: true},
	}
}

func (r *relayFigures) list() []figure {
	return []figure{r.echo, r.udp, r.relay, r.added, r.share, r.large, r.udpLarge, r.silentUDP, r.silent, r.silentMore, r.absent, r.absentMore}
}

// measureRelayCalls has pairs of daemons carry the same load over UDP and over a relay in turn, with
// the relay's bare echo between them. Each round has processes of its own, the server too.
func measureRelayCalls(f *fleet, rounds, turns int, window, silence time.Duration, log io.Writer) ([]figure, error) {
	if err := buildServer(f.ctx, f.bin); err != nil {
		return nil, err
	}
	all := newRelayFigures()
	for round := range rounds {
		if err := all.measureRound(f, round, turns, window, silence); err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "  round %d:", round+1)
		for _, one := range all.list() {
			fmt.Fprintf(log, " %s %.4g %s;", one.what, one.values[len(one.values)-1], one.unit)
		}
		fmt.Fprintln(log)
	}
	return all.list(), nil
}

func (r *relayFigures) measureRound(f *fleet, round, turns int, window, silence time.Duration) (err error) {
	url, err := f.spawnServer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stopLast()) }()
	fleets, err := startTogether(f, []variant{pathVariant(""), pathVariant(url), newNATSVariant(url)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTogether(fleets)) }()
	udp, relay := fleets[0], fleets[1]

	single, err := takeTurns(fleets, relayCells.single, turns, round, window)
	if err != nil {
		return err
	}
	echo := single[2].p50
	r.echo.add(echo)
	r.udp.add(single[0].p50)
	r.relay.add(single[1].p50)
	r.added.add((single[1].p50 - single[0].p50) / echo)

	many, err := takeTurns(fleets[:2], relayCells.many, turns, round, window)
	if err != nil {
		return err
	}
	r.share.add(many[1].rate / many[0].rate)

	large, err := takeTurns(fleets[:2], relayCells.large, turns, round, window)
	if err != nil {
		return err
	}
	r.udpLarge.add(1e6 / large[0].p50)
	r.large.add(1e6 / large[1].p50)

	echo /= 1000 // ms
	for i := range relaySilences {
		overUDP, overRelay, err := callAfterSilence(f.ctx, udp, relay, silence, (i+round)%2 == 1)
		if err != nil {
			return err
		}
		r.silentUDP.add(overUDP)
		r.silent.add(overRelay)
		r.silentMore.add(overRelay - 2*echo)
	}

	absent, err := relay.callAbsent()
	if err != nil {
		return err
	}
	r.absent.add(absent)
	r.absentMore.add(absent - echo)
	return nil
}

// callAfterSilence lets both fleets rest and calls once over each. It returns what the calls took, in
// milliseconds.
func callAfterSilence(ctx context.Context, udp, relay *fleet, silence time.Duration, relayFirst bool) (overUDP, overRelay float64, err error) {
	if err := pace.Sleep(ctx, silence); err != nil {
		return 0, 0, err
	}
	call := func(f *fleet, to *float64) error {
		first, err := f.loadCell(relayCells.single, 1) // the window is over after one call
		if err == nil && first.requests != 1 {
			err = fmt.Errorf("%d calls after the silence", first.requests)
		}
		*to = toMillis(first.p50)
		return err
	}
	calls := []func() error{
		func() error { return call(udp, &overUDP) },
		func() error { return call(relay, &overRelay) },
	}
	if relayFirst {
		slices.Reverse(calls)
	}
	return overUDP, overRelay, errors.Join(calls[0](), calls[1]())
}

func (f *figure) add(value float64) { f.values = append(f.values, value) }

// callAbsent asks the peer that is nowhere, from the near daemon, and returns the p50 of the time
// until the call fails, in milliseconds. Each call must have dialled.
func (f *fleet) callAbsent() (p50 float64, err error) {
	daemon := client.Client{Socket: home{dir: f.joinPath("near")}.socketPath()}
	defer daemon.Close()
	query := client.QueryParams{To: "absent", Payload: makeQuestionPayload(relayCells.single.size)}
	before, err := countRelayed(f.ctx, &daemon)
	if err != nil {
		return 0, err
	}
	var all []float64
	for range absentCalls {
		if err := pace.Sleep(f.ctx, absentPause); err != nil {
			return 0, err
		}
		began := time.Now()
		_, err := daemon.Query(f.ctx, query)
		all = append(all, toMillis(time.Since(began)))
		if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.Unreachable {
			return 0, fmt.Errorf("a query to who is nowhere: %v: expected %s", err, kinds.Unreachable)
		}
	}
	after, err := countRelayed(f.ctx, &daemon)
	if err == nil && after-before < absentCalls {
		err = fmt.Errorf("%d calls to who is nowhere sent %d packets", absentCalls, after-before)
	}
	return summarizeValues(all).median, err
}

// countRelayed returns how many packets the daemon has sent to its relay.
func countRelayed(ctx context.Context, daemon *client.Client) (uint64, error) {
	relays, err := daemon.Relays(ctx)
	if err != nil {
		return 0, err
	}
	if len(relays) != 1 || relays[0].State != client.RelayUp {
		return 0, fmt.Errorf("the daemon's relays are %+v", relays)
	}
	return relays[0].PacketsOut, nil
}
