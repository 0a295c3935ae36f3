package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

// examineRelays says of each relay whether it can be used, and has the daemon try those that are up. Without
// a daemon it says whether relays.yaml can be read.
func (x *examination) examineRelays(ctx context.Context) {
	if x.status == nil {
		x.examineKeptRelays()
		return
	}
	for i := range x.status.Relays {
		x.addRelay(ctx, &x.status.Relays[i])
	}
}

// examineKeptRelays reads relays.yaml as the daemon does. A daemon that runs warns of it itself.
func (x *examination) examineKeptRelays() {
	data, err := durable.ReadPrivateFile(x.filePath(statedir.RelaysName), config.MaxKeptRelays)
	if errors.Is(err, fs.ErrNotExist) || x.has("file.open", "file.kind", "file.owner") {
		return
	}
	if err == nil {
		_, err = config.ParseKeptRelays(statedir.RelaysName, data)
	}
	if err == nil {
		return
	}
	what := err.Error()
	if all := config.ListErrors(err); len(all) > 0 {
		what = fmt.Sprintf("line %d: %s: %s", all[0].Line, all[0].Problem, all[0].Remedy)
	}
	x.add("relay.file", statedir.RelaysName, "relays.yaml cannot be used, and none of its relays is: "+what, "fix or remove the file, then acpctl reload")
}

// addRelay says how the daemon stands to a relay.
func (x *examination) addRelay(ctx context.Context, r *client.Relay) {
	subject := "relay " + r.Name
	tryIt := "acpctl relay test " + r.Name + " tries it step by step"
	switch r.State {
	case client.RelayUp:
		x.add("relay.ok", subject, fmt.Sprintf("%s is connected: %s", r.Name, client.Line(r.Server)), "")
		if r.Error != "" {
			x.add("relay.limited", subject, r.Name+": "+client.Line(r.Error), tryIt)
		}
		x.tryRelay(ctx, r, subject)
	case client.RelayRefused:
		x.add("relay.refused", subject, r.Name+": "+client.Line(r.Error), tryIt)
	case client.RelayUnused:
		remedy := "correct what it says, then acpctl reload; or acpctl relay remove " + r.Name
		if r.Source == client.RelayOfConfig {
			remedy = "correct what it says, or take it out of config.yaml; then acpctl reload"
		}
		x.add("relay.unused", subject, r.Name+": "+client.Line(r.Error), remedy)
	case client.RelayDown:
		x.add("relay.down", subject, r.Name+": "+client.Line(r.Error), tryIt)
	}
	if r.Clone {
		x.add("relay.clone", subject, "another process uses "+r.Name+" with this daemon's identity", "stop one of the two for good; docs/operate.md says what to send again")
	}
}

// usesRelays reports whether peers may be reached over a relay, if one is up: none needs an address then.
func (x *examination) usesRelays() bool {
	return x.status != nil && slices.ContainsFunc(x.status.Relays, func(r client.Relay) bool { return r.State != client.RelayUnused })
}

// tryRelay has the daemon try a relay, and tells if its account may listen to what is for others.
func (x *examination) tryRelay(ctx context.Context, r *client.Relay, subject string) {
	checks, err := x.Daemon.TestRelays(ctx, r.Name)
	if err != nil {
		return // askDaemon has found it alive a moment ago
	}
	for _, c := range checks {
		for _, s := range c.Steps {
			if s.Step == client.StepForeignSubscribe && s.Verdict == client.StepWarning {
				x.add("relay.snoop", subject, client.Line(s.What), client.Line(s.Remedy)+"; docs/reach.md, A server for a company, has a configuration")
			}
		}
	}
}
