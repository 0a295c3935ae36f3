package client

import (
	"context"
	"time"

	"github.com/acpd/acpd/kinds"
)

// The methods for relays: servers that pass packets on between daemons.
const (
	MethodRelayAdd    = "relay.add"
	MethodRelayRemove = "relay.remove"
	MethodRelayList   = "relay.list"
	MethodRelayTest   = "relay.test"
	MethodRelayNkey   = "relay.nkey"
)

// RelayPatience bounds how long the daemon tries a relay.
const RelayPatience = 10 * time.Second

// RelayAddParams are the params of relay.add. Of Credentials, Token, and User with Password one may
// be given; without them the daemon logs in with its nkey.
type RelayAddParams struct {
	URL         string `json:"url"`
	Name        string `json:"name,omitzero"`        // "": its host, with hyphens
	Credentials string `json:"credentials,omitzero"` // the absolute path of a file of NATS credentials, which the daemon reads at each login
	Token       string `json:"token,omitzero"`
	User        string `json:"user,omitzero"`
	Password    string `json:"password,omitzero"`
	Share       bool   `json:"share,omitzero"`    // invite may give the token away
	NoCheck     bool   `json:"no_check,omitzero"` // keep it untried
}

// RelayAdded is the result of relay.add.
type RelayAdded struct {
	Relay Relay       `json:"relay"`
	Steps []RelayStep `json:"steps,omitzero"` // what was tried; nil: nothing was
}

// RelayCheck says what came of trying a relay.
type RelayCheck struct {
	Name  string       `json:"name"`
	URL   string       `json:"url"`
	Steps []RelayStep  `json:"steps"`
	Error *kinds.Error `json:"error,omitzero"` // why it cannot be used, and what to do; nil: it can
}

// RelayStep is one thing that was tried.
type RelayStep struct {
	Step    string      `json:"step"` // connect, round_trip, receive, publish, nobody, name, foreign_subscribe, max_payload or nat
	Verdict StepVerdict `json:"verdict"`
	What    string      `json:"what"`            // was found
	Remedy  string      `json:"remedy,omitzero"` // what to do; "": nothing, or What ends with it
	TookUS  uint64      `json:"took_us,omitzero"`
}

// StepVerdict says how a step of a RelayCheck went.
type StepVerdict string

// The verdicts.
const (
	StepOK      StepVerdict = "ok"
	StepWarning StepVerdict = "warning" // the relay can be used, and its operator should change something
	StepFailed  StepVerdict = "failed"
)

// StepForeignSubscribe tries whether the account may listen to what is for others.
const StepForeignSubscribe = "foreign_subscribe"

// RelayRemoveParams are the params of relay.remove.
type RelayRemoveParams struct {
	Name string `json:"name"`
}

// RelayTestParams are the params of relay.test.
type RelayTestParams struct {
	Name string `json:"name,omitzero"` // "": every relay
}

// RelayChecks is the result of relay.test.
type RelayChecks struct {
	Checks []RelayCheck `json:"checks"`
}

// RelayNkey is the result of relay.nkey, which has no params.
type RelayNkey struct {
	Nkey string `json:"nkey"` // the public half of the daemon's nkey, for the configuration of a server
}

// RelaySource says where a relay is configured.
type RelaySource string

// The sources of a relay.
const (
	RelayOfConfig RelaySource = "config" // config.yaml
	RelayKept     RelaySource = "kept"   // relays.yaml, by relay.add or join
)

// RelayLogin says how the daemon logs in at a relay.
type RelayLogin string

// The ways to log in.
const (
	LoginNkey        RelayLogin = "nkey"
	LoginCredentials RelayLogin = "credentials"
	LoginToken       RelayLogin = "token"
	LoginPassword    RelayLogin = "password"
)

// RelayState says how a daemon stands to a relay.
type RelayState string

// The states of a relay.
const (
	RelayConnecting RelayState = "connecting" // for the first time, or again
	RelayUp         RelayState = "up"
	RelayDown       RelayState = "down"    // it cannot be reached; the daemon keeps trying
	RelayRefused    RelayState = "refused" // it refuses the login, or what this daemon has to do there; the daemon keeps trying
	RelayUnused     RelayState = "unused"  // its settings cannot be used, or another relay of the name is in config.yaml
)

// Relay is a row of relay.list, and of status.
type Relay struct {
	Name       string      `json:"name"`
	URL        string      `json:"url"` // without secrets
	Source     RelaySource `json:"source"`
	Login      RelayLogin  `json:"login"`
	Share      bool        `json:"share,omitzero"` // invite may give its token away
	State      RelayState  `json:"state"`
	Since      Time        `json:"since"`           // when the state began; null: it is unused
	Server     string      `json:"server,omitzero"` // what the server that it is, or was, connected to says that it is
	RTTUS      uint64      `json:"rtt_us,omitzero"` // to the server and back; 0: not known
	Error      string      `json:"error,omitzero"`  // why it is not up, or what went wrong last, and what to do
	PacketsIn  uint64      `json:"packets_in"`      // since the daemon uses it
	PacketsOut uint64      `json:"packets_out"`
	Dropped    uint64      `json:"dropped"`        // packets, in both directions
	Clone      bool        `json:"clone,omitzero"` // another process uses it with this daemon's identity
}

// Relays is the result of relay.list, which has no params.
type Relays struct {
	Relays []Relay `json:"relays"`
}

// RelayEvent is what the details of an event of type relay say.
type RelayEvent struct {
	Relay  string     `json:"relay"`
	State  RelayState `json:"state"`
	Reason string     `json:"reason,omitzero"`
}

// AddRelay makes the daemon use a relay from now on, also after its next start. Unless p says otherwise
// the relay is tried first, and is not added if it cannot be used.
func (c *Client) AddRelay(ctx context.Context, p RelayAddParams) (*RelayAdded, error) {
	return callForPeer[RelayAdded](ctx, c, RelayPatience, MethodRelayAdd, &p, nil)
}

// RemoveRelay makes the daemon use a relay no more that AddRelay or Join has added.
func (c *Client) RemoveRelay(ctx context.Context, name string) error {
	_, err := callBounded[struct{}](ctx, c, MethodRelayRemove, &RelayRemoveParams{name})
	return err
}

// Relays returns the relays that the daemon uses, without their secrets.
func (c *Client) Relays(ctx context.Context) ([]Relay, error) {
	r, err := callBounded[Relays](ctx, c, MethodRelayList, nil)
	return r.Relays, err
}

// TestRelays tries one relay that the daemon uses, all of them if name is "".
func (c *Client) TestRelays(ctx context.Context, name string) ([]RelayCheck, error) {
	r, err := callForPeer[RelayChecks](ctx, c, RelayPatience, MethodRelayTest, &RelayTestParams{name}, nil)
	return r.Checks, err
}

// RelayNkey returns the public half of the nkey with which the daemon logs in at relays.
func (c *Client) RelayNkey(ctx context.Context) (string, error) {
	r, err := callBounded[RelayNkey](ctx, c, MethodRelayNkey, nil)
	return r.Nkey, err
}
