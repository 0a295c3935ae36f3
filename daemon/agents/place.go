package agents

import (
	"errors"
	"strings"

	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// ReservePlace chooses the agent for a query or delegate of a peer. One place of each agent
// is left for other peers, while there are any, and half of those of a session in any case. Half of
// all places of an agent are left for peers that the owner trusts, while there are any.
func (s *Service) ReservePlace(from identity.ID, kind, domain, name string) (*registry.Reservation, error) {
	p, err := s.reservePlace(from, kind, domain, name)
	if errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
		s.awaited.add(from, name)
	}
	return p, err
}

func (s *Service) reservePlace(from identity.ID, kind, domain, name string) (*registry.Reservation, error) {
	p, err := s.Registry.ReserveAgent(from, false, kind, domain, name)
	if err != nil && name == "" && isNoAgentError(err) {
		if name, err = s.Sessions.ChooseSession(from, kind, domain, err); err == nil {
			p, err = s.Registry.ReserveAgent(from, false, kind, domain, name)
		}
	}
	if err != nil && name != "" && isNoAgentError(err) {
		err = s.suggestAgent(from, kind, name, err)
	}
	if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
		return p, err
	}
	if !s.Node.IsAnyConnected(func(id identity.ID) bool { return id != from }) {
		p, err = s.Registry.ReserveAgent(from, true, kind, domain, name)
		if _, noPlace := errors.AsType[*registry.ShareError](err); !noPlace {
			return p, err
		}
	}
	s.places.CountRefusal(from)
	e := kinds.Errorf(kinds.Overloaded, "%v: try again later", err)
	e.RetryAfterMS = registry.RetryAfterMS
	return nil, e
}

// suggestAgent returns the error for a name that none of the agents has that take the kind. A sender
// that may discover may know which agents there are: the error names those whose name is close, or
// else some of them. For any other sender the error is why.
func (s *Service) suggestAgent(from identity.ID, kind, name string, why error) error {
	sender, ok := s.Trust.FindPeer(from)
	if !ok || !s.Permissions.MayDiscover(sender) {
		return why
	}
	var names []string
	for _, a := range s.Registry.FindTakers(kind, "", "") {
		names = append(names, a.Name)
	}
	if len(names) == 0 {
		return why
	}
	some := "name one that does, like " + strings.Join(names[:min(3, len(names))], " or ")
	return kinds.Errorf(kinds.NoAgent, "no agent %q is attached that takes this: %s", name, identity.FormatSuggestion(name, names, some))
}

// isNoAgentError reports whether no agent that is attached takes a query or delegate.
func isNoAgentError(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && (e.Code == kinds.NoAgent || e.Code == kinds.UnknownDomain)
}
