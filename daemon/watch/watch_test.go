package watch

import (
	"log/slog"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// newService returns a service to which no peer is known.
func newService(t testing.TB) *Service {
	t.Helper()
	trust, _, err := identity.OpenTrustStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return New(Deps{
		Trust: trust, MaxListBytes: func() int { return 1 << 20 }, Log: slog.New(slog.DiscardHandler),
		ResolvePeers: func(names []string, _ bool) ([]identity.ID, error) {
			for _, name := range names {
				return nil, kinds.Errorf(kinds.UnknownPeer, "peers: %q", name)
			}
			return nil, nil
		},
	})
}

// FuzzTrafficParams has an owner's program ask anything: what is taken is bounded, and all else is refused with
// a code.
func FuzzTrafficParams(f *testing.F) {
	s := newService(f)
	for _, seed := range []string{`{}`, `{"after":18446744073709551615,"limit":1000,"wait_ms":30000,"open":true}`, `{"limit":-1}`, `{"wait_ms":18446744073709551615}`, `{"kinds":["query","x"],"peers":["","desk"],"topics":[""],"threads":["\u0000"],"agents":[""]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p client.TrafficParams
		if json.Unmarshal(text, &p) != nil {
			return
		}
		q, err := s.readTrafficParams(&p)
		if err != nil {
			if code := kinds.AsError(err).Code; code != kinds.Invalid && code != kinds.UnknownPeer {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		if q.Limit < 1 || q.Limit > client.MaxTrafficEntries || q.Wait < 0 || q.Wait > client.MaxTrafficWait || q.Room <= 0 || len(q.Filter.Agents)+len(q.Filter.Kinds) > 2*client.MaxTrafficFilter {
			t.Errorf("%s: %+v", text, q)
		}
		q.Wait = 0
		if a, err := s.Traffic.Read(t.Context(), q); err != nil || a.Next == 0 || len(a.Entries) > 0 {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	})
}
