package daemon

import "github.com/acpd/acpd/peer"

// listObservers returns the observers that are called for each message that passes.
func (d *Daemon) listObservers() observers {
	all := observers{d.drain, d.watch}
	if d.measures != nil {
		all = append(all, d.measures)
	}
	return all
}

// observers are called for each message that passes, one after the other.
type observers []peer.Observer

func (all observers) Began(p *peer.Passing) {
	for _, one := range all {
		one.Began(p)
	}
}

func (all observers) Ended(p *peer.Passing) {
	for _, one := range all {
		one.Ended(p)
	}
}
