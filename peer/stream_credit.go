package peer

import (
	"slices"
	"sync"
)

// creditBatcher gives back the peer's stream credit in batches: a MAX_STREAMS frame for
// every finished stream would double the packets of a ping-pong. The peer's limit
// exceeds what it may have open by more than a batch, so it never waits for one.
type creditBatcher struct {
	mu   sync.Mutex // guards done
	done []creditHolder
}

type creditHolder interface{ ReleaseStreamCredit() }

const creditBatch = 32

func (c *creditBatcher) releaseCredit(s creditHolder) {
	c.mu.Lock()
	c.done = append(c.done, s)
	var batch []creditHolder
	if len(c.done) >= creditBatch {
		batch = slices.Clone(c.done)
		clear(c.done)
		c.done = c.done[:0]
	}
	c.mu.Unlock()
	for _, s := range batch {
		s.ReleaseStreamCredit()
	}
}
