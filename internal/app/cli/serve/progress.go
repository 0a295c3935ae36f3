package serve

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// progressEvery is the time between two partial results of a delegation. A daemon lets four a
// second out.
const progressEvery = 500 * time.Millisecond

// progressReporter sends what an agent program says while it works on a delegation, as partial
// results: the latest word, when it is time for one.
type progressReporter struct {
	cancel context.CancelFunc
	done   chan struct{}
	wake   pace.Signal

	mu     sync.Mutex
	latest string
}

// startProgress begins to send partial results of a delegation. The caller stops it.
func (s *server) startProgress(ctx context.Context, ref wire.MessageID) *progressReporter {
	ctx, cancel := context.WithCancel(ctx)
	p := &progressReporter{cancel: cancel, done: make(chan struct{}), wake: pace.NewSignal()}
	go func() {
		defer close(p.done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			}
			text := p.take()
			payload := kinds.EncodePayload(&kinds.Result{Status: "partial", Message: text})
			// One that does not arrive is made up for by the next.
			_, _ = s.Daemon.SendResult(ctx, client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: ref, Payload: payload})
			if pace.Sleep(ctx, progressEvery) != nil {
				return
			}
		}
	}()
	return p
}

// hear takes a text of the agent program.
func (p *progressReporter) hear(text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > kinds.MaxProgressMessage {
		text = string(trimPartialRune([]byte(text[:kinds.MaxProgressMessage])))
	}
	p.mu.Lock()
	p.latest = text
	p.mu.Unlock()
	p.wake.Set()
}

func (p *progressReporter) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// stop ends the sending, so that nothing partial comes after the end. A nil one has ended.
func (p *progressReporter) stop() {
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
}
