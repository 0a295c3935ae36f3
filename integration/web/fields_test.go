//go:build web

package web

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// spoil replaces each text of a world by what words makes of it, also those that are empty: of all that a daemon
// answers, whoever wrote it.
func (w *world) spoil(t *testing.T, words func(string) string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range []any{&w.status, &w.peers, &w.agents, &w.wait, &w.tasks, &w.held, &w.budget, &w.spent, &w.bindings, &w.mail, &w.entries, &w.open} {
		spoilFields(reflect.ValueOf(part).Elem(), "", words)
	}
	for i := range w.tasks {
		w.tasks[i].Question.ID, w.tasks[i].Kept.ID = wire.NewMessageID(), wire.NewMessageID()
		if i < len(w.tasks)-1 {
			w.tasks[i].Kept = nil // for what is kept, nobody waits there
		}
	}
	topic := &w.held[0].Envelope // of this kind, what it says is a topic
	topic.Kind, topic.Payload = kinds.KindNotify, kinds.EncodePayload(&kinds.Notify{Topic: words("ci.nightly")})
	w.channels["GET intents"] = spoilText(t, w.channels["GET intents"], words, func(l *channels.IntentList) {
		l.Intents[0].ID = "int_acdc_1" // the next request has it in its path
	})
	w.channels["GET intents/int_acdc_1/channels"] = spoilText(t, w.channels["GET intents/int_acdc_1/channels"], words, func(l *[]channels.Channel) {
		for i := range *l {
			(*l)[i].ID += strconv.Itoa(i) // no two have one id
		}
	})
}

// spoilText is spoil for a text in JSON. mend may change what it has become.
func spoilText[T any](t *testing.T, text string, words func(string) string, mend func(*T)) string {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	spoilFields(reflect.ValueOf(&v).Elem(), "", words)
	mend(&v)
	b, err := json.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// isName has the fields whose texts a daemon bounds; peers bound others.
var isName = map[string]bool{"Kind": true, "Name": true, "Peer": true, "Agent": true, "Project": true, "File": true, "Row": true, "ID": true}

// spoilFields replaces the texts in v. It leaves alone what has a type of its own: states, directions, times, ids
// and payloads, which nobody but the daemon writes.
func spoilFields(v reflect.Value, name string, words func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			said := words(cmp.Or(v.String(), name))
			if isName[name] {
				said = clipName(said)
			}
			v.SetString(said)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]string]() && v.Len() == 0 {
			v.Set(reflect.ValueOf([]string{""}))
		}
		for i := range v.Len() {
			spoilFields(v.Index(i), name, words)
		}
	case reflect.Pointer:
		if v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			spoilFields(v.Elem(), name, words)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				spoilFields(v.Field(i), f.Name, words)
			}
		}
	}
}

// tellEvents has a page told of events, whose texts words makes, until it shows them.
func (w *world) tellEvents(t *testing.T, p *tab, words func(string) string) {
	t.Helper()
	details, err := json.Marshal(map[string]string{"agent": words("planner"), "reason": words("used up"), words("more"): words("more")})
	if err != nil {
		t.Fatal(err)
	}
	var conn any
	await.Until(t, "the page shows events", func() bool {
		now := w.SubscribedConn()
		if now == nil {
			return false
		}
		if now != conn { // the page has been loaded anew
			conn = now
			for i, kind := range []client.EventType{client.EventUp, client.EventUp, client.EventDown, client.EventBudget, client.EventType(words("new"))} {
				now.Notify(client.NotificationEvent, &client.Event{Type: kind, Peer: peerID(i), Name: words("desk"), At: time.Now(), Details: jsontext.Value(details)})
			}
			now.Notify(client.NotificationEvent, &client.Event{Type: client.EventRelay, At: time.Now(), Details: jsontext.Value(details)})
		}
		shown, err := tryEval[bool](p, `["connected", "a bound was reached", "relay"].every((x) => [...document.querySelectorAll("#log .row[data-quiet]")].some((e) => e.textContent.includes(x)))`)
		return err == nil && shown
	})
}

// TestSpoil: of what a world has, spoil leaves no text as it was.
func TestSpoil(t *testing.T) {
	w := newWorld(t)
	w.fill(plain)
	w.openChains()
	w.pass(talk(plain)...)
	w.spoil(t, func(string) string { return "spoilt" })
	parts := []any{w.status, w.peers, w.agents, w.wait, w.tasks, w.held, w.budget, w.spent, w.bindings, w.mail, w.entries, w.open, w.channels["GET intents"], w.channels["GET intents/int_acdc_1/channels"]}
	for _, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "spoilt") {
			t.Errorf("%T has nothing: %s", part, text)
		}
		for _, word := range []string{"desk", "build", "archive", "laptop", "planner", "reviewer", "tester", "runner", "parser", "release", "nightly", "delegations", "office", "example", "claude", "away"} {
			if strings.Contains(string(text), `"`+word) {
				t.Errorf("%T still says %s: %s", part, word, text)
			}
		}
	}
}
