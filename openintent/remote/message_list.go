package remote

import (
	"bytes"
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
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

const (
	// listTime bounds the time in which a host must begin with a list of messages, beyond
	// what the list waits. It is short, because agents poll for responses.
	listTime = 4 * time.Second

	// headerIncomplete says why the host had no part in a list of messages.
	headerIncomplete = "X-Incomplete"
)

// forwardMessageList passes a request for a list of messages on to a host. If the host is out of reach,
// the list holds the caller's pending messages. If there are none, it is answered after the
// time for which the caller wants to wait, and a host that is back before that is asked again.
// An error would end the polling of agents.
func (g *Gateway) forwardMessageList(p openintent.ForwardedRequest, to identity.ID, w http.ResponseWriter, r *http.Request) error {
	until := time.Now().Add(p.Wait)
	for {
		connected := g.connected.NextRing()
		err := g.proxyRequest(p, to, listTime+p.Wait, w, r)
		code, away := codeIfOutOfReach(err)
		if !away || r.Context().Err() != nil {
			return err
		}
		list, n, e := g.messages.encodeWaitingMessages(r.Context(), senderKey{to, p.Caller.Agent}, r.URL)
		if e != nil {
			return e
		}
		if p.Wait = time.Until(until); n > 0 || p.Wait <= 0 || !g.waitForConnection(r.Context(), p.Wait, connected) {
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

// codeIfOutOfReach reports whether err says that a host is out of reach or silent, and returns the
// code for that.
func codeIfOutOfReach(err error) (code string, away bool) {
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

// waitForConnection waits until a host is connected, and returns false if none is within d.
func (g *Gateway) waitForConnection(ctx context.Context, d time.Duration, connected <-chan struct{}) bool {
	select {
	case <-connected:
		return true
	case <-time.After(d):
	case <-ctx.Done():
	case <-g.ctx.Done():
	}
	return false
}

// encodeWaitingMessages returns, as a JSON array, the messages of a sender that wait for a channel, and how
// many they are. list is the URL of the channel's messages; its query says which are wanted.
func (q *messageQueue) encodeWaitingMessages(ctx context.Context, k senderKey, list *url.URL) (array []byte, n int, err error) {
	query := list.Query()
	since, limit := query.Get("since"), object.MaxList
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		limit = min(n, limit)
	}
	var found [][]byte
	size := 0
	err = q.db.Read(ctx, func(tx *store.Tx) error {
		return sqlReadWaitingMessages(tx, k, list.EscapedPath(), object.MaxList, func(p *outgoingMessage) bool {
			if p.id == since { // and all before it are not wanted
				found, size = nil, 0
			} else if isWantedByQuery(p.answer, query) {
				found = append(found, p.answer)
				size += len(p.answer)
			}
			return size < object.MaxListBytes
		})
	})
	if since == "" {
		found = found[max(0, len(found)-limit):]
	}
	found = found[:min(limit, len(found))]
	return slices.Concat([]byte("["), bytes.Join(found, []byte(",")), []byte("]")), len(found), err
}

// isWantedByQuery reports whether the query of a list wants a pending message.
func isWantedByQuery(message []byte, query url.Values) bool {
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
