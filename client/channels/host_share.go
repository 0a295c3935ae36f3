package channels

import (
	"io"
	"sync/atomic"

	"github.com/acpd/acpd/kinds"
)

// maxHostsBytes bounds what is read for one call of the lists of all other machines together.
const maxHostsBytes = 64 << 20

// errShareUsedUp is the error of a list whose machine has used up its share.
var errShareUsedUp error = kinds.Errorf(kinds.TooLarge, "not in this list: the lists of its machine are longer than a command reads: name an intent, or the channel by its id, others of that machine perhaps too")

// hostShare is how many bytes may still be read of the lists of one machine.
type hostShare struct{ left atomic.Int64 }

// newHostShares returns an equal share for each machine that hosts some of these intents, by
// [HostDigits].
func newHostShares(intents []string) map[string]*hostShare {
	all := make(map[string]*hostShare)
	for _, id := range intents {
		all[HostDigits(id)] = new(hostShare)
	}
	for _, s := range all {
		s.left.Store(int64(maxHostsBytes / len(all)))
	}
	return all
}

// sharedReader takes what it reads from a share, and fails with errShareUsedUp when that is used
// up.
type sharedReader struct {
	io.Reader
	share *hostShare
}

func (r sharedReader) Read(b []byte) (int, error) {
	if r.share.left.Load() <= 0 {
		return 0, errShareUsedUp
	}
	n, err := r.Reader.Read(b)
	r.share.left.Add(-int64(n))
	return n, err
}
