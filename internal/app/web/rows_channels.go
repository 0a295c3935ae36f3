package web

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

type channelRow struct {
	rowKey
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Intent  string        `json:"intent"`
	Open    bool          `json:"open"`
	Members []string      `json:"members"` // of one that has a list of them
	Count   int64         `json:"count"`   // messages
	Last    channels.Time `json:"last"`    // zero: there was none
}

// newChannelRow describes a channel of an intent with that title.
func newChannelRow(c *channels.Channel, title string) channelRow {
	return channelRow{
		rowKey: rowKey{c.ID}, ID: c.ID, Name: showName(c.Name), Intent: showName(title), Open: c.Status == channels.StatusOpen,
		Members: showNames(c.Members), Count: c.MessageCount, Last: c.LastMessageAt,
	}
}

// readChannels reads the channels of the newest intents of this daemon.
func (w *watcher) readChannels(ctx context.Context) error {
	const mostIntents, mostChannels = 30, 50
	var intents channels.IntentList
	if err := w.getChannels(ctx, channels.JoinURL("intents")+"?limit=30", &intents); err != nil {
		return err
	}
	rows := []channelRow{}
	for _, in := range intents.Intents[:min(len(intents.Intents), mostIntents)] {
		var list []channels.Channel
		if err := w.getChannels(ctx, channels.JoinURL("intents", in.ID, "channels")+"?limit=50", &list); err != nil {
			return err
		}
		for _, c := range list[:min(len(list), mostChannels)] {
			rows = append(rows, newChannelRow(&c, in.Title))
		}
	}
	more := 0
	if len(intents.Intents) >= mostIntents {
		more = 1
	}
	setRows(w.board, partChannels, rows, more)
	return nil
}

// errNoChannels is the error of a daemon that begins or ends: its other socket says whether it is away.
var errNoChannels = ownwords.New("the daemon does not answer about channels now: it is asked again in a moment")

// getChannels makes a request of the channels' API. An error of it says nothing of the daemon's own socket.
func (w *watcher) getChannels(ctx context.Context, url string, into any) error {
	answer, err := w.channels.Do(ctx, channels.Request{Method: http.MethodGet, URL: url})
	if e, ok := asCoded(err); ok && e.Code == kinds.DaemonUnavailable {
		return errNoChannels
	}
	if err != nil {
		return ownwords.Errorf("channels: %w", err)
	}
	if json.Unmarshal(answer.Text, into) != nil {
		return ownwords.New("channels: the daemon's answer has a form that this program does not know: update acpd")
	}
	return nil
}
