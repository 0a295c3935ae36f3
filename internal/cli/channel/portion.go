package channel

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/acpd/acpd/kinds"
)

// maxHostsBytes bounds what a command reads of all lists of channels of other machines.
const maxHostsBytes = 64 << 20

// errPortion is the error of a list of which its machine's portion is used up.
var errPortion error = kinds.Errorf(kinds.TooLarge, "not in this list: the lists of its machine are longer than a command reads: name an intent, or the channel by its id")

// portion is how many bytes of a machine's lists a command still reads.
type portion struct{ left atomic.Int64 }

// hostOf returns the digits of the machine that an intent lives on.
func hostOf(intent string) string {
	digits, _, _ := strings.Cut(strings.TrimPrefix(intent, intentID), "_")
	return digits
}

// portionsOf divides what a command reads among the machines of intents, by their digits.
func portionsOf(intents []string) map[string]*portion {
	all := make(map[string]*portion)
	for _, id := range intents {
		all[hostOf(id)] = new(portion)
	}
	for _, p := range all {
		p.left.Store(int64(maxHostsBytes / len(all)))
	}
	return all
}

type portionKey struct{}

// withPortion has the requests of ctx read no more than is left of p.
func withPortion(ctx context.Context, p *portion) context.Context {
	return context.WithValue(ctx, portionKey{}, p)
}

// portionOf returns body as far as the portion of ctx reaches, all of it if ctx has none.
// Beyond, a read fails with errPortion.
func portionOf(ctx context.Context, body io.Reader) io.Reader {
	if p, ok := ctx.Value(portionKey{}).(*portion); ok {
		return portioned{body, p}
	}
	return body
}

type portioned struct {
	io.Reader
	p *portion
}

func (r portioned) Read(b []byte) (int, error) {
	if r.p.left.Load() <= 0 {
		return 0, errPortion
	}
	n, err := r.Reader.Read(b)
	r.p.left.Add(-int64(n))
	return n, err
}
