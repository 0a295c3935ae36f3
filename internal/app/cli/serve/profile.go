package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/profile"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// profileOptions are the flags of serve that are about confined runs.
type profileOptions struct {
	name        string // of a profile
	confine     bool   // CMD runs as the program of a profile does
	dir         string
	tools       string
	model       string
	pass        []string // variables that runs get
	read        []string // files and folders that runs see
	acp         bool     // runs may speak to the daemon
	confinement string
	landlock    bool   // whether Landlock without bubblewrap may confine a run that changes the owner's folder
	ports       []uint // to which it may connect
	runs        string // where conversations are kept
}

// profileFlags need --profile or --confine.
var profileFlags = []string{"dir", "tools", "model", "pass", "read", "acp", "confinement", "landlock", "ports", "runs"}

func (o *profileOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.name, "profile", "", "run this agent program: "+strings.Join(profile.ListNames(), ", "))
	f.BoolVar(&o.confine, "confine", false, "run CMD as an agent program of --profile is run: confined, with a home of its own")
	f.Var((*shellpath.Flag)(&o.dir), "dir", "the folder that runs see (default: an empty one)")
	f.StringVar(&o.tools, "tools", "", "what they may do there: none, read or work (default: read with --dir, none without)")
	f.StringVar(&o.model, "model", "", "the model that the agent program uses (default: its own choice)")
	f.StringSliceVar(&o.pass, "pass", nil, "variables of your environment that runs get, beside those of the profile")
	f.StringSliceVar(&o.read, "read", nil, "more files and folders that runs may read, absolute or below ~/")
	f.BoolVar(&o.acp, "acp", false, "runs may speak to the daemon as this agent; needs bubblewrap, and Linux 6.12 or later")
	f.StringVar(&o.confinement, "confinement", "", "what confines runs: bubblewrap, landlock, seatbelt; outside if a container made for them does; none (default: the best there is)")
	f.BoolVar(&o.landlock, "landlock", false, "with --tools work: also where only Landlock confines runs, which lets them change .git and whatever your programs obey")
	f.UintSliceVar(&o.ports, "ports", nil, "with --tools work: TCP ports to which runs may connect, on this machine too, like 3000,5432")
	f.Var((*shellpath.Flag)(&o.runs), "runs", "where their conversations are kept (default: the folder runs of the state directory)")
}

func (o *profileOptions) isWanted() bool { return o.name != "" || o.confine }

const (
	runsFolder   = "runs" // in the state directory: conversations, by profile
	agentKeyFile = "agent.key"

	forgetEvery = 10 * time.Minute
)

// serveProfile serves with an agent program, or with a command that is run as one.
func (s *server) serveProfile(cmd *cobra.Command, args []string, p client.AttachParams, h client.Handler) error {
	state, err := s.findOwnerDir()
	if err != nil {
		return err
	}
	if s.profile.confine && p.Name == "" {
		p.Name = makeAgentName(args[0])
	}
	prof, err := s.profile.makeProfile(state, p.Name, args)
	if err != nil {
		return frame.UsageErrorf("%v", err)
	}
	if s.prompt {
		return frame.UsageErrorf("--prompt: leave it out: with --profile and --confine a program always gets only the text, under a cover that says whose it is")
	}
	if s.socket, err = s.FindAgentSocket(); err != nil {
		return err
	}
	if p.Name == "" {
		p.Name = prof.Name
	}
	if s.runner, err = s.newRunner(cmd.Context(), prof, state); err != nil {
		return err
	}
	defer s.runner.Conversations.Close()
	if s.keyFile == "" {
		s.keyFile = filepath.Join(s.runner.Conversations.Folder(), agentKeyFile)
	}
	// It needs nothing that only the owner may use.
	s.Daemon.Socket, s.AsGuest = s.socket, true
	return s.serveUntilSignal(cmd.Context(), p, h)
}

// findOwnerDir returns the daemon's state directory, or "" if this process is a guest.
func (s *server) findOwnerDir() (string, error) {
	if s.AsGuest {
		return "", nil
	}
	return s.FindStateDir()
}

// makeProfile returns how the agent program of --profile, or else the command, is run.
func (o *profileOptions) makeProfile(state, agent string, args []string) (p *profile.Profile, err error) {
	if o.confine {
		p = profile.NewCommand(agent, args)
	} else if p, err = profile.New(o.name); err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	} else {
		p.More = args
	}
	// Acpd up to 0.1.0 took a file of this name for the profile.
	if own := filepath.Join(state, statedir.ProfilesName, o.name+".yaml"); state != "" && !o.confine {
		if _, err := os.Lstat(own); err == nil {
			return nil, fmt.Errorf("--profile: %s would have no effect, since profiles of your own are gone: remove it, or run its program with acpctl serve --confine -- CMD", own)
		}
	}
	p.Pass = append(p.Pass, o.pass...)
	p.Read, p.ACP = o.read, o.acp
	return p, p.Check()
}

// newRunner returns what runs a profile, with the flags of serve.
// The caller closes its Conversations.
func (s *server) newRunner(ctx context.Context, p *profile.Profile, state string) (_ *profile.Runner, err error) {
	o := &s.profile
	r := &profile.Runner{
		Profile: p, Budget: &s.Daemon, Model: o.model, Confinement: run.Confinement(o.confinement),
		Sockets: filepath.Dir(s.socket), Tell: s.stderr == stderrLast, Log: s.logLine,
	}
	if r.Program, err = p.FindProgram(); err != nil {
		return nil, err
	}
	if err := p.CheckLogin(ctx, r.Program); err != nil {
		return nil, err
	}
	if r.Executable, err = os.Executable(); err == nil {
		r.Executable, err = filepath.EvalSymlinks(r.Executable)
	}
	if err != nil {
		return nil, err
	}
	runs := o.runs
	if runs == "" {
		if state == "" {
			return nil, frame.UsageErrorf("--runs: with ACP_SOCKET there is no state directory: name a folder in which conversations are kept")
		}
		runs = filepath.Join(state, runsFolder)
	}
	if r.Conversations, err = profile.OpenConversations(runs, p.Name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Conversations.Close()
		}
	}()
	private := []string{runs, cmp.Or(state, r.Sockets)}
	if r.Dir, err = profile.CheckDir(o.dir, private...); err != nil {
		return nil, frame.UsageErrorf("--%v", err)
	}
	if err := p.CheckFolder(r.Dir); err != nil {
		return nil, frame.UsageErrorf("--%v", err)
	}
	if err := p.CheckPaths(private...); err != nil {
		return nil, frame.UsageErrorf("%v", err)
	}
	if err := s.chooseTools(r); err != nil {
		return nil, err
	}
	if r.Ports, err = o.readPorts(r.Tools); err != nil {
		return nil, err
	}
	if r.Dir != "" && r.Tools == profile.ToolsWork {
		if err := p.CheckPathsOutside(r.Dir); err != nil {
			return nil, frame.UsageErrorf("%v", err)
		}
		if err := run.CheckProject(r.Dir); err != nil {
			return nil, frame.UsageErrorf("--dir: %v", err)
		}
	}
	return r, s.chooseConfinement(ctx, r)
}

func (s *server) chooseTools(r *profile.Runner) error {
	r.Tools = profile.Tools(s.profile.tools)
	switch {
	case r.Tools == "" && r.Dir != "":
		r.Tools = profile.ToolsRead
	case r.Tools == "":
		r.Tools = profile.ToolsNone
	case !slices.Contains([]profile.Tools{profile.ToolsNone, profile.ToolsRead, profile.ToolsWork}, r.Tools):
		return frame.UsageErrorf("--tools: %q: expected none, read or work", s.profile.tools)
	}
	return nil
}

// readPorts returns the ports of --ports.
func (o *profileOptions) readPorts(tools profile.Tools) (ports []uint16, err error) {
	if tools != profile.ToolsWork && (len(o.ports) > 0 || o.landlock) {
		return nil, frame.UsageErrorf("--ports and --landlock are for --tools work: give that too, or leave them out")
	}
	for _, port := range o.ports {
		if port < 1 || port > math.MaxUint16 {
			return nil, frame.UsageErrorf("--ports: %d: expected 1 to 65535", port)
		}
		ports = append(ports, uint16(port))
	}
	return ports, nil
}

// chooseConfinement sets what confines runs: what --confinement says, which has to work, or else
// the best there is.
func (s *server) chooseConfinement(ctx context.Context, r *profile.Runner) error {
	if r.Confinement == "" {
		r.Confinement, s.unconfined = run.Detect(ctx)
	} else if err := run.CheckConfinement(ctx, r.Confinement); err != nil {
		return frame.UsageErrorf("--confinement: %v", err)
	}
	if r.Confinement == run.Landlock && r.Tools == profile.ToolsWork && r.Dir != "" && !s.profile.landlock {
		return explainLandlock(run.CheckConfinement(ctx, run.Bubblewrap))
	}
	if r.Profile.ACP && !r.Confinement.HasSockets() {
		return fmt.Errorf("--acp: %s cannot give a run only the daemon's socket here: that needs bubblewrap and Linux 6.12 or later; or leave --acp out", r.Confinement)
	}
	if r.Profile.ACP {
		r.Agent = func() []string {
			return []string{"ACP_SOCKET=" + s.socket, "ACP_AGENT=" + s.name, "ACP_AGENT_KEY=" + s.Daemon.Key()}
		}
	}
	return nil
}

// explainLandlock returns why runs do not change a folder under Landlock without bubblewrap, and what to do. missing
// is what keeps bubblewrap from working, nil if it works and --confinement asks for Landlock.
func explainLandlock(missing error) error {
	const why = "--tools work needs bubblewrap: with only Landlock, a run can change .git and what else your programs obey in the folder"
	if missing == nil {
		return fmt.Errorf("%s: leave out --confinement, or accept that with --landlock", why)
	}
	return fmt.Errorf("%s (%w): install the package bubblewrap, and on Ubuntu 24.04 or later set kernel.apparmor_restrict_unprivileged_userns=0 by sysctl; or accept that with --landlock", why, missing)
}

// explainConfinement tells the owner what runs may do.
func (s *server) explainConfinement() {
	r := s.runner
	dir := cmp.Or(r.Dir, "an empty folder")
	switch {
	case r.Confinement == run.Outside:
		s.logLine("%s runs in %s with tools: %s, and nothing here confines it: you say that it is in a container made for it", r.Profile.Program, dir, r.Tools)
	case r.Confinement.Confines():
		s.logLine("%s runs in %s with tools: %s, confined by %s", r.Profile.Program, dir, r.Tools, r.Confinement)
	default:
		s.logLine("%s runs without tools for files and commands, because nothing confines it here: %s", r.Profile.Program, cmp.Or(s.unconfined, "--confinement none"))
	}
	if r.Confinement == run.Outside || !r.Confinement.Confines() {
		return
	}
	ports := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.OpenPorts()), " ", ", "), "[]")
	switch {
	case !r.Confinement.ClosesLoopback():
		s.logLine("it reaches whatever listens on this machine, on loopback too: only Linux 6.7 or later with Landlock, on amd64 or arm64, closes that")
	case r.Tools == profile.ToolsWork:
		s.logLine("it connects to the TCP ports %s and to those that the system gives to programs that name none (most servers that you start for a test have one), on any machine and on this one; UDP is open", ports)
	default:
		s.logLine("it connects to the TCP ports %s, on any machine and on this one; UDP is open", ports)
	}
	switch {
	case r.Tools != profile.ToolsWork || r.Dir == "":
	case r.Confinement.KeepsObeyed():
		s.logLine("it changes neither .git nor what else programs obey (%s), and so does not commit: look at its work and commit it; what it makes of these is renamed when it ends", strings.Join(run.Obeyed[1:], ", "))
	default:
		s.logLine("it may change .git and what else your programs obey there (%s): git, editors and agent programs run as you what it writes there", strings.Join(run.Obeyed[1:], ", "))
	}
}

// forgetUntrustedPeers removes conversations with peers that are not trusted any more, from time
// to time until ctx ends.
func (s *server) forgetUntrustedPeers(ctx context.Context) {
	if !s.forgetting.CompareAndSwap(false, true) {
		return // attached again
	}
	look := time.NewTicker(forgetEvery)
	defer look.Stop()
	for {
		if peers, err := s.Daemon.Peers(ctx); err == nil {
			s.runner.Conversations.RemovePeersUnless(func(id identity.ID) bool {
				return slices.ContainsFunc(peers, func(p client.Peer) bool { return p.ID == id })
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// workOutput is what came of the work for a message.
type workOutput interface {
	makeResponse() wire.Payload
	makeResult() wire.Payload
}

// doWork does the work for a message with a command or an agent program. progress, which may be
// nil, gets what the agent program prints meanwhile. The error is a *kinds.Error.
func (s *server) doWork(ctx context.Context, in *client.Inbound, prompt, domain string, progress func(string)) (workOutput, error) {
	if s.runner == nil {
		out, err := s.runCommand(ctx, in, prompt, domain)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	ctx, cancel, limit := s.withLimit(ctx, in)
	defer cancel()
	files, err := s.findFiles(ctx, in, s.runner.Profile.Limits.Disk)
	if err != nil {
		return nil, err
	}
	q := profile.Request{
		Peer: in.From, ID: in.ID, Agent: in.FromAgent, Thread: in.Thread, Prompt: renderWork(in, s.runner, limit), Progress: progress,
		Env: []string{"ACP_ID=" + in.ID.String(), "ACP_DEADLINE_MS=" + strconv.FormatInt(limit.Milliseconds(), 10)},
	}
	if len(files) > 0 {
		q.Files = func(ctx context.Context, folder string) (string, error) { return s.writeFiles(ctx, in, files, folder) }
	}
	answer, err := s.runner.Run(ctx, q)
	if _, ok := errors.AsType[*kinds.Error](err); err != nil && !ok {
		err = explainCommandEnd(ctx, limit)
	}
	if err != nil {
		return nil, err
	}
	return (*profileAnswer)(answer), nil
}

// renderWork returns a message as an agent program that r runs reads it. limit is how long the run may take; 0: as long as
// it wants.
func renderWork(in *client.Inbound, r *profile.Runner, limit time.Duration) string {
	how := "Your owner runs you to answer such questions, with the tools that you have: your last message goes back to the peer as the answer, as it is."
	if in.Kind == kinds.KindDelegate {
		how = "Your owner runs you to do such tasks, with the tools that you have: your last message goes back to the peer as the outcome, as it is."
		if r.Profile.ACP { // so that it has the tools of acpctl mcp
			how = "Your owner runs you to do such tasks, with the tools that you have: acp_query without `to` asks the peer back, and your last message goes back to it as the outcome, as it is."
		}
	}
	if r.Tools == profile.ToolsWork && r.Dir != "" && r.Confinement.KeepsObeyed() {
		how += " You cannot commit, because .git is read-only, and so are files that programs obey, such as AGENTS.md: leave your work in the folder, and your owner commits it."
	}
	if limit > 0 {
		how += " You have " + kinds.FormatDuration(limit.Round(time.Second)) + " for it."
	}
	return client.RenderPeerMessage(client.PeerMessage{
		Peer: in.Name, ID: in.From, Agent: in.FromAgent, Kind: in.Kind, Message: in.ID, TS: in.TS, Payload: in.Payload, Answer: how,
	})
}

// profileAnswer is what an agent program has answered.
type profileAnswer profile.Answer

func (a *profileAnswer) makeResponse() wire.Payload {
	return a.encodeToFit(func(text string, data jsontext.Value, cut bool) wire.Payload {
		return kinds.EncodePayload(&kinds.Response{Summary: text, Data: data, TokensUsed: a.Tokens, Truncated: cut})
	})
}

func (a *profileAnswer) makeResult() wire.Payload {
	return a.encodeToFit(func(text string, data jsontext.Value, cut bool) wire.Payload {
		return kinds.EncodePayload(&resultPayload{Status: "completed", Outcome: text, Data: data, Truncated: cut})
	})
}

// encodeToFit encodes the answer. It leaves out data that would leave no room for the text, or that
// nests deeper than a message may, and cuts the text if it is still too long.
func (a *profileAnswer) encodeToFit(encode func(text string, data jsontext.Value, cut bool) wire.Payload) wire.Payload {
	data, cut := a.Data, false
	if len(data) > maxPayload/2 || encode("", data, false).CheckShape() != nil {
		data, cut = nil, true
	}
	o := &commandOutput{text: []byte(a.Text), cut: cut}
	return o.encodeTextToFit(func(text string, cut bool) wire.Payload { return encode(text, data, cut) })
}
