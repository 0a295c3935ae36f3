package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func (v *verbs) newWaitCmd() *cobra.Command {
	var follow bool
	var p peerWait
	cmd := &cobra.Command{
		Use:   "wait ID|PEER[/AGENT]",
		Short: "Wait for the outcome of a delegation or a kept message, or for a peer",
		Example: `  acpctl wait 3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b
  acpctl wait --follow 3f2b8c1e     partial results too
  acpctl wait "$(acpctl delegate desk 'Run the test suite')"
  acpctl wait desk --online --timeout 5m
  acpctl wait desk/reviewer --idle && acpctl delegate desk/reviewer 'Test it'`,
		Long: `ID is that of a delegation, given or taken; its first six or more characters are enough. The exit code is 0 if it was
completed, 7 if it failed or was cancelled, 3 if its deadline has passed or it has not ended after --timeout, 4 if it was
refused or declined, and 5 if its agent is gone. ID may be that of a message that is kept (--keep): then the exit code is also
0 if it was handed or held, 3 if nobody was there in time, and 7 if it was withdrawn, or may have arrived and nobody knows. When the result of one that you gave is printed, it leaves the inbox.

Questions of the agent go to standard error; answer them with acpctl reply. With --follow, partial results do so too, each on
one line. With --json a question is a line of its own before the last one: the task, with {"question": {"id", "text",
"since"}}.

With --online it waits until the peer is connected and has answered a ping, and with /AGENT until that agent is attached
there. With --idle it also waits until no work is under way there, and the agent, or some agent, takes work without waiting
for a turn of its own, as far as the peer says. Then the exit code is 0; it is 3 after --timeout, 4 if the peer refuses to
answer or does not trust this daemon, and 5 if nobody here has that name.`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if p.online || p.idle {
				return v.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
			}
			return v.completeTasks(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.online || p.idle {
				if follow || v.ForModel {
					return frame.UsageErrorf("--online and --idle are about a peer: leave out --follow and --for-model")
				}
				return v.waitForPeer(cmd, args[0], p)
			}
			if err := p.checkTimeout(cmd); err != nil {
				return err
			}
			if err := v.checkForModel(); err != nil {
				return err
			}
			id, err := v.findTaskID(cmd.Context(), "ID", args[0], anyTask)
			if peer, _, _ := strings.Cut(args[0], "/"); err != nil && identity.CheckName(peer) == nil && !frame.IsIDPrefix(args[0]) {
				return frame.Instead{Err: err, Type: fmt.Sprintf("acpctl wait %s --online  or: acpctl wait %[1]s --idle", shellpath.Quote(client.Line(args[0])))}
			}
			if err != nil {
				return err
			}
			return v.waitForTask(cmd.Context(), id, follow, p.timeout)
		},
	}
	v.addForModelFlag(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "tell partial results as they come")
	p.addFlags(cmd)
	return cmd
}

// waitForTask waits until a delegation has ended and prints how. With follow it prints partial
// results too. Questions of its agent are printed meanwhile. A limit of 0 means no limit.
func (v *verbs) waitForTask(ctx context.Context, id wire.MessageID, follow bool, limit time.Duration) error {
	task, err := v.awaitEnd(ctx, id, follow, limit)
	if err != nil {
		return err
	}
	if err := cmp.Or(v.PrintData(task, func() {}), v.CheckOutput()); err != nil {
		return err
	}
	return v.reportOutcome(ctx, task)
}

// awaitEnd waits until a delegation has ended. With follow it prints partial results meanwhile.
// Questions of the delegation's agent are printed. After the limit, unless
// that is 0, the error is timeout, and the delegation continues.
func (v *verbs) awaitEnd(ctx context.Context, id wire.MessageID, follow bool, limit time.Duration) (*client.Task, error) {
	var partials, questions uint64
	began := time.Now()
	params := client.WaitParams{ID: id, AfterQuestions: &questions}
	if follow {
		params.AfterPartials = &partials
	}
	for {
		if limit > 0 {
			params.TimeoutMS = uint64(max(1, (limit - time.Since(began)).Milliseconds())) // 0 would be no limit
		}
		task, err := v.Daemon.Wait(ctx, params)
		if client.IsOlderDaemon(err) && params.AfterQuestions != nil { // it is of 0.1.0, and nobody asks back
			params.AfterQuestions = nil
			continue
		}
		if e, ok := errors.AsType[*kinds.Error](err); ok && e.Code == kinds.Timeout && limit > 0 {
			return nil, kinds.Errorf(kinds.Timeout, "%s has not ended within %s, and continues: acpctl wait %[1]s waits again; acpctl tasks shows how far it is", id, kinds.FormatDuration(limit))
		}
		if err != nil {
			return nil, err
		}
		isPartial := follow && task.Partials > partials && !task.State.IsFinal()
		isQuestion := task.Question != nil && task.Questions > questions
		if !isPartial && !isQuestion {
			return task, nil
		}
		partials, questions = task.Partials, task.Questions
		if follow || isQuestion { // in JSON, a line of its own
			err = v.PrintData(task, func() {
				if isPartial {
					v.tellPartial(ctx, task)
				}
			})
		}
		if err = cmp.Or(err, v.CheckOutput()); err != nil {
			return nil, err
		}
		if isQuestion {
			v.tellQuestion(ctx, task)
		}
	}
}

// tellPartial prints the last partial result of a task on one line of standard error, because standard
// output has only the outcome. For a model it is printed under a cover.
func (v *verbs) tellPartial(ctx context.Context, task *client.Task) {
	r, err := kinds.ParsePayload[kinds.Result](task.Partial)
	if err != nil {
		return
	}
	if said := describePartial(r); !v.printTaskForModel(ctx, task, task.Partial) && said != "" {
		v.Warn("%s", said)
	}
	if isResultTruncated(task.Partial) {
		v.warnTruncated()
	}
}

// tellQuestion prints the question of the agent that works on a task, and how to answer it. It does so for
// scripts too, because the task waits; in JSON the printed task contains the question.
func (v *verbs) tellQuestion(ctx context.Context, t *client.Task) {
	if v.JSON {
		return
	}
	const how = "acpctl reply %s TEXT answers it"
	if v.ForModel {
		v.printForModel(ctx, client.PeerMessage{
			ID: v.findTaskPeer(ctx, t), Kind: kinds.KindQuery, Ref: t.ID, Payload: kinds.EncodePayload(&kinds.Query{Question: t.Question.Text}),
			Answer: "It is a question about the task that you handed over: " + fmt.Sprintf(how, t.ID) + ".",
		})
		return
	}
	v.Warn("%s asks: %s: "+how, strings.TrimSuffix(t.Peer+"/"+t.ToAgent, "/"), t.Question.Text, t.ID)
}
