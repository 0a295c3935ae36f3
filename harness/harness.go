// Package harness wakes the live session of an agent program: it gives the program a line of
// acpctl's, so that the program begins a turn in which the model fetches what waits for it.
//
// A session is found by the process that asks, which the program has started: its
// environment, its parents, and what the program says of itself in MCP. What the environment
// names must belong to one of these parents, by the word of the kernel. So a folder with a
// configuration of its own choice reaches no other session.
//
// What the package guarantees:
//
//   - The line holds nothing that a peer chose. Untrusted text goes only where the program
//     has a place for it, and reaches the model as the result of a tool.
//   - Before each post it is learned whether somebody is asked before tools run. Where nobody
//     is, or where this is not known, only a post that allows it goes out.
//   - At most one post is under way in a session, and at most one begins in 250 ms.
//   - It answers no request of the program: approvals stay the user's. A turn that it has begun, and in which
//     the user is asked, is interrupted when nobody waits for it any more, where the program says so. A turn
//     in which the user has said something is not interrupted once the program has taken what they typed.
//   - A program whose version is too old, or that lacks what waking needs, is left alone. The error
//     names what is missing.
//
// The daemon decides who may wake a session and how often, and stores the message meanwhile. It asks for
// no second post of a message that was posted, or may have been. Waking is no receipt: a message stays in
// the inbox until something proves that the model has it.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/wire"
)

// Session is one conversation of an agent program, which can be woken. All methods may be
// called at once from several goroutines.
type Session interface {
	// Harness returns the name of the program, which is also the name that the session gets
	// as an agent, and the program's version.
	Harness() (name, version string)

	// Post wakes the session for one message. It waits while another post is under way and,
	// in a program that cannot be given a line in the middle of a turn, until the turn ends.
	// It returns when the program has taken the line, and in a program that proves what the
	// model was given, up to 4 s later. The error is an *Error, or ctx's where ctx ended
	// before anything was posted. After an error nothing was posted, except that ErrHeld may
	// become a turn later, and that ErrGone leaves it open.
	Post(ctx context.Context, p Post) (Posted, error)

	// NoteCall tells the session what came as `_meta` of a tool call. Codex names its thread
	// only there. It returns at once.
	NoteCall(meta map[string]any)

	// Close ends the connections of the session and removes its socket. A Post that is under
	// way fails. It waits until everything has ended.
	Close() error
}

// Watcher is a session whose program tells when it can be woken. Others always can, for all that is
// known before a post.
type Watcher interface {
	Session

	// Watch calls report at once, and each time that something else is so, until ctx ends or the
	// session is closed. Only one call may be under way.
	Watch(ctx context.Context, report func(Presence))
}

// Presence says whether a session can be woken.
type Presence struct {
	Unwakeable error  // why nothing can wake it now; nil: it can be woken, if somebody attends it
	Asks       string // the program, if it asks its user before a tool runs, such as "Codex"; empty: it asks nothing
}

// Post is what wakes a session.
type Post struct {
	Message    wire.MessageID // the message that waits
	Sender     identity.ID    // the peer that sent it: another can choose the same id
	Came       time.Time      // when it came: one that comes again later, under the same id, is another message
	Pointer    string         // one line of acpctl's, which says that a message waits; at most 400 bytes
	Given      string         // such a line for a program that is given Untrusted with it; empty: Pointer
	Untrusted  string         // the rendered message, for programs that have a place for untrusted text; may be empty
	Unattended bool           // the session may be woken although nobody is asked before its tools run

	// Abandoned reports whether nobody waits any more for what the turn does: the message's deadline has
	// passed, its sender has given up, or the sender is not trusted any more. Nil: nobody ever waited.
	Abandoned func() bool
	// Unanswered is called if the turn was interrupted because the program asked its user in it, and got
	// no answer for a long time. program is the name that people know. It may be nil.
	Unanswered func(program string)
}

// Posted says what became of a post.
type Posted struct {
	Proven bool // the program has proved that Untrusted is in the model's input
}

// Environment is what a process knows of the program that started it.
type Environment struct {
	Getenv  func(string) string // the environment; nil: that of this process
	PID     int                 // the process whose parents are looked at; 0: this one
	Dir     string              // the directory in which the program started it; empty: that of this process
	Client  string              // the name that the program gave as MCP client; may be empty
	Version string              // and its version; may be empty

	// Reply takes what the model sends as an answer by the program's own means, if that
	// names a message which the session was woken for. If it returns an error, or is nil, the answer is
	// refused, and the model is told so.
	Reply func(ctx context.Context, to wire.MessageID, text string) error
}

// FindSession returns the session of the program that started this process. It returns nil
// and no error if that is no program which can be woken: its messages wait for the next tool
// call. The error is ErrUnsupported if the program is known and cannot be woken as it is: its
// text says what was seen. The caller closes the session.
func FindSession(ctx context.Context, env Environment) (Session, error) {
	if env.Getenv == nil {
		env.Getenv = os.Getenv
	}
	if env.Dir == "" {
		env.Dir, _ = os.Getwd()
	}
	ps := newProcesses(env.PID)
	switch {
	case strings.HasPrefix(env.Client, "claude"), env.Client == "" && env.Getenv("CLAUDE_CODE_MESSAGING_SOCKET") != "":
		return findClaude(ctx, &env, ps)
	case strings.HasPrefix(env.Client, "codex"):
		return findCodex(ctx, &env, ps)
	case strings.HasPrefix(env.Client, "opencode"):
		return findOpenCode(ctx, &env, ps)
	}
	return nil, nil
}

// The errors of a post. Each comes in an [Error].
var (
	// ErrUnattended: nobody is asked before the session's tools run, or it is not known.
	ErrUnattended = ownwords.New("the session is unattended")
	// ErrHeld: the program keeps the line until its user allows it.
	ErrHeld = ownwords.New("held by the agent program until its user allows it")
	// ErrRefused: the user or the program turned the line down.
	ErrRefused = ownwords.New("refused by the agent program")
	// ErrUnsupported: the program's version is too old, or it lacks what waking needs.
	ErrUnsupported = ownwords.New("cannot be woken")
	// ErrNoThread: it is not known yet which conversation of the program is ours.
	ErrNoThread = ownwords.New("its conversation is not known before its first tool call")
	// ErrNoTurn: the program says who is asked in a conversation only when that has had a turn.
	ErrNoTurn = ownwords.New("its conversation has had no turn yet: say something to it once")
	// ErrBusy: the turn that runs in the session did not end in time.
	ErrBusy = ownwords.New("its turn did not end in time")
	// errClosed: Close was called. Nothing was posted.
	errClosed = ownwords.New("the session is closed: find it again")
	// ErrGone: the program does not answer, or has ended.
	ErrGone = ownwords.New("the agent program does not answer")
)

// Error is a failed post, or a program that cannot be woken.
type Error struct {
	Harness string // the name of the program
	Version string // as the program says; may be empty
	Err     error  // one of the errors above
	Saw     string // what was seen, in words of this program; may be empty
}

// Error returns the text, with what was seen: "codex 0.169.0 cannot be woken: it has no folder
// ~/.codex here".
func (e *Error) Error() string {
	program := e.Harness
	if plainVersion.MatchString(e.Version) {
		program += " " + e.Version
	}
	if errors.Is(e.Err, ErrUnsupported) {
		return fmt.Sprintf("%s %v: %s", program, ErrUnsupported, e.Reason())
	}
	return fmt.Sprintf("wake %s: %s", program, e.Reason())
}

// OwnWords returns the text: what a program says is in it only in words that are known here.
func (e *Error) OwnWords() string { return e.Error() }

// Reason returns why the session was not woken, without the name of the program.
func (e *Error) Reason() string {
	switch {
	case e.Saw == "":
		return e.Err.Error()
	case errors.Is(e.Err, ErrUnsupported):
		return e.Saw
	}
	return fmt.Sprintf("%v: %s", e.Err, e.Saw)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// errUnclear is what a program says in another form than the one that is known here.
var errUnclear = ownwords.New("what it says has not the form that acpctl knows")

// explainTalk makes an error of the connection to a program one that may be shown: the libraries that
// read what the program says quote it.
func explainTalk(err error) error {
	if _, shown := ownwords.Find(err); shown || err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUnclear, err)
}

// showWord returns a word of a program if it is one of those that are known. Any other is a text of the
// program's choice, and is not shown.
func showWord(word string, known ...string) string {
	if slices.Contains(known, word) {
		return word
	}
	return "a word that acpctl does not know"
}
