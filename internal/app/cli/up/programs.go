package up

import (
	"context"
	"slices"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/setup"
)

// connectPrograms connects each agent program that is installed, by the questions of acpctl setup.
func (u *run) connectPrograms(ctx context.Context) error {
	all, err := u.connect.FindPrograms(ctx)
	if err != nil {
		return err
	}
	u.programs = slices.DeleteFunc(all, func(s setup.Status) bool { return s.Path == "" })
	if len(u.programs) == 0 {
		u.Tell("No agent program is installed here: acpctl setup lists those that can be connected. Any other program can be an agent by acpctl serve.")
	}
	for i := range u.programs {
		s := &u.programs[i]
		again := "acpctl setup " + s.Program
		switch {
		case s.Connected == setup.Connected:
			u.Tell("%s is connected.", s.Title)
			continue
		case s.Connected == setup.Foreign:
			u.leaveOut("%s is not connected: %s", s.Title, s.Problem)
			continue
		case !u.yes && !u.asks:
			u.leaveOut("%s is not connected: %s, or acpctl up --yes", s.Title, again)
			continue
		}
		u.Tell("\n%s is installed, and not connected.", s.Title)
		done, err := u.connect.ConnectProgram(ctx, s.Program, u.yes)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // a broken file of one program keeps nobody from the rest
			e, _ := u.ClassifyError(ctx, err)
			u.leaveOut("%s is not connected: %s", s.Title, e.Message)
		case !done:
			u.leaveOut("%s is not connected: %s", s.Title, again)
		default:
			s.Connected = setup.Connected
			u.connected = append(u.connected, *s)
		}
	}
	return nil
}

// listConnected returns the programs that are connected.
func (u *run) listConnected() []setup.Status {
	return slices.DeleteFunc(slices.Clone(u.programs), func(s setup.Status) bool { return s.Connected != setup.Connected })
}

// findAgentName returns the agent name of the first session of a program.
func findAgentName(s *setup.Status) string {
	if i := slices.Index(s.Command, "--name"); i >= 0 && i+1 < len(s.Command) {
		return client.Line(s.Command[i+1])
	}
	return s.Program
}
