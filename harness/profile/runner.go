package profile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness/run"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Budget is where runs are paid for. [client.Client] is one.
type Budget interface {
	ReserveRun(context.Context, client.ReserveParams) (*client.Reserved, error)
	SettleRun(context.Context, client.SettleParams) error
}

// Runner runs a profile. Its fields are set before the first run, and not changed after that. Any number of goroutines may use it.
type Runner struct {
	Profile       *Profile
	Program       *Program
	Conversations *Conversations
	Budget        Budget
	Confinement   run.Confinement
	Tools         Tools    // that are offered, if Confinement confines
	Dir           string   // where runs work, without symbolic links; if it is empty, each works in an empty folder of its own
	Model         string   // empty for the program's own choice
	Ports         []uint16 // TCP ports to which runs with ToolsWork may connect, in addition to those of every run

	// Given to runs of a profile with ACP.
	Sockets    string          // the agents' folder
	Agent      func() []string // the environment by which the run speaks as the agent
	Executable string          // of acpctl

	Tell bool                             // peers get the reason that a failed program printed
	Log  func(format string, args ...any) // writes a line for the owner; may be nil
}

// Request is what a run is for.
type Request struct {
	Peer   identity.ID
	ID     wire.MessageID // of the query or delegation, as the peer has chosen it
	Agent  string         // of the peer, as the peer names it
	Thread string         // if it is empty, nothing is kept of the run
	Prompt string
	Env    []string // of the run, if its profile has ACP

	// Files, if it is not nil, writes files to a folder that the run may read and that is removed after it. The text
	// that it returns comes before the prompt.
	Files func(ctx context.Context, folder string) (said string, err error)

	Progress func(text string) // gets what the model says while it works; may be nil; is not called after Run has returned
}

// Answer is what came of a run.
type Answer struct {
	Text   string
	Data   jsontext.Value // an object with what the text does not say; nil if there is nothing more
	Tokens uint64
}

// answerData is the Data of an Answer.
type answerData struct {
	Denials []string `json:"permission_denials,omitzero"`
	Left    []string `json:"left_by_run,omitzero"`  // what the run has made in the owner's folder that programs obey, under its new names
	Moved   []string `json:"moved_by_run,omitzero"` // what programs obey there and is not in its place any more
}

// errOvertime is the cause of a run that was longer than its profile allows.
var errOvertime = errors.New("overtime")

// Run runs the program for a request and returns its answer. It returns when no process of the
// run is left. The errors may be shown to a peer: [*kinds.Error], or the cause of ctx.
func (r *Runner) Run(ctx context.Context, q Request) (*Answer, error) {
	b, err := r.reserve(ctx, q)
	if err != nil {
		return nil, err
	}
	defer r.settle(ctx, b)
	c, err := r.Conversations.begin(ctx, conversationKey{r.Profile.Name, q.Peer, q.Agent, q.Thread}, b.trust)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.log("%v", err)
		return nil, errNotRun
	}
	ok := false
	defer func() { r.endConversation(c, ok) }()
	if project := r.project(); project != "" {
		unlock, err := run.LockProject(ctx, project)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			r.log("--dir: %v", err)
			return nil, errNotRun
		}
		defer unlock()
	}

	limited, cancel := context.WithTimeoutCause(ctx, r.Profile.Limits.Timeout, errOvertime)
	defer cancel()
	session, tokens := c.Session, c.Tokens
	read, exit, err := r.attempt(limited, c, q, b)
	if errors.Is(err, errNotRun) {
		return nil, err
	}
	answer := &Answer{Tokens: r.takeTokens(c, read)}
	b.noteCost(read, answer.Tokens, &r.Profile.Limits)
	c.Session = read.session
	if err != nil {
		if limited.Err() != nil && !c.isNew { // the program can go on from its last whole run
			c.Session, c.Tokens, ok = session, tokens, true
		}
		return nil, r.explainEnd(ctx, limited, err)
	}
	if exit.Code != 0 || read.failed || !read.done {
		ok = read.done && exit.Code == 0 // the program lives; its model has failed
		return nil, r.explainFailure(read, exit)
	}
	ok = true
	return r.finish(answer, read, exit)
}

// attempt runs the program, and again in a new conversation if it does not know the old one any
// more.
func (r *Runner) attempt(ctx context.Context, c *conversation, q Request, b *bill) (read *reading, exit run.Exit, err error) {
	read, exit, err = r.start(ctx, c, q)
	if errors.Is(err, errNotRun) {
		return read, exit, err
	}
	b.noteBegun()
	if err != nil || exit.Code == 0 || c.Session == "" || !read.isEmpty() || ctx.Err() != nil {
		return read, exit, err
	}
	r.log("%s could not go on with its conversation %s, and begins a new one", r.Profile.Name, c.Session)
	if err := c.restart(); err != nil {
		r.log("conversations: %v", err)
		return read, exit, errNotRun
	}
	return r.start(ctx, c, q)
}

// takeTokens returns the tokens of only this run, and stores the sum in the conversation.
func (r *Runner) takeTokens(c *conversation, read *reading) uint64 {
	if !r.Profile.cumulative || !read.hasTokens {
		return read.tokens
	}
	before := c.Tokens
	c.Tokens = read.tokens
	if read.tokens < before { // the program has begun its sum again
		return read.tokens
	}
	return read.tokens - before
}

// endConversation lets others have a conversation. It is kept only with ok, and if its files are
// not too large.
func (r *Runner) endConversation(c *conversation, ok bool) {
	if ok && measureTree(c.folder, r.Profile.Limits.Disk) > r.Profile.Limits.Disk {
		r.log("a conversation has more than %d bytes of files, which is the most: it ends", r.Profile.Limits.Disk)
		ok = false
	}
	if err := c.end(ok); err != nil {
		r.log("conversations: %v", err)
	}
}

// isEmpty reports whether nothing was understood of the output.
func (r *reading) isEmpty() bool {
	return !r.done && r.session == "" && !r.hasTokens && len(r.text) == 0
}

// errNotRun is the error for a peer whose run could not begin.
var errNotRun = kinds.Errorf(kinds.Internal, "the agent program could not be started")

// start runs the program once. read is what was understood of its output, and never nil.
func (r *Runner) start(ctx context.Context, c *conversation, q Request) (read *reading, exit run.Exit, err error) {
	read = &reading{read: r.Profile.read, progress: q.Progress}
	v := &values{session: c.Session, home: c.home(), model: r.Model, acpctl: r.Executable, tools: r.offered()}
	spec := run.Spec{
		Stdin: []byte(q.Prompt), Confinement: r.Confinement, Stdout: read, MaxOutput: r.Profile.Limits.Output,
		Read: slices.Clone(r.Program.Files), Write: []string{c.home(), c.temp(), c.dir()}, Dir: c.dir(),
		Ports: r.OpenPorts(), FreePorts: r.offered() == ToolsWork, Project: r.project(),
	}
	if err := r.Profile.CheckFolder(r.Dir); err != nil {
		r.log("%v", err)
		return read, exit, errNotRun
	}
	if r.Dir != "" {
		spec.Dir = r.Dir
		if r.offered() == ToolsWork {
			spec.Write = append(spec.Write, r.Dir)
		} else {
			spec.Read = append(spec.Read, r.Dir)
		}
	}
	for _, path := range r.Profile.Read {
		if path, err := resolve(path); err == nil {
			spec.Read = append(spec.Read, path)
		}
	}
	if q.Files != nil {
		defer removeTree(c.files())
		said, err := r.takeFiles(ctx, c, q)
		if err != nil {
			r.log("the files of the message: %v", err)
			return read, exit, kinds.Errorf(kinds.Internal, "the files of this message could not be read") // errNotRun too, to errors.Is
		}
		spec.Stdin = []byte(said + q.Prompt)
		spec.Read = append(spec.Read, c.files())
		v.files = c.files()
	}
	credentials, err := r.Profile.prepareHome(v)
	if err != nil {
		r.log("the home of the run: %v", err)
		return read, exit, errNotRun
	}
	spec.Read = append(spec.Read, credentials...)
	var more []string
	if r.Profile.ACP {
		spec.Sockets = r.Sockets
		spec.Read = append(spec.Read, r.Executable)
		more = append(r.Agent(), q.Env...)
	}
	spec.Env = r.Profile.makeEnv(v, r.Program, c.temp(), more)
	spec.Argv = append([]string{r.Program.Path}, r.Profile.args(v)...)
	exit, err = run.Run(ctx, spec)
	read.finish()
	r.logLeft(exit)
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, run.ErrOutput) || errors.Is(err, errLongLine):
	default:
		r.log("%s could not be started: %v", r.Profile.Program, err)
		err = errNotRun
	}
	if exit.Code != 0 && strings.TrimSpace(exit.Stderr) != "" {
		r.log("%s said: %s", r.Profile.Program, strings.TrimSpace(exit.Stderr))
	}
	return read, exit, err
}

// takeFiles makes the folder of a conversation's files, and has those of a request written to it.
func (r *Runner) takeFiles(ctx context.Context, c *conversation, q Request) (said string, err error) {
	if err := removeTree(c.files()); err != nil { // a process that was killed has left it
		return "", err
	}
	if err := os.Mkdir(c.files(), 0o700); err != nil {
		return "", err
	}
	return q.Files(ctx, c.files())
}

// maxNamed bounds how many files that a run has left, and how many tools that it was denied, are named.
const maxNamed = 20

// logLeft tells the owner what a run has left that programs would obey, and what it has moved that they do.
func (r *Runner) logLeft(exit run.Exit) {
	for _, list := range []struct {
		paths []string
		what  string
	}{
		{exit.Left, "a run has made what programs here obey, and it was renamed: look at it before you give it its name back: %s"},
		{exit.Unseen, "what a run has made could not be looked through, and may be what programs here obey: look at it: %s"},
		{exit.Gone, "a run has moved or removed what programs here obey, or a link leads elsewhere: put it back: %s"},
	} {
		named := strings.Join(list.paths[:min(len(list.paths), maxNamed)], ", ")
		if more := len(list.paths) - maxNamed; more > 0 {
			named += fmt.Sprintf(", and %d more", more)
		}
		if named != "" {
			r.log(list.what, named)
		}
	}
}

// project returns the folder of the owner's that runs may change, "" without one.
func (r *Runner) project() string {
	if r.offered() != ToolsWork {
		return ""
	}
	return r.Dir
}

// OpenPorts returns the TCP ports to which runs may connect. With ToolsWork the free ones come to these.
func (r *Runner) OpenPorts() []uint16 {
	ports := append(r.Profile.findPorts(), run.PortsOfAll...)
	if r.offered() == ToolsWork {
		ports = append(ports, r.Ports...)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// offered returns the tools that runs offer to the model.
func (r *Runner) offered() Tools {
	if !r.Confinement.Confines() {
		return ToolsNone
	}
	return r.Tools
}

// finish makes the answer of a run that has succeeded.
func (r *Runner) finish(a *Answer, read *reading, exit run.Exit) (*Answer, error) {
	a.Text = string(read.text)
	data := answerData{read.denials, nameSome(exit.Left), nameSome(exit.Gone)}
	if strings.TrimSpace(a.Text) == "" {
		return nil, kinds.Errorf(kinds.Internal, "the agent program ended without an answer")
	}
	if data.Denials != nil || data.Left != nil || data.Moved != nil {
		text, err := json.Marshal(&data)
		if err != nil {
			return nil, kinds.Errorf(kinds.Internal, "the agent program's answer cannot be passed on")
		}
		a.Data = text
	}
	return a, nil
}

// nameSome returns the first paths, as text.
func nameSome(paths []string) (named []string) {
	for _, path := range paths[:min(len(paths), maxNamed)] {
		named = append(named, strings.ToValidUTF8(path, "\uFFFD"))
	}
	return named
}

// explainEnd returns the error for a peer whose run was ended.
func (r *Runner) explainEnd(ctx, limited context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return kinds.Errorf(kinds.Timeout, "the agent program did not end within %s", kinds.FormatDuration(r.Profile.Limits.Timeout))
	}
	r.log("%s was ended: %v", r.Profile.Program, err)
	return kinds.Errorf(kinds.Internal, "the agent program was ended: it printed more than it may")
}

// explainFailure returns the error for a peer whose run has failed.
func (r *Runner) explainFailure(read *reading, exit run.Exit) error {
	why := read.why
	if why == "" && read.failed {
		why = string(read.text[:min(len(read.text), maxReason)])
	}
	why = client.Line(why)
	r.log("%s failed: exit code %d: %s", r.Profile.Program, exit.Code, cmp.Or(why, "it did not say why"))
	message := fmt.Sprintf("the agent program failed: exit code %d", exit.Code)
	switch {
	case exit.Code == 0 && !read.done:
		message = "the agent program ended before its answer was complete"
	case exit.Code == 0:
		message = "the agent program failed"
	}
	if r.Tell && why != "" {
		message += ": " + why
	}
	return kinds.Errorf(kinds.Internal, "%s", message)
}

func (r *Runner) log(format string, args ...any) {
	if r.Log != nil {
		r.Log(format, args...)
	}
}

// CheckDir returns the folder that runs are to work in, without symbolic links. It refuses a
// folder that shows more than a project: the user's home, a folder above it, and a folder that contains
// a private one or is in it. "" means a folder of each run's own.
func CheckDir(dir string, private ...string) (string, error) {
	if dir == "" {
		return "", nil
	}
	named := dir
	dir, err := resolve(named)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("dir: there is no folder %s: make it, or name another", named)
	}
	if err != nil {
		return "", fmt.Errorf("dir: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("dir: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("dir: %s is no folder: name one", dir)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if home, err = realPath(home); err == nil && isWithin(home, dir) {
			return "", fmt.Errorf("dir: %s holds your home: name a folder below it, with nothing in it but what peers may learn", dir)
		}
	}
	if dir == "/" {
		return "", errors.New("dir: / is everything: name a folder with nothing in it but what peers may learn")
	}
	for _, p := range private {
		p, err := realPath(p)
		if err == nil && (isWithin(p, dir) || isWithin(dir, p)) {
			return "", fmt.Errorf("dir: %s and %s overlap, which is the daemon's own: name another folder", dir, p)
		}
	}
	return dir, nil
}

// CheckFolder returns an error if a folder, or one above it in the same repository, has what the
// profile forbids.
func (p *Profile) CheckFolder(dir string) error {
	if dir == "" {
		return nil
	}
	for top, at := findRepository(dir), dir; ; at = filepath.Dir(at) {
		for _, name := range p.forbid {
			_, err := os.Lstat(filepath.Join(at, name))
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				return fmt.Errorf("dir: %s has %s, which %s obeys and may run as a program: take it away, or name a copy without it", at, name, p.Program)
			}
		}
		if at == top {
			return nil
		}
	}
}

// findRepository returns the folder of the repository that a folder is in, or the folder itself if it is in
// no repository.
func findRepository(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// listShown returns the paths of the user's files and folders that the profile shows a run.
func (p *Profile) listShown() []string {
	paths := slices.Clone(p.Read)
	for _, c := range p.Credentials {
		paths = append(paths, c.File)
	}
	return paths
}

// CheckPaths returns an error if the profile shows a run one of the private folders.
func (p *Profile) CheckPaths(private ...string) error {
	for _, path := range p.listShown() {
		real, err := resolve(path)
		if err != nil {
			continue // it is not there, and no run sees it
		}
		for _, folder := range private {
			folder, err := realPath(folder)
			if err == nil && (isWithin(real, folder) || isWithin(folder, real)) {
				return fmt.Errorf("--read: %s overlaps with %s, which is the daemon's own: name another", path, folder)
			}
		}
	}
	return nil
}

// CheckPathsOutside returns an error if the way to a file that the profile shows a run leads through
// a folder that runs may change: a run could put a link there, which the next run would follow.
func (p *Profile) CheckPathsOutside(dir string) error {
	for _, path := range p.listShown() {
		at, err := expandHome(path)
		if err != nil {
			return err
		}
		for ; at != "/"; at = filepath.Dir(at) {
			if real, err := realPath(at); err == nil && isWithin(real, dir) {
				return fmt.Errorf("--read: %s is in %s, which runs may change: leave it out, or move it elsewhere", path, dir)
			}
		}
	}
	return nil
}

// isWithin reports whether a clean path is a folder or below it.
func isWithin(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
