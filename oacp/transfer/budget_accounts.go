package transfer

import (
	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/kinds"
)

// accounts are those of the budget that mail is counted in.
type accounts struct {
	underWay *budget.Account // deliveries; each has a temporary file and its bytes in memory
	opened   *budget.Account // descriptors of those
	files    *budget.Account // stored and unread
	bytes    *budget.Account // of those, and of deliveries under way
	arrivals *budget.Account // rows in the store, by which a repeated message is known
}

// rows are those of the budget behind the accounts.
type rows struct{ underWay, opened, files, bytes, arrivals budget.Row }

// daemonRows returns the rows of a daemon's budget; descriptors is the sum of what peers may cause to be
// open, 0 for none.
func daemonRows(descriptors int64) rows {
	return rows{budget.MailUnderWay, budget.Descriptors.Within(descriptors), budget.MailFiles, budget.MailBytes, budget.MailLedger}
}

func openAccounts(b *budget.Book, r rows) accounts {
	return accounts{b.Open(r.underWay), b.Open(r.opened), b.Open(r.files), b.Open(r.bytes), b.Open(r.arrivals)}
}

// exceeded returns the refusal that a peer over its share gets; it may come again in a while.
func exceeded(err error, remedy string) error {
	return kinds.Errorf(kinds.Overloaded, "%v: %s", err, remedy)
}

const (
	remedyUnderWay = "send the next when one is stored"
	openedByEach   = 2 // descriptors of a delivery: the inbox and a file in it
	remedyUnread   = "its mail there waits to be read"
	remedyArrivals = "the oldest are forgotten after 30 days"
)
