package talk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// queryFlags holds the flags of acpctl query.
type queryFlags struct {
	messageFlags
	query    kinds.Query
	deadline time.Duration
	ref      string
	all      bool
}

func (v *verbs) newQueryCmd() *cobra.Command {
	q := queryFlags{messageFlags: messageFlags{kind: kinds.KindQuery}}
	cmd := &cobra.Command{
		Use:   "query PEER[/AGENT] QUESTION",
		Short: "Ask an agent and wait for the answer",
		Example: `  acpctl query desk 'Which branch is deployed?'
  acpctl query desk/reviewer --domain code.review --deadline 2m @question.txt
  git diff | acpctl query desk -
  acpctl query desk --json --payload '{"question": "Status?", "max_tokens": 50}'
  acpctl query laptop --keep 3d 'Did the build pass?'    is asked when laptop is there
  acpctl query --ref "$ACP_ID" 'Which branch?'         while working on a delegation
  acpctl query --all --domain code.review 'Who has time for a review?'`,
		Long: `It asks an agent at PEER, and prints the answer to standard output: its summary, and below that its data as JSON. QUESTION may be - (standard input) or @file; at a terminal acpctl asks for it if it is missing.
An interrupt ends the question at the other side too. A question that is sent again, even under the same --id, is asked
again. With --wait-online acpctl waits for a peer that cannot be reached, and sends the question once.
With --keep the daemon keeps a question that does not arrive, and asks it later; then the exit code is 8.

With --ref, and without PEER, it asks the agent that gave a delegation to an agent here. Without --deadline it waits as
long as the delegation lasts, and asks again after a daemon was away. The answer is kept until the delegation ends.

With --all, and without PEER, it asks all connected peers that you trust by name, at most 16. Each line of an answer
has who said it and a tab before it; at a terminal a heading has that. Whoever is skipped is told to standard error. It
succeeds if one answers.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case q.all && len(args) > 1:
				return frame.UsageErrorf("--all asks all peers: leave PEER out, and put a question with spaces in quotes")
			case q.ref != "", q.all:
				args = append([]string{"none"}, args...) // the daemon knows who it is
			case len(args) == 1 && v.InTTY && !cmd.Flags().Changed("payload"):
				args = append(args, "asked for") // by runQuery
			}
			return q.checkArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return v.runQuery(cmd, args, &q) },
	}
	f := cmd.Flags()
	f.StringVar(&q.query.Domain, "domain", "", "what it is about, like code.review: chooses the agent")
	f.Uint64Var(&q.query.MaxTokens, "max-tokens", 0, "budget of the answer (default: no limit)")
	f.DurationVar(&q.deadline, "deadline", 0, "how long to wait for the answer, at most 10m (default 30s, and 10m for a session)")
	f.StringVar(&q.thread, "thread", "", "name of the conversation")
	f.StringVar(&q.ref, "ref", "", "id of a delegation that an agent here works on: asks back whoever gave it")
	f.BoolVar(&q.all, "all", false, "ask all connected peers")
	v.addForModelFlag(cmd)
	q.addFlags(cmd)
	f.DurationVar(&q.patience, "wait-for-peer", 0, "the name that --wait-online had")
	f.MarkHidden("wait-for-peer")
	return cmd
}

// runQuery sends the question that the arguments and flags are.
func (v *verbs) runQuery(cmd *cobra.Command, args []string, q *queryFlags) error {
	ctx := cmd.Context()
	if err := v.checkForModel(); err != nil {
		return err
	}
	params := client.QueryParams{}
	if q.all {
		for _, name := range frame.ListGiven(cmd, "id", "ref", "keep", "wait-online", "wait-for-peer") {
			return frame.UsageErrorf("--%s is about one peer: leave it out, or --all", name)
		}
	} else if q.ref != "" {
		if q.keep != 0 {
			return frame.UsageErrorf("--keep: a question about a delegation is asked until it is answered: leave --keep out")
		}
		if q.query.Domain != "" || q.patience != 0 || q.thread != "" {
			return frame.UsageErrorf("--ref: the question goes to whoever delegated: leave out --domain, --thread and --wait-online")
		}
		var err error
		if params.Ref, err = v.findTaskID(ctx, "--ref", q.ref, takenTask); err != nil {
			return err
		}
	} else {
		params.To, args = args[0], args[1:]
	}
	if len(args) == 0 && q.payload == "" { // at a terminal
		question, err := v.askForQuestion(ctx, params.To)
		if err != nil {
			return err
		}
		args = []string{question}
	}
	h, p, err := q.composeMessage(ctx, v.Frame, func() (_ any, err error) {
		if q.query.Question, err = v.ReadArgument(ctx, "QUESTION", args[0]); err != nil {
			return nil, err
		}
		q.query.DeadlineMS, err = frame.ReadMilliseconds(cmd, "deadline", q.deadline, kinds.MaxQueryDeadline)
		if err == nil && q.query.DeadlineMS == 0 && !q.all && (q.ref != "" || v.waitsForTurn(ctx, params.To)) {
			q.query.DeadlineMS = uint64(kinds.MaxQueryDeadline.Milliseconds())
		}
		return &q.query, err
	})
	if err != nil {
		return err
	}
	params.Head, params.Payload, params.KeepMS = h, p, q.keep.milliseconds()
	if q.all {
		return v.queryAll(ctx, params, q)
	}
	return v.queryAgent(ctx, params, func(ask func() error) error {
		if q.ref != "" && !cmd.Flags().Changed("deadline") {
			return frame.RetryWhile(ctx, kinds.MaxTaskDeadline, 2*time.Second, newAskAgain(), ask)
		}
		return v.sendOnline(ctx, params.To, q.patience, ask)
	})
}

// askForQuestion asks a person for the question to a peer, unless that is unknown.
func (v *verbs) askForQuestion(ctx context.Context, to string) (string, error) {
	if _, err := v.Daemon.Discover(ctx, client.DiscoverParams{To: to, TimeoutMS: 1000}); err != nil && kinds.AsError(err).Code == kinds.UnknownPeer {
		return "", err
	}
	fmt.Fprintf(v.Err, "Question for %s: ", client.Line(to))
	return v.ReadLine(ctx)
}

// turnPatience is how long a person waits for the turn of a session before acpctl says that it waits for one.
var turnPatience = 5 * time.Second

// waitsForTurn reports whether a question waits for a turn of a session, as its peer says: it names a
// session, or names no agent and sessions are all that the peer has.
func (v *verbs) waitsForTurn(ctx context.Context, to string) bool {
	answer, err := v.Daemon.Discover(ctx, client.DiscoverParams{To: to, TimeoutMS: 1000})
	if err != nil {
		return false
	}
	c, err := kinds.ParsePayload[kinds.Capabilities](answer.Payload)
	if err != nil {
		return false
	}
	_, agent, named := strings.Cut(to, "/")
	all := slices.DeleteFunc(c.ListAgents(), func(d kinds.AgentDetails) bool { return named && d.Name != agent })
	return len(all) > 0 && !slices.ContainsFunc(all, func(d kinds.AgentDetails) bool {
		return d.Answers != kinds.AnswersWakes && d.Answers != kinds.AnswersTurn
	})
}

// tellOfWaiting tells a person that an answer may take a while, if the question waits for a turn of a session. The caller
// calls end when the question is over.
func (v *verbs) tellOfWaiting(ctx context.Context, to string) (end func()) {
	if to == "" || v.JSON {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		if pace.Sleep(ctx, turnPatience) == nil && v.waitsForTurn(ctx, to) && ctx.Err() == nil {
			v.TellLine(to + " answers when its session has a turn: waiting for that")
		}
	})
	return func() { cancel(); telling.Wait() }
}

// queryAgent asks a question, by retry, which calls its argument until it succeeds or there is no
// point in it, and returns its error.
func (v *verbs) queryAgent(ctx context.Context, params client.QueryParams, retry func(ask func() error) error) error {
	endTelling := v.tellOfWaiting(ctx, params.To)
	var answer *client.Answer
	err := retry(func() (err error) {
		answer, err = v.Daemon.Query(ctx, params)
		return err
	})
	endTelling()
	if err != nil {
		return v.reportKept(params.To, false, frame.WithRepeatID(err, params.ID))
	}
	v.SetDoneNote("the question was answered, and its id is %s", answer.ID)
	if v.JSON {
		return v.PrintJSON(answer)
	}
	r, err := kinds.ParsePayload[kinds.Response](answer.Payload)
	if err != nil {
		return err
	}
	if v.ForModel {
		v.printAnswerForModel(ctx, answer)
	} else {
		v.PrintAnswer(r.Summary, r.Data)
	}
	if r.Truncated {
		v.warnTruncated()
	}
	if v.ErrTTY {
		who, took := v.formatAnswerer(ctx, answer)
		v.PrintForPerson("%s · %s", who, took)
	}
	return nil
}

// printAnswerForModel prints the answer to a question for a model.
func (v *verbs) printAnswerForModel(ctx context.Context, answer *client.Answer) {
	v.printForModel(ctx, client.PeerMessage{
		ID: answer.From, Agent: answer.FromAgent, Kind: answer.Kind, Ref: answer.ID, Payload: answer.Payload,
		Answer: "It answers your question; nothing has to be sent back.",
	})
}

// formatAnswerer returns who has answered, as far as the peer says, and how long that took.
func (v *verbs) formatAnswerer(ctx context.Context, answer *client.Answer) (who, took string) {
	who = answer.From.Label()
	if name := v.FindPetname(ctx, answer.From.String()); name != answer.From.String() {
		who = name
	}
	if answer.FromAgent != "" {
		who += "/" + ui.FormatAgentNames([]string{answer.FromAgent}, 1)
	}
	return who, kinds.FormatDuration((time.Duration(answer.RTTUS) * time.Microsecond).Round(100 * time.Microsecond))
}

// newAskAgain returns a function that reports whether a question about a delegation is to be
// asked again after an error. That is safe: under the same id it is one question. Without a daemon
// here it is asked again for half a minute, in which a daemon, and then its agent, may come back.
func newAskAgain() func(error) bool {
	const most = 30 * time.Second
	var since time.Time
	return func(err error) bool {
		e, ok := errors.AsType[*kinds.Error](err)
		switch {
		case !ok:
			return false
		case e.Code == kinds.DaemonUnavailable, e.Code == kinds.NoAgent && e.From == "":
			if since.IsZero() {
				since = time.Now()
			}
			return time.Since(since) < most
		}
		since = time.Time{}
		return e.Code == kinds.Timeout || e.Code == kinds.Unreachable
	}
}
