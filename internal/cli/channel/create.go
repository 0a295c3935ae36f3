package channel

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/internal/cli/frame"
)

func (c *verbs) createCmd() *cobra.Command {
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
  acpctl channel create private --intent INTENT --member planner --member reviewer`,
		Long: `Prints the channel's id. With --member the channel is for these agents alone, else for
everybody who has access to the intent.`,
		Args:              frame.NamedArgs("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, options := cmd.Context(), channels.ChannelOptions{}
			switch {
			case (intent == "") == (title == ""):
				return frame.Usagef("name the channel's intent with --intent, or make one with --title")
			case ttl != 0 && (ttl < 0 || ttl%time.Second != 0):
				return frame.Usagef("--ttl: expected whole seconds, like 90s or 10m")
			case ttl != 0:
				options.TTLSecs = int64(ttl / time.Second)
			}
			if cmd.Flags().Changed("keep") {
				if keep < 1 || keep > 10000 {
					return frame.Usagef("--keep: expected 1 to 10000")
				}
				options.MaxMessages = keep
			}
			options.Audit = audit
			body := &channels.ChannelParams{Name: args[0], Options: options, TaskID: task}
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
				v, err := c.call(ctx, http.MethodPost, channels.Path("intents"), &channels.IntentParams{Title: title})
				if err != nil {
					return err
				}
				if intent, err = decodeID(v); err != nil {
					return err
				}
				c.TellPerson("intent %s", intent)
			}
			v, err := c.call(ctx, http.MethodPost, channels.Path("intents", intent, "channels"), body)
			if err != nil {
				return err
			}
			if id, err := decodeID(v); err == nil {
				c.NoteDone("the channel was created, and its id is %s", id)
			}
			return c.printCreated(v)
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
	cmd.RegisterFlagCompletionFunc("intent", completeFlag(c.completeIntents))
	cmd.RegisterFlagCompletionFunc("member", completeFlag(c.completeAgents))
	cmd.RegisterFlagCompletionFunc("title", cobra.NoFileCompletions)
	return cmd
}

// printCreated prints the id of what the daemon has created, or with --json all of it.
func (c *verbs) printCreated(v jsontext.Value) error {
	if c.JSON {
		return c.PrintJSON(v)
	}
	id, err := decodeID(v)
	if err == nil {
		c.PrintLine("%s", id)
	}
	return err
}

// decodeID returns the id of what the daemon has created, on one line.
func decodeID(v jsontext.Value) (string, error) {
	var made struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(v, &made)
	return client.Line(made.ID), err
}
