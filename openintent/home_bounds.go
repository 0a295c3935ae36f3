package openintent

import (
	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/openintent/object"
)

// roomTally counts the things of one kind in one place. Agents of other daemons may have half of
// the room together, and those of one daemon a quarter.
type roomTally struct{ all, others, theirs int }

// countForHome counts a thing of an agent of home, for a daemon that wants one more.
func (p *roomTally) countForHome(home, wants string) {
	p.all++
	if home != "" {
		p.others++
		if home == wants {
			p.theirs++
		}
	}
}

// checkRoom refuses one more thing to an agent of home if there is no room for it.
func (p *roomTally) checkRoom(home, what string, most int, remedy string) error {
	switch {
	case p.all >= most:
		return object.NewTooManyError(what, most, remedy)
	case home != "" && p.theirs >= most/4:
		return object.NewTooManyError(what+", of your daemon's agents", most/4, remedy)
	case home != "" && p.others >= most/2:
		return object.NewTooManyError(what+", of other daemons' agents", most/2, remedy)
	}
	return nil
}

// checkRoomForLocalAgents refuses one more thing to an agent here, if the agents here have most
// of them.
func checkRoomForLocalAgents(home string, has int, what string, most int, remedy string) error {
	if home == "" && has >= most {
		return object.NewTooManyError(what, most, remedy)
	}
	return nil
}

// checkRoomForGuests refuses one more thing to an agent of another daemon, if the account has
// no room.
func checkRoomForGuests(a *budget.Account, home, remedy string) error {
	return checkAccountRoom(a, home, 1, object.CodeTooMany, remedy)
}

// checkAccountRoom refuses n more of what an account counts to an agent of another daemon, if there
// is no room. Only writes change what is held, and they run one after the other.
func checkAccountRoom(a *budget.Account, home string, n int, code, remedy string) error {
	if home == "" || n <= 0 {
		return nil
	}
	peer := peerAccountKey(home)
	if err := a.Reserve(peer, int64(n)); err != nil {
		return convertBudgetError(err, code, remedy)
	}
	a.Release(peer, int64(n))
	return nil
}

// One daemon keeps so many. Requests for more are refused.
const (
	maxWork     = 50_000  // intents, and as many tasks of agents here; the others' are in the budget
	maxChannels = 100_000 // of agents here
	maxAgents   = 10_000  // here
	maxOpen     = 10_000  // requests that are open in one channel
)
