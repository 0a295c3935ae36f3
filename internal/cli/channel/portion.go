package channel

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/acpd/acpd/kinds"
)

// maxHostsBytes bounds what a command reads of the lists of all other machines together.
const maxHostsBytes = 64 << 20

// errPortionUsedUp is the error of a list whose machine has used up its portion.
var errPortionUsedUp error = kinds.Errorf(kinds.TooLarge, "not in this list: the lists of its machine are longer than a command reads: name an intent, or the channel by its id")

// portion is how many bytes a command still reads of the lists of one machine.
type portion struct{ left atomic.Int64 }

// hostDigits returns the digits of the machine that an intent lives on.
func hostDigits(intent string) string {
	digits, _, _ := strings.Cut(strings.TrimPrefix(intent, intentPrefix), "_")
	return digits
}

// divideAmongHosts returns an equal portion for each machine of these intents, by its digits.
func divideAmongHosts(intents []string) map[string]*portion {
	all := make(map[string]*portion)
	for _, id := range intents {
		all[hostDigits(id)] = new(portion)
	}
	for _, p := range all {
		p.left.Store(int64(maxHostsBytes / len(all)))
	}
	return all
}

type portionKey struct{}

// withPortion returns a context whose requests read no more than is left of p.
func withPortion(ctx context.Context, p *portion) context.Context {
	return context.WithValue(ctx, portionKey{}, p)
}

// limitToPortion returns a reader of body that fails with errPortionUsedUp when the portion of
// ctx is used up. Without a portion it returns body.
func limitToPortion(ctx context.Context, body io.Reader) io.Reader {
	if p, ok := ctx.Value(portionKey{}).(*portion); ok {
		return portionReader{body, p}
	}
	return body
}

type portionReader struct {
	io.Reader
	p *portion
}

func (r portionReader) Read(b []byte) (int, error) {
	if r.p.left.Load() <= 0 {
		return 0, errPortionUsedUp
	}
	n, err := r.Reader.Read(b)
	r.p.left.Add(-int64(n))
	return n, err
}
