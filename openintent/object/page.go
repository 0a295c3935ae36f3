package object

// MaxEntries is how many there may be of one intent: access entries, assignments, coordinators, tasks, open
// channels, agents of one other daemon; and of one channel: members.
const MaxEntries = 1_000

// Page selects a part of a list: at most Limit elements, after the first Offset.
type Page struct{ Limit, Offset int }

// CheckBounds returns an error unless the list may have such a page.
func (p Page) CheckBounds() error {
	switch {
	case p.Limit < 1 || p.Limit > MaxList:
		return NewFieldError("limit", "1 to %d", MaxList)
	case p.Offset < 0 || p.Offset > 1<<30:
		return NewFieldError("offset", "0 or more")
	}
	return nil
}

// CutPage returns the part of a list that the page has.
func CutPage[T any](list []T, p Page) []T {
	return list[min(p.Offset, len(list)):min(p.Offset+p.Limit, len(list))]
}
