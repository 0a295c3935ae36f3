package relays

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/relay"
)

// cloneTime is how long the status shows that another process uses this identity.
const cloneTime = 10 * time.Minute

// describe returns a row of relay.list.
func (u *usedRelay) describe() client.Relay {
	row := client.Relay{Name: u.Name, URL: u.URL, Source: u.source, Login: u.login(), Share: u.Share, State: client.RelayUnused}
	if u.link == nil {
		if u.failure != nil {
			row.Error = trimName(u.Name, ownwords.Of(u.failure))
		}
		return row
	}
	s := u.link.State()
	row.Since, row.Server, row.RTTUS = client.Time{Time: s.Since}, s.Server, uint64(s.RTT.Microseconds())
	row.PacketsIn, row.PacketsOut, row.Dropped = s.In.Packets, s.Out.Packets, s.DroppedIn+s.DroppedOut
	row.Clone = !s.Clone.IsZero() && time.Since(s.Clone) < cloneTime
	row.State = toState(&s)
	if row.State == client.RelayRefused && s.Refused.After(s.Since) {
		row.Since = client.Time{Time: s.Refused} // before that it was down
	}
	wrong := s.LastError
	if row.State == client.RelayUp {
		wrong = s.Limit // whatever was wrong before
	}
	if wrong != nil {
		row.Error = trimName(u.Name, ownwords.Of(wrong))
	}
	return row
}

// checkNextLogin returns what is wrong with the file of credentials, which is read at the next login to a relay.
func (r *Service) checkNextLogin(s *config.Relay) error {
	file, err := s.CheckCredentials(r.Dir)
	if err != nil || file == "" {
		return err
	}
	return relay.CheckCredentials(file)
}

// toState returns the state of a relay as the local API shows it.
func toState(s *relay.State) client.RelayState {
	isNew := s.LastError != nil && !s.LastErrorAt.Before(s.Since)
	switch refused := isNew && errors.Is(s.LastError, relay.ErrRefused); {
	case refused, s.Standing == relay.Deaf:
		return client.RelayRefused
	case s.Standing == relay.Connected:
		return client.RelayUp
	case isNew:
		return client.RelayDown
	}
	return client.RelayConnecting
}

// trimName returns what is wrong with a relay without the relay's name, since a row has that already.
func trimName(name, text string) string { return strings.TrimPrefix(text, "relay "+name+": ") }

// login returns how this daemon logs in.
func (s relaySettings) login() client.RelayLogin {
	switch {
	case s.Credentials != "":
		return client.LoginCredentials
	case s.Token != "":
		return client.LoginToken
	case s.User != "":
		return client.LoginPassword
	}
	return client.LoginNkey
}

// List returns the rows of relay.list. It reads the files of credentials.
func (r *Service) List() []client.Relay {
	rows := []client.Relay{}
	for _, u := range r.list() {
		row := u.describe()
		if row.State == client.RelayUp && row.Error == "" {
			if err := r.checkNextLogin(&u.Relay); err != nil {
				row.Error = fmt.Sprintf("it stays up until its next login: %v", err)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// ListFamilies returns the metrics of relays. At most config.MaxRelays are in use. Without a relay they have no
// series.
func (r *Service) ListFamilies() []metrics.Family {
	rows := slices.DeleteFunc(r.List(), func(row client.Relay) bool { return row.State == client.RelayUnused })
	each := func(add func(t *metrics.Text, row *client.Relay, name metrics.Label)) func(*metrics.Text) {
		return func(t *metrics.Text) {
			for i := range rows {
				add(t, &rows[i], metrics.Label{Name: "relay", Value: rows[i].Name})
			}
		}
	}
	return []metrics.Family{
		{Name: "acpd_relay_connected", Type: metrics.Gauge, Help: "1 if packets come and go over the relay, else 0.", Write: each(func(t *metrics.Text, row *client.Relay, name metrics.Label) {
			up := 0.0
			if row.State == client.RelayUp {
				up = 1
			}
			t.Add(up, name)
		})},
		{Name: "acpd_relay_packets_total", Type: metrics.Counter, Help: "Packets over the relay, by direction.", Write: each(func(t *metrics.Text, row *client.Relay, name metrics.Label) {
			t.Add(float64(row.PacketsIn), name, metrics.Label{Name: "direction", Value: string(client.In)})
			t.Add(float64(row.PacketsOut), name, metrics.Label{Name: "direction", Value: string(client.Out)})
		})},
		{Name: "acpd_relay_packets_dropped_total", Type: metrics.Counter, Help: "Packets that this daemon has dropped on their way to the relay or from it.", Write: each(func(t *metrics.Text, row *client.Relay, name metrics.Label) {
			t.Add(float64(row.Dropped), name)
		})},
	}
}
