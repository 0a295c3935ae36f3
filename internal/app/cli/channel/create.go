package channel

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

func (c *verbs) newCreateCmd() *cobra.Command {
	var intent, title, task string
	var members []string
	var ttl time.Duration
	var keep int
	var audit bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a channel, and with --title an intent for it",
		Example: `  acpctl channel create questions --title 'Research Q1'
  acpctl channel create progress --intent INTENT --audit --ttl 24h
  acpctl channel create private --intent INTENT --member planner`,
		Long: `Prints the channel's id. With --member only these agents can use the channel, else
everybody who has access to the intent.`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, options := cmd.Context(), channels.ChannelOptions{}
			switch {
			case (intent == "") == (title == ""):
				return frame.UsageErrorf("name the channel's intent with --intent, or make one with --title")
			case ttl != 0 && (ttl < 0 || ttl%time.Second != 0):
				return frame.UsageErrorf("--ttl: expected whole seconds, like 90s or 10m")
			case ttl != 0:
				options.TTLSecs = int64(ttl / time.Second)
			}
			if cmd.Flags().Changed("keep") {
				if keep < 1 || keep > 10000 {
					return frame.UsageErrorf("--keep: expected 1 to 10000")
				}
				options.MaxMessages = keep
			}
			options.Audit = audit
			body := channels.ChannelParams{Name: args[0], Options: options, TaskID: task}
			if members != nil {
				for i, m := range members {
					var err error
					if members[i], err = c.resolveAgent(ctx, m); err != nil {
						return err
					}
				}
				body.Members, body.Policy = members, channels.PolicyExplicit
			}
			if title != "" {
				made, err := c.channelsClient().CreateIntent(ctx, channels.IntentParams{Title: title})
				if err != nil {
					return err
				}
				intent = made.ID
				c.PrintForPerson("intent %s", client.Line(intent))
			}
			made, err := c.channelsClient().CreateChannel(ctx, intent, body)
			if err != nil {
				return err
			}
			c.SetDoneNote("the channel was created, and its id is %s", client.Line(made.ID))
			return c.printCreated(made.ID, made.JSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&intent, "intent", "", "id of the intent that it belongs to")
	f.StringVar(&title, "title", "", "title of a new intent for it")
	f.StringVar(&task, "task", "", "id of a task: the channel closes when that is over")
	f.StringSliceVar(&members, "member", nil, "an agent, or AGENT@PEER, that may take part; repeatable")
	f.BoolVar(&audit, "audit", false, "keep every message in the intent's log too")
	f.DurationVar(&ttl, "ttl", 0, "close it so long after the last message (default: never)")
	f.IntVar(&keep, "keep", 0, "messages that are kept, 1 to 10000 (default 1000)")
	cmd.RegisterFlagCompletionFunc("intent", newFlagCompletion(c.completeIntents))
	cmd.RegisterFlagCompletionFunc("member", newFlagCompletion(c.completeAgents))
	cmd.RegisterFlagCompletionFunc("title", cobra.NoFileCompletions)
	return cmd
}

// printCreated prints the id of what the daemon has created, or with --json all of it.
func (c *verbs) printCreated(id string, all jsontext.Value) error {
	if c.JSON {
		return c.PrintJSON(all)
	}
	c.PrintLine("%s", client.Line(id))
	return nil
}
