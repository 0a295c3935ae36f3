package mcp

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// listPeers lets the daemon have connected peers of these names, one that is away and one that has only a certificate.
func (d *fakeDaemon) listPeers(connected ...string) {
	peers := []client.Peer{
		{ID: identity.ID{1}, Name: "attic", State: client.PeerTrusted},
		{ID: identity.ID{2}, Name: "build-7.corp", State: client.PeerConnected, Certificate: &client.Certificate{}},
	}
	for i, name := range connected {
		peers = append(peers, client.Peer{ID: identity.ID{9, byte(i)}, Name: name, State: client.PeerConnected})
	}
	d.answer(client.MethodPeers, &client.Peers{Peers: peers})
}

// A question to all goes to each connected peer that is trusted by name, with an id of its own. Each answer has a cover
// of its own, and whoever was skipped is named.
func TestAskingAllPeers(t *testing.T) {
	d, p := newProgram(t)
	d.listPeers("desk", "laptop", "shelf")
	asked := make(chan client.QueryParams, 9)
	d.answerQueries(func(_ context.Context, q *client.QueryParams, question string) (string, error) {
		asked <- *q
		if q.To == "shelf" {
			return "", &kinds.Error{Code: kinds.UnknownDomain, Message: "obey", From: desk.String()}
		}
		return question + " of " + q.To, nil
	})
	r := p.must("answered", "acp_query", args{"to": "*", "question": "?", "domain": "code.review"})
	for _, want := range []string{
		"2 of 3 peers have answered.\n", "\n? of desk\n-----END", "\n? of laptop\n-----END", "peer laptop (id ",
		"skipped (not connected): attic\n", "skipped (known only by a certificate): build-7.corp\n", "skipped (offers no code.review): shelf",
	} {
		if !strings.Contains(r.said, want) || !strings.Contains(r.Text, want) {
			t.Errorf("no %q in %s", want, r.said)
		}
	}
	if strings.Contains(r.said, "obey") || strings.Count(r.said, "BEGIN PEER TEXT") != 2 || !strings.Contains(fmt.Sprint(r.meta[metaExact]), "? of laptop") {
		t.Errorf("%s", r.said)
	}
	first, second, third := <-asked, <-asked, <-asked
	if len(asked) > 0 || first.ID == second.ID || second.ID == third.ID || first.ID == r.ID {
		t.Errorf("asked: %+v %+v %+v, and %d more", first, second, third, len(asked))
	}
	d.answer(client.MethodTasks, &client.Tasks{})
	if r := p.must("listed", "acp_task", nil); !strings.Contains(r.said, "query  all peers  answered") {
		t.Errorf("%s", r.said)
	}
	p.fails(kinds.Invalid, "acp_query", args{"to": "*", "question": "?", "id": r.ID.String()})
	p.fails(kinds.Invalid, "acp_task", args{"id": r.ID.String(), "page": 2})
}

// Where nobody answers, the call fails as the first peer did, and says what became of each. A failure of a peer's is shown
// as its text.
func TestAskingAllPeersInVain(t *testing.T) {
	d, p := newProgram(t)
	d.listPeers()
	if r := p.fails(kinds.NoAgent, "acp_query", args{"to": "*", "question": "?"}); !strings.Contains(r.said, "no peer is connected that") || !strings.Contains(r.said, "attic") {
		t.Errorf("%s", r.said)
	}
	d.listPeers("desk", "laptop")
	d.answerQueries(func(_ context.Context, q *client.QueryParams, _ string) (string, error) {
		if q.To == "desk" {
			return "", &kinds.Error{Code: kinds.NoAgent, Message: "nobody", From: desk.String()}
		}
		return "", kinds.Errorf(kinds.NotAuthorized, "to: the agent may not call %s", q.To)
	})
	if r := p.fails(kinds.NoAgent, "acp_query", args{"to": "*", "question": "?"}); !strings.Contains(r.said, "(has no agent that answers): desk") || !strings.Contains(r.said, "(your owner does not let this agent call it): laptop") {
		t.Errorf("%s", r.said)
	}
	d.answerQueries(func(_ context.Context, q *client.QueryParams, _ string) (string, error) {
		if q.To == "desk" {
			return "", &kinds.Error{Code: kinds.Internal, Message: "obey", From: desk.String()}
		}
		return "", &kinds.Error{Code: kinds.NoAgent, Message: "nobody", From: desk.String()}
	})
	r := p.fails(kinds.Internal, "acp_query", args{"to": "*", "question": "?"})
	before, inside, _ := strings.Cut(r.said, "BEGIN PEER TEXT")
	if !strings.Contains(before, "desk: internal, from ") || strings.Contains(before, "obey") || !strings.Contains(inside, "obey") {
		t.Errorf("%s", r.said)
	}
	d.answerQueries(func(context.Context, *client.QueryParams, string) (string, error) {
		return "", kinds.Errorf(kinds.Unreachable, "no answer").WithDelivered(kinds.DeliveredUnknown)
	})
	if r := p.fails(kinds.Unreachable, "acp_query", args{"to": "*", "question": "?"}); !regexp.MustCompile(`desk: unreachable: no answer\n.*acp_query to desk, again with id .{36}`).MatchString(r.said) {
		t.Errorf("%s", r.said)
	}
}

// While peers are at work, acp_task says how many have answered, shows what has come, waits for the rest and cancels it.
func TestAskingAllPeersInTheBackground(t *testing.T) {
	d := newFakeDaemon(t)
	p := startProgram(t, d, &Server{timing: shortly})
	d.listPeers("desk", "laptop")
	release, withdrawn := make(chan struct{}), make(chan struct{}, 9)
	d.answerQueries(func(ctx context.Context, q *client.QueryParams, _ string) (string, error) {
		if q.To == "laptop" {
			select {
			case <-release:
			case <-ctx.Done():
				withdrawn <- struct{}{}
				return "", ctx.Err()
			}
		}
		return "from " + q.To, nil
	})
	ask := func() (id string) {
		id = p.must("pending", "acp_query", args{"to": "*", "question": "?"}).ID.String()
		await.Until(t, "one has answered", func() bool {
			return strings.Contains(p.must("pending", "acp_task", args{"id": id}).said, "1 of 2 peers have answered")
		})
		return id
	}
	given, id := ask(), ask()
	if r := p.must("pending", "acp_task", args{"id": id, "do": "result"}); !strings.Contains(r.said, "from desk") || strings.Contains(r.said, "from laptop") {
		t.Errorf("%s", r.said)
	}
	if r := p.must("answered", "acp_task", args{"id": given, "do": "cancel"}); !strings.Contains(r.said, "from desk") || !strings.Contains(r.said, "laptop: cancelled: ") {
		t.Errorf("%s", r.said)
	}
	await.Receive(t, "the question is withdrawn", withdrawn)
	close(release)
	await.Until(t, "all have answered", func() bool { return p.call("acp_task", args{"id": id, "do": "wait"}).State == "answered" })
	if r := p.must("answered", "acp_task", args{"id": id, "do": "result"}); !strings.Contains(r.said, "2 of 2 peers have answered") || !strings.Contains(r.said, "from laptop") {
		t.Errorf("%s", r.said)
	}
}

// Short answers share a page, a long one has pages of its own, and the pages have all of it.
func TestPagesOfAllPeers(t *testing.T) {
	d, p := newProgram(t)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("host-%02d", i))
	}
	d.listPeers(names...)
	words := map[string]int{"host-03": 2300, "host-04": 3500, "host-05": 4700} // the last page of each is almost full
	quotes := strings.Repeat(`"`, 3000)
	d.answerQueries(func(_ context.Context, q *client.QueryParams, _ string) (string, error) {
		if words[q.To] > 0 {
			return strings.Repeat("word ", words[q.To]), nil
		}
		if q.To == "host-07" {
			return quotes, nil
		}
		return "from " + q.To + ".", nil
	})
	r := p.must("answered", "acp_query", args{"to": "*", "question": "?"})
	var all strings.Builder
	pages := 1
	for ; ; pages++ {
		if len(r.said) > client.PeerPageSize || r.size > 10_000 {
			t.Errorf("page %d of %d and %d bytes", pages, len(r.said), r.size)
		}
		if all.WriteString(r.said); r.Next == 0 {
			break
		}
		r = p.must("answered", "acp_task", args{"id": r.ID.String(), "do": "result", "page": r.Next})
	}
	for _, name := range names[:client.MaxAsked] {
		if n := strings.Count(all.String(), "from "+name+"."); n != 1 && words[name] == 0 && name != "host-07" {
			t.Errorf("%s is shown %d times", name, n)
		}
	}
	if n := strings.Count(all.String(), "word "); n != 10_500 || pages > 16 || strings.Count(all.String(), `"`) < 3000 {
		t.Errorf("%d pages with %d words", pages, n)
	}
	if want := "skipped (more than 16): host-16, host-17, host-18, host-19"; strings.Count(all.String(), want) != 1 {
		t.Errorf("no %q: %s", want, r.said)
	}
	p.fails(kinds.Invalid, "acp_task", args{"id": r.ID.String(), "do": "result", "page": pages + 1})
}
