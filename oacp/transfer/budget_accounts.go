package transfer

import (
	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/kinds"
)

// accounts holds the accounts of the budget in which mail is counted.
type accounts struct {
	underWay *budget.Account // deliveries; each has a temporary file and its bytes in memory
	opened   *budget.Account // descriptors of those
	files    *budget.Account // stored and unread
	bytes    *budget.Account // of those, and of deliveries under way
	arrivals *budget.Account // rows in the store, by which a repeated message is recognised
}

// budgetRows holds the rows of the budget behind the accounts.
type budgetRows struct{ underWay, opened, files, bytes, arrivals budget.Row }

// newBudgetRows returns the rows of a daemon's budget. descriptors bounds the descriptors that
// peers may cause to be open; zero means no bound.
func newBudgetRows(descriptors int64) budgetRows {
	return budgetRows{budget.MailUnderWay, budget.Descriptors.WithSum(descriptors), budget.MailFiles, budget.MailBytes, budget.MailLedger}
}

func openBudgetAccounts(b *budget.Book, r budgetRows) accounts {
	return accounts{b.OpenAccount(r.underWay), b.OpenAccount(r.opened), b.OpenAccount(r.files), b.OpenAccount(r.bytes), b.OpenAccount(r.arrivals)}
}

// newOverloadedError returns the refusal for a peer over its share, which may try again later.
func newOverloadedError(err error, remedy string) error {
	return kinds.Errorf(kinds.Overloaded, "%v: %s", err, remedy)
}

const (
	remedyUnderWay = "send the next when one is stored"
	openedByEach   = 2 // descriptors of a delivery: the inbox and a file in it
	remedyUnread   = "its mail there waits to be read"
	remedyArrivals = "the oldest are forgotten after 30 days"
)
