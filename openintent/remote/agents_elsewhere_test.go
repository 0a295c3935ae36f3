package remote

import (
	"context"

	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// A peer that comes into reach does not make the daemon ask others.
func TestOnlyTheHomeThatArrivesIsAsked(t *testing.T) {
	t.Parallel()
	all := []identity.ID{{1}, {2}, {3}}
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, Engine: engineOn(openStore(t), slog.New(slog.DiscardHandler)),
		Peers: func() []identity.Peer { return nil },
		Hosts: func() []identity.ID { return all },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.SetPeerConnected(all[1], true)
	c.SetPeerConnected(all[2], false)
	for _, want := range [][]identity.ID{all[1:2], nil} {
		if asked := c.takeHomesToAsk(false); !slices.Equal(asked, want) {
			t.Errorf("asked %v, not %v", asked, want)
		}
	}
	if asked := c.takeHomesToAsk(true); !slices.Equal(asked, all) {
		t.Errorf("asked on time: %v", asked)
	}
}

// What a peer says of its agents is written in its turns.
func TestDeparturesAreWrittenInTheirHomesTurn(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	var mu sync.Mutex
	var owners []any
	db.ObserveWrites(func(c store.Cost) {
		mu.Lock()
		defer mu.Unlock()
		if c.Rows > 0 {
			owners = append(owners, c.Requester)
		}
	})
	const gone = `{"agents":{"ghost":{"status":"deregistered"},"planner":{"status":"deregistered"}}}` // of the latter it was not asked
	answer := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(gone)) + "\r\n\r\n" + gone
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, Engine: engineOn(db, slog.New(slog.DiscardHandler)),
		Trusted: func(id identity.ID) (identity.Peer, bool) { return desk, id == desk.ID },
		Peers:   func() []identity.Peer { return []identity.Peer{desk} },
		Hosts:   func() []identity.ID { return nil },
		OpenTo:  func(identity.Peer) bool { return false },
		Open: func(context.Context, identity.ID) (Stream, error) {
			return &spoken{in: strings.NewReader(answer)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	status, intent := local[obj](t, c, "planner", http.MethodPost, "intents", `{"title":"Ship it"}`)
	if status != 201 {
		t.Fatal(status, intent)
	}
	home := desk.ID.String()
	status, channel := local[obj](t, c, "planner", http.MethodPost, "intents/"+intent["id"].(string)+"/channels", `{"name":"build","members":["planner","ghost@`+home+`"]}`)
	if status != 201 {
		t.Fatal(status, channel)
	}
	mu.Lock()
	owners = nil
	mu.Unlock()
	if err := c.askHome(t.Context(), desk.ID); err != nil {
		t.Fatal(err)
	}
	if left := c.Engine.ListAwaitedAgents(); len(left) > 0 {
		t.Fatalf("there are %v", left)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(owners) == 0 {
		t.Error("nothing is written")
	}
	for _, o := range owners {
		if o != any(desk.ID) {
			t.Errorf("written for %v", o)
		}
	}
}
