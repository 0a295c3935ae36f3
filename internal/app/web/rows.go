package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
)

// The parts of a board.
const (
	partDaemon    = "daemon"
	partWarnings  = "warnings"
	partRelays    = "relays"
	partPeers     = "peers"
	partAgents    = "agents"
	partSpent     = "spent"
	partWaiting   = "waiting"
	partTasks     = "tasks"
	partApprovals = "approvals"
	partHeld      = "held"
	partFiles     = "files"
	partBudget    = "budget"
	partBindings  = "bindings"
	partMail      = "mail"
	partChannels  = "channels"
	partLines     = "lines" // has no rows, but may have a problem
)

const (
	maxShown = 256 // bytes of a text
	maxName  = 64  // of a name
)

// showLine makes what somebody else wrote fit to be shown, on one line of at most so many bytes.
func showLine(s string, most int) string {
	return client.ClipText(client.Line(s[:min(len(s), 16*most)]), most) // much of a text may be characters that are not shown
}

func showName(s string) string { return showLine(s, maxName) }

// showNames shows a list of names, the first of them.
func showNames(all []string) (shown []string) {
	const most = 8
	for _, s := range all[:min(len(all), most)] {
		shown = append(shown, showName(s))
	}
	if len(all) > most {
		shown = append(shown, "+"+strconv.Itoa(len(all)-most))
	}
	return shown
}

type rowKey struct {
	Key string `json:"k"`
}

func (r rowKey) key() string { return r.Key }

type daemonRow struct {
	rowKey
	Name    string      `json:"name"`
	ID      string      `json:"id"`
	Version string      `json:"version"`
	State   string      `json:"state"`
	Ready   bool        `json:"ready"`
	Since   time.Time   `json:"since"`
	Listen  []string    `json:"listen"`
	Drain   client.Time `json:"drain"` // until when it drains; null: it does not
	In      uint64      `json:"in"`
	Out     uint64      `json:"out"`
}

func countMessages(byKind map[string]uint64) (n uint64) {
	for _, c := range byKind {
		n += c
	}
	return n
}

// newDaemonRow describes the daemon, which has run since the time since.
func newDaemonRow(s *client.Status, since time.Time) daemonRow {
	r := daemonRow{
		rowKey: rowKey{partDaemon}, Name: showName(s.Name), ID: s.ID.Label(), Version: showName(s.Version), State: string(s.State),
		Ready: s.Ready, Since: since.UTC(), Listen: showNames(s.Listen), In: countMessages(s.Messages.In), Out: countMessages(s.Messages.Out),
	}
	if s.Drain != nil {
		r.Drain = client.Time{Time: s.Drain.Until}
	}
	return r
}

type warningRow struct {
	rowKey
	Text  string `json:"text"`
	Place int    `json:"place"`
}

// listWarnings returns what is wrong with the daemon, first what keeps it from its work. It leaves out warnings about
// approvals, which have a part of their own.
func listWarnings(s *client.Status) (rows []warningRow) {
	for _, w := range slices.Concat(s.Unready, s.Warnings) {
		text := showLine(w, 1024)
		if !strings.Contains(w, client.ApprovalsCommand) && !slices.ContainsFunc(rows, func(r warningRow) bool { return r.Text == text }) {
			rows = append(rows, warningRow{rowKey: rowKey{text}, Text: text, Place: len(rows)})
		}
	}
	return rows
}

type relayRow struct {
	rowKey
	Name  string      `json:"name"`
	URL   string      `json:"url"`
	State string      `json:"state"`
	Since client.Time `json:"since"`
	Error string      `json:"error"`
}

func newRelayRow(r *client.Relay) relayRow {
	return relayRow{
		rowKey: rowKey{r.Name}, Name: showName(r.Name), URL: showLine(r.URL, maxShown), State: string(r.State), Since: r.Since, Error: showLine(r.Error, maxShown),
	}
}

type peerRow struct {
	rowKey
	Name     string      `json:"name"` // its petname, or that of its certificate; may be ""
	Claim    string      `json:"claim"`
	ID       string      `json:"id"`
	State    string      `json:"state"`
	Path     string      `json:"path"`
	RTTUS    *uint64     `json:"rtt_us"`
	Addr     string      `json:"addr"`
	Seen     client.Time `json:"seen"`
	Software string      `json:"software"`
	Refuses  bool        `json:"refuses"`
	Conflict bool        `json:"conflict"` // it claims the name of another peer
}

func newPeerRow(p *client.Peer) peerRow {
	r := peerRow{
		rowKey: rowKey{p.ID.String()}, Name: showName(p.Name), Claim: showName(p.Claim), ID: p.ID.Label(), State: string(p.State),
		Path: string(p.Path), RTTUS: roundRTT(p.RTTUS), Seen: client.Time{Time: p.LastSeen.Truncate(time.Second)},
		Software: showName(p.Software), Refuses: p.Refuses, Conflict: p.NameConflict,
	}
	if p.Certificate != nil && r.Name == "" {
		r.Name = showName(p.Certificate.Name)
	}
	if len(p.Addrs) > 0 {
		r.Addr = showName(p.Addrs[0])
	}
	if p.State == client.PeerConnected {
		r.Seen = client.Time{} // now, again and again
	}
	return r
}

// roundRTT keeps two digits of a round trip, so that it does not change all the time.
func roundRTT(us *uint64) *uint64 {
	if us == nil {
		return nil
	}
	unit := uint64(1)
	for *us/unit >= 100 {
		unit *= 10
	}
	rounded := *us / unit * unit
	return &rounded
}

// comparePeers puts those first that are connected, then the others of the owner, then strangers.
func comparePeers(a, b client.Peer) int {
	order := []client.PeerState{client.PeerConnected, client.PeerTrusted, client.PeerPending, client.PeerDiscovered}
	return cmp.Or(cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
}

type agentRow struct {
	rowKey
	Name       string      `json:"name"`
	Kinds      []string    `json:"kinds"`
	Domains    []string    `json:"domains"`
	Topics     []string    `json:"topics"`
	Active     int         `json:"active"`
	Most       int         `json:"most"`
	Since      time.Time   `json:"since"`
	Harness    string      `json:"harness"` // of a session; else ""
	Unwakeable string      `json:"unwakeable"`
	Asks       string      `json:"asks"` // the program, if it asks its user; "": it does not
	Hour       int         `json:"hour"` // woken turns
	Day        int         `json:"day"`
	By         []wokenBy   `json:"by"`
	Waiting    int         `json:"waiting"`
	Muted      client.Time `json:"muted"`
	Refused    string      `json:"refused"`
}

type wokenBy struct {
	Name   string      `json:"name"`
	Hour   int         `json:"hour"`
	Day    int         `json:"day"`
	UsedUp client.Time `json:"used_up"`
}

func newAgentRow(a *client.AgentState) agentRow {
	r := agentRow{
		rowKey: rowKey{a.Name}, Name: showName(a.Name), Kinds: showNames(a.Kinds), Domains: showNames(a.Domains), Topics: showNames(a.Topics),
		Active: a.Active, Most: a.MaxConcurrent, Since: a.Since,
	}
	if a.Session != nil {
		r.Harness, r.Unwakeable = cmp.Or(showName(a.Session.Harness+" "+a.Session.Version), "session"), showLine(a.Session.Unwakeable, maxShown)
		r.Asks = showName(a.Session.Asks)
	}
	if w := a.Woken; w != nil {
		r.Hour, r.Day, r.Waiting, r.Muted, r.Refused = w.Hour, w.Day, w.Waiting, w.MutedUntil, showLine(w.Refused, maxShown)
		for _, by := range w.By[:min(len(w.By), 8)] {
			r.By = append(r.By, wokenBy{Name: showName(cmp.Or(by.Name, by.Peer.Label())), Hour: by.Hour, Day: by.Day, UsedUp: by.UsedUpUntil})
		}
	}
	return r
}

type spentRow struct {
	rowKey
	Name    string  `json:"name"`
	Profile string  `json:"profile"`
	Runs    uint64  `json:"runs"`
	Tokens  uint64  `json:"tokens"`
	Cost    float64 `json:"cost"`
	// The bounds of a day for one peer.
	MostRuns   uint64  `json:"most_runs"`
	MostTokens uint64  `json:"most_tokens"`
	MostCost   float64 `json:"most_cost"`
}

// listSpent returns what headless runs have cost today, the dearest first.
func listSpent(s *client.Spent) (rows []spentRow) {
	for _, r := range s.Rows {
		rows = append(rows, spentRow{
			rowKey: rowKey{r.Day + r.Peer.String() + r.Profile}, Name: showName(cmp.Or(r.Name, r.Peer.Label())), Profile: showName(r.Profile),
			Runs: r.Runs, Tokens: r.Tokens, Cost: r.Cost, MostRuns: s.Limits.Runs, MostTokens: s.Limits.Tokens, MostCost: s.Limits.Cost,
		})
	}
	slices.SortStableFunc(rows, func(a, b spentRow) int { return cmp.Compare(b.Cost, a.Cost) })
	return rows
}
