package cli

import (
	"context"
	"net"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/mcp"
)

func (a *app) newMCPCmd() *cobra.Command {
	var attach bool
	var name, listen string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Give an agent program tools to ask and answer other agents",
		Example: `  claude mcp add acp -- acpctl mcp --attach
  acpctl mcp --http 127.0.0.1:0                       for a client that speaks HTTP`,
		Long: `It speaks the Model Context Protocol (MCP) on standard input and output with the agent program that starts it. acpctl setup
writes that into the configuration of Claude Code, Codex and OpenCode. In that of Cursor, Gemini or another program, write it
yourself; the member is called mcpServers there, or servers in VS Code:

  {"mcpServers": {"acp": {"command": "acpctl", "args": ["mcp", "--attach"]}}}

The tools:

  acp_peers     who is there, and who answers now
  acp_query     ask and wait; after 45 s it goes on in the background
  acp_delegate  hand over work
  acp_notify    tell without an answer
  acp_task      how it stands with a query or delegation: wait, read, cancel
  acp_file      send a file, and take one that came
  acp_inbox     read what came, and remove what was read
  acp_reply     answer it

It uses the socket of the agents' folder, which ACP_SOCKET names or which is below the state directory. So it can do what
agents do, and nothing that administers the daemon. Without --attach the session only calls others. With it the session is
an agent that others can ask: claude, claude-2 and so on by its program, or --name. The owner of the daemon decides with
acpctl wake whether a message wakes it; else the message waits for the session's next turn.

It needs no daemon to start, and survives a restart of the daemon. Queries that wait are lost
with the session; delegations are the daemon's, and known to a session that is attached
also after a restart of the daemon.`,
		Args: frame.NamedArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name != "" && !attach {
				return frame.UsageErrorf("--name is the name of the agent: give --attach too")
			}
			s, err := a.newMCPServer(name, attach)
			if err != nil {
				return err
			}
			return a.serveMCP(cmd.Context(), s, listen)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&attach, "attach", false, "let others reach this session: it is an agent")
	f.StringVar(&name, "name", "", "name of the agent, for PEER/AGENT (default: that of the program)")
	f.StringVar(&listen, "http", "", "serve on this address of loopback instead, and print the URL, which is a secret")
	return cmd
}

// newMCPServer returns a server that calls by the agents' socket. With attach its session is an agent of
// that name, "" for the program's.
func (a *app) newMCPServer(name string, attach bool) (*mcp.Server, error) {
	if err := frame.CheckAgentName(name); err != nil {
		return nil, err
	}
	s := &mcp.Server{
		Daemon: &a.Daemon, Version: a.version,
		Log: func(format string, args ...any) { a.Warn(format, args...) },
	}
	var err error
	if a.Daemon.Socket, err = a.FindAgentSocket(); err != nil {
		return nil, err
	}
	if parent := os.Getenv("ACP_ID"); parent != "" {
		if s.Parent, err = frame.ParseMessageID("ACP_ID", parent); err != nil {
			return nil, err
		}
	}
	if attach {
		a.Daemon.SpeakAs = client.SpeakParams{} // an agent of its own, also below another
		s.Attach = &client.AttachParams{Name: name}
		s.FindSession = func(ctx context.Context, program, version string) (harness.Session, error) {
			return harness.FindSession(ctx, harness.Environment{Client: program, Version: version, Reply: s.ReplyTo})
		}
	}
	return s, nil
}

// serveMCP serves until the program closes the session, or a signal.
func (a *app) serveMCP(ctx context.Context, s *mcp.Server, listen string) error {
	ctx, release := signal.NotifyContext(ctx, frame.ListEndSignals()...)
	defer release()
	a.ShareStreams()
	defer a.Daemon.Close()
	var served error
	if listen == "" {
		served = s.ServeStreams(ctx, a.In, a.Out)
	} else {
		addr, err := net.ResolveTCPAddr("tcp", listen)
		if err == nil && !addr.IP.IsLoopback() {
			return frame.UsageErrorf("--http: %s is not on loopback: expected an address like 127.0.0.1:0", listen)
		}
		var l net.Listener
		if err == nil {
			l, err = net.Listen("tcp", addr.String())
		}
		if err != nil {
			return frame.UsageErrorf("--http: %v: expected an address like 127.0.0.1:0", err)
		}
		served = s.ServeHTTP(ctx, l, func(url string) { a.PrintLine("%s", url) })
	}
	if ctx.Err() != nil {
		return nil // it was to end
	}
	return served
}
