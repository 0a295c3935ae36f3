package remote

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent"
)

// answerHeaders are the headers of a host's answer that an agent here is given.
var answerHeaders = []string{"Allow", "Content-Length", "Content-Type", "Idempotency-Replayed", "Retry-After"}

// headerHost stands with an answer that is a host's, and has the host's id. Without it
// the answer is this daemon's own word. No host can set it.
const headerHost = "X-Answered-By"

// Bounds of an answer that is looked through before it is passed on: a host's lists end
// at 8 MiB, an intent or a channel at 1 MiB.
const (
	maxNamedList = 9 << 20
	maxNamed     = 3 << 19
)

// checkAnswer fails for an answer of a host that would lead an agent here to what is not that
// host's: a redirection, or an intent or a channel with an id of another daemon's, also as
// the one that there is already. It takes all headers off that are none of channels. What it has to read first is told to
// room as it comes; where there is none, the error is the refusal that the agent gets.
func checkAnswer(answer *http.Response, host, asked string, room func(bytes int) error) error {
	if answer.StatusCode < 200 || answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return fmt.Errorf("it answers with status %d, which no host of channels has", answer.StatusCode)
	}
	for name := range answer.Header {
		if !slices.Contains(answerHeaders, name) {
			delete(answer.Header, name)
		}
	}
	dir, last := path.Split(asked)
	if of := path.Base(dir); answer.StatusCode >= 300 && answer.StatusCode != http.StatusConflict || last != "channels" && of != "channels" && of != "intents" {
		return nil
	}
	most := maxNamed
	if last == "channels" && answer.Request.Method == http.MethodGet {
		most = maxNamedList
	}
	body, err := io.ReadAll(io.LimitReader(meteredReader{answer.Body, room}, int64(most)+1))
	if err == nil && len(body) > most {
		err = fmt.Errorf("its answer has more than %d bytes", most)
	}
	if err == nil {
		err = checkMakers(body, host)
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), answer.Body}
	return err
}

// checkMakers fails unless the intents and channels of an answer, one or a list, were
// made by the host with these digits.
func checkMakers(body []byte, host string) error {
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
			return fmt.Errorf("its answer is no intent and no channel: %w", err)
		}
		if err := checkMade(host, one.ID, one.Intent, one.Channel); err != nil {
			return err
		}
	}
	return nil
}

// checkMade fails unless the host with these digits has made the ids that are there.
func checkMade(host string, ids ...string) error {
	for _, id := range ids {
		if maker, ok := openintent.HostOf(id); id != "" && (!ok || maker != host) {
			return fmt.Errorf("it calls %.80q its own, which it has not made", id)
		}
	}
	return nil
}

// checkSent fails unless the message that a host answers a send with is said to be in a
// channel of its own. The message's id may be of its sender's home.
func checkSent(message []byte, host string) error {
	var m struct {
		Intent  string `json:"intent_id"`
		Channel string `json:"channel_id"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return fmt.Errorf("its answer is no message: %w", err)
	}
	return checkMade(host, m.Intent, m.Channel)
}
