// Package serve is the verb serve of acpctl: an agent whose answers are those of a command, or of an
// agent program that runs without a person.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/profile"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// serveHelp is what acpctl serve --help says.
const serveHelp = `It runs CMD for each query and delegation, without a shell:

  stdin   the payload as JSON; with --prompt only the question or task
  env     ACP_ID ACP_FROM ACP_FROM_NAME ACP_FROM_AGENT (as that peer calls it) ACP_KIND
          ACP_DOMAIN ACP_THREAD ACP_HOPS ACP_DEADLINE_MS (empty if there is none).
          acpctl takes ACP_ID as the parent of what CMD sends with it. With ACP_SOCKET,
          ACP_AGENT and ACP_AGENT_KEY CMD can do what this agent may do, and nothing that
          administers the daemon. ACP_HOME is removed
  stdout  the answer. A JSON object with a summary is the whole response;
          anything else becomes the summary, and is marked as truncated if it is
          longer than a message can be
  exit    anything but 0 is an error. The peer gets only the exit code, unless
          --stderr=last adds the last lines of stderr, which may name files here

A delegation is accepted at once. Its result is sent when CMD ends, again and again until the other side has it. The summary
is the outcome, or stdout is a whole result: {"status": "completed", "outcome": "…"}.

A deadline or a cancellation ends CMD and all processes of its group: TERM, and KILL after 2 s. Serving survives a restart of
the daemon. CMD should not trust what peers ask, and should not pass it to a program as an option.

With ACP_SOCKET set, as in a container, it serves through that socket. If an agent was killed at work, its name is reserved
for ten minutes for whoever has its key. --key-file keeps the key, so that this agent is back at once.

It takes queries and delegations by default, and cancellations of the latter. It leaves notices to other agents, or in the
inbox.

With --profile, an agent program runs without a person instead of CMD: claude, codex or opencode. Arguments of its own come
after --, as in: acpctl serve --profile codex -- --config=model_provider="own". With --confine, CMD runs in the same way: it
reads the message as text, under a cover that says whose it is, and what it prints is the answer.

  It sees --dir, or else an empty folder, and its own program and credentials. It sees nothing else of yours, neither your
  home nor the state directory. --tools chooses what it may do there: none; read, the default with --dir; or work, which is
  to write and to run commands. bubblewrap confines it, or else Landlock; on macOS sandbox-exec. If nothing can confine it,
  it has no tools, and serve says so.
  It can connect to the TCP ports 443 and 53, and to those in URLs of its arguments and its variables; with --tools work
  also to free ports, for servers that its tests start, and to --ports. With --tools work it cannot change .git and other
  files that your programs obey, such as AGENTS.md and .vscode, so it does not commit. That needs bubblewrap; --landlock
  allows it without.
  Your MCP servers, hooks, skills and memory are off. Of your environment it gets the variables of --pass, and an agent
  program also those by which it logs in.
  It can read the files that were sent for the message before it, until it ends.
  Messages of one peer, agent and thread are one conversation, until 7 days after the last one. Messages without a thread
  each begin a new one.
  spending in config.yaml limits what it may cost; acpctl agents --spent shows what it has cost.`

// NewCmd returns the verb.
func NewCmd(f *frame.Frame) *cobra.Command {
	p := client.AttachParams{}
	s := &server{Frame: f}
	cmd := &cobra.Command{
		Use:   "serve [flags] [-- CMD ARGS…]",
		Short: "Answer queries and delegations with a command, or with an agent program",
		Example: `  acpctl serve --prompt -- ./answer.sh
  acpctl serve --profile claude --dir ~/src/parser
  acpctl serve --confine --dir ~/src/parser --name reviewer -- ./review.py
  acpctl serve --name reviewer --domain code.review -- ./review --json
  acpctl serve --kinds query --prompt -- sh -c 'grep -e "$(cat)" -- notes.txt'`,
		Long:              serveHelp,
		Args:              s.checkArgs,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), // files
		RunE:              func(cmd *cobra.Command, args []string) error { return s.run(cmd, args, p) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // CMD's own flags are its own
	flags.StringVar(&p.Name, "name", "", "name of the agent, for PEER/AGENT (default: that of CMD)")
	flags.StringSliceVar(&p.Kinds, "kinds", []string{kinds.KindQuery, kinds.KindDelegate}, "what to take: query, delegate or both")
	flags.StringVar(&p.About, "about", "", "what the agent is for, told to peers: one line of at most 120 characters")
	flags.StringSliceVar(&p.Domains, "domain", nil, "what to take only, like code.review (default: anything)")
	flags.IntVar(&p.MaxConcurrent, "concurrency", 4, "how many commands may run at once")
	flags.DurationVar(&s.timeout, "timeout", 0, "how long a command may run (default: until the deadline of the message)")
	flags.StringVar(&s.stderr, "stderr", stderrNone, "what peers get of a failing command's stderr: none, or last, its last lines")
	flags.Var((*shellpath.Flag)(&s.keyFile), "key-file", "where to keep the key of the agent, for the next start")
	flags.BoolVar(&s.prompt, "prompt", false, "stdin is only the question or task, as text")
	s.profile.addFlags(flags)
	fixed := map[string][]string{
		"kinds":       {kinds.KindQuery, kinds.KindDelegate},
		"stderr":      {stderrNone, stderrLast},
		"profile":     profile.ListNames(),
		"tools":       {string(profile.ToolsNone), string(profile.ToolsRead), string(profile.ToolsWork)},
		"confinement": {string(run.Bubblewrap), string(run.Landlock), string(run.Seatbelt), string(run.Outside), string(run.None)},
	}
	for flag, values := range fixed {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// checkArgs checks that there is a CMD, or with --profile only arguments of its program.
func (s *server) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case s.profile.name != "" && s.profile.confine:
		return frame.UsageErrorf("--profile and --confine: give one: --confine runs CMD as --profile runs an agent program")
	case s.profile.name != "" && len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		return frame.UsageErrorf("--profile runs an agent program: give no CMD; arguments of its own begin with a hyphen")
	case s.profile.name != "":
		return nil
	}
	return frame.NamedArgs("CMD")(cmd, args[:min(1, len(args))])
}

// run checks the flags, and serves until a signal.
func (s *server) run(cmd *cobra.Command, args []string, p client.AttachParams) error {
	if s.timeout < 0 || p.MaxConcurrent < 1 {
		return frame.UsageErrorf("--timeout, --concurrency: expected a duration, and 1 or more")
	}
	h, err := s.newHandler(p.Kinds)
	if err = cmp.Or(err, frame.CheckAgentName(p.Name)); err != nil {
		return err
	}
	if err := kinds.CheckAbout("--about", p.About); err != nil {
		return frame.UsageErrorf("%v", err)
	}
	if cmd.Flags().Changed("domain") && (len(p.Domains) == 0 || slices.Contains(p.Domains, "")) {
		return frame.UsageErrorf("--domain: empty: give a value, or leave the flag out to take anything")
	}
	if s.stderr != stderrNone && s.stderr != stderrLast {
		return frame.UsageErrorf("--stderr: %q: expected %s or %s", s.stderr, stderrNone, stderrLast)
	}
	if s.profile.isWanted() {
		return s.serveProfile(cmd, args, p, h)
	}
	for _, name := range profileFlags {
		if cmd.Flags().Changed(name) {
			return frame.UsageErrorf("--%s is for --profile and --confine: give one of them too, or leave it out", name)
		}
	}
	if p.Name == "" {
		p.Name = makeAgentName(args[0])
	}
	path, err := exec.LookPath(args[0])
	switch {
	case err != nil && errors.Is(err, fs.ErrPermission):
		return frame.Instead{Err: fmt.Errorf("CMD: %s cannot be run", client.Line(args[0])), Type: "chmod +x " + shellpath.Quote(client.Line(args[0]))}
	case err != nil && strings.Contains(args[0], "/"):
		return frame.Instead{Err: fmt.Errorf("CMD: there is no %s here", client.Line(args[0])), Type: "acpctl serve --prompt -- ./answer.sh, with the path of a program that is there"}
	case err != nil:
		return frame.Instead{Err: fmt.Errorf("CMD: there is no program %s in PATH", client.Line(args[0])), Type: "acpctl serve --prompt -- ./answer.sh, with a slash for a program in this folder"}
	}
	s.argv = append([]string{path}, args[1:]...)
	return s.serveUntilSignal(cmd.Context(), p, h)
}

// newHandler returns the handler of the kinds to take.
func (s *server) newHandler(take []string) (h client.Handler, err error) {
	if len(take) == 0 {
		return h, frame.UsageErrorf("--kinds: expected query, delegate or both")
	}
	for _, k := range take {
		switch k {
		case kinds.KindQuery:
			h.Query = s.answerQuery
		case kinds.KindDelegate:
			h.Delegate, h.Cancel = s.acceptDelegation, s.cancelTask
		default:
			return h, frame.UsageErrorf("--kinds: %q: expected query, delegate or both", k)
		}
	}
	return h, nil
}

// makeAgentName makes a legal name for an agent from the file name of its command.
func makeAgentName(command string) string {
	base := filepath.Base(command)
	base = strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base)))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base)
	name = strings.Trim(name[:min(len(name), 32)], "-")
	for _, name := range []string{name, strings.TrimRight("agent-"+name[:min(len(name), 26)], "-")} {
		if identity.CheckName(name) == nil && !identity.IsRoleName(name) {
			return name
		}
	}
	return "agent"
}

// These causes end work before its command has ended.
var (
	errStopping  = kinds.Errorf(kinds.NoAgent, "the agent is being stopped: try again when it is back")
	errCalledOff = kinds.Errorf(kinds.Cancelled, "the delegation was cancelled")
)

// lastWords bounds how long results are still sent after serving was asked to end.
const lastWords = 5 * time.Second

// serveUntilSignal attaches an agent and answers until a signal. Then it takes nothing more,
// ends its commands, tells the senders of their delegations, and detaches.
func (s *server) serveUntilSignal(ctx context.Context, p client.AttachParams, h client.Handler) (err error) {
	stopped, release := signal.NotifyContext(ctx, frame.ListEndSignals()...)
	defer release()
	attached, detach := context.WithCancel(context.WithoutCancel(ctx))
	defer detach()
	s.working, s.stopWork = context.WithCancelCause(attached)
	defer s.stopWork(nil)
	s.callOff = make(map[wire.MessageID]context.CancelCauseFunc)

	s.ShareStreams()
	if s.socket, err = s.FindAgentSocket(); err != nil {
		return err
	}
	s.name = p.Name
	if p.Key, err = readKeyFile(s.keyFile); err != nil {
		return err
	}
	s.Daemon.SpeakAs = client.SpeakParams{} // an agent of its own, also below another
	if err := s.failAbandonedTasks(stopped, p.Name, p.Key); err != nil {
		return s.explainKeyError(err)
	}
	takes := strings.Join(p.Kinds, ", ")
	h.OnAttached = func() {
		s.attachments.ComeRound()
		if s.runner != nil {
			s.explainConfinement()
			go s.forgetUntrustedPeers(attached)
		}
		if err := writeKeyFile(s.keyFile, s.Daemon.Key()); err != nil {
			s.logLine("--key-file: %v", err)
		}
		s.logLine("serving as %s: %s; Ctrl-C ends", s.name, takes)
	}
	p.Kinds = nil // those that h takes
	ended := make(chan error, 1)
	go func() { ended <- s.Daemon.Attach(attached, p, h) }()
	select {
	case err := <-ended:
		s.stopAndWait()
		return s.explainKeyError(err)
	case <-stopped.Done():
	}
	s.stopAndWait()
	detach()
	<-ended
	if ctx.Err() != nil {
		return frame.Exit(frame.ExitInterrupted)
	}
	return nil
}

// stopAndWait ends all work and returns when it has ended.
func (s *server) stopAndWait() {
	s.mu.Lock()
	s.stopWork(errStopping)
	s.mu.Unlock()
	s.work.Wait()
}
