package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/object"
)

// says makes a send of an agent here, with a key if there is one.
func (g *Gateway) says(ctx context.Context, agent, path, key string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", apiPath+path, strings.NewReader(`{"payload": {}}`))
	speak(r, agent)
	r.Header.Set(headerKey, key)
	g.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
	return w
}

// answersHeld is what all hosts are charged for answers.
func answersHeld(book *budget.Book) (n int64) {
	for _, u := range book.ListUsage() {
		if u.Row.Name == budget.Answers.Name {
			n += u.Held
		}
	}
	return n
}

// What a host answers to sends is charged to it until its agent has it: over its share the
// send is refused, and what is sent to another host is answered.
// holds: security.md#the-budget
func TestAnswersToSendsAreCharged(t *testing.T) {
	book := new(budget.Book)
	first := identity.ID{1}
	c, first, second := sayers(t, book, func(host identity.ID, _ string, w io.Writer, stop <-chan struct{}) {
		if host == first { // all but the end of the longest that is read
			fmt.Fprintf(w, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n", maxNamed)
			io.WriteString(w, "{"+strings.Repeat(" ", maxNamed-2))
			<-stop
			return
		}
		io.WriteString(w, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
	})
	path := func(id identity.ID) string {
		return "channels/" + fmt.Sprintf(sayerChannel, id.String()[:object.HostDigits]) + "/messages"
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked sync.WaitGroup
	share := int(budget.Answers.Peer / maxNamed)
	asks := 10 * share
	answers := make(chan *httptest.ResponseRecorder, asks)
	for n := range asks {
		asked.Go(func() { answers <- c.says(ctx, fmt.Sprint("worker", n), path(first), fmt.Sprint(n)) })
	}
	for n := range asks - share {
		a := await.Receive(t, "a refusal", answers)
		var said map[string]any
		if err := json.Unmarshal(a.Body.Bytes(), &said); err != nil || a.Code != http.StatusTooManyRequests || said["error"] != "overloaded" ||
			said["row"] != budget.Answers.Name || said["delivered"] != "unknown" || a.Header().Get("Retry-After") == "" || a.Header().Get(headerHost) != "" {
			t.Fatalf("%d: %d %v %s: %v", n, a.Code, a.Header(), a.Body, err)
		}
	}
	if n := answersHeld(book); n > budget.Answers.Peer {
		t.Errorf("%d bytes are charged", n)
	}
	if a := c.says(ctx, "planner", path(second), ""); a.Code != http.StatusCreated || a.Header().Get(headerHost) != second.String() {
		t.Errorf("another host: %d %v %s", a.Code, a.Header(), a.Body)
	}
	cancel()
	asked.Wait()
	if n := answersHeld(book); n != 0 {
		t.Errorf("%d bytes are charged when all is over", n)
	}
}

// So is what it answers to a message that has waited: without room it waits on.
// holds: security.md#the-budget
func TestAnswersToWhatWaitedAreCharged(t *testing.T) {
	book := new(budget.Book)
	long := `{"text": "` + strings.Repeat("x", 1<<20) + `"}`
	c, first, _ := sayers(t, book, func(_ identity.ID, _ string, w io.Writer, _ <-chan struct{}) {
		fmt.Fprintf(w, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(long), long)
	})
	k := senderKey{first, "planner"}
	path := apiPath + "channels/" + fmt.Sprintf(sayerChannel, first.String()[:object.HostDigits]) + "/messages"
	p := &outgoingMessage{id: "m1", host: first, agent: "planner", path: path, body: []byte(`{"payload": {}}`), answer: []byte("{}")}
	if err := c.messages.storeMessage(t.Context(), k, p); err != nil {
		t.Fatal(err)
	}
	hold, letGo := c.Engine.NewHostCharge()
	most := int(budget.Answers.Peer) - 1<<10
	if err := hold(first.String(), most); err != nil {
		t.Fatal(err)
	}
	if sent, err := c.messages.deliverFirstMessage(t.Context(), k); sent || err == nil || isHostOutOfReach(err) || !strings.Contains(err.Error(), budget.Answers.Name) {
		t.Errorf("without room: %t, %v", sent, err)
	}
	if !c.messages.hasWaitingMessages(k) {
		t.Error("it does not wait any more")
	}
	letGo()
	if _, err := c.messages.deliverFirstMessage(t.Context(), k); err != nil || c.messages.hasWaitingMessages(k) {
		t.Errorf("with room: %v", err)
	}
	await.Until(t, "nothing is charged", func() bool { return answersHeld(book) == 0 })
}
