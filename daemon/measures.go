package daemon

import (
	"net/http"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/oacp/transfer"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// measures counts what metrics say and nothing else counts. It is nil unless metrics are served:
// then its methods do nothing. They may be called from any goroutine, and do not block.
type measures struct {
	calls        *metrics.Outcomes // by direction, kind and outcome, with how long they took
	receipts     *metrics.Counts   // by direction and state
	dials        *metrics.Counts   // by outcome
	commits      *metrics.Counts   // by outcome
	commitTime   *metrics.Histograms
	commitWrites *metrics.Histograms
	mails        *metrics.Counts // by direction and result
	channels     *metrics.Counts // requests, by who asks and status
	peers        *peerMeasures   // nil unless metrics.peers is set
}

// The values of labels, beside codes and kinds. A label that takes words of others ends with
// otherValue.
const (
	outcomeOK      = "ok"
	outcomeFailed  = "failed"
	receiptRefused = "refused"
	otherValue     = "other"

	askedHere   = "agent"
	askedByPeer = "peer"
)

// newMeasures returns measures that are all zero; those of single peers too if perPeer is set.
func newMeasures(perPeer bool) *measures {
	outcome := metrics.ClosedLabel{Name: "outcome", Values: []string{outcomeOK}}
	for _, c := range kinds.ListCodes() {
		outcome.Values = append(outcome.Values, string(c.Code))
	}
	outcome.Values = append(outcome.Values, otherValue)
	label := func(name string, values ...string) metrics.ClosedLabel {
		return metrics.ClosedLabel{Name: name, Values: values}
	}
	direction, kind := label("direction", string(client.In), string(client.Out)), label("kind", kinds.ListNames(kinds.Sent)...)
	m := &measures{
		calls:        metrics.NewOutcomes(outcome, 1e-9, callSeconds, direction, kind),
		receipts:     metrics.NewCounts(direction, label("state", string(peer.Handed), string(peer.Held), receiptRefused)),
		dials:        metrics.NewCounts(outcome),
		commits:      metrics.NewCounts(label("outcome", outcomeOK, outcomeFailed)),
		commitTime:   metrics.NewHistograms(1e-9, commitSeconds),
		commitWrites: metrics.NewHistograms(1, commitSizes),
		mails:        metrics.NewCounts(direction, label("result", wire.MailStored, wire.MailDuplicate, wire.MailRefused, wire.MailRetry, transfer.Unreachable, otherValue)),
		channels:     metrics.NewCounts(label("from", askedHere, askedByPeer), label("status", "2xx", "3xx", "4xx", "5xx", otherValue)),
	}
	if perPeer {
		m.peers = newPeerMeasures()
	}
	return m
}

// Upper bounds of the buckets of histograms.
var (
	callSeconds   = []float64{.0005, .001, .0025, .005, .01, .025, .1, .25, 1, 2.5, 10, 60, 300}
	commitSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	commitSizes   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// Began counts a request or a message of a peer. It is of [peer.Observer].
func (m *measures) Began(p *peer.Passing) { m.peers.count(p.Peer(), p.Inbound) }

// Ended counts a request or a message, and how long it took from when it began until there was an
// outcome: for one that was sent, the reply or receipt; for one that came, what is sent back. It counts
// the receipt too, if there is one: an error of this daemon about a message of its own is none.
func (m *measures) Ended(p *peer.Passing) {
	if p.Reply != nil {
		m.peers.count(p.Peer(), !p.Inbound)
	}
	outcome, direction := outcomeOK, string(traffic.DirectionOf(p.Inbound))
	if p.Err != nil {
		outcome = string(kinds.AsError(p.Err).Code)
	}
	m.calls.Add(int64(time.Since(p.Began)), outcome, direction, p.Kind)
	switch {
	case p.Spec.Class != kinds.Message, p.Outcome == peer.Sent:
	case p.Err == nil:
		m.receipts.Add(1, direction, string(p.Outcome))
	case p.Inbound || kinds.AsError(p.Err).From != "":
		m.receipts.Add(1, direction, receiptRefused)
	}
}

func (m *measures) countDial(failure *kinds.Error) {
	if m == nil {
		return
	}
	outcome := outcomeOK
	if failure != nil {
		outcome = string(failure.Code)
	}
	m.dials.Add(1, outcome)
}

func (m *measures) countCommit(c store.Commit) {
	outcome := outcomeOK
	if c.Failed {
		outcome = outcomeFailed
	}
	m.commits.Add(1, outcome)
	m.commitTime.Observe(int64(c.Took))
	m.commitWrites.Observe(int64(c.Writes))
}

func (m *measures) countMail(toPeer bool, result string) {
	direction := client.In
	if toPeer {
		direction = client.Out
	}
	m.mails.Add(1, string(direction), result)
}

// countRequestsOf returns the handler, but each request about channels is counted when the status
// of its answer is known. It is the handler itself if nothing is counted.
func (m *measures) countRequestsOf(from string, next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&statusWriter{ResponseWriter: w, tell: func(status int) { m.channels.Add(1, from, nameStatusClass(status)) }}, r)
	})
}

// nameStatusClass returns the class of an HTTP status, like 2xx.
func nameStatusClass(status int) string {
	if status < 200 || status > 599 {
		return otherValue
	}
	return string(rune('0'+status/100)) + "xx"
}

// statusWriter tells the status of an answer, once.
type statusWriter struct {
	http.ResponseWriter
	tell func(status int) // nil: it was told
}

func (w *statusWriter) WriteHeader(status int) {
	if w.tell != nil && status >= 200 {
		w.tell(status)
		w.tell = nil
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.tell != nil {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
