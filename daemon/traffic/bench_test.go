package traffic

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// BenchmarkRecord records queries with their answers, while nobody watches and while somebody does.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"200B", 200}, {"16KiB", 16 << 10}, {"1MiB", 1<<20 - 100}} {
		env := wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": strings.Repeat("x", size.bytes)}))
		m := message(b, env)
		m.Reply = wire.NewReply(env, kinds.KindResponse, kinds.EncodePayload(map[string]string{"summary": strings.Repeat("x", size.bytes)}))
		for _, watched := range []bool{false, true} {
			name := size.name + "/unwatched"
			if watched {
				name = size.name + "/watched"
			}
			b.Run(name, func(b *testing.B) {
				r := newTestRecorder()
				if watched {
					r.Watch("a")
				}
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if watched && n%4096 == 0 { // it is there still
						r.Watch("a")
					}
					r.Record(m)
				}
			})
		}
	}
}

// BenchmarkRecordOfPeers records what so many peers say, one as often as the other, when there is no room left:
// as somebody who watches has it kept, with pings beside, and as a history has it that is smaller than their number.
func BenchmarkRecordOfPeers(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	query := message(b, wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": strings.Repeat("x", 200)})))
	query.Reply = wire.NewReply(query.Envelope, kinds.KindResponse, kinds.EncodePayload(map[string]string{"summary": strings.Repeat("x", 200)}))
	ping := message(b, wire.NewEnvelope(laptop, desk, kinds.KindPing, kinds.EncodePayload(struct{}{})))
	for _, kept := range []struct {
		name   string
		bounds Bounds
		all    []*peer.Passing
	}{{"watched", watched, []*peer.Passing{query}}, {"pings", watched, []*peer.Passing{query, ping}}, {"history", Bounds{1000, 4 << 20}, []*peer.Passing{query}}} {
		for _, many := range []int{1, 100, 5000} {
			peers := make([]identity.ID, 1<<16)
			for i := range peers {
				binary.LittleEndian.PutUint64(peers[i][:], uint64(random.IntN(many)+1)*0x9e3779b97f4a7c15)
			}
			b.Run(kept.name+"/"+strconv.Itoa(many), func(b *testing.B) {
				r := newTestRecorder()
				r.SetHistory(kept.bounds)
				n := 0
				record := func() {
					m := kept.all[n%len(kept.all)]
					m.Envelope.From = peers[n%len(peers)]
					r.Record(m)
					n++
				}
				for range 4 * watched.Entries {
					record()
				}
				b.ReportAllocs()
				for b.Loop() {
					record()
				}
			})
		}
	}
}

// BenchmarkRead reads entries, a thousand at a time.
func BenchmarkRead(b *testing.B) {
	r := newTestRecorder()
	r.Watch("a")
	begin := r.next - 1
	env := wire.NewEnvelope(laptop, desk, kinds.KindQuery, kinds.EncodePayload(map[string]string{"question": strings.Repeat("x", 200)}))
	m := message(b, env)
	m.Reply = wire.NewReply(env, kinds.KindResponse, kinds.EncodePayload(map[string]string{"summary": strings.Repeat("x", 200)}))
	for range client.MaxTrafficEntries {
		r.Record(m)
	}
	b.ReportAllocs()
	for b.Loop() {
		if a, err := r.Read(b.Context(), &Query{After: begin, Limit: client.MaxTrafficEntries, Room: 4 << 20}); err != nil || len(a.Entries) != client.MaxTrafficEntries {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/client.MaxTrafficEntries, "ns/entry")
}
