package traffic

// leastPlaces is the least length of order.places that is not 0.
const leastPlaces = 64

// order has the entries that are kept in the order of their numbers. One that is taken out of the middle
// leaves a hole, until the holes are half of all.
type order struct {
	places []place // a ring; its length is a power of two
	head   int     // of the first
	count  int     // places that are used, holes included; the first is none
	holes  int
}

type place struct {
	number uint64
	first  uint32 // block of the entry; 0: a hole
}

func (o *order) at(i int) *place { return &o.places[(o.head+i)&(len(o.places)-1)] }

// entries returns how many entries there are.
func (o *order) entries() int { return o.count - o.holes }

// push appends an entry, whose number is above all others.
func (o *order) push(number uint64, first uint32) {
	switch {
	case o.count == len(o.places) && 2*o.holes <= o.count:
		o.rebuild(max(leastPlaces, 2*len(o.places)))
	case o.count == len(o.places):
		o.rebuild(len(o.places))
	default:
		o.shrink()
	}
	o.count++
	*o.at(o.count - 1) = place{number, first}
}

// shrink has no more than eight places for each entry, and leastPlaces.
func (o *order) shrink() {
	size := len(o.places)
	for size > leastPlaces && size > 8*o.entries() {
		size /= 2
	}
	if size < len(o.places) {
		o.rebuild(size)
	}
}

// rebuild moves the entries together, into so many places.
func (o *order) rebuild(size int) {
	to := order{places: o.places, head: o.head}
	if size != len(o.places) {
		to = order{places: make([]place, size)}
	}
	for i := range o.count {
		if p := *o.at(i); p.first != 0 { // never behind where it goes
			*to.at(to.count) = p
			to.count++
		}
	}
	*o = to
}

// search returns which is the first place whose number is above after; count: none is.
func (o *order) search(after uint64) int {
	from, to := 0, o.count
	for from < to {
		if middle := (from + to) / 2; o.at(middle).number > after {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from
}

// remove takes out an entry, which is there.
func (o *order) remove(number uint64) {
	i := 0
	if o.at(0).number != number {
		i = o.search(number - 1)
	}
	o.at(i).first = 0
	o.holes++
	for o.count > 0 && o.at(0).first == 0 {
		o.head, o.count, o.holes = (o.head+1)&(len(o.places)-1), o.count-1, o.holes-1
	}
}
