package openintent

import (
	"testing"
	"testing/synctest"
	"time"
)

// A channel has as many open requests as it may, and one more when one has expired.
func TestOpenRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p := h.as("planner")
		until := func(d time.Duration) obj {
			return obj{"expires_at": time.Now().Add(d).UTC().Format(time.RFC3339)}
		}
		first, soon := p.request(ch, "reviewer", until(time.Hour)), until(time.Minute)
		p.request(ch, "reviewer", soon)
		for range maxOpen - 2 {
			p.request(ch, "reviewer", until(time.Hour))
		}
		for range 3 {
			p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
		}
		p.say(ch, obj{}) // what asks nothing needs no room
		time.Sleep(time.Minute)
		p.request(ch, "reviewer")
		p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
		h.as("reviewer").respond(ch, first).ok(201)
		p.request(ch, "reviewer")
		p.send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "too_many")
	})
}
