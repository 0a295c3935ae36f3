package remote

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/store"
)

const (
	// listTime is how long a host has to begin with a list of messages, beyond what
	// the list waits. Who polls for a response goes on polling meanwhile.
	listTime = 4 * time.Second

	// headerIncomplete stands with a list that the host had no part in: it says why.
	headerIncomplete = "X-Incomplete"

	maxKnown      = 1000    // pending messages in a list
	maxKnownBytes = 8 << 20 // of these
)

// listMessages passes a list of messages on. Who asks by polling must not take a host that is
// out of reach for an answer, so then the list holds what is known here, the pending
// messages of its caller, once the time is over for which the caller wants to wait. A
// host that is back before that is asked again.
func (g *Gateway) listMessages(p openintent.Parcel, to identity.ID, w http.ResponseWriter, r *http.Request) error {
	until := time.Now().Add(p.Wait)
	for {
		linked := g.nextLink()
		err := g.proxyRequest(p, to, listTime+p.Wait, w, r)
		code, away := awayCode(err)
		if !away || r.Context().Err() != nil {
			return err
		}
		list, n, e := g.messages.listWaiting(r.Context(), senderKey{to, p.Caller.Agent}, r.URL)
		if e != nil {
			return e
		}
		if p.Wait = time.Until(until); n > 0 || p.Wait <= 0 || !g.waitForLink(r.Context(), p.Wait, linked) {
			w.Header().Set(headerIncomplete, code)
			writeAnswer(w, http.StatusOK, list)
			return nil
		}
		p.Wait = max(time.Until(until), time.Millisecond)
		r = r.Clone(r.Context())
		q := r.URL.Query()
		q.Set("wait", strconv.FormatFloat(p.Wait.Seconds(), 'f', 3, 64))
		r.URL.RawQuery = q.Encode()
	}
}

// awayCode reports whether err says that a host is out of reach, or silent, and why.
func awayCode(err error) (code string, away bool) {
	e, ok := errors.AsType[*kinds.Error](err)
	switch {
	case err == nil:
		return "", false
	case !ok:
		return codeUnreachable, true // the stream broke
	case e.Code == kinds.Timeout:
		return codeTimeout, true
	}
	return codeUnreachable, e.Code == kinds.Unreachable
}

// waitForLink waits until a link is up, and returns false where it is not within d.
func (g *Gateway) waitForLink(ctx context.Context, d time.Duration, linked <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-linked:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-g.ctx.Done():
	}
	return false
}

// nextLink returns a channel that is closed when the next link comes up.
func (g *Gateway) nextLink() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.linkUp == nil {
		g.linkUp = make(chan struct{})
	}
	return g.linkUp
}

// announceLink tells those who wait that a link is up.
func (g *Gateway) announceLink() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.linkUp != nil {
		close(g.linkUp)
		g.linkUp = nil
	}
}

// listWaiting lists the messages of an agent that wait here for the channel of a list's URL,
// as far as its query wants them.
func (q *messageQueue) listWaiting(ctx context.Context, k senderKey, list *url.URL) (array []byte, n int, err error) {
	query := list.Query()
	since, limit := query.Get("since"), maxKnown
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = min(n, limit)
	}
	var found [][]byte
	size := 0
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		return sqlWaiting(tx, k, list.EscapedPath(), maxKnown, func(p *outgoingMessage) bool {
			if p.id == since { // those before it too
				found, size = nil, 0
			} else if isWanted(p.answer, query) {
				found = append(found, p.answer)
				size += len(p.answer)
			}
			return size < maxKnownBytes
		})
	})
	if since == "" {
		found = found[max(0, len(found)-limit):]
	}
	found = found[:min(limit, len(found))]
	array = []byte{'['}
	for i, m := range found {
		if i > 0 {
			array = append(array, ',')
		}
		array = append(array, m...)
	}
	return append(array, ']'), len(found), err
}

// isWanted reports whether the query of a list wants a pending message.
func isWanted(message []byte, query url.Values) bool {
	var m struct {
		To   string `json:"to"`
		Kind string `json:"message_type"`
	}
	if json.Unmarshal(message, &m) != nil || query.Get("status") != "" {
		return false
	}
	if kinds := query.Get("types"); kinds != "" && !slices.Contains(strings.Split(kinds, ","), m.Kind) {
		return false
	}
	to := query.Get("to")
	return to == "" || m.To == to || m.To == "" || m.To == "*"
}
