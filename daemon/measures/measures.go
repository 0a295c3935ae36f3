// Package measures has the counters and histograms that a daemon shows only in its metrics.
//
// Its callers decide when something is counted, and who reads it.
package measures

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

// Measures holds what is shown only in metrics. Its methods may be called from any goroutine, and do not
// block. It is nil while no metrics are served; Ended, CountDial and CountRequestsOf may be called all the same.
type Measures struct {
	calls        *metrics.Counts // by direction, kind and outcome
	callTime     *metrics.Histograms
	receipts     *metrics.Counts // by direction and state
	dials        *metrics.Counts // by outcome
	commits      *metrics.Counts // by outcome
	commitTime   *metrics.Histograms
	commitWrites *metrics.Histograms
	mails        *metrics.Counts // by direction and result
	channels     *metrics.Counts // requests, by who asks and status
}

// The values of labels, in addition to codes and kinds. A label whose values come from elsewhere ends with
// otherValue.
const (
	outcomeOK      = "ok"
	outcomeFailed  = "failed"
	receiptRefused = "refused"
	otherValue     = "other"
)

// The values of the label from: who makes a request about channels.
const (
	AskedHere   = "agent"
	AskedByPeer = "peer"
)

// New returns measures that are all zero.
func New() *Measures {
	outcome := metrics.ClosedLabel{Name: "outcome", Values: []string{outcomeOK}}
	for _, c := range kinds.ListCodes() {
		outcome.Values = append(outcome.Values, string(c.Code))
	}
	outcome.Values = append(outcome.Values, otherValue)
	label := func(name string, values ...string) metrics.ClosedLabel {
		return metrics.ClosedLabel{Name: name, Values: values}
	}
	direction, kind := label("direction", string(client.In), string(client.Out)), label("kind", kinds.ListNames(kinds.Sent)...)
	return &Measures{
		calls:        metrics.NewCounts(direction, kind, outcome),
		callTime:     metrics.NewHistograms(1e-9, callSeconds, direction, kind),
		receipts:     metrics.NewCounts(direction, label("state", string(peer.Handed), string(peer.Held), receiptRefused)),
		dials:        metrics.NewCounts(outcome),
		commits:      metrics.NewCounts(label("outcome", outcomeOK, outcomeFailed)),
		commitTime:   metrics.NewHistograms(1e-9, commitSeconds),
		commitWrites: metrics.NewHistograms(1, commitSizes),
		mails:        metrics.NewCounts(direction, label("result", wire.MailStored, wire.MailDuplicate, wire.MailRefused, wire.MailRetry, transfer.Unreachable, otherValue)),
		channels:     metrics.NewCounts(label("from", AskedHere, AskedByPeer), label("status", "2xx", "3xx", "4xx", "5xx", otherValue)),
	}
}

// Upper bounds of the buckets of histograms.
var (
	callSeconds   = []float64{.0005, .001, .0025, .005, .01, .025, .1, .25, 1, 2.5, 10, 60, 300}
	commitSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	commitSizes   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// Ended counts the outcome of a request or a message, and how long it took from its beginning. The outcome
// of a sent one is the reply or receipt; the outcome of a received one is what is sent back. Ended also
// counts the receipt, if there is one. An error of this daemon about its own message is not a receipt.
func (m *Measures) Ended(p *peer.Passing) {
	if m == nil {
		return
	}
	outcome, direction := outcomeOK, string(traffic.DirectionOf(p.Inbound))
	if p.Err != nil {
		outcome = string(kinds.AsError(p.Err).Code)
	}
	m.calls.Add(1, direction, p.Kind, outcome)
	m.callTime.Observe(int64(time.Since(p.Began)), direction, p.Kind)
	switch {
	case p.Spec.Class != kinds.Message, p.Outcome == peer.Sent:
	case p.Err == nil:
		m.receipts.Add(1, direction, string(p.Outcome))
	case p.Inbound || kinds.AsError(p.Err).From != "":
		m.receipts.Add(1, direction, receiptRefused)
	}
}

// CountDial counts the outcome of a dial; failure is nil if it succeeded.
func (m *Measures) CountDial(failure *kinds.Error) {
	if m == nil {
		return
	}
	outcome := outcomeOK
	if failure != nil {
		outcome = string(failure.Code)
	}
	m.dials.Add(1, outcome)
}

// CountCommit counts the outcome of a commit of state.db, its time and its writes.
func (m *Measures) CountCommit(c store.Commit) {
	outcome := outcomeOK
	if c.Failed {
		outcome = outcomeFailed
	}
	m.commits.Add(1, outcome)
	m.commitTime.Observe(int64(c.Took))
	m.commitWrites.Observe(int64(c.Writes))
}

// CountMail counts the result of a delivery of OACP mail. It does nothing if m is nil.
func (m *Measures) CountMail(toPeer bool, result string) {
	if m == nil {
		return
	}
	direction := client.In
	if toPeer {
		direction = client.Out
	}
	m.mails.Add(1, string(direction), result)
}

// CountRequestsOf returns a handler that calls next, and counts each request about channels when the status
// of its answer is known. It returns next itself if m is nil.
func (m *Measures) CountRequestsOf(from string, next http.Handler) http.Handler {
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

// statusWriter reports the status of an answer, once.
type statusWriter struct {
	http.ResponseWriter
	tell func(status int) // nil once it was called
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

// ListFamilies returns the metrics of what was counted.
func (m *Measures) ListFamilies() []metrics.Family {
	return []metrics.Family{
		{Name: "acpd_calls_total", Type: metrics.Counter, Help: "Requests and messages that have an outcome: ok, or the code of the error.", Write: m.calls.Write},
		{Name: "acpd_call_duration_seconds", Type: metrics.HistogramType, Help: "Time from a request or message to its outcome.", Write: m.callTime.Write},
		{Name: "acpd_receipts_total", Type: metrics.Counter, Help: "Receipts for messages that came (in) and that were sent (out), by what they say.", Write: m.receipts.Write},
		{Name: "acpd_dials_total", Type: metrics.Counter, Help: "Dials that have ended, by outcome: ok if a connection is ready then, or the code of the error.", Write: m.dials.Write},
		{Name: "acpd_mails_total", Type: metrics.Counter, Help: "Deliveries of OACP mail, by direction and the receiver's result.", Write: m.mails.Write},
		{Name: "acpd_channel_requests_total", Type: metrics.Counter, Help: "HTTP requests about channels, by who asks and the class of the answer's status.", Write: m.channels.Write},
		{Name: "acpd_store_commits_total", Type: metrics.Counter, Help: "Commits of state.db, by outcome.", Write: m.commits.Write},
		{Name: "acpd_store_commit_duration_seconds", Type: metrics.HistogramType, Help: "Time of a commit of state.db, its writes included.", Write: m.commitTime.Write},
		{Name: "acpd_store_commit_writes", Type: metrics.HistogramType, Help: "Writes that one commit of state.db holds.", Write: m.commitWrites.Write},
	}
}

// InAndOut returns a function that writes a family of two series, by direction.
func InAndOut(in, out int) func(*metrics.Text) {
	return func(t *metrics.Text) {
		t.Add(float64(in), metrics.Label{Name: "direction", Value: string(client.In)})
		t.Add(float64(out), metrics.Label{Name: "direction", Value: string(client.Out)})
	}
}
