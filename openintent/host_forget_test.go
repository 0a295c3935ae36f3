package openintent

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/store"
)

// told is an entry of the stream of a host.
func told(digits string, n int, who, text string) string {
	in := "intent_" + digits + "_" + strings.Repeat("0", ulidLen)
	return fmt.Sprintf("data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[],\"own\":[%s],\"data\":{\"intent_id\":%q,\"n\":%d,\"text\":%q}}\nid: %d\n\n", in, who, in, n, text, n)
}

// kept is how many entries of hosts are kept, and their bytes.
func (h *host) kept() (rows, bytes int) {
	h.t.Helper()
	if err := h.db.Read(h.t.Context(), func(stx *store.Tx) error {
		return stx.QueryRow("SELECT count(*), coalesce(sum(octet_length(doc)), 0) FROM openintent_relayed").Scan(&rows, &bytes)
	}); err != nil {
		h.t.Fatal(err)
	}
	return rows, bytes
}

// What a host tells nobody of, and what it tells while the disk is almost full, takes no
// more than what is kept already; its place in its feed is kept.
func TestRelayKeepsNothingForNobody(t *testing.T) {
	low := false
	h := start(t, func(c *Config) {
		c.Room = func(string) error {
			if low {
				return errors.New("the disk is almost full")
			}
			return nil
		}
	})
	tell := func(from, to int, who string) {
		t.Helper()
		var b strings.Builder
		for n := from; n <= to; n++ {
			b.WriteString(told(farID, n, who, strings.Repeat("x", 10_000)))
		}
		if err := h.e.ReceiveHostStream(t.Context(), farID+idRest, strings.NewReader(b.String()), nil); err != nil {
			t.Fatal(err)
		}
		if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != fmt.Sprint(to) || err != nil {
			t.Errorf("cursor %q, %v", cursor, err)
		}
	}
	tell(1, 100, "")
	if rows, bytes := h.kept(); rows > 1 || bytes > 1000 {
		t.Errorf("%d entries of %d bytes are kept for nobody", rows, bytes)
	}
	tell(101, 110, `"reviewer"`)
	rows, bytes := h.kept()
	if bytes < 100_000 {
		t.Fatalf("%d bytes are kept", bytes)
	}
	low = true
	tell(111, 130, `"reviewer"`)
	if more, n := h.kept(); more > rows || n > bytes {
		t.Errorf("with a disk that is almost full %d entries of %d bytes are kept, which were %d of %d", more, n, rows, bytes)
	}
}

// What a host has relayed that is trusted no more is gone, also for streams that resume, and
// its stream of before writes nothing any more. Others' is as it was.
func TestForgetRemovesWhatAHostHasRelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := false
		h := start(t, func(c *Config) {
			c.Inside = func(run func() error) error {
				if full {
					return errors.New("the disk is full")
				}
				return run()
			}
		})
		const near = "1a97090000"
		h.relay(near, told(near, 5, `"reviewer"`, "kept"))
		var b strings.Builder
		for n := range 2 * sliceRows {
			b.WriteString(told(farID, n+1, `"reviewer"`, strings.Repeat("x", 30_000)))
		}
		h.relay(farID, b.String())
		r, w := io.Pipe()
		ended := make(chan error)
		go func() { ended <- h.e.ReceiveHostStream(t.Context(), farID+idRest, r, nil) }()
		io.WriteString(w, ": ok\n\n")
		resumed := func() (all []any) {
			t.Helper()
			s := h.followFrom(h.as("reviewer"), "/agents/reviewer/subscribe", "0")
			defer s.stop()
			for synctest.Wait(); s.pending() > 0; synctest.Wait() {
				all = append(all, s.next().data["n"])
			}
			return all
		}
		if got := resumed(); len(got) != 2*sliceRows+1 {
			t.Fatalf("%d entries", len(got))
		}
		next := h.e.next
		full = true
		if err := h.e.ForgetHost(t.Context(), farID+idRest); err == nil {
			t.Error("a write that failed was no error")
		}
		full = false
		if got := resumed(); len(got) != 1 {
			t.Errorf("%d entries, also of a host that is trusted no more", len(got))
		}
		if err := h.e.ReceiveHostStream(t.Context(), farID+idRest, strings.NewReader(""), nil); err == nil {
			t.Error("a stream has begun before what the host has told is gone")
		}
		if err := h.e.ForgetHost(t.Context(), farID+idRest); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "id: 999\n\n"+told(farID, 1000, `"reviewer"`, "late"))
		if err := <-ended; err == nil {
			t.Error("the stream of before goes on")
		}
		w.Close()
		if rows, _ := h.kept(); rows != 1 {
			t.Errorf("%d entries are kept", rows)
		}
		for host, want := range map[string]string{farID: "", near: "5"} {
			if cursor, err := h.e.ReadStreamCursor(t.Context(), host); cursor != want || err != nil {
				t.Errorf("the place in the feed of %s is %q, %v", host, cursor, err)
			}
		}
		if n := held(h.e.relayed, farID+idRest); n != 0 {
			t.Errorf("%d bytes are charged", n)
		}
		h.restart()
		if h.e.next < next {
			t.Errorf("the numbers from %d are given out again", h.e.next)
		}
		h.relay(farID, told(farID, 7, `"reviewer"`, "again")) // it is trusted again
		if got := resumed(); len(got) != 2 {
			t.Errorf("resumed with %v", got)
		}
	})
}

// relay hands what a host tells to the engine.
func (h *host) relay(digits, stream string) {
	h.t.Helper()
	if err := h.e.ReceiveHostStream(h.t.Context(), digits+idRest, strings.NewReader(stream), nil); err != nil {
		h.t.Fatal(err)
	}
}
