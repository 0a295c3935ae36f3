package remote

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// answerHeaders are the headers of a host's answer that agents here get.
var answerHeaders = []string{"Allow", "Content-Length", "Content-Type", "Idempotency-Replayed", "Retry-After"}

// headerHost has the id of the host whose answer it is. Without this header the answer is this
// daemon's own. No host can set it.
const headerHost = "X-Answered-By"

// Bounds, in bytes, of an answer that is checked before it is passed on: a list, and one object. A host's lists
// end at 8 MiB, an intent or a channel at 1 MiB.
const (
	maxNamedList = 9 << 20
	maxNamed     = 3 << 19
)

// checkHostAnswer returns an error if the answer of a host would lead an agent here to what is not the
// host's. That is a redirection, or an intent or a channel with an id of another daemon's; a 409
// names channels, too. It removes all headers but [answerHeaders]. Of the bytes that it has to
// read it asks room first, whose error is the refusal that the agent gets.
func checkHostAnswer(answer *http.Response, p openintent.ForwardedRequest, room func(bytes int) error) error {
	if answer.StatusCode < 200 || answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return ownwords.Errorf("it answers with status %d, which no host of channels has", answer.StatusCode)
	}
	maps.DeleteFunc(answer.Header, func(name string, _ []string) bool { return !slices.Contains(answerHeaders, name) })
	most := maxNamed
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode != http.StatusConflict:
		return nil
	case p.Class == openintent.OwnListRequest:
		most = maxNamedList
	case p.Class != openintent.OwnRequest:
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(meteredReader{answer.Body, room}, int64(most)+1))
	if err == nil && len(body) > most {
		err = ownwords.Errorf("its answer has more than %d bytes", most)
	}
	if err == nil {
		err = checkAnswerIDs(body, p.Host)
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), answer.Body}
	return err
}

// checkAnswerIDs returns an error unless the intents and channels in an answer were made by the host
// with these digits. The answer is one object or a list.
func checkAnswerIDs(body []byte, host string) error {
	if len(body) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if d.PeekKind() == '[' {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
	}
	for kind := d.PeekKind(); kind != 0 && kind != ']'; kind = d.PeekKind() {
		var one struct {
			ID      string `json:"id"`
			Intent  string `json:"intent_id"`
			Channel string `json:"channel_id"` // of a refusal
		}
		if err := json.UnmarshalDecode(d, &one); err != nil {
			return ownwords.Errorf("its answer is no intent and no channel: %w", err)
		}
		if err := checkIDsMadeBy(host, one.ID, one.Intent, one.Channel); err != nil {
			return err
		}
	}
	return nil
}

// checkIDsMadeBy returns an error unless the host with these digits has made the ids that are not "".
func checkIDsMadeBy(host string, ids ...string) error {
	for _, id := range ids {
		if maker, ok := object.HostOfID(id); id != "" && (!ok || maker != host) {
			return ownwords.Errorf("it calls %.80q its own, which it has not made", id)
		}
	}
	return nil
}

// checkSendAnswer returns an error unless the message with which a host answers a send names a
// channel of that host. The message's id may have been made by its sender's home.
func checkSendAnswer(message []byte, host string) error {
	var m struct {
		Intent  string `json:"intent_id"`
		Channel string `json:"channel_id"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return ownwords.Errorf("its answer is no message: %w", err)
	}
	return checkIDsMadeBy(host, m.Intent, m.Channel)
}
