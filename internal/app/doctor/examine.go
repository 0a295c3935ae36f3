package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/harness/setup"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/service"
	"github.com/acpd/acpd/internal/statedir"
)

// Options say what is examined.
type Options struct {
	Home     string // the state directory, absolute
	Version  string // of acpctl
	Daemon   *client.Client
	Channels *channels.Client
	Machine  Machine
	Setup    setup.Options       // of the user's agent programs
	Services []service.Installed // of the user
	OACPHome string              // the mailboxes that tools use here; "": as they find them

	Peer string // only this peer, in depth; "": everything
}

// examination is one run of [Examine].
type examination struct {
	*Options
	findings []Finding

	config  *config.Config      // as the file says; the defaults if it is not valid
	status  *client.Status      // nil: no daemon answers
	holder  *statedir.HeldError // who has the lock; nil: nobody, or the daemon that answers
	trusted []identity.Peer
}

// askPatience bounds one question to the daemon.
const askPatience = 5 * time.Second

// Examine looks at everything that o names, and returns what it found. It changes nothing. It
// blocks for some seconds where something does not answer. The error is for a peer that nobody
// has trusted, or that cannot be examined as no daemon answers.
func Examine(ctx context.Context, o Options) ([]Finding, error) {
	x := &examination{Options: &o, config: new(config.Config)}
	x.askDaemon(ctx)
	if o.Peer != "" {
		if x.status == nil {
			return nil, fmt.Errorf("doctor: no daemon answers, and only that can say how %s is reached: start it, or leave the peer out", o.Peer)
		}
		if err := x.examinePeer(ctx); err != nil {
			return nil, err
		}
		return x.findings, nil
	}
	if x.examineHome() {
		x.examineFiles()
		x.examineConfig()
		x.examineDisk(ctx)
		x.examineRecords()
		x.examineState()
		x.examineDaemon()
		x.examineIdentity()
		x.examinePort()
		x.examineBuffers()
		x.examineMulticast(ctx)
		x.examineClock()
		x.examineDescriptors()
		x.examineBudget(ctx)
		x.examinePeers(ctx)
		x.examineRelays(ctx)
		x.examineOwnerNotify(ctx)
		x.examineAgents()
		x.examineAwayAgents(ctx)
		x.examineKept(ctx)
	}
	x.examineServices()
	x.examinePrograms(ctx)
	x.examineMailboxes(ctx)
	x.examineChannels(ctx)
	return x.findings, nil
}

// askDaemon asks the daemon for its status. Without an answer, it finds out who has the lock.
func (x *examination) askDaemon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	if s, err := x.Daemon.Status(ctx); err == nil {
		x.status = s
	} else {
		x.holder = statedir.FindHolder(x.Home)
	}
}

// add records a finding.
func (x *examination) add(code Code, subject, what, remedy string) *Finding {
	x.findings = append(x.findings, Finding{Code: code, Severity: code.info().Severity, Subject: subject, What: what, Remedy: remedy})
	return &x.findings[len(x.findings)-1]
}

// has reports whether one of the codes was found.
func (x *examination) has(codes ...Code) bool {
	return slices.ContainsFunc(x.findings, func(f Finding) bool { return slices.Contains(codes, f.Code) })
}
