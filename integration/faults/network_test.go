//go:build faults

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// spell is the length of bad weather.
func spell() time.Duration {
	if testing.Short() {
		return 10 * time.Second
	}
	return time.Minute
}

// goesOn waits until calls of both sides succeed again, and says when they do.
func (c *check) goesOn() {
	c.t.Helper()
	begun := time.Now()
	for _, s := range c.sides() {
		await.Until(c.t, "a call of "+s.Name+" succeeds", func() bool {
			_, err := s.Client.Ping(await.NewContext(c.t), client.PingParams{To: s.other.Name, TimeoutMS: 5000})
			return err == nil
		})
	}
	c.t.Logf("calls of both sides succeed after %s", time.Since(begun).Round(time.Millisecond))
}

// TestWeather: packets are lost, come twice, late and broken, all the time; calls
// succeed, and of what fails it is said.
func TestWeather(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]weather{
		"loss 5":      {lost: 0.05},
		"loss 20":     {lost: 0.20},
		"loss 30":     {lost: 0.30},
		"reordering":  {late: 0.30},
		"duplication": {twice: 0.30},
		"corruption":  {broken: 0.10},
		"everything":  {lost: 0.05, twice: 0.05, late: 0.2, broken: 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := beginApart(t)
			r.become(w)
			c.talk()
			time.Sleep(spell()) // of traffic in that weather
			for _, success := range []string{string(client.Held), string(client.Handed), "pong", "capabilities", "response", "accepted", string(client.TaskCompleted), string(client.TaskCancelled)} {
				c.met(success)
			}
			c.quiet()
			r.become(weather{})
			met := r.log()
			for what, n := range map[string][2]float64{
				"lost": {w.lost, met.lost}, "twice": {w.twice, met.twice}, "late": {w.late, met.late}, "broken": {w.broken, met.broken},
			} {
				if n[0] > 0 && n[1] == 0 {
					t.Errorf("no packet was %s", what)
				}
			}
			c.settle()
		})
	}
}

// TestPartition: no packet comes through for so long; then all goes on.
func TestPartition(t *testing.T) {
	t.Parallel()
	lengths := []time.Duration{2 * time.Second, 10 * time.Second}
	if !testing.Short() {
		lengths = append(lengths, time.Minute)
	}
	for _, length := range lengths {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			c, r := beginApart(t)
			c.talk()
			c.held20()
			r.become(weather{lost: 1})
			time.Sleep(length) // of the partition
			r.become(weather{})
			c.goesOn()
			if ended := c.quiet(); length > 8*time.Second && ended.of("unreachable")+ended.of("timeout") == 0 {
				t.Errorf("nobody noticed: %v", ended)
			}
			c.settle()
		})
	}
}

// TestAddressChange: a daemon is elsewhere from one packet to the next, three times,
// and the other is where it was.
func TestAddressChange(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"desk", "laptop"} {
		t.Run("of "+who, func(t *testing.T) {
			t.Parallel()
			c, r := beginApart(t)
			moves := r.laptop // to laptop, desk is elsewhere
			if who == "laptop" {
				moves = r.desk
			}
			c.talk()
			for range 3 {
				c.held20()
				r.move(moves)
				c.goesOn()
			}
			c.quiet()
			c.settle()
		})
	}
}
